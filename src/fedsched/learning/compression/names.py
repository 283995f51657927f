"""Compressors by the names that scenarios and the command line have for them."""

from fedsched.errors import InputError, UnknownNameError
from fedsched.learning.compression.base import AbstractCompressor
from fedsched.learning.compression.grid import Dithered, Ternary
from fedsched.learning.compression.natural import Natural
from fedsched.learning.compression.sparse import TopK

__all__ = ["AUTO", "compressor_name", "make_compressor", "make_compressors"]

# Of "auto": what a width gains by shorter buckets depends on the updates, so they are tried too.
AUTO = tuple(Dithered(width, bucket) for width in range(2, 9) for bucket in (64, 128, 512))
_AUTO = "auto"

_WIDTHS = tuple(str(width) for width in range(2, 9))
_NAMES = (
    "none",
    _AUTO,
    *_WIDTHS,
    "ternary",
    "natural",
    "dithered-4",
    "3-128",
    "ternary-128",
    "topk-0.01",
)
_DITHERED, _TERNARY, _TOP_K = "dithered-", "ternary", "topk-"


def compressor_name(name: str | int, *, field: str = "compress") -> str:
    """The one name of a compressor that has several: "4" for "dithered-4". Others are refused.

    Example:
        >>> compressor_name("dithered-4"), compressor_name("topk-0.010"), compressor_name("none")
        ('4', 'topk-0.01', 'none')
        >>> compressor_name("dithered-3-128"), compressor_name("4-512")
        ('3-128', '4')
    """
    if name == _AUTO:
        return _AUTO
    made = make_compressor(name, field=field)
    if isinstance(made, TopK):
        return f"{_TOP_K}{made.share:g}"
    if isinstance(made, Dithered | Ternary):
        kind = str(made.width) if isinstance(made, Dithered) else _TERNARY
        return kind if made.bucket == type(made)().bucket else f"{kind}-{made.bucket}"
    return str(name)


def make_compressor(name: str | int, *, field: str = "compress") -> AbstractCompressor | None:
    """The compressor of that name; None for "none", which sends updates as they are.

    Args:
        name: "none"; 2 to 8 or "dithered-2" to "dithered-8", the bits of a number; "ternary";
            "natural"; or "topk-" with the share of the numbers that are sent, as in "topk-0.01".
            How many numbers share a scale may follow: "3-128", "dithered-3-128", "ternary-128".
        field: the setting that holds the name; errors begin with it.

    Example:
        >>> make_compressor("4")
        Dithered(width=4, bucket=512)
        >>> make_compressor("3-128")
        Dithered(width=3, bucket=128)
        >>> make_compressor("topk-0.05").share
        0.05
    """
    name = str(name)
    if name == "none":
        return None
    if name == "natural":
        return Natural()
    if name.startswith(_TOP_K):
        return _top_k(name, field)
    kind, mark, bucket = name.removeprefix(_DITHERED).partition("-")
    scale = {"bucket": _bucket(name, bucket, field)} if mark else {}
    if kind in _WIDTHS:
        return Dithered(int(kind), **scale)
    if kind == _TERNARY and not name.startswith(_DITHERED):
        return Ternary(**scale)
    raise UnknownNameError(field, name, _NAMES)


def make_compressors(name: str | int, *, field: str = "compress") -> tuple[AbstractCompressor, ...]:
    """The compressors to choose from: the one of that name, none, or many for "auto".

    Example:
        >>> make_compressors("4"), make_compressors("none"), len(make_compressors("auto"))
        ((Dithered(width=4, bucket=512),), (), 21)
    """
    if name == _AUTO:
        return AUTO
    made = make_compressor(name, field=field)
    return () if made is None else (made,)


def _bucket(name: str, text: str, field: str) -> int:
    """The numbers with one scale, as a name has them: without zeros before it."""
    if not (text.isascii() and text.isdigit() and text[0] != "0" and len(text) < 10):
        raise InputError(
            f"{field}: {name!r} must end with how many numbers share a scale, from 1 to "
            f"999999999, as 4-128 does, or have no such end, as 4; allowed are {', '.join(_NAMES)}"
        )
    return int(text)


def _top_k(name: str, field: str) -> TopK:
    try:
        return TopK(float(name.removeprefix(_TOP_K)))
    except ValueError:  # of float, and of a share that is none
        raise InputError(
            f"{field}: {name!r} must end with the share of the numbers that are sent, millionths "
            f"in (0, 1]; {_TOP_K}0.01 sends one in a hundred; allowed are {', '.join(_NAMES)}"
        ) from None
