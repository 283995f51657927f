"""Pages that are walked through: their Python and their commands run in order, in one folder.

A block with a title is a file that the reader saves under that name.
"""

import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r'^```(python|sh|text|\w+ title="[\w.]+")\n(.*?)^```', re.MULTILINE | re.DOTALL)
PAGES = ("units", "throughput", "budgets", "figures", "your-own")


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_shows_is_what_happens(fedsched, page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    blocks = BLOCK.findall((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"))
    assert sum(kind == "sh" for kind, _ in blocks) > 2
    seen = ""
    for (kind, text), following in zip(blocks, [*blocks[1:], ("", "")], strict=True):
        if " title=" in kind:
            Path(kind.split('"')[1]).write_text(text, encoding="utf-8")
        elif kind == "python":
            exec(compile(text, page, "exec"), namespace)
        elif kind == "sh":
            expected = 2 if following[0] == "text" and following[1].startswith("fedsched:") else 0
            for line in text.splitlines():
                program, *arguments = shlex.split(line, comments=True)
                assert program == "fedsched"
                code, out, err = fedsched(*arguments)
                assert code == expected, f"{line}: {err}"
                seen = out + err
        else:
            for line in text.splitlines():
                assert line.rstrip() in seen
