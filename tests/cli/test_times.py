import json
import re
from statistics import geometric_mean

import pyarrow as pa
import pytest
from click.testing import CliRunner
from tests.runs.report_runs import manifest, table, write_grid, write_run

from fedsched.analysis.arrival import (
    ACCURACY,
    ARRIVAL,
    PROTOCOLS,
    TRAINING_LOSS,
    InARow,
    RunningMean,
)
from fedsched.analysis.speedup import speedup
from fedsched.cli.times import command
from fedsched.errors import InputError, UnknownNameError
from fedsched.runs.runlog import read_run


def times(*arguments):
    return CliRunner().invoke(command, [str(each) for each in arguments], catch_exceptions=False)


def answer(*arguments):
    return json.loads(times(*arguments, "--json").stdout)


def arrival_s(folder, target, *, protocol=ARRIVAL, computation_s=0.0):
    return ACCURACY.reach(read_run(folder), target, protocol).time_s(computation_s)


@pytest.fixture
def runs(tmp_path):
    return write_grid(tmp_path / "runs", seeds=(1, 2, 3))


def test_seconds_are_means_over_seeds_and_ratios_geometric_ones_of_pairs(runs):
    said = answer(runs, "--targets", "0.5,0.8", "--computation-s", "2")
    rows = {row["configuration"]: row for row in said["rows"]}
    assert list(rows) == ["lyapunov m=1", "lyapunov m=10", "uniform m=1", "uniform m=10"]
    for place, target in enumerate((0.5, 0.8)):
        ours, theirs = (
            [arrival_s(runs / f"{kind}-m10-seed{n}", target, computation_s=2.0) for n in (1, 2, 3)]
            for kind in ("lyapunov", "uniform")
        )
        row = rows["lyapunov m=10"]
        assert row["seeds"] == [1, 2, 3] and row["against"] == "uniform m=10"
        assert row["seconds"][place] == pytest.approx(sum(ours) / 3)
        product = 1.0
        for mine, other in zip(ours, theirs, strict=True):
            product *= other / mine
        assert row["sooner"][place] == pytest.approx(product ** (1 / 3))
        assert row["sooner_low"][place] < row["sooner"][place] < row["sooner_high"][place]
    assert rows["uniform m=10"]["against"] is None
    assert rows["uniform m=10"]["sooner"] == [None, None]


def test_on_average_is_the_geometric_mean_over_targets(runs):
    row = next(
        row
        for row in answer(runs, "--targets", "0.3,0.5,0.8")["rows"]
        if row["configuration"] == "lyapunov m=10"
    )
    ratios = [
        [
            arrival_s(runs / f"uniform-m10-seed{n}", target)
            / arrival_s(runs / f"lyapunov-m10-seed{n}", target)
            for target in (0.3, 0.5, 0.8)
        ]
        for n in (1, 2, 3)
    ]
    expected = speedup(ratios, [[1.0] * 3] * 3)
    assert row["sooner_overall"]["ratio"] == pytest.approx(geometric_mean(row["sooner"]))
    assert row["sooner_overall"]["low"] == pytest.approx(expected.low)
    assert row["sooner_overall"]["high"] == pytest.approx(expected.high)
    assert "on average" in times(runs, "--targets", "0.3,0.8").stdout
    assert "on average" not in times(runs, "--targets", "0.8").stdout
    short_of_one = answer(runs, "--targets", "0.3,0.999")["rows"]
    assert [each["sooner_overall"] for each in short_of_one] == [None] * 4


def test_training_losses_are_reached_as_accuracies_are(runs):
    said = answer(runs, "--losses", "1.5,0.9")
    assert (said["measure"], said["targets"]) == ("training loss", [1.5, 0.9])
    row = next(row for row in said["rows"] if row["configuration"] == "lyapunov m=10")
    for place, loss in enumerate((1.5, 0.9)):
        ours, theirs = (
            [TRAINING_LOSS.reach(read_run(runs / f"{kind}-m10-seed{n}"), loss) for n in (1, 2, 3)]
            for kind in ("lyapunov", "uniform")
        )
        assert row["rounds"][place] == pytest.approx(sum(each.rounds for each in ours) / 3)
        ratio = speedup([each.airtime_s for each in theirs], [each.airtime_s for each in ours])
        assert row["sooner"][place] == pytest.approx(ratio.ratio)
    assert row["rounds"][0] < row["rounds"][1]
    printed = " ".join(times(runs, "--losses", "0.9").stdout.split())
    assert (
        "seconds and rounds to a training loss by the 200-round mean, computation 0 s a round"
        in printed
    )
    assert "times sooner to a training loss by the 200-round mean, computation" in printed


def test_a_row_for_each_run_is_compared_with_its_own_seed(runs):
    rows = answer(runs, "--targets", "0.8", "--by-seed", "--patience", "1")["rows"]
    assert len(rows) == 12
    for row in rows:
        kind, m = row["configuration"].split(" m=")
        folder = runs / f"{kind}-m{m}-seed{row['seeds'][0]}"
        mine = arrival_s(folder, 0.8, protocol=InARow(1))
        assert row["seconds"] == [pytest.approx(mine)]
        if kind == "lyapunov":
            other = folder.with_name(folder.name.replace("lyapunov", "uniform"))
            assert row["sooner"] == [
                pytest.approx(arrival_s(other, 0.8, protocol=InARow(1)) / mine)
            ]


def test_the_computation_time_is_the_runs_own_unless_it_is_named(tmp_path):
    folder = write_run(tmp_path / "a", manifest(uplink__computation_s=2.0), table())
    expected = arrival_s(folder, 0.5, computation_s=2.0)
    said = answer(tmp_path, "--targets", "0.5")
    assert said["computation_s"] == 2.0
    assert said["rows"][0]["seconds"] == [pytest.approx(expected)]
    write_run(tmp_path / "b", manifest(seed=2), table(seed=2))
    with pytest.raises(InputError, match=r"computation-s is missing: the runs have 0, 2 s a round"):
        times(tmp_path, "--targets", "0.5")
    assert answer(tmp_path, "--targets", "0.5", "--computation-s", 1)["rows"][0]["seeds"] == [1, 2]


def test_brackets_in_a_name_are_letters(tmp_path):
    write_run(tmp_path / "a", manifest(channel__kind="a[b]/[/b].csv"), table())
    write_run(tmp_path / "b", manifest(channel__kind="c.csv"), table())
    assert "a[b]/[/b].csv: seconds and rounds" in times(tmp_path, "--targets", "0.5").output


def test_all_can_be_compared_with_one(runs):
    rows = answer(runs, "--targets", "0.8", "--against", "uniform m=1")["rows"]
    assert [row["against"] for row in rows] == ["uniform m=1", "uniform m=1", None, "uniform m=1"]
    with pytest.raises(UnknownNameError, match=r"against: 'uniform m=7' is not known"):
        times(runs, "--targets", "0.8", "--against", "uniform m=7")


def test_other_surroundings_are_not_compared(tmp_path):
    for channel, airtime_s in (("heterogeneous", 0.1), ("homogeneous", 0.2)):
        about = manifest("uniform", 1, 1, channel__kind=channel)
        write_run(tmp_path / channel, about, table(airtime_s=airtime_s))
    write_run(tmp_path / "ours", manifest("lyapunov", 1, 1), table(airtime_s=0.05))
    said = " ".join(times(tmp_path, "--targets", "0.8").stdout.split())
    assert (
        "heterogeneous: seconds and rounds by the 200-round mean, computation 0 s a round" in said
    )
    assert " homogeneous: seconds and rounds" in said
    assert said.count("times sooner") == 1
    rows = answer(tmp_path, "--targets", "0.8", "--against", "uniform")["rows"]
    assert [row["against"] for row in rows if row["configuration"] == "uniform"] == [None, None]


def test_a_target_that_is_not_reached_by_every_seed_is_a_dash(runs):
    said = times(runs, "--targets", "0.8,0.999", "--markdown").stdout
    assert "| lyapunov m=10 | 1,2,3 |" in said
    row = next(line for line in said.splitlines() if line.startswith("| uniform m=10"))
    cells = [cell.strip() for cell in row.strip("|\n ").split("|")]
    assert re.fullmatch(r"[\d.,]+ s, \d+", cells[2])
    assert cells[3] == "-"


@pytest.mark.slow
def test_a_row_in_markdown_is_one_line_however_many_targets(runs):
    many = ",".join(f"0.{hundredths}" for hundredths in range(10, 60))
    said = times(runs, "--targets", many, "--markdown").stdout.splitlines()
    rows = [line for line in said if line.startswith("| lyapunov m=10")]
    assert [line.count("|") for line in rows] == [2 + 50 + 1, 3 + 50 + 1 + 1]


@pytest.mark.parametrize("wrong", ["", "0.8,", "80", "0", "high"])
def test_wrong_targets_are_refused_with_a_sentence(runs, wrong):
    with pytest.raises(InputError, match=r"targets must be test accuracies in \(0, 1\]"):
        times(runs, "--targets", wrong)


@pytest.mark.parametrize("wrong", ["", "1,", "0", "-1", "inf", "nan", "low"])
def test_wrong_losses_are_refused_with_a_sentence(runs, wrong):
    with pytest.raises(InputError, match=r"losses must be training losses above 0 .* got"):
        times(runs, "--losses", wrong)


def test_accuracies_or_losses_are_asked_for_and_not_both(runs):
    for words in ((), ("--targets", "0.8", "--losses", "1")):
        with pytest.raises(InputError, match="with --losses; one of the two"):
            times(runs, *words)


def test_other_mistakes_end_in_a_sentence(runs, tmp_path):
    both = times(runs, "--targets", "0.8", "--json", "--markdown")
    assert both.exit_code == 2 and "not as both" in both.output
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="there is no run that can be read in"):
        times(tmp_path / "empty", "--targets", "0.8")
    with pytest.raises(InputError, match="computation-s"):
        times(runs, "--targets", "0.8", "--computation-s", "-1")
    with pytest.raises(InputError, match="patience"):
        times(runs, "--targets", "0.8", "--patience", "0")


def test_a_mean_of_two_hundred_rounds_is_another_protocol(tmp_path):
    kinds = {("uniform", 1): (0.1, 1.0), ("lyapunov", 1): (0.09, 1.0)}
    write_grid(tmp_path, seeds=(1,), rounds=600, kinds=kinds)
    rows = answer(tmp_path, "--targets", "0.9", "--protocol", "both")["rows"]
    assert [row["protocol"] for row in rows] == ["mean", "mean", "row", "row"]
    for row in rows:
        log = read_run(tmp_path / f"{row['configuration']}-m1-seed1")
        assert row["rounds"] == [ACCURACY.reach(log, 0.9, PROTOCOLS[row["protocol"]]).rounds]
    assert rows == [
        row
        for name in ("mean", "row")
        for row in answer(tmp_path, "--targets", "0.9", "--protocol", name)["rows"]
    ]
    assert rows[:2] == answer(tmp_path, "--targets", "0.9")["rows"]
    shown = times(tmp_path, "--targets", "0.9", "--protocol", "both", "--markdown").output
    assert "seconds and rounds by the 200-round mean, computation" in shown
    assert "seconds and rounds by 3 measurements in a row, computation" in shown
    thinned = answer(tmp_path, "--targets", "0.9", "--every", "40")["rows"]
    for row in thinned:
        log = read_run(tmp_path / f"{row['configuration']}-m1-seed1")
        assert row["rounds"] == [ACCURACY.reach(log, 0.9, RunningMean(every=40)).rounds]
    assert [row["rounds"] for row in thinned] != [row["rounds"] for row in rows[:2]]


def test_best_against_best_is_each_policy_with_what_suits_it(tmp_path):
    """With m = 1 rounds are cheap and many: first without computation, last with much of it."""
    kinds = {
        ("uniform", 1): (0.1, 0.6), ("uniform", 10): (1.0, 1.0),
        ("lyapunov", 1): (0.09, 0.6), ("lyapunov", 10): (0.2, 1.0),
    }  # fmt: skip
    write_grid(tmp_path, seeds=(1, 2), rounds=200, kinds=kinds)
    asked = ("--targets", "0.5,0.7", "--best", "0,10")
    rows = answer(tmp_path, *asked)["rows"]
    found = {(row["computation_s"], row["configuration"].split()[0]): row for row in rows}
    assert [row["configuration"].split()[1] for row in rows] == ["m=1", "m=1", "m=10", "m=10"]
    for (computation_s, kind), row in found.items():
        draws = row["configuration"].split("=")[1]
        by_seed = [
            [
                arrival_s(
                    tmp_path / f"{each}-m{draws}-seed{seed}", 0.7, computation_s=computation_s
                )
                for each in ("uniform", kind)
            ]
            for seed in (1, 2)
        ]
        assert row["seconds"][1] == pytest.approx(sum(ours for _, ours in by_seed) / 2)
        if kind == "uniform":
            assert row["sooner"] == [None, None] and row["sooner_overall"] is None
        else:
            ratio = geometric_mean(theirs / ours for theirs, ours in by_seed)
            assert row["sooner"][1]["ratio"] == pytest.approx(ratio)
    shown = times(tmp_path, *asked, "--markdown").output
    assert "**best against best by the 200-round mean**" in shown
    assert "| 10 s | uniform m=10 | 1,2 |" in shown
    # What has fewer seeds, or does not reach a target, takes no part.
    for folder in tmp_path.glob("lyapunov-m1-seed2"):
        (folder / "manifest.json").unlink()
    left = answer(tmp_path, *asked)["rows"]
    assert [row["configuration"] for row in left if "lyapunov" in row["configuration"]] == (
        ["lyapunov m=10"] * 2
    )
    assert answer(tmp_path, "--targets", "2e-9,0.99999", "--best", "0")["rows"] == []
    with pytest.raises(InputError, match="best must be computation times"):
        times(tmp_path, "--targets", "0.5", "--best", "0,never")


def test_a_schedule_for_another_time_takes_no_place_however_many_seeds_it_has(tmp_path):
    write_grid(tmp_path, seeds=(1, 2), rounds=200, kinds={("uniform", 1): (0.1, 1.0)})
    for made_for_s, seeds in ((0.0, (1, 2)), (0.5, (1,))):
        for seed in seeds:
            about = manifest("auto", 10, seed, uplink__computation_s=made_for_s)
            rows = table(rounds=200, seed=seed, airtime_s=0.05)
            write_run(tmp_path / f"auto-{made_for_s}-{seed}", about, rows)
    rows = answer(tmp_path, "--targets", "0.7", "--best", "0,0.5,10")["rows"]
    assert [(row["computation_s"], row["configuration"], row["seeds"]) for row in rows] == [
        (0.0, "auto m=10 c=0", [1, 2]), (0.0, "uniform m=1", [1, 2]),
        (0.5, "auto m=10 c=0.5", [1]), (0.5, "uniform m=1", [1, 2]),
        (10.0, "uniform m=1", [1, 2]),
    ]  # fmt: skip


def test_uploads_are_shown_where_they_differ(tmp_path):
    """The mean over uploads, and omega over the rounds that have it; an early log has neither."""
    plain, packed = table(), table(seed=2)
    rounds = plain.num_rows
    sizes = [len(each) for each in packed["device"].to_pylist()]
    bits = [[1e6] * n if t % 2 else [3e6] * n for t, n in enumerate(sizes)]
    omega = [0.25] * (rounds - 1) + [float("nan")]
    packed = packed.append_column("bits", pa.array(bits)).append_column("omega", pa.array(omega))
    write_run(tmp_path / "none", manifest("uniform") | {"update_bits": 8e6}, plain)
    write_run(tmp_path / "4", manifest("uniform", data__name="other"), packed)
    rows = answer(tmp_path, "--targets", "0.5")["rows"]
    found = {row["environment"]: (row["upload_bits"], row["omega"]) for row in rows}
    sent = [each for row in bits for each in row]
    assert found["digits"] == (8e6, None)
    assert found["other"] == (pytest.approx(sum(sent) / len(sent)), 0.25)
    shown = times(tmp_path, "--targets", "0.5").stdout
    assert shown.count("Mbit an upload") == 1  # of two tables
    assert "0.25" in shown
    assert "Mbit" not in times(tmp_path / "none", "--targets", "0.5").stdout


def test_measured_rounds_have_their_seconds_on_the_wall(tmp_path):
    for seed in (1, 2):
        rows = table(seed=seed).append_column("wall_s", pa.array([1.5 * seed] * 60))
        write_run(tmp_path / "runs" / str(seed), manifest(seed=seed), rows)
    (row,) = answer(tmp_path / "runs", "--targets", "0.8")["rows"]
    rounds = [ACCURACY.reach(read_run(tmp_path / "runs" / n), 0.8).rounds for n in "12"]
    assert row["wall_s"] == [pytest.approx((1.5 * rounds[0] + 3.0 * rounds[1]) / 2)]
    said = times(tmp_path / "runs", "--targets", "0.8").stdout
    assert "seconds on the wall" in said and f"{row['wall_s'][0]:.1f} s" in said.replace(",", "")


def test_simulated_rounds_have_no_table_of_the_wall(runs):
    assert "on the wall" not in times(runs, "--targets", "0.8").stdout
    assert answer(runs, "--targets", "0.8")["rows"][0]["wall_s"] == [None]


@pytest.mark.parametrize(
    ("more", "name"),
    [
        (["--computation-s", "3"], "--computation-s"),
        (["--by-seed"], "--by-seed"),
        (["--against", "uniform m=1"], "--against"),
    ],
)
def test_what_best_has_no_use_for_is_refused(runs, more, name):
    done = times(runs, "--targets", "0.5", "--best", "0", *more)
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"{name} does not go with --best: " in " ".join(done.stderr.split())


def test_a_policy_without_a_run_for_a_time_is_named(tmp_path):
    about = manifest("auto", uplink__computation_s=0.1)
    write_run(tmp_path / "auto", about, table())
    write_run(tmp_path / "uniform", manifest("uniform", uplink__computation_s=0.1), table())
    said = "auto plans with the computation time, and no run of it was made for about "
    best = times(tmp_path, "--targets", "0.5", "--best", "0,0.1,0.2,10")
    assert best.stderr == f"{said}0 or 10 s, only for 0.1 s; it takes no part there\n"
    plain = times(tmp_path, "--targets", "0.5", "--computation-s", "3")
    assert plain.stderr == f"{said}3 s, only for 0.1 s; its rows are those of other schedules\n"
    assert times(tmp_path, "--targets", "0.5").stderr == ""
