"""One colour rule for every figure of runs.

Hue is the number of draws m, dash is the policy, shade is lambda: the larger, the darker. What
else tells configurations apart has a marker. So a line means the same in every figure.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fedsched.analysis.groups import Group
from fedsched.views.figures import PALETTE

__all__ = ["Look", "hues", "looks", "svg_dash"]

_NO_DRAWS = PALETTE[-1]  # of a policy that chooses for itself how many take part
_FIRST = {1: PALETTE[0], 5: PALETTE[1], 10: PALETTE[2]}  # the paper's m have the same hue always
_OTHERS = PALETTE[3:-1]

DASHES: Mapping[str, Any] = {"lyapunov": "-", "uniform": "--", "auto": "-."}
_OTHER_DASHES = (":", (0, (6, 1, 1, 1, 1, 1)), (0, (8, 3)), (0, (3, 1)), (0, (1, 1)))

_MARKERS = ("", "o", "s", "^", "D", "v", "P", "X", "*")
_PALEST = 0.6  # share of white in the shade of the least lambda


@dataclass(frozen=True, kw_only=True)
class Look:
    """How a configuration is drawn."""

    hue: str
    white: float  # share of white in it
    dash: Any
    marker: str = ""

    @property
    def color(self) -> str:
        """The hue in its shade."""
        return shade(self.hue, self.white)

    def line(self) -> dict[str, Any]:
        """Arguments of a line; a few markers on it suffice."""
        marks = {"marker": self.marker, "markevery": 0.1, "markersize": 3} if self.marker else {}
        return {"color": self.color, "linestyle": self.dash, **marks}


def looks(named: Mapping[str, Group]) -> dict[str, Look]:
    """The look of each configuration, by the name it is drawn with."""
    groups = named.values()
    by_draws = hues(group.fields.get("policy.draws") for group in groups)
    others = sorted({_kind(group) for group in groups} - DASHES.keys())
    dashes = dict(DASHES) | {
        kind: _OTHER_DASHES[place % len(_OTHER_DASHES)] for place, kind in enumerate(others)
    }
    lams = sorted({lam for group in groups if (lam := _lam(group)) is not None})
    found: dict[str, Look] = {}
    taken: dict[Any, int] = defaultdict(int)
    for name, group in named.items():
        hue = by_draws[group.fields.get("policy.draws")]
        lam = _lam(group)
        rank = 1.0 if lam is None or len(lams) < 2 else lams.index(lam) / (len(lams) - 1)
        drawn = hue, _PALEST * (1.0 - rank), dashes[_kind(group)]
        marker = _MARKERS[taken[drawn] % len(_MARKERS)]
        taken[drawn] += 1
        found[name] = Look(hue=hue, white=drawn[1], dash=drawn[2], marker=marker)
    return found


def hues(draws: Iterable[Any]) -> dict[Any, str]:
    """A hue for each number of draws; 1, 5 and 10 have theirs, and None, of no draws, is black.

    Example:
        >>> hues([10, 3]) == {10: PALETTE[2], 3: PALETTE[3]}
        True
    """
    asked = list(dict.fromkeys(draws))
    others = sorted(m for m in asked if m is not None and m not in _FIRST)
    rest = {m: _OTHERS[place % len(_OTHERS)] for place, m in enumerate(others)}
    return {m: _NO_DRAWS if m is None else _FIRST.get(m) or rest[m] for m in asked}


def shade(color: str, white: float) -> str:
    """A colour with a share of white in it.

    Example:
        >>> shade("#000000", 0.6)
        '#999999'
    """
    parts = [int(color[place : place + 2], 16) for place in (1, 3, 5)]
    return "#" + "".join(f"{round(part + white * (255 - part)):02x}" for part in parts)


def svg_dash(dash: Any) -> str:
    """A dash as SVG writes it, for lines two pixels wide; "" is solid.

    Example:
        >>> svg_dash("--"), svg_dash((0, (6, 1, 1, 1)))
        ('8 4', '12 2 2 2')
    """
    if isinstance(dash, str):
        return {"-": "", "--": "8 4", "-.": "10 3 2 3", ":": "2 3.5"}[dash]
    return " ".join(f"{2 * each:g}" for each in dash[1])


def _kind(group: Group) -> str:
    return str(group.fields["policy.kind"])


def _lam(group: Group) -> float | None:
    lam = group.fields.get("policy.lam")
    return float(lam) if isinstance(lam, int | float) else None
