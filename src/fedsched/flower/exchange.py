"""Messages out and replies in, whatever comes of them.

A reply is written by somebody else. It is read in one place, :func:`read_reply`, and whatever
happens there makes it a lost reply and nothing worse.
"""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import Self, TypeVar

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

__all__ = ["Came", "Clock", "Lost", "UnusableError", "clock", "exchange", "plain", "read_reply"]

_log = logging.getLogger("flwr.fedsched")  # shown beside Flower's own lines
_Read = TypeVar("_Read")
_LONGEST = 300  # characters of a stranger's words in our log
# A deployed grid waits for the whole of a reply that has begun to arrive. So replies are awaited
# in several lines: one that comes slowly does not hold up the others, nor what is known of them.
_LINES = 16
_SHORTEST_S, _LONGEST_S, _SHARE = 0.02, 1.0, 0.05  # from look to look: a share of the wait so far


class UnusableError(Exception):
    """Why a reply cannot be used, in a few words."""


@dataclass(frozen=True, kw_only=True)
class Lost:
    """A reply that brought nothing."""

    reason: str
    silent: bool = False  # it did not come at all


def plain(words: object) -> str:
    """A stranger's words as a log can hold them: on one line, and not too many."""
    text = str(words)
    text = "".join(each if each.isprintable() else "?" for each in text[: _LONGEST + 1])
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


@dataclass(frozen=True, kw_only=True, eq=False)
class Came:
    """A reply, and when it was there in whole."""

    reply: Message
    sent_s: float  # by the clock of this machine, as all times here
    came_s: float


class Clock:
    """The clock of this machine; tests have one that does not keep them waiting."""

    def now_s(self) -> float:
        """Seconds since the epoch, as messages of Flower's say when they were made."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def side_by_side(self) -> Self:
        """The clock of somebody who waits while others do."""
        return self


clock = Clock()


def exchange(grid: Grid, messages: Iterable[Message], timeout_s: float) -> list[Came]:
    """Send messages and wait for replies; nothing is sent where there is nothing to say."""
    waiting = list(messages)
    if not waiting:
        return []
    sent_s, given_up = clock.now_s(), Event()
    numbers = [number for number in grid.push_messages(waiting) if number]
    lines = [numbers[first::_LINES] for first in range(min(_LINES, len(numbers)))]
    collect = partial(_collect, grid, sent_s, sent_s + timeout_s, given_up)
    with ThreadPoolExecutor(max_workers=max(len(lines), 1)) as pool:
        try:
            futures = [pool.submit(collect, clock.side_by_side(), line) for line in lines]
            for done in as_completed(futures):
                done.result()  # an error in one line ends the others
        finally:
            given_up.set()
    return [each for future in futures for each in future.result()]


def _collect(
    grid: Grid,
    sent_s: float,
    until_s: float,
    given_up: Event,
    watch: Clock,
    numbers: Sequence[str],
) -> list[Came]:
    """The replies to these messages, as they come."""
    waiting, found = dict.fromkeys(numbers), list[Came]()
    while waiting and not given_up.is_set():
        looked_s = watch.now_s()
        for reply in grid.pull_messages(list(waiting)):
            found.append(Came(reply=reply, sent_s=sent_s, came_s=watch.now_s()))
            waiting.pop(reply.metadata.reply_to_message_id, None)
        if looked_s >= until_s:
            break
        if waiting:
            wait_s = min(max(_SHARE * (looked_s - sent_s), _SHORTEST_S), _LONGEST_S)
            watch.sleep(max(min(wait_s, until_s - watch.now_s()), 0.0))
    return found


def read_reply(reply: Message | None, read: Callable[[RecordDict], _Read]) -> _Read | Lost:
    """What ``read`` makes of a reply, or why it is lost. Nothing that a reply holds gets further.

    Args:
        reply: None if it did not come.
        read: takes what it needs from the content, and raises if it does not find it.
    """
    if reply is None:
        return Lost(reason="it did not come", silent=True)
    try:
        if reply.has_error():
            return Lost(reason=f"its node failed: {plain(reply.error.reason)}")
        return read(reply.content)
    except UnusableError as error:
        return Lost(reason=plain(error))
    except Exception as error:
        return Lost(reason=f"it cannot be read: {plain(f'{type(error).__name__}: {error}')}")
