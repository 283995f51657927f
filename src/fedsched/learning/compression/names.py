"""Compressors by the names that scenarios and the command line have for them."""

from collections.abc import Mapping
from types import MappingProxyType

from fedsched.errors import InputError, UnknownNameError
from fedsched.learning.compression.base import AbstractCompressor
from fedsched.learning.compression.grid import Dithered, Ternary
from fedsched.learning.compression.natural import Natural
from fedsched.learning.compression.sparse import TopK

__all__ = ["compressor_name", "make_compressor"]

_BY_NAME: Mapping[str, AbstractCompressor | None] = MappingProxyType(
    {
        "none": None,
        **{str(width): Dithered(width) for width in range(2, 9)},
        "ternary": Ternary(),
        "natural": Natural(),
    }
)
_DITHERED, _TOP_K = "dithered-", "topk-"


def compressor_name(name: str, *, field: str = "compress") -> str:
    """The one name of a compressor that has two: "4" for "dithered-4". Others are refused.

    Example:
        >>> compressor_name("dithered-4"), compressor_name("topk-0.010"), compressor_name("none")
        ('4', 'topk-0.01', 'none')
    """
    width = name.removeprefix(_DITHERED)
    if width in _BY_NAME and (name == width or width.isdigit()):
        return width
    if name.startswith(_TOP_K):
        return f"{_TOP_K}{_top_k(name, field).share:g}"
    raise UnknownNameError(field, name, [*_BY_NAME, f"{_DITHERED}4", f"{_TOP_K}0.01"])


def make_compressor(name: str, *, field: str = "compress") -> AbstractCompressor | None:
    """The compressor of that name; None for "none", which sends updates as they are.

    Args:
        name: "none"; "2" to "8" or "dithered-2" to "dithered-8", the bits of a number; "ternary";
            "natural"; or "topk-" with the share of the numbers that are sent, as in "topk-0.01".
        field: the setting that holds the name; errors begin with it.

    Example:
        >>> make_compressor("4")
        Dithered(width=4, bucket=512)
        >>> make_compressor("topk-0.05").share
        0.05
    """
    known = compressor_name(name, field=field)
    return _top_k(known, field) if known.startswith(_TOP_K) else _BY_NAME[known]


def _top_k(name: str, field: str) -> TopK:
    try:
        return TopK(float(name.removeprefix(_TOP_K)))
    except ValueError:  # of float, and of a share that is none
        raise InputError(
            f"{field}: {name!r} must end with the share of the numbers that are sent, millionths "
            f"in (0, 1]; {_TOP_K}0.01 sends one in a hundred"
        ) from None
