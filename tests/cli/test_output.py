import json
from types import SimpleNamespace

import pytest

from fedsched.cli.output import live_progress, print_json, print_table, track


def test_json_is_one_strict_object(capsys):
    print_json({"a": [1, None], "b": 0.5})
    assert json.loads(capsys.readouterr().out) == {"a": [1, None], "b": 0.5}
    with pytest.raises(ValueError, match="not JSON compliant"):
        print_json({"a": float("nan")})


def test_a_table_in_a_pipe_is_not_cut_off(capsys):
    print_table("the title", ["name", "number"], [["x" * 60, "1"], ["y" * 60, "22"]])
    out = capsys.readouterr().out
    assert "the title" in out
    for text in ("name", "number", "x" * 60, "y" * 60, "22"):
        assert text in out
    assert "…" not in out


def test_tracked_items_pass_through_in_order_and_nothing_is_shown_in_a_pipe(capsys):
    assert list(track(iter(range(5)), total=5, label="counting")) == [0, 1, 2, 3, 4]
    seen = capsys.readouterr()
    assert (seen.out, seen.err) == ("", "")


def test_a_terminal_is_shown_progress(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # to rich, a terminal
    monkeypatch.setenv("COLUMNS", "150")
    assert list(track(iter(range(5)), total=5, label="counting")) == [0, 1, 2, 3, 4]
    seen = capsys.readouterr()
    assert seen.out == ""
    assert "counting" in seen.err
    with live_progress("lyapunov, m = 3") as show:
        for number, accuracy in ((1, None), (2, 0.5)):
            show(
                SimpleNamespace(
                    round=number, rounds=4, simulated_s=12.25, accuracy=accuracy, devices=3
                )
            )
    seen = capsys.readouterr()
    for text in ("lyapunov, m = 3", "2/4", "12.2 s", "accuracy 0.500", "3 devices"):
        assert text in seen.err
