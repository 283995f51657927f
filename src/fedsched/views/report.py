"""One page from run logs: curves, speed-ups and the envelope, redrawn in the browser.

The page is a pure function of the logs: the same logs give the same bytes.
"""

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from fedsched.analysis.arrival import ARRIVAL, ArrivalProtocol
from fedsched.analysis.collect import LeftOut, collect_runs
from fedsched.errors import InputError
from fedsched.files import atomic_path, output_path
from fedsched.views.figures import PALETTE
from fedsched.views.payload import report_payload

__all__ = [
    "Report",
    "report_page",
    "report_payload",
    "write_report",
]

_MARK = b"fedsched report"  # stands on every page


@dataclass(frozen=True, kw_only=True)
class Report:
    """A report as it was written."""

    path: Path
    runs: int
    configurations: int
    left_out: Sequence[LeftOut]
    # Environments where no configuration reaches the target, with the one that they open with.
    unreached: Mapping[str, float]


def write_report(
    paths: Sequence[str | Path],
    out: str | Path,
    *,
    target: float | None = None,
    protocol: ArrivalProtocol = ARRIVAL,
    title: str = "Time to accuracy",
    slower: float = 1.0,
) -> Report:
    """Write the report of all runs in and below some folders; see :func:`report_payload`.

    Devices that compute for times of their own do so ``slower`` times as long.
    """
    place = output_path("out", out, (".html", ".htm"))
    if place.exists() and _MARK not in place.read_bytes():
        raise InputError(
            f"out: {str(place)!r} is no report and would be written over; name another file, or "
            "delete it first"
        )
    found = collect_runs(paths, slower=slower)
    payload = report_payload(found, target=target, protocol=protocol, title=title, slower=slower)
    with atomic_path(place) as aside:
        aside.write_bytes(report_page(payload))
    return Report(
        path=place,
        runs=sum(len(group["runs"]) for group in payload["groups"]),
        configurations=len(payload["groups"]),
        left_out=found.left_out,
        unreached={
            each["name"]: each["target"]
            for each in payload["environments"]
            if target is not None and each["target"] != target
        },
    )


def report_page(payload: Mapping[str, Any]) -> bytes:
    """The page: one file, which loads nothing and runs no script but its own."""
    assets = resources.files("fedsched.views") / "assets" / "report"
    scripts = sorted(each.name for each in assets.iterdir() if each.name.endswith(".js"))
    parts = "\n".join((assets / name).read_text(encoding="utf-8") for name in scripts)
    script = f'"use strict";\n(() => {{\n{parts}}})();'
    colours = "".join(f"--p{place}:{colour};" for place, colour in enumerate(PALETTE))
    data = json.dumps(payload, allow_nan=False, sort_keys=True, separators=(",", ":"))
    filled = {
        "title": html.escape(str(payload["title"])),
        "script-hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "style": f":root{{{colours}}}\n" + (assets / "page.css").read_text(encoding="utf-8"),
        "script": script,
        # Within a script element only "<" can end it, and JSON may write any letter by its number.
        "data": data.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"),
    }
    template = (assets / "page.html").read_text(encoding="utf-8")
    page = re.sub(r"\{\{([a-z-]+)\}\}", lambda found: filled[found[1]], template)
    return page.encode("utf-8", errors="replace")
