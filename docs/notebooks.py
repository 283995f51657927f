"""Runs the notebooks beside this file and keeps in them what their cells print and draw.

``make docs`` writes them anew; a test runs them and compares. No kernel is needed: cells are plain
Python, one namespace for each notebook, and a figure is shown by the last line of its cell.
"""

import ast
import base64
import io
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import matplotlib as mpl
import nbformat
from matplotlib.figure import Figure

NOTEBOOKS = sorted(Path(__file__).parent.glob("*.ipynb"))


def executed(path: Path) -> nbformat.NotebookNode:
    """The notebook, its outputs those of a run in the present folder."""
    mpl.use("agg")
    notebook = nbformat.read(path, as_version=4)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for count, cell in enumerate((c for c in notebook.cells if c.cell_type == "code"), start=1):
        text, value = _run(cell.source, f"{path.name}, cell {count}", namespace)
        cell.execution_count = count
        cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text=text)] if text else []
        if isinstance(value, Figure):
            cell.outputs.append(_drawn(value, cell.metadata["alt"]))
    return notebook


def _run(source: str, name: str, namespace: dict[str, Any]) -> tuple[str, Any]:
    """What the cell prints, and the value of its last line if that is an expression."""
    *steps, last = ast.parse(source).body
    printed, value = io.StringIO(), None
    with redirect_stdout(printed):
        if not isinstance(last, ast.Expr):
            steps.append(last)
        exec(compile(ast.Module(steps, []), name, "exec"), namespace)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), name, "eval"), namespace)
    return printed.getvalue(), value


def _drawn(figure: Figure, alt: str) -> nbformat.NotebookNode:
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=110, bbox_inches="tight", metadata={"Software": None})
    data = {"image/png": base64.b64encode(picture.getvalue()).decode(), "text/plain": alt}
    return nbformat.v4.new_output("display_data", data=data, metadata={"alt": alt})


if __name__ == "__main__":
    for each in NOTEBOOKS:
        nbformat.write(executed(each), each)
