"""Tables for papers and for programs: LaTeX and CSV."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["csv_table", "latex_text", "latex_times"]

_LETTERS = {
    "\\": r"\textbackslash{}",
    "λ": r"$\lambda$",
    "α": r"$\alpha$",
    "∞": r"$\infty$",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{mark: f"\\{mark}" for mark in "&%$#_{}"},
}


def csv_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows with a line of names above them; what has no value is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def latex_text(text: str) -> str:
    r"""A text with what LaTeX reads as a command written out.

    Example:
        >>> latex_text("lyapunov λ=100 c_1")
        'lyapunov $\\lambda$=100 c\\_1'
    """
    return "".join(_LETTERS.get(letter, letter) for letter in text)


def latex_times(rows: Sequence[Mapping[str, Any]]) -> str:
    """A table of times, for a paper that loads ``booktabs``; see ``plots.time_rows``.

    It has a line a configuration, and for each target the seconds and how many times sooner than
    uniform. The least time of an environment is bold.
    """
    targets = list(dict.fromkeys(row["target"] for row in rows))
    spans = [rf"\multicolumn{{2}}{{c}}{{to {target:g}}}" for target in targets]
    rules = [rf"\cmidrule(lr){{{3 + 2 * k}-{4 + 2 * k}}}" for k in range(len(targets))]
    lines = [
        r"% \usepackage{booktabs}",
        rf"\begin{{tabular}}{{lr{'rr' * len(targets)}}}",
        r"\toprule",
        " & ".join(["", "", *spans]) + r" \\",
        "".join(rules),
        " & ".join(["configuration", "seeds", *["seconds", "sooner"] * len(targets)]) + r" \\",
    ]
    for environment in dict.fromkeys(row["environment"] for row in rows):
        here = [row for row in rows if row["environment"] == environment]
        lines.append(r"\midrule")
        if environment:
            title = rf"\emph{{{latex_text(environment)}}}"
            lines.append(rf"\multicolumn{{{2 + 2 * len(targets)}}}{{l}}{{{title}}} \\")
        least = {
            target: min(
                (r["seconds"] for r in here if r["target"] == target and r["seconds"] is not None),
                default=None,
            )
            for target in targets
        }
        for name in dict.fromkeys(row["configuration"] for row in here):
            own = [row for row in here if row["configuration"] == name]
            cells = [latex_text(name), str(own[0]["seeds"])]
            for row in own:
                cells += [_seconds(row["seconds"], least[row["target"]]), _sooner(row)]
            lines.append(" & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _seconds(seconds: float | None, least: float | None) -> str:
    if seconds is None:
        return "--"
    text = f"{seconds:,.{0 if seconds >= 100 else 1}f}".replace(",", "{,}")
    return rf"\textbf{{{text}}}" if seconds == least else text


def _sooner(row: Mapping[str, Any]) -> str:
    if row["sooner"] is None:
        return "--"
    digits = 2 if row["sooner"] < 2.0 else 1  # as many as a few seeds can tell
    text = f"{row['sooner']:.{digits}f}" if row["sooner"] >= 0.1 else f"{row['sooner']:.2g}"
    if row["sooner_low"] is None or row["sooner_high"] > 100.0 * row["sooner_low"]:
        return text
    return f"{text} ({row['sooner_low']:.{digits}f} to {row['sooner_high']:.{digits}f})"
