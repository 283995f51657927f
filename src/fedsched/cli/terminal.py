"""The one way to the terminal: nothing that is printed can command it, or be beyond its letters.

Names of folders and values of manifests come from strangers. A control character in them could
move the cursor, forge lines, or set the title of the window.
"""

import codecs
import io
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["clean", "cleaned_output", "console"]

# Control characters but for tabs and ends of lines, and what turns the direction of letters.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    r"""The text with its control characters written out.

    Example:
        >>> print(clean("\x1b[2Jgone"))
        \x1b[2Jgone
    """
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class _Cleaned(io.TextIOWrapper):
    """A stream to the same place as another, through which only clean text goes."""

    def __init__(self, plain: io.TextIOWrapper) -> None:
        # A stream of ASCII would be passed by: click takes it for a mistake and opens its own. So
        # it is called UTF-8, of which it gets the letters of ASCII alone.
        self._ascii = codecs.lookup(plain.encoding).name == "ascii"
        super().__init__(
            plain.buffer,
            encoding="utf-8" if self._ascii else plain.encoding,
            errors=plain.errors,
            line_buffering=True,
            write_through=True,
        )
        self.plain = plain

    def write(self, text: str, /) -> int:
        letters = clean(text)
        if self._ascii:
            letters = letters.encode("ascii", self.errors or "strict").decode("ascii")
        super().write(letters)
        return len(text)


@contextmanager
def cleaned_output() -> Iterator[None]:
    """Clean all that is printed in the block; letters a terminal does not have become marks."""
    before = sys.stdout, sys.stderr
    for stream in before:
        if isinstance(stream, io.TextIOWrapper):
            stream.flush()
            stream.reconfigure(errors="replace" if stream is sys.stdout else "backslashreplace")
    sys.stdout, sys.stderr = map(_cleaned, before)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, _Cleaned):
                stream.flush()
                stream.detach()  # or the place would be closed with the stream
        sys.stdout, sys.stderr = before


def _cleaned(stream: TextIO) -> TextIO:
    return _Cleaned(stream) if isinstance(stream, io.TextIOWrapper) else stream


def console(*, stderr: bool = False, **options: Any) -> "Console":
    """Rich's console, which commands the terminal itself: what it is given must be clean."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(file=getattr(stream, "plain", stream), **options)
