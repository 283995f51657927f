"""Messages out and replies in, whatever comes of them.

A reply is written by somebody else. It is read in one place, :func:`read_reply`, and whatever
happens there makes it a lost reply and nothing worse.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

__all__ = ["Lost", "UnusableError", "exchange", "plain", "read_reply"]

_log = logging.getLogger("flwr.fedsched")  # shown beside Flower's own lines
_Read = TypeVar("_Read")
_LONGEST = 300  # characters of a stranger's words in our log


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


def exchange(grid: Grid, messages: Iterable[Message], timeout_s: float) -> list[Message]:
    """Send messages and wait for replies; nothing is sent where there is nothing to say."""
    waiting = list(messages)
    return list(grid.send_and_receive(waiting, timeout=timeout_s)) if waiting else []


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
