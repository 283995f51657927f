import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "data.md"


def test_the_python_on_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 6
    exec("\n".join(blocks), {})
