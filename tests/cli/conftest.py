"""What the tests of commands share."""

import sys

import pytest

from fedsched.cli import main


@pytest.fixture
def fedsched(monkeypatch, capsys):
    """Call the command line; exit code, standard output and standard error."""

    def call(*arguments):
        monkeypatch.setenv("PYTHONSAFEPATH", "1")  # the command sets it
        monkeypatch.setattr(sys, "argv", ["fedsched", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        seen = capsys.readouterr()
        return ended.value.code or 0, seen.out, seen.err

    return call
