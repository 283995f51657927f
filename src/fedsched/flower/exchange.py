"""Messages out and replies in, whatever comes of them."""

import logging
from collections.abc import Iterable

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from fedsched.flower.protocol import Report

__all__ = ["content_of", "exchange", "reports_in"]

_log = logging.getLogger("flwr.fedsched")  # shown beside Flower's own lines


def content_of(reply: Message | None) -> tuple[RecordDict, str]:
    """What a reply holds, and why it holds nothing."""
    if reply is None:
        return RecordDict(), "it did not come"
    if reply.has_error():
        return RecordDict(), f"its node failed: {reply.error.reason}"
    return reply.content, ""


def exchange(grid: Grid, messages: Iterable[Message], timeout_s: float) -> list[Message]:
    """Send messages and wait for replies; nothing is sent where there is nothing to say."""
    waiting = list(messages)
    return list(grid.send_and_receive(waiting, timeout=timeout_s)) if waiting else []


def reports_in(replies: Iterable[Message]) -> list[tuple[int, Report]]:
    """The reports in replies, each with its node. An error that the link sends has none."""
    found = []
    for reply in replies:
        node = reply.metadata.src_node_id
        content, error = content_of(reply)
        report = Report.read(content)
        if report is None:
            _log.warning("node %d did not tell its gain: %s", node, error or "it says nothing")
        else:
            found.append((node, report))
    return found
