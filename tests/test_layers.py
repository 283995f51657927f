"""The layers of the package, read from its imports: data flows one way."""

import ast
from pathlib import Path

import pytest

import fedsched

ROOT = Path(fedsched.__file__).parent
LAYERS = ("radio", "policies", "learning")
ENTRY_POINTS = ("cli", "flower")
# What each part may import from the package, besides itself: a part, or one module of it. A part
# that is not named here stands above the layers and may import anything but the entry points.
#
#   errors, quantities, randomness, values,
#   files, imports, archives, clock               what all parts share
#   solve                                         numerics alone
#   radio                                         channels, traces, access
#   policies                                      budgets, designs and who takes part, over a radio
#   learning                                      data, models, local steps, aggregators
#   rounds                                        the loop over rounds
#   runs                                          scenarios, run folders, engines: they fill a log
#   analysis                                      reads the log, the link and the budgets of runs
#   views                                         figures and pages of what the analysis found
#   theory  paper                                 ask of many runs
#   cli  flower                                   on top
FOUNDATION = {
    "errors", "checks", "quantities", "values", "randomness", "files", "imports", "archives",
    "clock",
}  # fmt: skip
ALLOWED = {
    "errors": set(),
    "checks": {"errors"},
    "quantities": {"errors"},
    "randomness": {"errors"},
    "values": {"errors", "randomness"},
    "files": {"errors"},
    "imports": {"errors"},
    "archives": {"errors"},
    "clock": {"errors", "checks"},
    "solve": {"errors", "checks", "values"},
    "radio": {"solve", *FOUNDATION},
    "policies": {"solve", *FOUNDATION, "radio"},
    "learning": {"solve", *FOUNDATION},
    "rounds": {"solve", *FOUNDATION, *LAYERS},
    "runs": {"solve", *FOUNDATION, *LAYERS, "rounds"},
    "analysis": {
        "solve",
        *FOUNDATION,
        "runs.runlog",
        "runs.manifest",
        "radio.access",
        "policies.budgets",
        "policies.ledger",
    },
    "views": {"solve", *FOUNDATION, "analysis"},
}
# Who may import torch when it is itself imported.
TORCH_AT_ONCE = {"learning", "flower"}


def part_of(module):
    """The layer or the file below the package, "" for the package itself."""
    return module.partition(".")[2].partition(".")[0]


def may_import(part, module):
    """Whether the picture has an arrow from a part to a module."""
    return part not in ALLOWED or bool({part_of(module), module.partition(".")[2]} & ALLOWED[part])


def imports_of(tree):
    """All statements that import, at once or late."""
    return [each for each in ast.walk(tree) if isinstance(each, ast.Import | ast.ImportFrom)]


def package_imports(nodes, names):
    """Modules of the package that the statements import, with their lines."""
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "fedsched":
                    yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module == "fedsched":
            # from fedsched import solve: the part; from fedsched import schedule: the package.
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


def offences(module, source, names=frozenset({*ALLOWED, *ENTRY_POINTS})):
    """One sentence for each import of a module's source that breaks the layers."""
    tree, part = ast.parse(source), part_of(module)
    nodes = imports_of(tree)
    found = [
        f"{module}:{node.lineno} imports relatively"
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.level > 0
    ]
    for imported, line in package_imports(nodes, names):
        other = part_of(imported)
        if other == part:
            continue
        if part == "__main__" and other == "cli":
            continue  # python -m fedsched is the command line
        if other in ENTRY_POINTS or not may_import(part, imported):
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
    twin = {f"tests.solve.{name}" for name in ("reference", "reference_draws", "brute_force")}
    folder = Path(__file__).parent / "solve"
    known = {
        node.module
        for module in twin
        for node in ast.walk(ast.parse((folder / f"{module.split('.')[-1]}.py").read_text()))
        if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] in ("fedsched", "tests")
    }
    assert known <= twin | {"fedsched.errors", "fedsched.values"}
    assert "tests.solve.reference" in known


def test_every_layer_is_looked_at():
    parts = {part_of(module) for module, _ in modules()}
    assert parts >= {*ALLOWED, *ENTRY_POINTS}


@pytest.mark.parametrize(
    ("module", "source", "sentence"),
    [
        ("fedsched.solve.power", "import fedsched.randomness", "imports fedsched.randomness"),
        ("fedsched.solve.power", "from fedsched.radio import record", "imports fedsched.radio"),
        ("fedsched.radio.trace", "from fedsched.runs.runlog import x", "fedsched.runs.runlog"),
        ("fedsched.radio", "from fedsched import policies", "imports fedsched.policies"),
        ("fedsched.runs.runlog", "from fedsched import schedule", "imports fedsched"),
        ("fedsched.runs.replay", "from fedsched.analysis import curves", "fedsched.analysis"),
        ("fedsched.analysis.groups", "from fedsched.runs.scenario import x", "runs.scenario"),
        ("fedsched.analysis.groups", "from fedsched import views", "imports fedsched.views"),
        ("fedsched.views.report", "import fedsched.runs.runlog", "imports fedsched.runs.runlog"),
        ("fedsched.learning.local", "def f():\n  import fedsched.policies as s", ":2 imports"),
        ("fedsched.learning.local", "from fedsched.rounds import run", "fedsched.rounds"),
        ("fedsched.rounds", "from fedsched.cli import main", "imports fedsched.cli"),
        ("fedsched.runs.experiment", "import fedsched.flower", "imports fedsched.flower"),
        ("fedsched", "from fedsched.flower import Strategy", "imports fedsched.flower"),
        ("fedsched.rounds", "import numpy\nimport torch", ":2 imports torch at once"),
        ("fedsched.cli.run", "from torch import nn", "imports torch at once"),
        (
            "fedsched.runs.scenario",
            "try:\n  import torch.nn\nexcept ImportError: ...",
            "imports torch",
        ),
        ("fedsched.runs.scenario", "class A:\n  import torch", "imports torch"),
        ("fedsched.solve.power", "from . import checks", "imports relatively"),
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
        ("fedsched.solve.power", "from fedsched.checks import positive_number"),
        ("fedsched.solve.power", "from fedsched.errors import InputError\nimport numpy"),
        ("fedsched.radio", "from fedsched.radio.trace import Trace"),
        ("fedsched.policies", "from fedsched.solve.uplink import Uplink"),
        ("fedsched.rounds", "from fedsched.radio import Trace\nimport fedsched.policies"),
        ("fedsched.learning.models", "import torch\nfrom torch import nn"),
        ("fedsched.analysis.groups", "from fedsched.runs.runlog import RunLog"),
        ("fedsched.views.report", "from fedsched.analysis.groups import Group"),
        ("fedsched.cli.run", "def command():\n  import torch"),
        ("fedsched.cli.run", "from fedsched.cli.output import table"),
        ("fedsched.runs.experiment", "if TYPE_CHECKING:\n  import torch"),
        ("fedsched.__main__", "from fedsched.cli import main"),
    ],
)
def test_an_import_that_keeps_to_the_layers_is_accepted(module, source):
    assert offences(module, source) == []
