"""Keeps the tables of the pages equal to what the commands above them print.

A page shows a command in a block of its own and, below it, tables of what it prints in Markdown,
each under its title in bold:

    ```
    fedsched times results/cifar10/runs --targets 0.7,0.775
    ```

    **heterogeneous: times sooner, computation 0 s a round**

    | configuration | ...

Not all tables of a command need be shown. `make docs` writes them anew; a test compares them. So
new runs come into all pages by one command; `make results` draws the committed figures too, by the
commands in `results/cifar10/README.md`.
"""

import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

from click.testing import CliRunner

from fedsched.cli.times import command as times
from fedsched.errors import InputError

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES += sorted((ROOT / "results").rglob("*.md"))

_TABLE = r"^\*\*(?P<title>[^*\n]+)\*\*\n\n(?P<rows>(?:\|.*\n)+)"
_PART = re.compile(rf"^```.*\n(?:.*\n)*?```\n|{_TABLE}", re.MULTILINE)
_COMMAND = "fedsched times "


def refreshed(page: str) -> str:
    """The text of a page with every table of a shown command as the command prints it now."""
    commands: list[str] = []

    def replace(part: re.Match[str]) -> str:
        title = part["title"]
        if title is None:  # a block: the tables after it belong to its commands
            commands[:] = [line for line in part[0].splitlines() if line.startswith(_COMMAND)]
            return part[0]
        if not commands:
            return part[0]
        tables = {name: rows for line in commands for name, rows in _printed(line).items()}
        if title not in tables:
            raise InputError(f"no table is called {title!r}; there are: {'; '.join(tables)}")
        return f"**{title}**\n\n{tables[title]}"

    return _PART.sub(replace, page)


@cache
def _printed(line: str) -> dict[str, str]:
    """Titles to tables, as a command of the pages prints them from the folder of the project."""
    words = [
        str(ROOT / word) if word.startswith("results/") else word
        for word in _words(line.removeprefix(_COMMAND))
    ]
    said = CliRunner().invoke(times, [*words, "--markdown"], catch_exceptions=False)
    if said.exit_code:
        raise InputError(f"`{line}` failed: {said.output}")
    return {part["title"]: part["rows"] for part in re.finditer(_TABLE, said.stdout, re.MULTILINE)}


def _words(line: str) -> list[str]:
    """The words of a command, with the names that a shell puts in place of a star."""
    return [
        place
        for word in shlex.split(line, comments=True)
        for place in (_matches(word) if "*" in word else [word])
    ]


def _matches(word: str) -> list[str]:
    return sorted(place.relative_to(ROOT).as_posix() for place in ROOT.glob(word))


def draw() -> None:
    """Give the commands that made the committed figures and the report again."""
    page = (ROOT / "results" / "cifar10" / "README.md").read_text(encoding="utf-8")
    for line in page.splitlines():
        if line.startswith("fedsched "):
            fedsched = str(Path(sys.executable).with_name("fedsched"))
            subprocess.run([fedsched, *_words(line)[1:]], cwd=ROOT, check=True)


if __name__ == "__main__":
    if "--draw" in sys.argv[1:]:
        draw()
    for each in PAGES:
        text = each.read_text(encoding="utf-8")
        if (new := refreshed(text)) != text:
            each.write_text(new, encoding="utf-8")
