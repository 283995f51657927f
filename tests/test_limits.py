"""How long files, functions and lists of parameters may be."""

import ast
from pathlib import Path

import fedsched

ROOT = Path(fedsched.__file__).parent
FILE, FUNCTION, PARAMETERS = 350, 60, 8
# Where one call is the whole interface: its arguments are those of the mathematics, or of Flower.
FACADES = {"solve/decision.py decide": 11, "flower/strategy.py __init__": 28}


def parameters_of(function):
    every = function.args
    names = [each.arg for each in (*every.posonlyargs, *every.args, *every.kwonlyargs)]
    stars = [each for each in (every.vararg, every.kwarg) if each is not None]
    return len([name for name in names if name not in ("self", "cls")]) + len(stars)


def lines_of(function):
    """Lines from its name on, without those of its docstring."""
    first = function.body[0]
    said = ast.get_docstring(function, clean=False) is not None
    about = first.end_lineno - first.lineno + 1 if said else 0
    return function.end_lineno - function.lineno + 1 - about


def offences(name, source, facades=FACADES):
    """One sentence for each thing that is too long."""
    count = source.count("\n")
    if count > FILE:
        yield f"{name} has {count} lines"
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        where = f"{name} {node.name}"
        if (lines := lines_of(node)) > FUNCTION:
            yield f"{where} has {lines} lines"
        command = name.startswith("cli/") and node.name == "command"  # one for each option
        most = facades.get(where, PARAMETERS)
        if not command and (count := parameters_of(node)) > most:
            yield f"{where} has {count} parameters"


def test_nothing_is_too_long():
    found = [
        sentence
        for path in sorted(ROOT.rglob("*.py"))
        for sentence in offences(path.relative_to(ROOT).as_posix(), path.read_text("utf-8"))
    ]
    assert found == []


def test_whatever_is_too_long_would_be_noticed():
    long = "def f():\n" + "    x = 1\n" * 60
    assert [*offences("a.py", long)] == ["a.py f has 61 lines"]
    assert [*offences("a.py", "x = 1\n" * 351)] == ["a.py has 351 lines"]
    wide = "def command(a, b, c, d, e, /, f, g, *, h, **i): pass\n"
    assert [*offences("a.py", wide)] == ["a.py command has 9 parameters"]
    assert [*offences("cli/a.py", wide)] == []
    said = 'def f():\n    """' + "a\n" * 90 + '"""\n'
    assert [*offences("a.py", said)] == []


def test_what_is_excepted_is_there():
    for where, most in FACADES.items():
        name, function = where.split()
        tree = ast.parse((ROOT / name).read_text("utf-8"))
        widest = max(
            parameters_of(node)
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef) and node.name == function
        )
        assert widest == most
