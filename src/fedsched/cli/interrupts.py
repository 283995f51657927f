"""Ctrl-C between two rounds, so that whatever is done is kept whole."""

import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar, final

import click

__all__ = ["Interrupt", "gentle_interrupt"]

T = TypeVar("T")


@final
class Interrupt:
    """What whoever is at work looks at after each round.

    Attributes:
        asked: whether somebody wants it to stop.
        begun: whether a round is done; before that there is nothing to keep.
    """

    def __init__(self) -> None:
        self.asked = False
        self.begun = False

    def until_asked(self, items: Iterable[T]) -> Iterator[T]:
        """Items until somebody wants it to stop; the one that was at work still comes."""
        for item in items:
            self.begun = True
            yield item
            if self.asked:
                return


@contextmanager
def gentle_interrupt() -> Iterator[Interrupt]:
    """The first Ctrl-C in the block waits for the end of a round, the second does not."""
    interrupt = Interrupt()
    before = signal.getsignal(signal.SIGINT)
    if (
        threading.current_thread() is not threading.main_thread()
        or before is not signal.default_int_handler  # it is somebody else's, or switched off
    ):
        yield interrupt
        return

    def handle(_number: int, _frame: FrameType | None) -> None:
        if interrupt.asked or not interrupt.begun:
            raise KeyboardInterrupt
        interrupt.asked = True
        click.echo("stopping after this round; Ctrl-C again stops at once", err=True)

    signal.signal(signal.SIGINT, handle)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)
