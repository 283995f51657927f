"""The report where little room is left: long names, many columns, a phone, paper."""

import itertools

import numpy as np
import pyarrow as pa
import pytest
from tests.runs.report_runs import manifest, table, write_run
from tests.views.browser import needs_browser

from fedsched.views.report import write_report

pytestmark = needs_browser

DRAWS = (1, 2, 3, 5, 10, 20)


def around_the_budget(rows):
    """Powers that begin a little above the budget of 1 W and come down to it."""
    first = np.linspace(1.15, 1.5, 10)
    later = np.full((rows.num_rows - 2, 10), 0.97)
    powers = pa.array([list(each) for each in np.vstack([first, first, later])])
    return rows.set_column(rows.column_names.index("group_power_w"), "group_power_w", powers)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Six numbers of draws, two policies, and a setting that makes every name long."""
    root = tmp_path_factory.mktemp("runs")
    for draws, (kind, start) in itertools.product(
        DRAWS, (("uniform", "empty-queues"), ("lyapunov", "budget"))
    ):
        about = manifest(kind, draws, policy__start=start)
        rows = table(airtime_s=(0.1 if kind == "uniform" else 0.02) * draws, speed=draws**0.3)
        write_run(root / f"{kind}{draws}", about, around_the_budget(rows))
    return write_report([root], root / "report.html", target=0.85).path.as_uri()


def sized(browser, width, media=""):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 700}
    browser.devtools("Emulation.setDeviceMetricsOverride", **size)
    browser.devtools("Emulation.setEmulatedMedia", media=media, features=[])


WORDS = """
return [...document.querySelectorAll("#selection text, #sizes text")].map((each) => {
  const { left, right, top, bottom } = each.getBoundingClientRect();
  const edge = each.closest(".chart").getBoundingClientRect();
  return [each.textContent, left, right, top + 3, bottom - 3, edge.right];
});
"""


@pytest.mark.parametrize("width", [390, 1280])
def test_the_names_of_rows_are_not_written_over(browser, page, width):
    sized(browser, width)
    browser.open(page)
    words = browser.run(WORDS)
    assert len(words) > 4 * len(DRAWS)
    for one, other in itertools.combinations(words, 2):
        _, left, right, top, bottom, _ = one
        beside = other[1] >= right or other[2] <= left
        above = other[3] >= bottom or other[4] <= top
        assert beside or above, (one[0], other[0])
    assert all(right <= edge + 1 for _, _, right, _, _, edge in words)


HIDDEN = """
const name = document.querySelector("#power .rule-name").getBBox(), found = [];
for (const line of document.querySelectorAll("#power [data-series]"))
  for (let at = 0; at < line.getTotalLength(); at += 2) {
    const { x, y } = line.getPointAtLength(at);
    if (x > name.x && x < name.x + name.width && y > name.y && y < name.y + name.height)
      found.push(line.dataset.series);
  }
return found;
"""


def test_the_name_of_the_budget_stands_beside_the_curves(browser, page):
    for width in (390, 800, 1280):
        sized(browser, width)
        browser.open(page)
        assert browser.run(HIDDEN) == []


TABLES = """
return [...document.querySelectorAll("main table")].filter((each) => each.checkVisibility())
  .map((each) => [each.id, each.scrollWidth - each.closest(".scroll").clientWidth,
    each.getBoundingClientRect().right - innerWidth]);
"""


def test_tables_fit_a_wide_screen_and_paper(browser, page):
    sized(browser, 1280)
    browser.open(page)
    wide = {name: beyond for name, beyond, _ in browser.run(TABLES)}
    assert set(wide) >= {"rivals", "configurations", "ranges"}
    assert all(beyond <= 0 for beyond in wide.values()), wide
    sized(browser, 703, media="print")  # A4 within its margins
    browser.open(page)
    paper = {name: beyond for name, _, beyond in browser.run(TABLES)}
    assert all(beyond <= 1 for beyond in paper.values()), paper


def test_on_paper_it_is_said_whose_power_is_drawn_and_nobody_is_told_to_click(browser, page):
    sized(browser, 703, media="print")
    browser.open(page)
    said = browser.run("return document.body.innerText").replace("\u202f", "")
    assert "lyapunov m=1 start=budget: devices" in said
    assert not any(word in said for word in ("Drag", "click", "Point at"))
