"""The layers of the package, read from its imports: data flows one way."""

import ast
from pathlib import Path

import pytest

import fedsched

ROOT = Path(fedsched.__file__).parent
LAYERS = ("radio", "policies", "learning", "results")
ENTRY_POINTS = ("cli", "flower")
# What each part may import from the package, besides itself; a part not named here stands above
# the layers and may import anything but the entry points.
FOUNDATION = {"errors", "values", "randomness"}
ALLOWED = {
    "errors": set(),
    "values": {"errors"},
    "randomness": {"errors"},
    "core": {"errors", "values"},
    **{layer: {"core"} | FOUNDATION for layer in LAYERS},
}
# Who may import torch when it is itself imported.
TORCH_AT_ONCE = {"learning", "flower"}


def part_of(module):
    """The layer or the file below the package, "" for the package itself."""
    return module.partition(".")[2].partition(".")[0]


def package_imports(tree, names):
    """Modules of the package that are imported anywhere, at once or late, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "fedsched":
                    yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module == "fedsched":
            # from fedsched import core: the part; from fedsched import schedule: the package.
            for alias in node.names:
                whole = f"fedsched.{alias.name}" if alias.name in names else "fedsched"
                yield whole, node.lineno
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fedsched."):
            yield node.module, node.lineno


def imported_at_once(tree):
    """Top-level packages imported when the module is, not within functions or for types alone."""
    waiting = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting.extend(node.orelse)
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name.split(".")[0], node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").split(".")[0], node.lineno
        waiting.extend(ast.iter_child_nodes(node))


def offences(module, source, names=frozenset({*ALLOWED, *ENTRY_POINTS, "rounds"})):
    """One sentence for each import of a module's source that breaks the layers."""
    tree, part = ast.parse(source), part_of(module)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level > 0:
            found.append(f"{module}:{node.lineno} imports relatively")
    for imported, line in package_imports(tree, names):
        other = part_of(imported)
        if other == part:
            continue
        if part == "__main__" and other == "cli":
            continue  # python -m fedsched is the command line
        if other in ENTRY_POINTS or (part in ALLOWED and other not in ALLOWED[part]):
            found.append(f"{module}:{line} imports {imported}")
    if part not in TORCH_AT_ONCE:
        found += [
            f"{module}:{line} imports torch at once"
            for package, line in imported_at_once(tree)
            if package == "torch"
        ]
    return found


def modules():
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def test_no_module_reaches_across_or_up():
    names = {part_of(module) for module, _ in modules()}
    found = [
        sentence
        for module, path in modules()
        for sentence in offences(module, path.read_text(encoding="utf-8"), names)
    ]
    assert found == []


def test_the_slow_twin_knows_nothing_of_the_fast_code():
    twin = {f"fedsched.core.{name}" for name in ("reference", "reference_draws", "brute_force")}
    sources = {module: path.read_text(encoding="utf-8") for module, path in modules()}
    known = {
        imported
        for module in twin
        for imported, _ in package_imports(ast.parse(sources[module]), frozenset())
    }
    assert known <= twin | {"fedsched.errors", "fedsched.values"}
    assert "fedsched.core.reference" in known


def test_every_layer_is_looked_at():
    parts = {part_of(module) for module, _ in modules()}
    assert {"core", "errors", "values", "randomness", "rounds", *LAYERS} <= parts


@pytest.mark.parametrize(
    ("module", "source", "sentence"),
    [
        ("fedsched.core.power", "import fedsched.randomness", "imports fedsched.randomness"),
        ("fedsched.core.power", "from fedsched.radio import record", "imports fedsched.radio"),
        ("fedsched.radio.trace", "from fedsched.results.log import x", "fedsched.results.log"),
        ("fedsched.policies", "from fedsched import radio", "imports fedsched.radio"),
        ("fedsched.results.log", "from fedsched import schedule", "imports fedsched"),
        ("fedsched.learning.local", "def f():\n  import fedsched.policies as s", ":2 imports"),
        ("fedsched.learning.local", "from fedsched.rounds import run", "fedsched.rounds"),
        ("fedsched.rounds", "from fedsched.cli import main", "imports fedsched.cli"),
        ("fedsched.experiment", "import fedsched.flower", "imports fedsched.flower"),
        ("fedsched", "from fedsched.flower import Strategy", "imports fedsched.flower"),
        ("fedsched.rounds", "import numpy\nimport torch", ":2 imports torch at once"),
        ("fedsched.cli.run", "from torch import nn", "imports torch at once"),
        ("fedsched.scenario", "try:\n  import torch.nn\nexcept ImportError: ...", "imports torch"),
        ("fedsched.scenario", "class A:\n  import torch", "imports torch"),
        ("fedsched.core.power", "from . import checks", "imports relatively"),
        ("fedsched.errors", "import fedsched.values", "imports fedsched.values"),
    ],
)
def test_an_import_that_breaks_the_layers_is_refused(module, source, sentence):
    found = offences(module, source)
    assert len(found) == 1
    assert sentence in found[0]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("fedsched.core.power", "from fedsched.core.checks import positive_number"),
        ("fedsched.core.power", "from fedsched.errors import InputError\nimport numpy"),
        ("fedsched.radio", "from fedsched.radio.trace import Trace"),
        ("fedsched.policies", "from fedsched.core.uplink import Uplink"),
        ("fedsched.rounds", "from fedsched.radio import Trace\nimport fedsched.policies"),
        ("fedsched.learning.models", "import torch\nfrom torch import nn"),
        ("fedsched.cli.run", "def command():\n  import torch"),
        ("fedsched.cli.run", "from fedsched.cli.output import table"),
        ("fedsched.experiment", "if TYPE_CHECKING:\n  import torch"),
        ("fedsched.__main__", "from fedsched.cli import main"),
    ],
)
def test_an_import_that_keeps_to_the_layers_is_accepted(module, source):
    assert offences(module, source) == []
