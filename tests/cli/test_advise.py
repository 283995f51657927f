import csv
import json
from pathlib import Path

import pytest

from fedsched.cli import advise

SCENARIO = """
[run]
rounds = 6
seed = 1
[channel]
devices = 6
[uplink]
bits = 1e6
"""
QUICK = ("--rounds", 3, "--seeds", 1)


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "scenario.toml"
    path.write_text(SCENARIO)
    return path


def test_advice_is_a_table_a_picture_and_a_file(fedsched, scenario, tmp_path):
    picture, table = tmp_path / "advice.svg", tmp_path / "advice.csv"
    code, out, err = fedsched("advise", scenario, *QUICK, "--plot", picture, "--out", table,
                              "--set", "uplink.budget_w=0.01")  # fmt: skip
    assert (code, err) == (0, "")
    for text in ("By computation time", "By SNR", "1 (least)", "0.01 of 0.01 W", "auto",
                 f"wrote {table}", f"wrote {picture}"):  # fmt: skip
        assert text in out
    assert "predicted time" in picture.read_text(encoding="utf-8")
    rows = [*csv.DictReader(table.read_text(encoding="utf-8").splitlines())]
    assert {row["snr_shift_db"] for row in rows} == {"-20.0", "-10.0", "0.0", "10.0", "20.0"}
    assert {row["schedule"] for row in rows} == {"auto"} | {
        f"uniform m={m}" for m in (1, 2, 3, 5, 6)
    }


def test_the_scenarios_own_computation_time_is_among_those_tried(fedsched, scenario):
    code, out, _ = fedsched("advise", scenario, *QUICK, "--computation-s", "7s", "--json")
    told = json.loads(out)
    assert (code, told["own_computation_s"], told["seeds"]) == (0, 7.0, [1])
    timed = [each["computation_s"] for each in told["points"] if not each["snr_shift_db"]]
    assert len(timed) == 8 and timed == sorted(timed) and 7.0 in timed
    shifted = [each for each in told["points"] if each["snr_shift_db"]]
    assert {each["computation_s"] for each in shifted} == {7.0}
    assert "7 *" in fedsched("advise", scenario, *QUICK, "--computation-s", 7)[1]


@pytest.mark.slow
def test_a_computation_time_of_0_is_a_time_and_not_the_lack_of_one(fedsched, scenario, tmp_path):
    picture = tmp_path / "advice.svg"
    for zero in (("--computation-s", 0), ("--set", "uplink.computation_s=0")):
        code, out, err = fedsched("advise", scenario, *QUICK, *zero, "--plot", picture)
        assert (code, err) == (0, "")
        assert "At 0 s of computation" in out and "By SNR, at 0 s of computation" in out
        assert "By SNR, at 0 s of computation" in picture.read_text(encoding="utf-8")
    told = json.loads(fedsched("advise", scenario, *QUICK, "--computation-s", 0, "--json")[1])
    assert {each["computation_s"] for each in told["points"] if each["snr_shift_db"]} == {0.0}
    scenario.write_text(SCENARIO + "computation_s = 0\n")
    assert "At 0 s of computation" in fedsched("advise", scenario, *QUICK)[1]
    # Who says nothing of computation is shown the time where it is as long as an upload.
    scenario.write_text(SCENARIO)
    out = fedsched("advise", scenario, *QUICK)[1]
    assert "At 0 s of computation" not in out and "0 *" in out


def test_one_is_not_counted_as_many(fedsched, scenario):
    out = fedsched("advise", scenario, "--rounds", 1, "--seeds", 1)[1]
    assert "Predicted from 1 round of each schedule." in out and "over 1 seed (" in out
    out = fedsched("advise", scenario, "--rounds", 2, "--seeds", 2)[1]
    assert "Predicted from 2 rounds of each schedule." in out and "over 2 seeds (" in out


def test_a_picture_that_cannot_be_written_is_called_by_its_name(fedsched, scenario, tmp_path,
                                                                monkeypatch):  # fmt: skip
    def full(_path, _text, **_options):
        raise OSError(28, "No space left on device", str(_path))

    table = tmp_path / "advice.csv"
    monkeypatch.setattr(Path, "write_text", full)
    code, _, err = fedsched("advise", scenario, *QUICK, "--out", table)
    assert code == 2
    assert f"'{table}': No space left on device" in err and ".part" not in err


def test_a_kappa_and_a_policy_of_ones_own_may_be_named(fedsched, scenario):
    asked = ("advise", scenario, *QUICK, "--kappa", 3, "--set", "policy.kind=lyapunov")
    told = json.loads(fedsched(*asked, "--json")[1])
    assert told["kappas"] == [3.0]
    labels = {row["schedule"] for row in told["points"][0]["schedules"]}
    assert "lyapunov m=10 λ=100.0 V=100.0" in labels
    assert "kappa = 3" in fedsched(*asked)[1]


def test_rates_have_no_snr_and_are_advised_on_all_the_same(fedsched, scenario, tmp_path):
    trace = tmp_path / "rates.csv"
    trace.write_text("round,device,mbit/s\n" + "".join(
        f"{t},{n},{1 + n + t % 2}\n" for t in range(4) for n in range(5)
    ))  # fmt: skip
    settings = ("--set", f"channel.kind={trace}", "--set", "channel.devices=5")
    code, out, err = fedsched("advise", scenario, *QUICK, *settings, "--plot", tmp_path / "a.png")
    assert (code, err) == (0, "")
    assert "By computation time" in out and "By SNR" not in out and "worst device" not in out


def test_whatever_lies_on_the_edge_of_what_was_tried_says_so(fedsched, scenario, monkeypatch):
    monkeypatch.setattr(advise, "UPLOADS", (0.1, 1.0))
    out = fedsched("advise", scenario, *QUICK, "--computation-s", 0.01)[1]
    assert "tried; beyond it may be more" in out or "does not pay" in out


def test_without_a_file_it_is_the_papers_radio(fedsched):
    told = json.loads(fedsched("advise", "--rounds", 2, "--seeds", 1, "--json")[1])
    assert told["devices"] == 100


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--kappa", "0"], "kappa must be a positive finite number, got 0"),
        (["--rounds", "0"], "rounds must be a whole number of at least 1, got 0"),
        (["--seeds", "0"], "seeds must be a whole number of at least 1, got 0"),
        (["--computation-s", "-1"], "uplink.computation_s must be"),
        (["--plot", "a.gif"], "plot must end in one of .png"),
        (["--out", "a.xlsx"], "out must end in one of .csv"),
        (["nothing.toml"], "nothing.toml"),
        (["--set", "policy.kind=fedcs"], "'fedcs' chooses without chance"),
        (["--set", "policy.kind=oort"], "reads"),
        (
            ["--computation-s", "2", "--set", "uplink.computation_s=3"],
            "uplink.computation_s is set twice, to 2.0 by its option and to 3 by --set; leave out",
        ),
        (
            ["--kappa", "20", "--set", "policy.kappa=50"],
            "policy.kappa is set twice, to 20.0 by its option and to 50 by --set; leave out one",
        ),
    ],
)
def test_a_wrong_argument_is_refused_with_a_sentence(fedsched, arguments, sentence):
    code, out, err = fedsched("advise", *arguments)
    assert (code, out) == (2, "")
    assert sentence in err
