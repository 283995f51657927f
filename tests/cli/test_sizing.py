"""The commands of the page on sizing run, one after the other."""

import re
import shlex
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "sizing.md"
COMMAND = re.compile(r"^```\nfedsched (.*)\n```", re.MULTILINE)


@pytest.mark.slow
def test_the_commands_of_the_page_run(fedsched, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    commands = COMMAND.findall(PAGE.read_text(encoding="utf-8"))
    assert [each.split()[0] for each in commands] == ["init", "advise", "schedule"]
    quick = {"advise": ["--rounds", "2", "--seeds", "1"], "schedule": ["--rounds", "20", "--bits",
             "1e6"]}  # fmt: skip
    for command in commands:
        words = shlex.split(command)
        if words[0] == "schedule":
            words = words[:2]
        code, out, err = fedsched(*words, *quick.get(words[0], []))
        assert code == 0, err
        assert out
