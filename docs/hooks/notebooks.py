"""Shows notebooks as pages: their cells and the outputs that are kept in them."""

import json
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

DOCS = Path(__file__).parents[1]


def on_files(files: Files, config: Any) -> Files:
    """Put a page in the place of each notebook."""
    for path in sorted(DOCS.glob("*.ipynb")):
        files.append(File.generated(config, f"{path.stem}.md", content=page_of(path)))
    return files


def page_of(path: Path) -> str:
    """A notebook in Markdown."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    text = "\n\n".join(_cell(each) for each in notebook["cells"]) + "\n"
    return re.sub(r"\]\(([\w-]+)\.ipynb\)", r"](\1.md)", text)


def _cell(cell: dict[str, Any]) -> str:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return source
    shown = [_output(each) for each in cell["outputs"]]
    return "\n\n".join([f"```python\n{source}\n```", *(each for each in shown if each)])


def _output(output: dict[str, Any]) -> str:
    if output["output_type"] == "stream":
        return "```text\n" + "".join(output["text"]).rstrip() + "\n```"
    data = output["data"]
    if "image/png" in data:
        image = "".join(data["image/png"]).replace("\n", "")
        return f'<img alt="{output["metadata"]["alt"]}" src="data:image/png;base64,{image}">'
    return "```text\n" + "".join(data["text/plain"]) + "\n```"
