"""Ctrl-C between two rounds, so that whatever is done is kept whole.

What a batch system sends to end a job, SIGTERM, is heard like Ctrl-C.
"""

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeAlias, TypeVar, final

import click

__all__ = ["Interrupt", "gentle_interrupt", "telling"]

T = TypeVar("T")
Handler: TypeAlias = Callable[[int, FrameType | None], Any] | int | None


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

    def handle(_number: int, _frame: FrameType | None) -> None:
        if interrupt.asked or not interrupt.begun:
            raise KeyboardInterrupt
        interrupt.asked = True
        click.echo("stopping after this round; Ctrl-C again stops at once", err=True)

    before = _handled_by_default()
    for number in before:
        signal.signal(number, handle)
    try:
        yield interrupt
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def telling(what_is_kept: Callable[[], str]) -> Iterator[None]:
    """Whoever interrupts the block learns what is kept."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo(f"stopped; {what_is_kept()}", err=True)
        raise


def _handled_by_default() -> dict[signal.Signals, Handler]:
    """The signals that nobody else handles or has switched off, and what they do now."""
    if threading.current_thread() is not threading.main_thread():
        return {}  # signals are for the main thread to set
    now = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    heard = signal.default_int_handler  # SIGTERM is heard so on the command line
    return {each: handler for each, handler in now.items() if handler is heard}
