"""Brings pages and pictures from outside ``docs`` into the site, and mends the links to them.

A page keeps its place in the repository, so that its links work there as well. In the site a file
of ``docs`` loses that prefix and all others keep their path. A link to what the site does not hold
(a folder, a source file) becomes plain text.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
TAKEN = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "benchmarks/results/*.md",
    "results/cifar10/*.md",
    "results/cifar10/*/figure.png",
    "results/cifar10/report.html",
)
_CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(
    r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:|mailto:|#)([^)\s#]+)(#[^)\s]*)?\)"
)


def on_files(files: Files, config: Any) -> Files:
    """Take in what stands elsewhere in the repository."""
    for pattern in TAKEN:
        for path in sorted(ROOT.glob(pattern)):
            uri = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, uri, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: Any, files: Files) -> str:
    """Point links at where things are in the site."""
    del config
    parts = _CODE.split(markdown)
    parts[::2] = [_LINK.sub(lambda link: _mended(link, page, files), part) for part in parts[::2]]
    return "".join(parts)


def _mended(link: re.Match[str], page: Page, files: Files) -> str:
    uri = page.file.src_uri
    if page.file.generated_by and not (ROOT / uri).exists():  # made by a hook: its links are right
        return link[0]
    here = posixpath.dirname(uri if (ROOT / uri).exists() else f"docs/{uri}")
    there = posixpath.normpath(posixpath.join(here, link[3])).removeprefix("docs/")
    if there == "README.md":
        there = "index.md"
    if there.endswith(".ipynb"):
        there = there.replace(".ipynb", ".md")
    if files.get_file_from_path(there) is None:
        if (ROOT / there).exists() or (ROOT / "docs" / there).exists():
            return link[2]
        return link[0]  # leads nowhere: the build says so
    target = posixpath.relpath(there, posixpath.dirname(uri) or ".")
    return f"{link[1]}[{link[2]}]({target}{link[4] or ''})"
