import json
import math
import os
import re
import subprocess
import sys
from statistics import fmean

import numpy as np
import pytest
from tests.runs.report_runs import manifest, run_log, table, write_grid, write_run

from fedsched.analysis.arrival import InARow, Reach, RunningMean
from fedsched.analysis.collect import Collection, LeftOut, collect_runs, good_run
from fedsched.analysis.curves import training_loss
from fedsched.analysis.groups import group_runs, mean_reach, summary_rows
from fedsched.cli.asked import own_computation_s
from fedsched.errors import InputError, RunLogError
from fedsched.views.report import report_page, report_payload, write_report

HOSTILE = "</script><script>window.hacked=1</script><img src=x onerror=alert(1)> & \u2028 \ud800"


def data_of(page):
    """The data a page carries, as the browser would read them."""
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)

    def refuse(name):
        raise AssertionError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)


def answer(run, target):
    """What the browser answers: the first step at or above the target."""
    rounds, airtime_s, value, _ = run["steps"]
    for place, each in enumerate(value):
        if each >= target:
            return Reach(airtime_s=airtime_s[place], rounds=rounds[place])
    return None


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    return write_grid(tmp_path_factory.mktemp("grid"))


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [InARow(1), InARow(3), RunningMean(20)])
def test_the_numbers_in_the_page_answer_for_any_target_as_the_analysis_does(grid, protocol):
    found = collect_runs([grid])
    payload = report_payload(found, protocol=protocol)
    groups = {group.label: group for group in group_runs(run.log for run in found.runs)}
    reached = 0
    for part in payload["groups"]:
        for target in np.linspace(0.05, 1.0, 96):
            answers = [answer(run, target) for run in part["runs"]]
            expected = mean_reach(groups[part["label"]], target, protocol)
            if None in answers:
                assert expected is None
                continue
            reached += 1
            assert fmean(each.airtime_s for each in answers) == expected.airtime_s
            assert fmean(each.rounds for each in answers) == expected.rounds
    assert reached > 200


def test_constants_and_pairs_are_those_of_the_summary(grid):
    found = collect_runs([grid])
    payload = report_payload(found, target=0.8)
    parts = {part["label"]: part for part in payload["groups"]}
    assert list(parts) == ["lyapunov m=1", "lyapunov m=10", "uniform m=1", "uniform m=10"]
    for row in summary_rows(group_runs(run.log for run in found.runs), 0.8):
        part = parts[row["configuration"]]
        for key in (
            "airtime_s_per_round",
            "devices_per_round",
            "best_accuracy",
            "upload_bits",
            "omega",
            "budgets",
        ):
            assert part[key] == row[key]
        assert (part["baseline"] is None) == (row["speedup"] is None)
    others = list(parts.values())
    assert others[parts["lyapunov m=10"]["baseline"]]["label"] == "uniform m=10"
    assert others[parts["lyapunov m=1"]["baseline"]]["label"] == "uniform m=1"


def test_five_comes_before_ten_and_colours_follow(tmp_path):
    for draws in (1, 5, 10):
        write_run(tmp_path / str(draws), manifest("uniform", draws), table())
    labels = [part["label"] for part in report_payload(collect_runs([tmp_path]))["groups"]]
    assert labels == ["uniform m=1", "uniform m=5", "uniform m=10"]


def test_the_page_opens_at_the_computation_time_that_times_takes(tmp_path):
    for seed, kind in enumerate(("uniform", "lyapunov"), 1):
        about = manifest(kind, seed=seed, uplink__computation_s=0.5)
        write_run(tmp_path / kind, about, table(seed=seed))
    found = collect_runs([tmp_path])
    own_s = own_computation_s([run.log for run in found.runs])
    assert report_payload(found)["computation_s"] == own_s == 0.5
    # As `times --slower 2` does.
    assert report_payload(found, slower=2.0)["computation_s"] == 1.0
    # Where times differ, `times` asks for one; the page opens at what most have.
    write_run(tmp_path / "third", manifest("pow-d", uplink__computation_s=0.1), table(seed=3))
    found = collect_runs([tmp_path])
    payload = report_payload(found)
    assert (payload["computation_s"], payload["scenario_times_s"]) == (0.5, [0.1, 0.5])


def test_power_selection_and_sizes_are_means_over_seeds(tmp_path):
    for seed in (1, 2):
        write_run(tmp_path / str(seed), manifest(seed=seed), table(seed=seed))
    found = collect_runs([tmp_path])
    (part,) = report_payload(found)["groups"]
    logs = [run.log for run in found.runs]
    power = np.mean([np.array(log.lists("group_power_w")).mean(axis=0) for log in logs], axis=0)
    assert [each[-1] for each in part["power"]["mean_w"]] == pytest.approx(power, rel=1e-5)
    assert part["power"]["mean_w"][0][0] > 30.0 and part["power"]["rounds"][-1] == 60
    assert part["power"]["names"][0] == "devices 0 to 1" and part["budget_w"] == 1.0
    chosen = [device for log in logs for row in log.lists("device") for device in row]
    share = np.bincount(chosen, minlength=20) / 120
    assert part["selection"]["share"] == pytest.approx(share, rel=1e-5)
    assert part["selection"]["device"] == list(range(20))
    sizes = [len(row) for log in logs for row in log.lists("device")]
    assert part["sizes"] == pytest.approx(np.bincount(sizes) / 120, rel=1e-5)


def test_many_devices_are_shown_in_bins_that_keep_the_mean(tmp_path):
    rows = table(devices=1000, rounds=200)
    write_run(tmp_path / "a", manifest(channel__devices=1000), rows)
    selection = report_payload(collect_runs([tmp_path]))["groups"][0]["selection"]
    assert len(selection["share"]) == 400
    uploads = rows["device"].combine_chunks().value_lengths().to_numpy().sum()
    # 200 bins of three devices come first, then 200 of two.
    assert selection["device"][:2] == [1.0, 4.0] and selection["device"][-1] == 998.5
    total = 3 * sum(selection["share"][:200]) + 2 * sum(selection["share"][200:])
    assert total == pytest.approx(uploads / 200, rel=1e-5)


def test_the_page_opens_at_a_target_that_every_configuration_reaches(grid):
    found = collect_runs([grid])
    target = report_payload(found)["target"]
    groups = group_runs(run.log for run in found.runs)
    assert round(100 * target) == pytest.approx(100 * target)
    assert all(mean_reach(group, target) for group in groups)
    assert not all(mean_reach(group, target + 0.01) for group in groups)
    assert report_payload(found, target=0.5)["target"] == 0.5


def test_a_configuration_that_learns_nothing_does_not_drag_the_target_down(tmp_path):
    write_run(tmp_path / "good", manifest(), table())
    write_run(tmp_path / "bad", manifest("uniform"), table(speed=0.01))
    assert report_payload(collect_runs([tmp_path]))["target"] > 0.7


@pytest.mark.parametrize("target", [0.0, 1.5, -1.0, math.nan])
def test_a_target_that_is_no_accuracy_is_refused(grid, target):
    with pytest.raises(InputError, match=r"target must lie in \(0, 1\], got"):
        report_payload(collect_runs([grid]), target=target)


def test_without_a_good_run_the_reasons_are_named(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunLogError, match=r"no run to report.*\n.*no run in this folder"):
        write_report([tmp_path], tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_the_same_logs_give_the_same_bytes_wherever_they_lie_and_however_named(grid, tmp_path):
    first = write_report([grid], tmp_path / "a.html")
    again = write_report(sorted(grid.iterdir(), reverse=True), tmp_path / "b.html")
    moved = tmp_path / "elsewhere" / "deep"
    moved.mkdir(parents=True)
    write_grid(moved / "grid")
    write_report([moved], tmp_path / "c.html")
    pages = [(tmp_path / name).read_bytes() for name in ("a.html", "b.html", "c.html")]
    assert pages[0] == pages[1] == pages[2]
    assert (first.runs, first.configurations, first.left_out) == (12, 4, ())
    assert again.runs == 12 and str(grid).encode() not in pages[0]


@pytest.mark.slow
def test_the_bytes_do_not_depend_on_the_hash_seed(grid, tmp_path):
    code = (
        "import sys; from fedsched.views.report import write_report;"
        "write_report([sys.argv[1]], sys.argv[2])"
    )
    pages = []
    for seed in ("1", "2"):
        path = tmp_path / f"{seed}.html"
        command = [sys.executable, "-c", code, str(grid), str(path)]
        subprocess.run(
            command, check=True, env={**os.environ, "PYTHONHASHSEED": seed, "OMP_NUM_THREADS": "1"}
        )
        pages.append(path.read_bytes())
    assert pages[0] == pages[1]


def test_text_from_scenarios_titles_and_folders_cannot_leave_its_place():
    run = good_run(HOSTILE, run_log(manifest(HOSTILE, data__name=HOSTILE), table()))
    left_out = (LeftOut(name=HOSTILE, reason=HOSTILE),)
    payload = report_payload(Collection(runs=(run,), left_out=left_out), title=HOSTILE)
    page = report_page(payload).decode()
    assert page.count("<script") == 2 and page.count("</script") == 2
    assert "<img" not in page and "onerror=alert" in page
    data = data_of(page)
    assert data["groups"][0]["fields"]["data.name"] == HOSTILE
    assert data["groups"][0]["label"] == HOSTILE
    assert data["left_out"] == [{"name": HOSTILE, "reason": HOSTILE}]


def test_the_page_has_the_training_loss_of_every_run(grid):
    found = collect_runs([grid])
    drawn = report_payload(found)["groups"][0]["runs"][0]["training"]["each"]
    curve = training_loss(found.runs[0].log)
    np.testing.assert_allclose(drawn[0], curve.rounds)
    np.testing.assert_allclose(drawn[2], curve.value, rtol=1e-3)


def test_numbers_that_json_lacks_are_written_as_text():
    odd = {"policy__v": math.inf, "data__alpha": math.nan, "uplink__budget_w": math.inf}
    loss = table().set_column(3, "test_loss", [[math.inf] * 30 + [1.0] * 30])
    run = good_run("a", run_log(manifest(**odd), loss))
    data = data_of(report_page(report_payload(Collection(runs=(run,), left_out=()))).decode())
    (group,) = data["groups"]
    assert (group["fields"]["policy.v"], group["fields"]["data.alpha"]) == ("inf", "nan")
    assert group["budget_w"] is None
    assert len(group["runs"][0]["loss"]["each"][2]) == 30


def test_the_page_loads_nothing_and_allows_its_own_script_alone(grid):
    page = report_page(report_payload(collect_runs([grid]))).decode()
    assert re.findall(r'(?:src|href)="([^"]*)"', page) == ["data:,"]
    assert re.findall(r"https?://[^\s\"']+", page) == ["http://www.w3.org/2000/svg"]
    assert "default-src 'none'" in page and "{{" not in page
    assert '<html lang="en">' in page and "<title>Time to accuracy</title>" in page


@pytest.mark.slow
def test_thirty_runs_of_twenty_thousand_rounds_stay_small_with_every_round_measured():
    tables = [table(rounds=20_000, seed=seed, devices=100) for seed in (1, 2, 3)]
    runs = [
        good_run(f"{draws}-{seed}", run_log(manifest("lyapunov", draws, seed), rows))
        for draws in range(1, 11)
        for seed, rows in enumerate(tables)
    ]
    page = report_page(report_payload(Collection(runs=runs, left_out=())))
    assert 0.5e6 < len(page) < 6e6
