"""What docs/channels.md says about the names is checked; its code runs in tests/test_docs.py."""

import re
from pathlib import Path

from fedsched.radio.names import CHANNELS

PAGE = (Path(__file__).parents[2] / "docs" / "channels.md").read_text(encoding="utf-8")


def test_the_page_lists_every_named_channel_and_no_other():
    table = PAGE.partition("## Names")[2].partition("## Models")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, flags=re.MULTILINE)) == set(CHANNELS)
