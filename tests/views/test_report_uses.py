"""What people do with the report: read it on a phone and on paper, sort it, zoom it, save it."""

import csv
import io
import itertools
import json
import re
import time
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pytest
from tests.runs.report_runs import manifest, table, write_run
from tests.views.browser import needs_browser

from fedsched.analysis.collect import collect_runs
from fedsched.analysis.groups import group_runs, mean_reach, paired_speedup
from fedsched.views.report import write_report

pytestmark = needs_browser

LEARNT = {("auto", 10): (0.02, 1.1), ("lyapunov", 1): (0.09, 1.0), ("lyapunov", 10): (0.4, 1.25)}
LEARNT |= {("uniform", 1): (0.1, 0.95), ("uniform", 10): (3.0, 1.3)}
POWER = {"name": "power", "unit": "W", "per": "round", "limit": 1.0}


def about_auto(seed):
    """Auto reads no number of draws."""
    about = manifest("auto", 10, seed)
    return {**about, "unread": ["policy.draws", "policy.lam"]}


def used(rows, share, device):
    """The rows of a log with what was used of a budget."""
    columns = {"worst_use": [share], "worst_device": [device], "worst_limit": [1.0]}
    for name, value in columns.items():
        rows = rows.append_column(name, pa.array([value] * rows.num_rows))
    return rows


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Five configurations of three seeds with a budget of power, and what the analysis says."""
    root = tmp_path_factory.mktemp("runs")
    for place, ((kind, draws), (airtime_s, speed)) in enumerate(LEARNT.items()):
        for seed in (1, 2, 3):
            about = about_auto(seed) if kind == "auto" else manifest(kind, draws, seed)
            rows = table(seed=seed, airtime_s=airtime_s, speed=speed)
            rows = used(rows, 0.9 + 0.1 * place + 0.01 * seed, 10 * seed)
            write_run(root / f"{kind}{draws}-{seed}", {**about, "budgets": [POWER]}, rows)
    groups = group_runs(run.log for run in collect_runs([root]).runs)
    url = write_report([root], root / "report.html", target=0.9).path.as_uri()
    return url, {group.label: group for group in groups}


def text_of(browser, selector):
    script = "return document.querySelector(arguments[0]).textContent"
    return browser.run(script, selector).replace("\u202f", "")


def sized(browser, width, height=900, **features):
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 700}
    browser.devtools("Emulation.setDeviceMetricsOverride", **size)
    named = [{"name": name, "value": value} for name, value in features.items()]
    browser.devtools("Emulation.setEmulatedMedia", features=named)


def test_best_against_best_and_auto_against_each_uniform_are_read_first(browser, page):
    url, groups = page
    for c in (0.0, 1.0):
        browser.open(f"{url}#c={c}&target=0.9")
        lines = {name: mean_reach(group, 0.9).time_s(c) for name, group in groups.items()}
        if c > 0.0:  # auto was made for none
            del lines["auto"]
        bases = {name: t for name, t in lines.items() if name.startswith("uniform")}
        fastest, rival = min(lines, key=lines.get), min(bases, key=bases.get)
        assert c > 0.0 or fastest == "auto"
        reaches = f"{fastest} reaches 0.9 in {lines[fastest]:.1f}"
        assert text_of(browser, "#headline").startswith(reaches)
        assert f"the best uniform, {rival}, in " in text_of(browser, "#headline")
        assert browser.run("""
          const top = (id) => document.getElementById(id).getBoundingClientRect().top;
          return top("headline") < top("rivals") && top("rivals") < top("accuracy");""")
        rows = browser.run("""
          return [...document.querySelectorAll("#rivals tbody tr")].map((row) =>
            [row.dataset.policy,
              [...row.querySelectorAll("td")].map((cell) => Number(cell.dataset.value))]);""")
        assert [kind for kind, _ in rows] == ["auto", "lyapunov"]

        def gain(base, name, at=c):
            return paired_speedup(groups[base], groups[name], 0.9, computation_s=at).ratio

        ours = min(("lyapunov m=1", "lyapunov m=10"), key=lines.get)
        pairs = [(rival, "auto"), ("uniform m=1", "auto"), ("uniform m=10", "auto"), (rival, ours)]
        pairs += [(f"uniform m={m}", f"lyapunov m={m}") for m in (1, 10)]
        expected = [gain(base, name) for base, name in pairs]
        if c > 0.0:
            assert rows[0][1] == [None] * 3
        found = [*rows[0][1], *rows[1][1]][3 * (c > 0.0) :]
        assert found == pytest.approx(expected[3 * (c > 0.0) :], rel=1e-9)


def test_hue_is_m_dash_is_the_policy_and_auto_has_a_look_of_its_own(browser, page):
    browser.open(page[0])
    looks = dict(
        browser.run("""
          return [...document.querySelectorAll("#accuracy [data-series]")].map((line) =>
            [line.dataset.series, [line.style.stroke, line.getAttribute("stroke-dasharray")]]);""")
    )
    for m in (1, 10):
        assert looks[f"lyapunov m={m}"][0] == looks[f"uniform m={m}"][0]
    assert looks["lyapunov m=1"][0] != looks["lyapunov m=10"][0]
    assert looks["lyapunov m=1"][1] == looks["lyapunov m=10"][1] != looks["uniform m=1"][1]
    others = [look for name, look in looks.items() if name != "auto"]
    assert all(looks["auto"][k] not in [look[k] for look in others] for k in (0, 1))


CONTRASTS = """
const canvas = document.createElement("canvas");
const brush = canvas.getContext("2d", { willReadFrequently: true });
const rgba = (text) => {
  brush.clearRect(0, 0, 1, 1); brush.fillStyle = text; brush.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = brush.getImageData(0, 0, 1, 1).data;
  return [r, g, b, a / 255];
};
const over = (top, below) => [0, 1, 2].map((k) => top[k] * top[3] + below[k] * (1 - top[3]));
const ground = (element) => {
  if (element === null) return rgba(getComputedStyle(document.body).backgroundColor);
  const own = rgba(getComputedStyle(element).backgroundColor);
  return own[3] === 1 ? own : own[3] === 0 ? ground(element.parentElement)
    : over(own, ground(element.parentElement));
};
const light = (rgb) => {
  const parts = rgb.slice(0, 3).map((each) => each / 255)
    .map((each) => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
  return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
};
const found = [];
for (const element of document.querySelectorAll("body *")) {
  const own = [...element.childNodes].some((each) => each.nodeType === 3 && each.data.trim());
  if (!own || !element.checkVisibility() || element.closest("script, option")) continue;
  const style = getComputedStyle(element);
  const behind = ground(element.closest("svg")?.parentElement ?? element);
  const ink = over(rgba(element.namespaceURI.endsWith("svg") ? style.fill : style.color), behind);
  const [a, b] = [light(ink), light(behind)].sort((x, y) => y - x);
  found.push([(a + 0.05) / (b + 0.05), element.outerHTML.slice(0, 120)]);
}
return found;
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_word_has_a_contrast_of_4_5_or_more(browser, page, scheme):
    sized(browser, 1200, **{"prefers-color-scheme": scheme})
    browser.open(page[0])
    browser.click("#legend button[data-index='1']")  # what is hidden can still be read
    browser.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    found = browser.run(CONTRASTS)
    assert len(found) > 150
    assert [each for each in found if each[0] < 4.5] == []


def test_on_a_phone_the_speedup_is_seen_and_sliders_and_legend_are_whole(browser, page):
    sized(browser, 390, 844)
    browser.open(page[0])
    right, sliders, legend = browser.run("""
      const box = (selector) => document.querySelector(selector).getBoundingClientRect();
      const legend = document.getElementById("legend");
      return [box("#configurations td[data-key=speedup]").right,
        ["#target", "#computation"].map((each) => box(each).width),
        [legend.scrollHeight - legend.clientHeight, legend.scrollWidth - legend.clientWidth]];""")
    assert right <= 390 and min(sliders) > 300 and legend == [0, 0]
    # What lies to the right has a shadow as its cue.
    cue = "return getComputedStyle(document.querySelector('#configurations').parentNode).background"
    assert "scroll" in browser.run(cue) and "linear-gradient" in browser.run(cue)


def test_on_paper_no_column_is_lost(browser, page):
    size = {"width": 703, "height": 1032, "deviceScaleFactor": 1, "mobile": False}  # A4, 12 mm
    browser.devtools("Emulation.setDeviceMetricsOverride", **size)
    browser.devtools("Emulation.setEmulatedMedia", media="print", features=[])
    browser.open(page[0])
    beyond = browser.run("""
      return [...document.querySelectorAll("table")].filter((table) => table.checkVisibility())
        .map((table) => [table.id, table.getBoundingClientRect().right - innerWidth]);""")
    assert len(beyond) == 4 and all(each <= 1 for _, each in beyond), beyond
    assert "Target accuracy 0.9, computation 0 s a round" in text_of(browser, "#asked")
    assert not browser.run("return document.querySelector('.controls').checkVisibility()")


def test_each_environment_keeps_a_target_that_it_reaches(browser, tmp_path):
    for (place, (alpha, speed)), kind in itertools.product(
        enumerate([("inf", 1.0), ("0.0", 0.1)]), ("lyapunov", "uniform")
    ):
        rows = table(speed=speed, airtime_s=0.1 + 0.1 * (kind == "uniform"))
        write_run(tmp_path / f"{place}{kind}", manifest(kind, data__alpha=alpha), rows)
    browser.open(write_report([tmp_path], tmp_path / "report.html", target=0.9).path.as_uri())
    target = "return Number(document.getElementById('target-value').value)"
    seconds = "return document.querySelectorAll('[data-key=seconds_to_target][data-value]').length"
    chosen = browser.run("return document.getElementById('environment').selectedOptions[0].text")
    found = {}
    for name in ("α", chosen):
        (other,) = browser.run("""
          const menu = document.getElementById("environment");
          return [...menu.options].map((each) => each.value)
            .filter((value) => value !== menu.value && value !== "all");""")
        browser.run(
            "const menu = document.getElementById('environment'); menu.value = arguments[0];"
            "menu.dispatchEvent(new Event('change'))", other,
        )  # fmt: skip
        browser.settle()
        found[name] = browser.run(target)
        assert browser.run(seconds) == 2, found
    assert sorted(found.values())[1] == 0.9 and min(found.values()) < 0.6


def test_a_run_that_stopped_at_its_target_is_not_called_unfinished(browser, tmp_path):
    for seed, (stop, finished) in enumerate([(0.9, True), (0.9, False), (0.99, False)], 1):
        about = manifest("lyapunov", 10, seed, run__stop_accuracy=stop, run__rounds=5000)
        write_run(tmp_path / str(seed), about, table(seed=seed), finished=finished)
    browser.open(write_report([tmp_path], tmp_path / "report.html").path.as_uri())
    said = text_of(browser, "#scenarios")
    for seed in (1, 2):
        assert f"(seed {seed}, 60 rounds, stopped at its target 0.9)" in said
    assert "(seed 3, 60 rounds, unfinished, after 60 of 5000 rounds)" in said


def test_every_budget_has_its_limit_its_worst_device_and_how_far_it_is(browser, page):
    browser.open(page[0])
    rows = browser.run("""
      return [...document.querySelectorAll("#budgets tbody tr")].map((row) =>
        [...row.cells].map((cell) => cell.textContent));""")
    shown = [[text.replace("\u202f", "").strip() for text in row] for row in rows]
    assert shown[0] == ["auto", "power", "1 W a round", "device 30", "0.93 W", "93%"]
    assert shown[1][5] == "103%, 3% above"
    assert browser.run("return document.querySelectorAll('#budgets .over').length") == 4


def test_measured_rounds_show_their_time_on_the_wall(browser, page, tmp_path):
    rows = table().append_column("wall_s", pa.array([2.5] * 60))
    rows = rows.append_column("took_s", pa.array([[1.0, 2.0, float("nan")]] * 60))
    write_run(tmp_path / "a", manifest(), rows)
    browser.open(write_report([tmp_path], tmp_path / "report.html").path.as_uri())
    number = "return Number(document.querySelector(`[data-key=${arguments[0]}]`).dataset.value)"
    rounds = browser.run(number, "rounds_to_target")
    assert browser.run(number, "wall_s_to_target") == pytest.approx(2.5 * rounds)
    assert text_of(browser, "[data-key=wall_s_per_round]") == "2.50 s 2.00 s exchange"
    browser.open(page[0])
    assert browser.run("return document.querySelector('[data-key=wall_s_per_round]')") is None


SHOWN = """
return [...document.querySelectorAll("#configurations tbody tr")].map((row) => row.dataset.label);
"""


def test_the_table_is_sorted_by_a_heading_and_what_has_no_value_is_last(browser, page):
    url, groups = page
    browser.open(f"{url}#c=0&target=0.9")
    as_it_comes = browser.run(SHOWN)
    by_time = sorted(groups, key=lambda name: mean_reach(groups[name], 0.9).time_s(0.0))
    head = "#configurations [data-sort='seconds_to_target']"
    browser.click(f"{head} button")
    assert browser.run(SHOWN) == by_time != as_it_comes
    browser.click(f"{head} button")
    assert browser.run(SHOWN) == by_time[::-1]
    assert browser.run("return document.querySelector(arguments[0]).ariaSort", head) == "descending"
    browser.click("#configurations [data-sort='speedup'] button")
    assert {*browser.run(SHOWN)[-2:]} == {"uniform m=1", "uniform m=10"}
    browser.open(f"{url}#sort=-seconds_to_target&target=0.9")
    assert browser.run(SHOWN) == by_time[::-1]


def test_dragging_zooms_and_a_button_brings_the_whole_picture_back(browser, page):
    browser.open(page[0])
    path = "return document.querySelector('#accuracy [data-series]').getAttribute('d')"
    before = browser.run(path)
    browser.run("document.getElementById('accuracy').scrollIntoView({block: 'center'})")
    browser.drag("#accuracy", 0.5, 0.6, 0.9)
    assert browser.run(path) != before
    browser.click("#accuracy .reset")
    assert browser.run(path) == before
    assert not browser.run("return document.querySelector('#accuracy .reset').checkVisibility()")


def test_pointing_at_a_name_leaves_its_lines_alone(browser, page):
    browser.open(page[0])
    browser.point("#legend button[data-index='2']", 0.5)
    bright = browser.run("""
      return [...document.querySelectorAll("#accuracy [data-series]:not(.dim)")]
        .map((line) => line.dataset.series);""")
    assert bright == ["lyapunov m=10"]


def test_nine_configurations_have_a_row_each_where_lines_would_cross(browser, tmp_path):
    for draws in range(1, 10):
        write_run(tmp_path / str(draws), manifest("lyapunov", draws), table(seed=draws))
    browser.open(write_report([tmp_path], tmp_path / "report.html").path.as_uri())
    for chart in ("selection", "sizes"):
        rows = browser.run(
            """
          return [...document.querySelectorAll(`#${arguments[0]} [data-row]`)].map((row) =>
            [row.dataset.row, row.getBBox().y, row.getBBox().y + row.getBBox().height]);""",
            chart,
        )
        assert [name for name, _, _ in rows] == [f"lyapunov m={m}" for m in range(1, 10)]
        assert all(above[2] <= below[1] for above, below in itertools.pairwise(rows))


def saved(folder, name):
    for _ in range(100):
        if (folder / name).is_file():
            return (folder / name).read_bytes()
        time.sleep(0.05)
    raise AssertionError(f"{name} was not saved: {[each.name for each in folder.iterdir()]}")


def test_every_picture_and_every_table_can_be_saved(browser, page, tmp_path):
    browser.devtools("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    sized(browser, 1200, **{"prefers-color-scheme": "dark"})
    browser.open(page[0])
    names = browser.run("""
      const found = [];
      for (const button of document.querySelectorAll("[data-save]")) {
        const title = button.closest(".card").querySelector("h2").textContent;
        if (!button.closest(".card").hidden) found.push([title, button.dataset.save]);
      }
      return found;""")
    kinds = [kind for _, kind in names]
    assert [kinds.count(each) for each in ("png", "svg", "csv")] == [6, 6, 10]
    for place, (title, kind) in enumerate(names):
        time.sleep(0.2)  # the browser takes ten files a second from a page, and drops the others
        browser.run("document.querySelectorAll('[data-save]')[arguments[0]].click()", place)
        name = f"{re.sub('[^a-z0-9]+', '-', title.lower())}.{kind}"
        content = saved(tmp_path, name)
        if kind == "png":
            assert content[:8] == b"\x89PNG\r\n\x1a\n"
            assert int.from_bytes(content[16:20], "big") > 1500  # three times what is seen
        elif kind == "svg":
            root = ElementTree.fromstring(content)
            text = content.decode()
            assert "var(" not in text and "color-mix" not in text and "url(http" not in text
            assert "rgb(233, 234, 236)" not in text  # the ink of the dark page
            words = {each.text for each in root.iter("{http://www.w3.org/2000/svg}text")}
            assert title in words
            if title != "Power against budget":
                assert "auto" in words and "uniform\u202fm\u202f=\u202f10" not in words
        else:
            rows = list(csv.reader(io.StringIO(content.decode())))
            assert len(rows) > 1 and all(len(row) == len(rows[0]) for row in rows), title
    table_rows = list(csv.reader(io.StringIO((tmp_path / "configurations.csv").read_text())))
    by_name = {row[0]: row for row in table_rows}
    expected = mean_reach(page[1]["auto"], 0.9).time_s(0.0)
    assert float(by_name["auto"][1]) == pytest.approx(expected, rel=1e-12)
    points = list(csv.reader(io.StringIO((tmp_path / "accuracy-over-time.csv").read_text())))
    assert points[0] == ["series", "simulated time (s)", "test accuracy"]
    assert np.array([row[1:] for row in points[1:]], dtype=float).min() > 0.0
    assert (
        json.dumps(browser.run("return document.documentElement.dataset.scheme ?? null")) == "null"
    )
