import json

import pytest
from click.testing import CliRunner

from fedsched.cli.compare import command
from fedsched.errors import InputError, UnknownNameError
from fedsched.learning.compression import Dithered
from fedsched.runs.runlog import read_run

pytestmark = pytest.mark.slow

SCENARIO = """
[run]
rounds = 6
seed = 1
eval_every = 1
[policy]
kind = "uniform"
draws = 3
candidates = 7
[channel]
devices = 12
[data]
samples = 40
[training]
model = "softmax"
steps = 3
learning_rate = 0.05
"""


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    (folder / "base.toml").write_text(SCENARIO)
    names = "lyapunov,best-channel,ocs,power-of-choice,clustered-similarity"
    given = [str(folder / "base.toml"), "--policies", names, "--target", "0.3", "--json",
             "--out", str(folder / "out"), "--workers", "1"]  # fmt: skip
    done = CliRunner().invoke(command, given, catch_exceptions=False)
    return folder, given, json.loads(done.output)


def test_each_policy_has_a_row_and_biased_ones_are_marked(compared):
    rows = {row["policy"]: row for row in compared[2]["policies"]}
    assert list(rows) == [
        "lyapunov", "best-channel", "ocs", "power-of-choice", "clustered-similarity",
    ]  # fmt: skip
    assert [row["biased"] for row in rows.values()] == [False, True, False, True, False]
    assert rows["best-channel"]["mean_inverse_probability"] is None
    assert rows["ocs"]["mean_inverse_probability"] > 1.0
    for row in rows.values():
        assert 1.0 / 12 <= row["jain_fairness"] <= 1.0
        assert row["airtime_s_per_round"] > row["feedback_s_per_round"]


def test_feedback_of_devices_that_are_asked_is_charged(compared):
    rows = {row["policy"]: row for row in compared[2]["policies"]}
    assert rows["lyapunov"]["feedback_s_per_round"] == 0.0
    assert rows["clustered-similarity"]["feedback_s_per_round"] == 0.0
    for name in ("ocs", "power-of-choice"):
        assert rows[name]["feedback_s_per_round"] > 0.0


def test_each_policy_finds_its_own_fields_in_the_file(compared):
    policy = read_run(compared[0] / "out" / "power-of-choice").manifest["scenario"]["policy"]
    assert policy["candidates"] == 7  # which the file's own kind does not read


def test_the_report_and_the_table_mark_what_is_biased(compared):
    folder, given, _ = compared
    page = (folder / "out" / "report.html").read_text(encoding="utf-8")
    assert "best-channel" in page
    shown = CliRunner().invoke(command, [each for each in given if each != "--json"])
    assert "best-channel (biased)" in shown.output
    assert "ocs (biased)" not in shown.output


def test_a_policy_that_fails_is_named_and_the_others_are_compared(fedsched, tmp_path):
    file = tmp_path / "base.toml"
    file.write_text(SCENARIO.replace("draws = 3", "draws = 3\nqmin = 0.9"))

    def compare(*policies):
        return fedsched("compare", file, "--policies", ",".join(policies), "--json",
                        "--out", tmp_path / "out", "--workers", 1)  # fmt: skip

    code, out, err = compare("lyapunov", "uniform")
    assert code == 1
    assert err.startswith("failed: lyapunov: floor (qmin) 0.9 asks too much")
    answer = json.loads(out)
    assert [row["policy"] for row in answer["policies"]] == ["uniform"]
    assert list(answer["failed"]) == ["lyapunov"]
    code, out, err = compare("lyapunov")
    assert (code, out) == (1, "")
    assert err.startswith("failed: lyapunov: floor (qmin) 0.9 asks too much")


def test_each_policy_is_compared_under_each_compressor(compared, tmp_path):
    given = [compared[1][0], "--policies", "uniform,lyapunov", "--compress", "none, 4,dithered-4",
             "--target", "0.3", "--out", str(tmp_path), "--workers", "1"]  # fmt: skip
    done = CliRunner().invoke(command, [*given, "--json"], catch_exceptions=False)
    rows = {(row["policy"], row["compress"]): row for row in json.loads(done.output)["policies"]}
    assert list(rows) == [
        ("uniform", "none"), ("uniform", "4"), ("lyapunov", "none"), ("lyapunov", "4"),
    ]  # fmt: skip
    one, other = (rows["uniform", each]["airtime_s_per_round"] for each in ("none", "4"))
    assert other / one == pytest.approx(Dithered(4).bits(650) / (32 * 650), rel=1e-9)
    assert rows["uniform", "4"]["upload_bits"] == Dithered(4).bits(650)
    assert rows["uniform", "none"]["upload_bits"] == 32 * 650
    assert rows["uniform", "none"]["omega"] is None
    omega = read_run(tmp_path / "uniform-4").column("omega")
    assert rows["uniform", "4"]["omega"] == pytest.approx(omega.mean())
    assert 0.01 < omega.mean() < 0.2
    assert read_run(tmp_path / "lyapunov-4").manifest["scenario"]["training"]["compress"] == "4"
    shown = CliRunner().invoke(command, given, catch_exceptions=False).output
    assert "uniform 4 " in shown
    assert "lyapunov none " in shown
    assert "Mbit/upload" in shown
    assert f"{omega.mean():.3g}" in shown
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "lyapunov compress=4" in page


def test_bad_names_and_targets_are_refused_before_anything_runs(tmp_path):
    def refused(*given):
        return CliRunner().invoke(command, [*given, "--out", str(tmp_path)]).exception

    assert isinstance(refused("--policies", "nobody"), UnknownNameError)
    assert isinstance(refused("--scale", "huge"), UnknownNameError)
    assert isinstance(refused("--aggregator", "average"), UnknownNameError)
    assert isinstance(refused("--compress", "none,16"), UnknownNameError)
    assert isinstance(refused("--target", "7"), InputError)
    assert "leave out --scale" in str(refused("some.toml", "--scale", "small"))
    assert list(tmp_path.iterdir()) == []


def test_fields_are_set_for_all_policies_with_a_file_and_without(fedsched, tmp_path):
    (tmp_path / "base.toml").write_text(SCENARIO)
    small = [f"--set={each}" for each in ("run.rounds=2", "policy.draws=2", "channel.devices=5",
                                          "data.samples=40")]  # fmt: skip
    for place, source in (("file", [tmp_path / "base.toml"]), ("built-in", [])):
        code, _, err = fedsched(
            "compare", *source, *small, "--policies", "uniform,best-channel", "--out",
            tmp_path / place, "--workers", 1,
        )  # fmt: skip
        assert code == 0, err
        for name in ("uniform", "best-channel"):
            said = read_run(tmp_path / place / name).manifest["scenario"]
            assert (said["run"]["rounds"], said["policy"]["draws"]) == (2, 2)
    code, _, err = fedsched("compare", "--set", "policy.kind=uniform", "--out", tmp_path / "none")
    assert code == 2
    assert "policy.kind = 'uniform' is one policy, and compare takes several" in err
