"""The report in a real browser: its sliders are moved, and its numbers are the analysis's."""

import itertools
import math
import re

import pytest
from tests.runs.report_runs import KINDS, manifest, table, write_grid, write_run
from tests.views.browser import needs_browser

from fedsched.analysis.collect import collect_runs
from fedsched.analysis.envelope import lower_envelope
from fedsched.analysis.groups import group_runs, mean_reach, summary_rows
from fedsched.views.report import write_report

pytestmark = needs_browser


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    write_grid(root)
    (root / "broken").mkdir()
    (root / "broken" / "manifest.json").write_text("{}")
    groups = group_runs(run.log for run in collect_runs([root]).runs)
    report = write_report([root], root / "report.html", target=0.9)
    return report.path.as_uri(), groups


ROWS = """
return [...document.querySelectorAll("#configurations tbody tr")].map((row) => ({
  label: row.dataset.label,
  cells: Object.fromEntries([...row.querySelectorAll("td")].map(
    (cell) => [cell.dataset.key, {value: cell.dataset.value ?? null, text: cell.textContent}])),
  interval: row.querySelector("small") && {...row.querySelector("small").dataset},
}));
"""
RANGES = """
return [...document.querySelectorAll("#ranges tbody tr[data-label]")].map((row) => ({
  label: row.dataset.label,
  begin: row.children[0].dataset.value, end: row.children[1].dataset.value ?? null,
  now: row.classList.contains("now"),
}));
"""


def number_shown(text):
    return text.replace("\u202f", "").strip()


def settings(browser):
    """Computation time and target as the page shows them."""
    value = "return document.getElementById(arguments[0]).value"
    return tuple(float(browser.run(value, f"{name}-value")) for name in ("computation", "target"))


def check_numbers(browser, groups, *, hidden=()):
    """Everything in the tables is what the analysis gives for the settings shown."""
    c, target = settings(browser)
    rows = {row["label"]: row for row in browser.run(ROWS)}
    expected = summary_rows(groups, target, computation_s=c)
    assert rows.keys() == {row["configuration"] for row in expected}
    for row in expected:
        cells, label = rows[row["configuration"]]["cells"], row["configuration"]
        for key in ("seconds_to_target", "rounds_to_target", "speedup", "airtime_s_per_round",
                    "devices_per_round", "best_accuracy", "seeds"):  # fmt: skip
            shown = cells[key]["value"]
            if row[key] is None:
                assert shown is None, (label, key)
            else:
                assert float(shown) == pytest.approx(row[key], rel=1e-12), (label, key)
        text = {key: number_shown(cell["text"]) for key, cell in cells.items()}
        if row["seconds_to_target"] is None:
            assert re.fullmatch(r"not reached|\d of \d seeds", text["seconds_to_target"])
        else:
            seconds = row["seconds_to_target"]
            digits = 2 if seconds < 10 else 1 if seconds < 1000 else 0
            assert text["seconds_to_target"] == f"{seconds:.{digits}f}"
        if row["speedup"] is not None:
            interval = rows[label]["interval"]
            assert float(interval["low"]) == pytest.approx(row["speedup_low"], rel=1e-9)
            assert float(interval["high"]) == pytest.approx(row["speedup_high"], rel=1e-9)
            digits = 2 if row["speedup"] < 10 else 1 if row["speedup"] < 100 else 0
            assert text["speedup"].split()[0] == f"{row['speedup']:.{digits}f}"
        assert text["best_accuracy"] == f"{row['best_accuracy']:.4f}"
    lines = {
        group.label: line for group in groups
        if group.label not in hidden and (line := mean_reach(group, target))
    }  # fmt: skip
    ranges = browser.run(RANGES)
    segments = lower_envelope(lines)
    assert [each["label"] for each in ranges] == [each.name for each in segments]
    for each, segment in zip(ranges, segments, strict=True):
        assert float(each["begin"]) == pytest.approx(segment.begin_s, rel=1e-9, abs=1e-12)
        end = math.inf if each["end"] is None else float(each["end"])
        assert end == pytest.approx(segment.end_s, rel=1e-9)
        assert each["now"] == (segment.begin_s <= c < segment.end_s)
    return expected, segments


def test_a_link_opens_the_page_at_its_settings_with_the_numbers_of_the_analysis(browser, grid):
    url, groups = grid
    browser.open(url)
    assert settings(browser) == (0.0, 0.9)
    rows, _ = check_numbers(browser, groups)
    best = min(rows, key=lambda row: row["seconds_to_target"])
    headline = browser.run("return document.getElementById('headline').textContent")
    headline = headline.replace("\u202f", "")
    assert headline.startswith(f"lyapunov m=1 reaches 0.9 in {best['seconds_to_target']:.2f} s")
    assert f", the best uniform, uniform m=1, in {rows[2]['seconds_to_target']:.2f} s" in headline
    assert headline.endswith(f": {best['speedup']:.2f} times sooner.")
    for c, target in ((2, 0.85), (0.37, 0.5), (250, 0.93)):
        browser.open(f"{url}#c={c}&target={target}")
        assert settings(browser) == (c, target)
        check_numbers(browser, groups)


def test_moving_the_sliders_recomputes_every_number(browser, grid):
    url, groups = grid
    browser.open(url)
    seen, segments = set(), []
    moves = [
        lambda: browser.keys("#computation", "End"),
        lambda: browser.keys("#computation", "Home", *["Right"] * 7),
        lambda: browser.drag("#computation", 0.05, 0.3, 0.55),
        lambda: browser.keys("#target", *["Left"] * 25),
        lambda: browser.drag("#target", 0.9, 0.6),
        lambda: browser.drag("#computation", 0.5, 0.2),
        lambda: browser.keys("#target", "End"),
    ]
    for move in moves:
        move()
        seen.add(settings(browser))
        segments.append(len(check_numbers(browser, groups)[1]))
    assert len(seen) == len(moves)
    assert max(segments) >= 2 and min(segments) == 0  # a change of hands, and nobody at the end
    assert max(c for c, _ in seen) == 30.0


def test_typed_settings_are_taken_exactly_and_stay_in_the_link(browser, grid):
    url, groups = grid
    browser.open(url)
    browser.run("document.getElementById('computation-value').select()")
    browser.keys("#computation-value", "1.2345")
    browser.run("document.getElementById('target-value').select()")
    browser.keys("#target-value", "0.8125")
    assert settings(browser) == (1.2345, 0.8125)
    check_numbers(browser, groups)
    wait = "setTimeout(() => arguments[0](location.hash), 400)"
    link = browser.call("POST", "/execute/async", {"script": wait, "args": []})
    assert link == "#c=1.2345&target=0.8125"


LINES = """
return [...document.querySelectorAll("#accuracy [data-series]")].map((line) => line.dataset.series);
"""


def test_a_series_is_hidden_from_pictures_and_comparison_by_mouse_and_keyboard(browser, grid):
    url, groups = grid
    browser.open(f"{url}#c=0&target=0.85")
    assert browser.run(LINES) == ["lyapunov m=1", "lyapunov m=10", "uniform m=1", "uniform m=10"]
    browser.click("#legend button[data-index='0']")
    assert browser.run(LINES) == ["lyapunov m=10", "uniform m=1", "uniform m=10"]
    assert browser.run("return document.querySelector('#legend button').ariaPressed") == "false"
    check_numbers(browser, groups, hidden={"lyapunov m=1"})
    browser.keys("#configurations button[data-index='2']", " ")
    assert browser.run(LINES) == ["lyapunov m=10", "uniform m=10"]
    check_numbers(browser, groups, hidden={"lyapunov m=1", "uniform m=1"})
    assert browser.run("return document.activeElement.dataset.index") == "2"
    browser.click("#quick button:nth-child(3)")
    assert browser.run(LINES) == ["uniform m=1", "uniform m=10"]
    browser.click("#quick button:first-child")
    assert len(browser.run(LINES)) == 4
    for place in range(4):
        browser.click(f"#legend button[data-index='{place}']")
    assert browser.run(LINES) == []
    empty = browser.run("return document.querySelectorAll('.empty').length")
    assert empty == 5  # all but the power, which has its own choice


def test_hover_and_arrow_keys_show_values(browser, grid):
    url, _ = grid
    browser.open(url)
    rows = "return [...document.querySelectorAll('.tip div')].map((row) => row.textContent)"
    for chart in ("accuracy", "loss", "times", "power", "selection", "sizes"):
        browser.run(f"document.getElementById('{chart}').scrollIntoView({{block: 'center'}})")
        browser.point(f"#{chart}", 0.5)
        shown = browser.run(rows)
        assert shown and all(re.search(r"\d", each) for each in shown), chart
    browser.run("document.getElementById('accuracy').focus()")
    browser.keys("#accuracy", "Right", "Right")
    first = browser.run("return document.querySelector('#accuracy .tip b').textContent")
    browser.keys("#accuracy", "Right")
    assert browser.run("return document.querySelector('#accuracy .tip b').textContent") != first


def test_the_loss_of_the_picture_can_be_chosen(browser, grid):
    url, _ = grid
    browser.open(url)
    lines = "document.querySelectorAll('#loss path[data-series]')"
    drawn = f"return [...{lines}].map((line) => line.getAttribute('d'))"
    on_test = browser.run(drawn)
    browser.keys("#loss-of", "training")
    on_training = browser.run(drawn)
    assert len(on_test) == len(on_training) == 4
    assert set(on_test).isdisjoint(on_training)
    assert "training loss" in browser.run("return document.getElementById('loss').textContent")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 390, 768, 1280])
def test_the_page_fits_every_width_in_light_and_dark(browser, grid, width, scheme):
    url, _ = grid
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 700}
    browser.devtools("Emulation.setDeviceMetricsOverride", **size)
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.devtools("Emulation.setEmulatedMedia", features=[feature])
    browser.open(url)
    browser.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    inner, needed = browser.run("return [innerWidth, document.documentElement.scrollWidth]")
    assert inner == width and needed <= width
    # Nothing sticks out of the page but what scrolls within its own box.
    out = browser.run("""
      const right = (each) => each.getBoundingClientRect().right;
      return [...document.querySelectorAll("body *")]
        .filter((each) => !each.closest(".scroll, .unseen, svg") && right(each) > innerWidth + 1)
        .map((each) => each.outerHTML.slice(0, 90));""")
    assert out == []
    paper, ink = browser.run("""
      const style = getComputedStyle(document.body);
      return [style.backgroundColor, style.color].map((c) => Number(c.match(/\\d+/)[0]));""")
    assert (paper > ink) == (scheme == "light")


def test_what_was_left_out_is_listed_and_scenarios_and_versions_stand_below(browser, grid):
    url, _ = grid
    browser.open(url)
    left_out = browser.run("return document.querySelector('#left-out').textContent")
    assert "One folder was left out" in left_out and "broken: 'broken/manifest.json'" in left_out
    below = browser.run("return document.querySelector('#scenarios').textContent")
    for text in ("channel.devices", "heterogeneous", "fedsched 0.1.0", "seed 3, 60 rounds"):
        assert text in below


def test_hostile_names_are_shown_and_never_run(browser, tmp_path):
    name = "<script>window.hacked=1</script><img src=x onerror='window.hacked=1'>\"&amp;"
    write_run(tmp_path / "a", manifest(name, data__name=name), table())
    write_run(tmp_path / "b", manifest("uniform"), table(seed=2))
    (tmp_path / "<img src=x onerror='window.hacked=1'>").mkdir()
    (tmp_path / "<img src=x onerror='window.hacked=1'>" / "manifest.json").write_text("")
    report = write_report([tmp_path], tmp_path / "report.html", title=name)
    browser.open(report.path.as_uri())
    browser.point("#accuracy", 0.5)
    assert browser.run("return window.hacked ?? null") is None
    assert browser.run("return [document.images.length, document.scripts.length]") == [0, 2]
    assert browser.run("return document.title") == name
    assert name in browser.run("return document.querySelector('h1').textContent")
    assert name in browser.run("return document.getElementById('legend').textContent").replace(
        "\u202f", ""
    )


LOOKS = """
return [...document.querySelectorAll("#accuracy [data-series]")].map((line) =>
  [line.style.stroke, line.getAttribute("stroke-dasharray"), line.dataset.marker].join(" "));
"""


def test_more_series_than_colours_are_told_apart_by_markers(browser, tmp_path):
    for draws in range(1, 10):
        write_run(tmp_path / str(draws), manifest("lyapunov", draws), table(seed=draws))
    browser.open(write_report([tmp_path], tmp_path / "report.html").path.as_uri())
    looks = browser.run(LOOKS)
    assert len(looks) == len(set(looks)) == len(range(1, 10))
    assert browser.run("return document.querySelectorAll('#accuracy path.mark').length") > 0


def test_rivals_in_one_setting_share_a_colour_and_a_policy_shares_a_dash(browser, tmp_path):
    for policy, draws in itertools.product(("lyapunov", "uniform"), (1, 5, 10)):
        write_run(tmp_path / f"{policy}{draws}", manifest(policy, draws), table(seed=draws))
    browser.open(write_report([tmp_path], tmp_path / "report.html").path.as_uri())
    looks = browser.run("""
      return [...document.querySelectorAll("#accuracy [data-series]")].map((line) =>
        [line.dataset.series, line.style.stroke, line.getAttribute("stroke-dasharray")]);""")
    colours, dashes = {}, {}
    for name, stroke, dash in looks:
        policy, draws = name.split()
        colours.setdefault(draws, set()).add(stroke)
        dashes.setdefault(policy, set()).add(dash)
    assert [len(each) for each in (colours, dashes)] == [3, 2]
    assert all(len(each) == 1 for each in (*colours.values(), *dashes.values()))
    assert len(set.union(*colours.values())) == 3
    assert len(set.union(*dashes.values())) == 2


@pytest.fixture(scope="module")
def environments(tmp_path_factory):
    """Two channels; over the second there is one policy more."""
    root = tmp_path_factory.mktemp("environments")
    cases = [
        ("lyapunov", "heterogeneous"),
        ("uniform", "heterogeneous"),
        ("lyapunov", "homogeneous"),
    ]
    cases += [("uniform", "homogeneous"), ("pow-d", "homogeneous")]
    for (place, (policy, channel)), seed in itertools.product(enumerate(cases), (1, 2)):
        about = manifest(policy, seed=seed, channel__kind=channel)
        rows = table(seed=seed, airtime_s=0.1 * (place + 1))
        write_run(root / f"{place}-{seed}", about, rows)
    groups = group_runs(run.log for run in collect_runs([root]).runs)
    url = write_report([root], root / "report.html", target=0.8).path.as_uri()
    return url, groups


def test_one_environment_is_compared_at_a_time(browser, environments):
    url, groups = environments
    browser.open(url)
    inside = {
        "homogeneous": ["lyapunov", "pow-d", "uniform"],
        "heterogeneous": ["lyapunov", "uniform"],
    }
    own = {name: [g for g in groups if g.environment == name] for name in inside}
    # It opens where most configurations are, whatever comes first.
    check_environment(browser, own["homogeneous"], inside["homogeneous"])
    colours = browser.run(LOOKS)
    browser.click("#legend button")
    browser.keys("#environment", "heterogeneous")
    check_environment(browser, own["heterogeneous"], inside["heterogeneous"])
    assert browser.run(LOOKS) == [colours[0], colours[2]]
    browser.open(f"{url}#environment=1&target=0.8")
    check_environment(browser, own["homogeneous"], inside["homogeneous"])
    browser.open(f"{url}#environment=all&target=0.8")
    check_environment(browser, groups, [
        "lyapunov heterogeneous", "lyapunov homogeneous", "pow-d homogeneous",
        "uniform heterogeneous", "uniform homogeneous",
    ])  # fmt: skip
    assert len(set(browser.run(LOOKS))) == len(groups)
    browser.open(f"{url}#environment=length&target=0.8")
    check_environment(browser, own["homogeneous"], inside["homogeneous"])


def check_environment(browser, groups, names):
    """Pictures, legend, tables and the choice of power speak of these configurations alone."""
    check_numbers(browser, groups)
    assert browser.run(LINES) == names
    for parts in ("#legend button", "#power-of option"):
        script = "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)"
        assert browser.run(script, parts) == names


def test_one_environment_needs_no_choice(browser, grid):
    browser.open(grid[0])
    script = "return document.getElementById('environment').checkVisibility()"
    assert browser.run(script) is False


def test_a_single_run_has_a_page_too(browser, tmp_path):
    (kind, draws), (airtime_s, _) = next(iter(KINDS.items()))
    write_run(tmp_path / "a", manifest(kind, draws), table(airtime_s=airtime_s), finished=False)
    browser.open(write_report([tmp_path], tmp_path / "report.html").path.as_uri())
    headline = browser.run("return document.getElementById('headline').textContent")
    assert re.fullmatch(r"lyapunov reaches 0\.\d+ in [\d.]+ s\.", headline)
    assert "unfinished" in browser.run("return document.querySelector('#scenarios').textContent")
