"""What docs/channels.md shows is run, and what it says about the names is checked."""

import re
from pathlib import Path

from fedsched.wireless.names import CHANNELS

PAGE = (Path(__file__).parents[2] / "docs" / "channels.md").read_text(encoding="utf-8")


def test_the_examples_of_the_page_run_from_top_to_bottom(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) == 5
    namespace: dict[str, object] = {}
    for number, block in enumerate(blocks, start=1):
        exec(compile(block, f"channels.md, block {number}", "exec"), namespace)


def test_the_page_lists_every_named_channel_and_no_other():
    table = PAGE.partition("## Names")[2].partition("## Models")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, flags=re.MULTILINE)) == set(CHANNELS)
