"""A user's own data and models, named by their import path."""

import importlib
import sys
import traceback
from pathlib import Path
from typing import Any

from fedsched.errors import InputError

__all__ = ["import_object", "made_by"]


def import_object(field: str, path: str) -> Any:
    """The object that ``"package.module:name"`` names.

    A module of the user's own is found in the present folder, after all that is installed: a file
    there that is named like a dependency is never run in its place.

    Args:
        field: the setting that holds the path; errors begin with it.
        path: a module, a colon and a name inside the module.

    Example:
        >>> import_object("model", "fractions:Fraction").__name__
        'Fraction'
    """
    module_name, colon, name = path.partition(":")
    if not (module_name and colon and name) or module_name.startswith("."):
        raise InputError(f"{field}: {path!r} is no import path; write it as 'package.module:name'")
    # For good and not only now: the module may import its neighbours later, and workers inherit it.
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise InputError(
            f"{field}: {path!r} cannot be imported ({error}); install the package or put the "
            "folder that holds it on PYTHONPATH"
        ) from error
    except Exception as error:
        raise InputError(f"{field}: importing {path!r} raised {_what(error)}") from error
    try:
        return getattr(module, name)
    except AttributeError as error:
        raise InputError(f"{field}: the module {module_name!r} has no {name!r}") from error


def made_by(field: str, path: str, *arguments: Any) -> Any:
    """What the object that a path names makes of these arguments.

    Example:
        >>> made_by("model", "fractions:Fraction", "1/2")
        Fraction(1, 2)
    """
    make = import_object(field, path)
    if not callable(make):
        raise InputError(
            f"{field}: {path!r} cannot be called, it is a {type(make).__name__}; name a class or a "
            "function"
        )
    try:
        return make(*arguments)
    except SystemExit as error:  # else the command would end, and say that all went well
        raise InputError(f"{field}: {path!r} ends Python and makes no {field}") from error
    except InputError:
        raise
    except Exception as error:
        said = f"{field}: {path!r} is called with {len(arguments) or 'no'} argument"
        said += "" if len(arguments) == 1 else "s"
        if isinstance(error, TypeError) and len(traceback.extract_tb(error.__traceback__)) == 1:
            rest = "all others" if arguments else "all of them"
            raise InputError(f"{said} ({error}); give {rest} defaults") from error
        raise InputError(f"{said} and raised {_what(error)}") from error


def _what(error: Exception) -> str:
    """An error in one line: its kind, what it says, and the line of the code that raised it."""
    place = ""
    if isinstance(error, SyntaxError):  # says its line by itself
        return f"{type(error).__name__}: {error}"
    if frames := traceback.extract_tb(error.__traceback__):
        place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})"
    return f"{type(error).__name__}: {error}{place}"
