"""The documentation site: it builds without a network, its links hold, its pages are short."""

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
MOST_WORDS = 1_500
REFERENCE = {"scenarios"}  # as long as it must be


class Links(HTMLParser):
    """What a page points at, what it fetches by itself, and the anchors it has."""

    def __init__(self, text):
        super().__init__()
        self.targets, self.fetched, self.anchors = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.anchors |= {value for name, value in attrs if name in ("id", "name")}
        if tag == "a" and given.get("href"):
            self.targets.append(given["href"])
        fetches = [given.get("src")]
        if tag == "link" and given.get("rel") not in ("canonical", "prev", "next"):
            fetches.append(given.get("href"))
        self.fetched += [each for each in fetches if each and not each.startswith("data:")]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    nowhere = "http://127.0.0.1:9"  # whatever would be fetched fails
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=ROOT, capture_output=True, text=True, check=False,
        env={"PATH": "/usr/bin:/bin", "HTTP_PROXY": nowhere, "HTTPS_PROXY": nowhere,
             "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def broken(pages, folder):
    """Pairs of a page and a link of it that leads nowhere."""
    for page, links in pages.items():
        for target in (*links.targets, *links.fetched):
            url = urlsplit(target)
            if url.scheme in ("http", "https", "mailto") or url.netloc:
                continue
            there = (page.parent / unquote(url.path)).resolve() if url.path else page
            if not there.is_file():
                yield page.relative_to(folder), target
            elif url.fragment and there in pages:
                anchors = pages[there].anchors
                if unquote(url.fragment) not in anchors and not url.fragment.startswith("__"):
                    yield page.relative_to(folder), target


@pytest.mark.slow
def test_the_site_builds_strictly_and_every_link_and_anchor_leads_somewhere(site):
    found = [page for page in site.rglob("*.html") if page.name not in ("404.html", "report.html")]
    pages = {page.resolve(): Links(page.read_text(encoding="utf-8")) for page in found}
    assert len(pages) > 40
    assert sorted(broken(pages, site.resolve())) == []
    outside = {url for each in pages.values() for url in each.fetched if "//" in url}
    assert outside == set(), "the site must not fetch anything"


def test_a_broken_link_would_be_noticed(tmp_path):
    text = '<h1 id="here"></h1><a href="#here"></a><a href="#there"></a><img src="no.png">'
    page = tmp_path / "page.html"
    page.write_text(text, encoding="utf-8")
    found = [target for _, target in broken({page: Links(text)}, tmp_path)]
    assert found == ["#there", "no.png"]


@pytest.mark.slow
def test_the_reference_has_every_public_name_command_and_policy(site):
    import fedsched
    from fedsched.cli import _COMMANDS
    from fedsched.policies import policy_names

    said = (site / "reference" / "fedsched.html").read_text(encoding="utf-8")
    assert [name for name in fedsched.__all__ if f'id="fedsched.{name}"' not in said] == []
    said = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    assert [name for name in _COMMANDS if f'id="fedsched-{name}"' not in said] == []
    said = (site / "reference" / "policies.html").read_text(encoding="utf-8")
    assert [name for name in policy_names() if f"<code>{name}</code>" not in said] == []


@pytest.mark.parametrize(
    "page",
    [each for each in sorted(DOCS.glob("*.md")) if each.stem not in REFERENCE],
    ids=lambda page: page.stem,
)
def test_a_page_is_short(page):
    count = len(page.read_text(encoding="utf-8").split())
    assert count <= MOST_WORDS, f"{page.name} has {count} words"


def test_the_readme_is_read_in_a_minute():
    count = len((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert count <= 700, f"README.md has {count} words"
