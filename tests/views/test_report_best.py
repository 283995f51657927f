"""Best against best: the page in a real browser and ``fedsched times --best`` have one rule."""

import json

import pytest
from click.testing import CliRunner
from tests.runs.report_runs import manifest, table, write_run
from tests.views.browser import needs_browser

from fedsched.cli.times import command as times
from fedsched.views.report import write_report

pytestmark = needs_browser

TARGET = 0.8
GRID_S = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 2.1, 10.0, 40.0)
# Policy, draws, made for, channel, compression: airtime of a round, speed of learning, seeds.
CASES = {
    ("uniform", 1, 0.5, "heterogeneous", "none"): (0.1, 0.9, (1, 2, 3)),
    ("uniform", 10, 0.5, "heterogeneous", "none"): (0.9, 1.6, (1, 2, 3)),
    ("lyapunov", 1, 0.5, "heterogeneous", "none"): (0.09, 0.9, (1, 2, 3)),
    ("lyapunov", 10, 0.5, "heterogeneous", "none"): (0.01, 2.0, (1,)),  # by one seed
    ("auto", 10, 0.0, "heterogeneous", "none"): (0.02, 0.8, (1, 2, 3)),
    ("auto", 10, 0.1, "heterogeneous", "none"): (0.04, 1.0, (1, 2)),
    ("auto", 10, 0.15, "heterogeneous", "none"): (0.05, 1.2, (1,)),
    ("auto", 10, 1.0, "heterogeneous", "none"): (0.3, 1.2, (1, 2)),
    ("auto", 10, 0.5, "heterogeneous", "auto"): (0.02, 1.1, (1,)),
    ("uniform", 1, 0.5, "homogeneous", "none"): (0.1, 1.0, (1,)),
    ("auto", 10, 0.0, "homogeneous", "none"): (0.05, 1.0, (1,)),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    for place, ((kind, draws, made_for_s, channel, sent), (airtime_s, speed, seeds)) in enumerate(
        CASES.items()
    ):
        for seed in seeds:
            about = manifest(
                kind, draws, seed, channel__kind=channel, uplink__computation_s=made_for_s
            )
            about["scenario"]["training"] = {"compress": sent}
            rows = table(rounds=100, seed=seed, airtime_s=airtime_s, speed=speed)
            write_run(root / f"{place}-{seed}", about, rows)
    return root


@pytest.fixture(scope="module")
def url(runs, tmp_path_factory):
    page = tmp_path_factory.mktemp("page") / "report.html"
    return write_report([runs], page, target=TARGET).path.as_uri()


def judged(runs, *more):
    """What ``times`` says: its rows by environment and computation time, and its notes."""
    asked = [str(runs), "--targets", str(TARGET), *more, "--json"]
    done = CliRunner().invoke(times, asked, catch_exceptions=False)
    return json.loads(done.stdout)["rows"], done.stderr


PAGE = """
const data = JSON.parse(document.getElementById("data").textContent);
const nameOf = (k) => data.groups[Number(k)].choice;
const seconds = (name) => [...document.querySelectorAll("#configurations tbody tr")]
  .find((row) => data.groups.find((each) => each.label === row.dataset.label).choice === name)
  .querySelector("[data-key=seconds_to_target]").dataset.value;
const rows = [...document.querySelectorAll("#rivals tbody tr")].map((row) => row.cells[1])
  .filter((cell) => cell.dataset.row !== undefined);
const base = rows.length ? nameOf(rows[0].dataset.base) : null;
return {
  found: Object.fromEntries([...rows.map((cell) => [nameOf(cell.dataset.row),
    [Number(seconds(nameOf(cell.dataset.row))), Number(cell.dataset.value)]]),
    ...(base === null ? [] : [[base, [Number(seconds(base)), null]]])]),
  first: document.querySelector("#configurations tr.first")?.dataset.label ?? null,
  now: document.querySelector("#ranges tr.now")?.dataset.label ?? null,
  said: document.getElementById("remarks").textContent,
  empty: [...document.querySelectorAll("#rivals td.never")].map((cell) => cell.textContent),
  drawn: [...document.querySelectorAll("#accuracy [data-series]")].map((e) => e.dataset.series),
};
"""


def test_the_page_and_times_name_the_same_best_at_every_computation_time(browser, runs, url):
    rows, notes = judged(runs, "--best", ",".join(map(str, GRID_S)))
    browser.open(url)
    names = browser.run(
        "return JSON.parse(document.getElementById('data').textContent)"
        ".environments.map((each) => each.name)"
    )
    assert len(names) == 2
    for place, name in enumerate(names):
        for c in GRID_S:
            browser.run(
                "location.hash = arguments[0]", f"#c={c}&target={TARGET}&environment={place}"
            )
            browser.settle()
            shown = browser.run(PAGE)
            here = [each for each in rows if (each["environment"], each["computation_s"]) ==
                    (name, c)]  # fmt: skip
            first = min(here, key=lambda each: each["seconds"][0])
            label = f"{first['configuration']} {name}"
            assert (shown["first"], shown["now"]) == (label, label), (name, c)
            if len(here) == 1:  # nobody is compared with uniform
                continue
            assert shown["found"] == {
                each["configuration"]: [
                    pytest.approx(each["seconds"][0], rel=1e-9),
                    each["sooner"][0] and pytest.approx(each["sooner"][0]["ratio"], rel=1e-9),
                ]
                for each in here
            }, (name, c)
    assert (
        "heterogeneous: auto compress=none plans with the computation time, and no run of it was "
        "made for about 0.02, 2.1, 10 or 40 s, only for 0, 0.1, 0.15 and 1 s; it takes no part "
        "there\n"
    ) in notes
    assert notes.count("auto compress=auto plans with") == 1


def test_the_page_says_which_policy_has_no_run_for_such_a_time(browser, url):
    browser.open(f"{url}#c=10&target={TARGET}&environment=0")
    shown = browser.run(PAGE)
    said = (
        "plans with the computation time; there is no run of it made for about 10 s, the nearest "
        "was made for"
    )
    assert f"auto compress=none {said} 1 s." in shown["said"]
    assert f"auto compress=auto {said} 0.5 s." in shown["said"]
    assert "none made for about 10\u202fs" in shown["empty"]
    assert not any(name.startswith("auto") for name in shown["drawn"])
    label = "return document.querySelector('#configurations tr[data-label^=auto] th').textContent"
    assert "made for 0\u202fs" in browser.run(label)
    assert browser.run("return document.getElementById('elsewhere').checkVisibility()")
    browser.open(f"{url}#c=0.5&target={TARGET}&environment=0")
    shown = browser.run(PAGE)
    assert shown["said"] == ""
    assert [name for name in shown["drawn"] if name.startswith("auto")] == [
        "auto m=10 c=0.5 compress=auto", "auto m=10 c=1 compress=none",
    ]  # fmt: skip


RANGES = """
return [...document.querySelectorAll("#ranges tbody tr")].map((row) =>
  [row.dataset.label, Number(row.cells[0].dataset.value), row.cells[1].dataset.value ?? null]);
"""


def test_a_schedule_is_the_best_only_around_the_time_it_was_made_for(browser, tmp_path):
    write_run(tmp_path / "uniform", manifest("uniform", 1), table(airtime_s=0.1))
    for made_for_s in (0.0, 0.4, 1.0):
        about = manifest("auto", 10, uplink__computation_s=made_for_s)
        write_run(tmp_path / f"auto{made_for_s}", about, table(airtime_s=0.01, speed=1.5))
    url = write_report([tmp_path], tmp_path / "report.html", target=TARGET).path.as_uri()
    browser.open(url)
    auto = "auto m=10 c="
    segments = [[each[0], each[1], each[2] and float(each[2])] for each in browser.run(RANGES)]
    # From 0.5 to 0.8 s two schedules suit, which are equally good here.
    (head, tail) = segments[:3], segments[-2:]
    assert head == [[f"{auto}0", 0.0, 0.0], ["uniform m=1", 0.0, 0.2], [f"{auto}0.4", 0.2, 0.8]]
    assert tail == [[f"{auto}1", 0.8, 2.0], ["uniform m=1", 2.0, None]]
    # Its line ends where it is no longer meant.
    browser.run("document.getElementById('times').focus()")
    lines = browser.run("""
      return [...document.querySelectorAll("#times [data-series]")]
        .map((line) => [line.dataset.series, line.getBBox().x, line.getBBox().width]);""")
    width = {name: wide for name, _, wide in lines}
    assert width[f"{auto}0"] == 0.0 < width[f"{auto}1"] < 0.5 * width["uniform m=1"]


@pytest.mark.parametrize(
    ("computations_s", "opening_s"), [((0.5, 0.5), 0.5), ((0.5, 2.0, 2.0), 2.0), ((3.0, 1.0), 1.0)]
)
def test_the_page_opens_at_the_computation_time_of_the_runs(
    browser, tmp_path, computations_s, opening_s
):
    for seed, computation_s in enumerate(computations_s, 1):
        about = manifest("uniform", 1, seed, uplink__computation_s=computation_s)
        write_run(tmp_path / str(seed), about, table(seed=seed))
    url = write_report([tmp_path], tmp_path / "report.html").path.as_uri()
    value = "return Number(document.getElementById('computation-value').value)"
    browser.open(url)
    assert browser.run(value) == opening_s
    method = browser.run("return document.getElementById('method').textContent")
    assert ("the page opens with what most have" in method) == (len(set(computations_s)) > 1)
    browser.open(f"{url}#c=7")
    assert browser.run(value) == 7.0


def test_a_target_that_nothing_reaches_is_named_on_the_page(browser, tmp_path):
    write_run(tmp_path / "a", manifest(), table())
    url = write_report([tmp_path], tmp_path / "report.html", target=0.999).path.as_uri()
    browser.open(url)
    said = "return document.getElementById('remarks').textContent"
    assert browser.run(said).startswith("No configuration reaches 0.999, the target asked for,")
    browser.open(f"{url}#target=0.5")
    assert browser.run(said) == ""
