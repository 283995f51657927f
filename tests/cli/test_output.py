import json
from types import SimpleNamespace

import pytest

from fedsched.cli import output
from fedsched.cli.output import (
    columns_that_fit,
    end_with,
    grid_progress,
    live_progress,
    print_json,
    print_table,
    track,
)
from fedsched.runs.engines import Job
from fedsched.runs.scenario import scenario_from


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


def test_a_wide_table_is_not_cut_off_in_a_pipe_either(capsys):
    header = [f"column {place}" for place in range(40)]
    print_table("the title", header, [[f"value-{place}" for place in range(40)]])
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "value-0" in line]
    assert all(f"value-{place} " in line for place in range(40))


def test_a_table_too_wide_for_a_terminal_comes_in_parts(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    header = ["configuration", *(f"to 0.{place}" for place in range(8))]
    rows = [["lyapunov", *(f"12,{place}18 s" for place in range(8))]]
    print_table("the title", header, rows)
    out = capsys.readouterr().out
    assert out.count("the title") == 1
    assert out.count("lyapunov") > 1
    for cell in rows[0]:
        assert cell in out
    assert "…" not in out


def test_parts_of_a_table_hold_every_column_once_and_fit():
    header = ["name", "a", "a long title", "b", "c"]
    rows = [["x" * 10, "1" * 5, "2", "3" * 30, "4" * 4]]
    for width in (20, 30, 44, 60, 200):
        parts = columns_that_fit(header, rows, width)
        assert [place for part in parts for place in part[1:]] == [1, 2, 3, 4]
        assert all(part[0] == 0 for part in parts)
    assert columns_that_fit(header, rows, 200) == [[0, 1, 2, 3, 4]]


def test_without_a_terminal_a_line_is_said_every_minute(capsys, monkeypatch, tmp_path):
    now_s = iter([0.0, 1.0, 61.0, 61.0, 62.0, 200.0, 200.0])
    monkeypatch.setattr(output.time, "monotonic", lambda: next(now_s))
    with live_progress("lyapunov, m = 3", tmp_path, 9) as show:
        for number in (1, 2, 3, 4):
            show(SimpleNamespace(round=number, rounds=9, simulated_s=1.0, accuracy=0.5, devices=3))
    lines = capsys.readouterr().err.splitlines()
    assert [line.split("  ")[0] for line in lines] == [
        "lyapunov, m = 3: round 2 of 9",
        "lyapunov, m = 3: round 4 of 9",
    ]


def test_whoever_interrupts_is_told_what_is_kept(capsys, tmp_path):
    (tmp_path / "checkpoint-000000150.npz").touch()
    with pytest.raises(KeyboardInterrupt), live_progress("lyapunov", tmp_path, 200):
        raise KeyboardInterrupt
    said = capsys.readouterr().err
    assert said == "stopped; 150 rounds are kept: give the same command to go on\n"


def test_a_run_that_ended_early_counts_as_finished(tmp_path):
    table = {"run": {"rounds": 300, "seed": 1}, "policy": {"kind": "uniform"}}
    jobs = [Job(name=name, scenario=scenario_from(table), folder=tmp_path / name) for name in "ab"]
    for job in jobs:
        job.folder.mkdir()
    (tmp_path / "a" / "checkpoint-000000017.npz").touch()
    (tmp_path / "a" / "model.npz").touch()
    (tmp_path / "b" / "checkpoint-000000100.npz").touch()
    assert output._progress_of(jobs) == (1, 117, 317)
    assert output._progress_of(jobs, [17, 123]) == (1, 140, 317)  # between two checkpoints
    with grid_progress(jobs):
        pass


def test_a_terminal_is_shown_progress(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("FORCE_COLOR", "1")  # to rich, a terminal
    monkeypatch.setenv("COLUMNS", "150")
    assert list(track(iter(range(5)), total=5, label="counting")) == [0, 1, 2, 3, 4]
    seen = capsys.readouterr()
    assert seen.out == ""
    assert "counting" in seen.err
    with live_progress("lyapunov, m = 3", tmp_path, 9) as show:
        for number, accuracy in ((1, None), (2, 0.5)):
            show(
                SimpleNamespace(
                    round=number, rounds=4, simulated_s=12.25, accuracy=accuracy, devices=3
                )
            )
    seen = capsys.readouterr()
    for text in ("lyapunov, m = 3", "2/4", "12.2 s", "accuracy 0.500", "3 devices"):
        assert text in seen.err


def test_a_reason_that_many_runs_share_is_said_once(capsys):
    with pytest.raises(SystemExit):
        end_with({"a": "no such data", "b": "it is bad", "c": "no such data"})
    said = capsys.readouterr().err
    assert said == "failed: a and 1 more: no such data\nfailed: b: it is bad\n"
    end_with({})
