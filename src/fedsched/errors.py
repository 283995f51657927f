"""Everything this package raises on purpose.

FedschedError
├── InputError             a value given by the caller is missing, malformed or contradictory
│   └── UnknownNameError   a component name is not in its registry
├── SolveError             a per-round problem was not solved to its certificate
├── RunLogError            a run folder is unreadable, damaged or of another schema version
└── MissingExtraError      an optional dependency is needed and not installed

Every message names the field, the value, what is allowed, and what to do. The command line turns
any of these into one sentence and exit code 2.
"""

import difflib
import importlib
import importlib.util
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Self

__all__ = [
    "FedschedError",
    "InputError",
    "MissingExtraError",
    "RunLogError",
    "SolveError",
    "UnknownNameError",
    "require",
    "require_file",
]


# The paper's symbols, and what fields and options call them.
_SYMBOLS = {"m": "draws", "lambda": "lam", "λ": "lam", "N": "devices"}


class FedschedError(Exception):
    """Base of all errors raised on purpose."""


class InputError(FedschedError, ValueError):
    """A value given by the caller is missing, malformed or contradictory."""


class UnknownNameError(InputError):
    """A component name is not in its registry.

    Example:
        >>> raise UnknownNameError("channel", "heterogenous", ["heterogeneous", "homogeneous"])
        Traceback (most recent call last):
        fedsched.errors.UnknownNameError: channel: 'heterogenous' is not known; \
did you mean 'heterogeneous'? (known: heterogeneous, homogeneous)
    """

    def __init__(self, field: str, name: str, known: Iterable[str]) -> None:
        self.field, self.name, self.known = field, name, sorted(known)
        meant = _SYMBOLS.get(name, name)
        letters = {each.lower(): each for each in self.known}  # whatever their case
        near = difflib.get_close_matches(meant.lower(), letters, n=1)
        hint = f"; did you mean {letters[near[0]]!r}?" if near else ""
        super().__init__(f"{field}: {name!r} is not known{hint} (known: {', '.join(self.known)})")

    def __reduce__(self) -> tuple[type[Self], tuple[str, str, list[str]]]:
        # A worker process sends its errors home pickled; by default only the message would travel.
        return type(self), (self.field, self.name, self.known)


class SolveError(FedschedError, ArithmeticError):
    """A per-round problem was not solved to its certificate."""


class RunLogError(FedschedError):
    """A run folder is unreadable, damaged or of another schema version."""


class MissingExtraError(FedschedError, ImportError):
    """An optional dependency is needed and not installed."""


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import an optional dependency now, or say which extra brings it.

    Example:
        >>> require("json", extra="report", purpose="reading JSON").__name__
        'json'
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise _missing(module.partition(".")[0], extra, purpose) from error


def require_file(package: str, path: str, *, extra: str, purpose: str) -> Path:
    """A file that an optional dependency brings, found without importing it.

    Example:
        >>> require_file("json", "decoder.py", extra="report", purpose="reading JSON").name
        'decoder.py'
    """
    found = importlib.util.find_spec(package)
    # Beside a folder of that name without an __init__, or a lone module, there is no such file.
    for folder in (found and found.submodule_search_locations) or ():
        if (file := Path(folder) / path).is_file():
            return file
    raise _missing(package, extra, purpose)


def _missing(package: str, extra: str, purpose: str) -> MissingExtraError:
    return MissingExtraError(
        f"{purpose} needs the package {package!r}, which is not installed; "
        f"install it with: pip install 'fedsched[{extra}]', or '.[{extra}]' in the project's folder"
    )
