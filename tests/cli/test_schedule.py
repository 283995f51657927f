import csv
import json
import re
import subprocess
import sys
from itertools import islice

import numpy as np
import pytest
from pyarrow import parquet

from fedsched.analysis.tally import ScheduleTally
from fedsched.cli import schedule as schedule_command
from fedsched.radio import write_trace
from fedsched.runs.assembly import schedule_of
from fedsched.runs.scenario_file import load_scenario, parse_settings

KEYS = {"airtime_s_per_round", "devices_per_round", "worst_mean_power_w",
        "mean_inverse_probability", "rounds", "seconds"}  # fmt: skip
TINY = ("--devices", "6", "--rounds", "12", "--seed", "3")
SMALL = ("--policy", "lyapunov", "--draws", "2", *TINY)


def refuse(constant):
    raise AssertionError(f"{constant} is not JSON")


@pytest.fixture
def as_json(fedsched):
    """Call ``fedsched schedule --json``; the object."""

    def call(*arguments):
        code, out, err = fedsched("schedule", *arguments, "--json")
        assert (code, err) == (0, "")
        return json.loads(out, parse_constant=refuse)

    return call


def without_time(report):
    return {name: value for name, value in report.items() if name != "seconds"}


def test_the_object_has_the_named_keys_and_the_settings(as_json):
    report = as_json(*SMALL)
    assert report.keys() >= KEYS
    assert report["rounds"] == 12
    assert (report["devices"], report["draws"], report["seed"]) == (6, 2, 3)
    assert (report["policy"], report["design"]) == ("lyapunov", "with-replacement")
    assert 0.0 < report["devices_per_round"] <= 2.0
    assert report["airtime_s_per_round"] > 0.0
    assert report["worst_residual"] <= 1e-9


def test_auto_schedules_where_no_policy_is_named(as_json):
    assert without_time(as_json(*TINY)) == without_time(as_json(*TINY, "--policy", "auto"))
    assert as_json(*TINY)["policy"] == "auto"
    # And a file or another option does not make it any other.
    larger = as_json(*TINY, "--computation-s", 50.0)
    assert larger["devices_per_round"] > 2.0 * as_json(*TINY)["devices_per_round"]


def test_the_object_tells_what_auto_has_set_itself_and_what_budgets_hold(as_json):
    report = as_json(*TINY, "--computation-s", 0.5)
    assert report["kappa"] == 6.0  # the number of devices
    assert report["lam"] > 0.0
    assert as_json(*TINY, "--computation-s", 0.5, "--kappa", 180)["kappa"] == 180.0
    (budget,) = report["budgets"]
    assert (budget["name"], budget["limit"], budget["per"]) == ("power", 1.0, "round")
    assert budget["worst_use"] == pytest.approx(report["worst_mean_power_w"])
    paper = as_json(*SMALL)
    assert (paper["lam"], paper["kappa"]) == (100.0, None)


def test_the_same_seed_gives_the_same_figures_and_another_others(as_json):
    one, same = (without_time(as_json(*SMALL)) for _ in range(2))
    assert one == same
    other = as_json(*SMALL[:-1], "4")
    assert other["airtime_s_per_round"] != one["airtime_s_per_round"]


def test_the_table_shows_the_figures_of_the_object(fedsched, as_json):
    report = as_json(*SMALL)
    code, out, _ = fedsched("schedule", *SMALL)
    assert code == 0
    assert "heterogeneous, 6 devices, 12 rounds, seed 3" in out
    assert "lyapunov (with-replacement)" in out
    assert f"{report['airtime_s_per_round']:.4f}" in out
    assert f"{report['worst_mean_power_w']:.3f}" in out


def test_a_budget_that_is_not_kept_is_shown_with_its_limit_and_who_knows_of_it(fedsched):
    _, out, _ = fedsched("schedule", *SMALL)  # empty queues begin at the peak
    assert "worst device's mean" in out
    assert "1 W a round" in out
    assert "above the budget" in out
    assert "known to the policies" not in out  # of the power all policies know
    set_limits = ("--set", "budgets.participation=0.1", "--set", "budgets.energy_j=1e9")
    _, out, _ = fedsched("schedule", *TINY, *set_limits, "--compare", "uniform,auto")
    assert "participation, energy" in out or "energy, participation" in out
    assert "known to the policies lyapunov and auto alone" in out
    assert "uniform (with-replacement) │ participation" in out


def test_updates_that_are_lost_are_counted(fedsched, as_json):
    assert as_json(*TINY)["lost_share"] is None
    lossy = ("--policy", "uniform", "--draws", 6, "--devices", 6, "--rounds", 150, "--seed", 3)
    share = as_json(*lossy, "--set", "knowledge.loss=0.2")["lost_share"]
    assert share == pytest.approx(0.2, abs=0.04)
    _, out, _ = fedsched("schedule", *lossy, "--set", "knowledge.loss=0.2")
    assert "updates lost" in out
    assert f"{100 * share:.1f} %" in out
    kept = as_json(*lossy, "--set", "knowledge.error_db=3", "--set", "knowledge.outage=0.1")
    assert 0.0 < kept["lost_share"] <= 0.1 + 0.06  # six margins, 600 attempts


@pytest.mark.parametrize("policy", ["lyapunov", "uniform", "full"])
def test_a_trace_with_unreachable_devices_gives_strict_json(as_json, tmp_path, policy):
    gain = np.random.default_rng(1).exponential(1.0, (5, 4))
    gain[2] = np.nan  # nobody
    gain[0, 1] = np.nan
    write_trace(tmp_path / "trace.csv", gain)
    report = as_json(
        "--channel", tmp_path / "trace.csv", "--rounds", 10, "--draws", 2, "--policy", policy
    )
    assert report["devices"] == 4
    assert all(value == value for value in report.values())


def test_a_trace_in_which_nobody_is_ever_reachable_gives_strict_json(as_json, tmp_path):
    write_trace(tmp_path / "trace.npz", np.full((2, 3), np.nan))
    report = as_json("--channel", tmp_path / "trace.npz", "--rounds", 4)
    assert report["devices_per_round"] == report["airtime_s_per_round"] == 0.0


# --- several policies ------------------------------------------------------------------------


def test_compared_policies_are_those_that_run_alone_under_the_same_seed(as_json):
    compared = as_json(*SMALL, "--compare", "lyapunov,uniform:fixed-size,full")["compared"]
    alone = [
        as_json(*SMALL),
        as_json(*SMALL, "--policy", "uniform", "--design", "fixed-size"),
        as_json(*SMALL, "--policy", "full"),
    ]
    for one, other in zip(compared, alone, strict=True):
        assert without_time(one).items() <= other.items()
    assert compared[2]["devices_per_round"] == 6.0


def test_a_policy_that_is_named_twice_is_compared_once(as_json):
    compared = as_json(*TINY, "--draws", 2, "--compare", "auto,uniform,auto")["compared"]
    assert [report["policy"] for report in compared] == ["auto", "uniform"]


def test_what_compared_policies_read_needs_no_policy_named(as_json):
    compared = as_json(*TINY, "--draws", 2, "--compare", "uniform,auto")["compared"]
    assert [report["draws"] for report in compared] == [2, None]


def test_compared_policies_see_the_same_channel(fedsched, tmp_path):
    gains = []
    for policy in ("lyapunov", "uniform", "full"):
        path = tmp_path / f"{policy}.parquet"
        assert fedsched("schedule", *SMALL, "--policy", policy, "--out", path)[0] == 0
        gains.append(parquet.read_table(path)["gain"].to_numpy())
    np.testing.assert_array_equal(gains[0], gains[1])
    np.testing.assert_array_equal(gains[0], gains[2])


def test_without_names_every_policy_and_design_is_compared(fedsched, as_json):
    found = [
        (report["policy"], report["design"]) for report in as_json(*SMALL, "--compare")["compared"]
    ]
    assert len(found) == len(set(found)) == 7
    assert {policy for policy, _ in found} == {"auto", "lyapunov", "uniform", "full"}
    _, out, _ = fedsched("schedule", *SMALL, "--compare")
    first_table, _, budgets = out.partition("budgets")
    assert len(re.findall(r"auto|lyapunov|uniform|full", first_table)) == 7
    assert "lyapunov (fixed-size)" in budgets  # queues that are empty begin at the peak


def test_a_compared_policy_without_a_design_has_the_one_asked_for(as_json):
    compared = as_json(*SMALL, "--design", "fixed-size", "--compare", "lyapunov,uniform")
    assert [report["design"] for report in compared["compared"]] == ["fixed-size"] * 2


# --- a scenario file -------------------------------------------------------------------------

FILE = """
[run]
rounds = 12
seed = 3
[channel]
devices = 6
[policy]
kind = "lyapunov"
draws = 2
as_printed = true
[uplink]
bits = 1e6
access = "parallel"
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "scenario.toml"
    path.write_text(FILE)
    return path


def test_a_file_is_scheduled_as_its_run_would_be(as_json, file):
    report = as_json(file)
    scenario = load_scenario(file)
    tally = ScheduleTally(6)
    for done in islice(schedule_of(scenario, 0), 12):
        tally.add(done)
    assert report.items() >= tally.summary().as_dict().items()
    assert (report["devices"], report["rounds"], report["draws"]) == (6, 12, 2)
    sequential = as_json(file, "--set", "uplink.access=tdma")
    assert sequential["airtime_s_per_round"] > report["airtime_s_per_round"]


def test_without_bits_an_update_has_those_of_the_files_model(as_json, file, tmp_path):
    text = FILE.replace("bits = 1e6", "") + "[training]\nmodel = 'softmax'\n"
    (tmp_path / "model.toml").write_text(text)
    bits = 32 * (64 + 1) * 10  # of digits
    assert without_time(as_json(tmp_path / "model.toml")) == without_time(
        as_json(file, "--bits", bits)
    )


def test_an_option_and_the_field_it_is_short_for_are_the_same(as_json, file):
    short = as_json(file, "--draws", 4, "--lam", 7, "--scale-v", "--rounds", 9)
    fields = ("policy.draws=4", "policy.lam=7", "policy.scale_v=true", "run.rounds=9")
    long = as_json(file, *(part for each in fields for part in ("--set", each)))
    assert without_time(short) == without_time(long)
    assert (short["draws"], short["lam"], short["rounds"]) == (4, 7.0, 9)
    assert without_time(short) != without_time(as_json(file, *("--set", fields[0])))


def test_a_flag_that_is_not_given_leaves_the_file_as_it_is(as_json, file):
    printed = without_time(as_json(file))
    assert printed == without_time(as_json(file, "--as-printed"))
    assert printed != without_time(as_json(file, "--set", "policy.as_printed=false"))


def test_every_short_form_sets_a_field_that_exists():
    names = [field for field, _ in schedule_command._SHORT.values()]
    assert len(set(names)) == len(names)
    assert list(parse_settings(f"{name}=1" for name in names)) == names


def test_what_a_policy_does_not_read_is_null(as_json):
    report = as_json(*SMALL, "--policy", "full", "--lam", "5")
    assert [report[name] for name in ("design", "draws", "lam", "v")] == [None] * 4


# --- files -----------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_a_schedule_written_out_can_be_fed_back_as_a_channel(as_json, tmp_path, suffix):
    path = tmp_path / f"trace.{suffix}"
    first = as_json(*SMALL, "--out", path)
    again = as_json(*SMALL[:4], "--channel", path, "--rounds", 12, "--seed", 3)
    assert {**without_time(again), "channel": "heterogeneous"} == without_time(first)


def test_the_written_table_has_one_row_for_each_round_and_device(fedsched, tmp_path):
    path = tmp_path / "trace.csv"
    code, out, _ = fedsched("schedule", *SMALL, "--out", path)
    assert code == 0
    assert f"wrote {path}" in out
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["round", "device", "gain", "queue", "probability", "power_w",
                             "selected", "weight", "airtime_s"]  # fmt: skip
    assert [(row["round"], row["device"]) for row in rows] == [
        (str(t), str(n)) for t in range(12) for n in range(6)
    ]
    for row in rows:
        taking_part = row["selected"] == "1"
        assert (float(row["airtime_s"]) > 0) is taking_part
        if taking_part:
            assert float(row["weight"]) == pytest.approx(1 / (6 * float(row["probability"])))


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["png", "svg", "html"])
def test_the_figures_are_drawn_into_the_file(fedsched, monkeypatch, tmp_path, suffix):
    drawn = []
    real = schedule_command.save_figure
    monkeypatch.setattr(
        schedule_command,
        "save_figure",
        lambda figure, path: drawn.append(figure) or real(figure, path),
    )
    path = tmp_path / f"figure.{suffix}"
    asked = ["--compare", "uniform,lyapunov:independent", "--plot", path]
    code, out, err = fedsched("schedule", *SMALL, *asked)
    assert (code, err) == (0, "")
    assert path.stat().st_size > 1000
    assert f"wrote {path}" in out
    power, selection, size = drawn[0].axes
    legends = [[text.get_text() for text in axis.get_legend().get_texts()] for axis in
               (power, selection, size)]  # fmt: skip
    asked_for = ["uniform (with-replacement)", "lyapunov (independent)"]
    assert legends == [[*asked_for, "budget"], asked_for, asked_for]
    assert len(power.lines) == 2 * 2 + 1
    assert selection.get_xlabel() == "device"


@pytest.mark.slow
def test_two_policies_have_two_pictures(fedsched, tmp_path):
    for policy in ("uniform", "lyapunov"):
        code, _, _ = fedsched(
            "schedule", *SMALL, "--policy", policy, "--plot", tmp_path / f"{policy}.svg"
        )
        assert code == 0
    pictures = [(tmp_path / f"{policy}.svg").read_bytes() for policy in ("uniform", "lyapunov")]
    assert pictures[0] != pictures[1]


def test_more_draws_than_devices_are_remarked(fedsched):
    asked = ["schedule", "--policy", "lyapunov", "--devices", "5", "--rounds", "2"]
    code, _, err = fedsched(*asked, "--m", "50")
    assert code == 0
    assert err == (
        "draws: 50 a round of 5 devices; each is drawn several times, and uploads once. "
        "Did you mean 5 or fewer?\n"
    )
    assert fedsched(*asked, "--m", "5", "--lambda", "10")[2] == ""


WORDS = [
    (["--channel", "trace.xlsx"], "a trace ends in one of .csv, .parquet, .npz; save the sheet"),
    (
        ["--channel", "semicolons.csv"],
        "line 2: its cells seem to be separated by semicolons; save the",
    ),
    (["--channel", "absent.csv"], "there is no such file in '"),
    (["--set", "policy.m=5"], "'m' is not known; did you mean 'draws'?"),
    (["--set", "data.name=CIFAR10", "--set", "POLICY.draws=5"], "did you mean"),
]


@pytest.mark.parametrize(("wrong", "said"), WORDS)
def test_a_mistake_is_answered_with_what_to_do(fedsched, tmp_path, monkeypatch, wrong, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trace.xlsx").write_bytes(b"PK")
    (tmp_path / "semicolons.csv").write_text("a;b\n1,5;2,5\n")
    code, _, err = fedsched("schedule", "--rounds", "2", *wrong)
    assert code == 2
    assert said in err.replace("\n", " ")


# --- what is refused -------------------------------------------------------------------------

BAD_TRACES = {
    "negative.csv": ("1.0,2.0\n-1.0,2.0\n", "the gain in round 1 of device 0 is -1.0"),
    "infinite.csv": ("1.0,inf\n", "the gain in round 0 of device 1 is inf"),
    "ragged.csv": ("1.0,2.0\n1.0\n", "line 2: it has 1 values, but 2 were expected"),
    "words.csv": ("1.0,2.0\n1.0,loud\n", "'loud' is not a number"),
    "empty.csv": ("", "has zero rounds"),
    "binary.parquet": ("not Parquet", "is not a Parquet file"),
    "binary.npz": ("not NPZ", "is not an NPZ file"),
}


def refused(answer, sentence):
    code, out, err = answer
    assert code == 2, err
    assert sentence in err
    assert "Traceback" not in err
    assert out == ""
    return True


@pytest.mark.parametrize("name", BAD_TRACES)
def test_a_bad_trace_is_refused_with_a_sentence(fedsched, tmp_path, name):
    text, sentence = BAD_TRACES[name]
    (tmp_path / name).write_text(text)
    assert refused(fedsched("schedule", "--channel", tmp_path / name, "--unit", "gain"), sentence)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--draws", "0"], "draws must be a whole number of at least 1, got 0"),
        (["--rounds", "0"], "rounds must be a whole number of at least 1, got 0"),
        (["--rounds", "many"], "rounds must be a whole number, got 'many'"),
        (["--seed", "-1"], "seed must be a whole number of at least 0, got -1"),
        (["--devices", "0"], "devices must be a whole number of at least 1, got 0"),
        (["--lam", "-1"], "lam must be a positive finite number, got -1.0"),
        (["--lam", "nan"], "lam must be a positive finite number, got nan"),
        (["--lam", "-1", "--policy", "uniform"], "lam must be a positive finite number"),
        (["--v", "inf", "--policy", "full"], "v must be a positive finite number, got inf"),
        (
            ["--draws", "5"],
            "policy.draws is set to 5, and 'auto', the policy where none is named, "
            "has no draws; name one that has as policy.kind, such as lyapunov or uniform",
        ),
        (["--qmin", "1.5"], "qmin must lie in [0, 1), got 1.5"),
        (["--qmin", "-1", "--policy", "uniform"], "qmin must lie in [0, 1), got -1.0"),
        (["--budget-w", "0"], "budget_w must be a positive finite number, got 0.0"),
        (["--bits", "0"], "bits must be a positive finite number, got 0.0"),
        (["--noise-w", "nan"], "noise_w must be a positive finite number, got nan"),
        (["--set", "policy.drws=5"], "policy: 'drws' is not known; did you mean 'draws'?"),
        (["--set", "policy.draws=five"], "policy.draws must be a whole number, got 'five'"),
        (["--set", "draws=5", "--draws", "6"], "policy.draws is set twice, to 6 by its option"),
        (["--set", "data.samples=[1,2]"], "data.samples has 2 numbers and there are 100 devices"),
        (["missing.toml"], "scenario 'missing.toml' cannot be read"),
        (["--policy", "lyapunow"], "did you mean 'lyapunov'?"),
        (["--design", "fixed"], "fixed-size"),
        (["--channel", "heterogenous"], "did you mean 'heterogeneous'?"),
        (["--channel", "missing.csv"], "trace missing.csv: there is no such file"),
        (["--compare", "lyapunov,unifrom"], "did you mean 'uniform'?"),
        (["--compare", "full,uniform", "--out", "a.csv"], "--out takes one policy"),
        (["--out", "no/such/folder/a.csv"], "the folder 'no/such/folder' does not exist"),
        (["--out", "a.txt"], "out must end in one of .parquet, .csv, got 'a.txt'"),
        (["--plot", "no/such/folder/a.png"], "the folder 'no/such/folder' does not exist"),
        (["--plot", "a.gif"], "got 'a.gif'"),
    ],
)
def test_a_bad_option_is_refused_with_a_sentence(
    fedsched, monkeypatch, tmp_path, arguments, sentence
):
    monkeypatch.chdir(tmp_path)
    assert refused(fedsched("schedule", *arguments), sentence)
    assert list(tmp_path.iterdir()) == []


def test_a_trace_with_another_number_of_devices_is_refused(fedsched, tmp_path):
    path = tmp_path / "trace.csv"
    write_trace(path, np.ones((2, 4)))
    answer = fedsched("schedule", "--channel", path, "--devices", 5)
    assert refused(answer, "devices is 5, but the trace")


def test_gains_of_a_long_table_that_repeat_are_refused(fedsched, tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text("round,device,gain\n0,0,1.0\n0,0,2.0\n")
    assert refused(fedsched("schedule", "--channel", path), "is given twice")


# --- the real command ------------------------------------------------------------------------


@pytest.mark.slow
def test_a_bad_value_ends_the_real_command_with_code_2_and_one_sentence():
    ended = subprocess.run(
        [sys.executable, "-m", "fedsched", "schedule", "--draws", "0"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert ended.stderr == "fedsched: policy.draws must be a whole number of at least 1, got 0\n"
    assert ended.stdout == ""


def test_help_is_shown_without_importing_what_is_heavy():
    look = (
        "import sys\n"
        "from fedsched.cli import main\n"
        "for arguments in ['--help'], ['run', '--help'], ['schedule', '--help']:\n"
        "    sys.argv = ['fedsched', *arguments]\n"
        "    try:\n        main()\n"
        "    except SystemExit as ended:\n        assert not ended.code\n"
        "heavy = {'torch', 'matplotlib', 'pyarrow', 'sklearn', 'scipy', 'PIL'}\n"
        "print('LOADED', sorted(heavy & set(sys.modules)))\n"
    )
    ended = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert ended.stdout.endswith("LOADED []\n")
    assert ended.stdout.count("Usage: fedsched") == 3
    shown = " ".join(ended.stdout.partition("Usage: fedsched schedule")[2].split())
    for default in ("heterogeneous", "auto", "4000", "3162.27", "22000000.0"):
        assert f"[default: {default}" in shown
