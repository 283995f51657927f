"""Processor time and memory of a process and everything it started, from ``/proc``."""

import os
from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc")
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


def tree(root: int) -> list[int]:
    """The process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for pid, parent, _ in _processes():
        children.setdefault(parent, []).append(pid)
    found = [root]
    for pid in found:  # grows while it is walked through
        found += children.get(pid, [])
    return found


def cpu_s(root: int) -> float:
    """Processor seconds used so far by the tree, ended children included."""
    members = set(tree(root))
    return sum(ticks for pid, _, ticks in _processes() if pid in members) / TICKS_A_SECOND


def busy_s() -> float:
    """Processor seconds used so far by the whole machine."""
    user, nice, system, _, _, irq, softirq, *_ = map(
        int, (PROC / "stat").read_text().split("\n", 1)[0].split()[1:]
    )
    return (user + nice + system + irq + softirq) / TICKS_A_SECOND


def peak_rss_mib(root: int) -> list[float]:
    """Largest resident memory each process of the tree ever had, largest first."""
    peaks = []
    for pid in tree(root):
        try:
            status = (PROC / str(pid) / "status").read_text()
        except OSError:
            continue
        peaks += [int(line.split()[1]) / 1024 for line in status.splitlines() if "VmHWM" in line]
    return sorted(peaks, reverse=True)


def _processes() -> Iterator[tuple[int, int, int]]:
    """Number, parent and clock ticks of every process."""
    for entry in PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # The name, in brackets, may hold spaces.
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # ended meanwhile
        yield int(entry.name), int(fields[1]), sum(map(int, fields[11:15]))
