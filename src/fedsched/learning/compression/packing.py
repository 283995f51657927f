"""Small whole numbers in few bits: eight numbers of b bits in b bytes, five of three values in one.

Every function here works on whole arrays. Bytes come out the same on any processor.
"""

import numpy as np
from numpy.typing import NDArray

from fedsched.learning.compression.payload import PayloadError

__all__ = ["pack_bits", "pack_trits", "packed_bits", "packed_trits", "unpack_bits", "unpack_trits"]

Codes = NDArray[np.uint8]

_GROUP = 8  # codes of b bits that fill b bytes
_TRITS = 5  # codes of three values in a byte: 3^5 = 243
_BLOCK = 1 << 18  # codes that are packed at a time, so that little memory is taken; whole groups
_LANES = (8, 16, 32)  # bits apart of what is pushed together, step by step
_WORD = np.dtype("<u8")  # its first byte is the lowest on any processor


def packed_bits(length: int, width: int) -> int:
    """Bytes of that many codes of ``width`` bits."""
    return (length * width + 7) // 8


def pack_bits(codes: Codes, width: int) -> memoryview:
    """Codes below 2^width, one after the other, lowest bits first.

    Example:
        >>> pack_bits(np.array([1, 2, 3], np.uint8), 4).hex()
        '2103'
    """
    if width == _GROUP:
        return codes.data
    packed = np.empty((-(-len(codes) // _GROUP), width), np.uint8)
    for start in range(0, len(codes), _BLOCK):
        words = _padded(codes[start : start + _BLOCK], _GROUP).view(_WORD)
        # Codes lie in bytes. Neighbours are pushed together to pairs, then to fours and eights.
        for lane in _LANES:
            upper = words >> np.uint64(lane)
            upper &= _lowest(lane, lane)
            upper <<= np.uint64(lane * width // _GROUP)
            words &= _lowest(lane, lane)
            words |= upper
        lowest = words.view(np.uint8).reshape(-1, _GROUP)[:, :width]
        packed[start // _GROUP :][: len(lowest)] = lowest
    return packed.reshape(-1)[: packed_bits(len(codes), width)].data


def unpack_bits(packed: memoryview, length: int, width: int) -> Codes:
    """The codes of :func:`pack_bits`.

    Example:
        >>> unpack_bits(memoryview(bytes.fromhex("2103")), 3, 4)
        array([1, 2, 3], dtype=uint8)
    """
    given = np.frombuffer(packed, np.uint8)
    if width == _GROUP:
        return given[:length]
    spread = np.zeros((-(-length // _GROUP), _GROUP), np.uint8)
    spread[:, :width] = _padded(given, width).reshape(-1, width)
    words = spread.reshape(-1).view(_WORD)
    for lane in reversed(_LANES):
        near = lane * width // _GROUP
        upper = words >> np.uint64(near)
        upper &= _lowest(near, lane)
        upper <<= np.uint64(lane)
        words &= _lowest(near, lane)
        words |= upper
    return spread.reshape(-1)[:length]


def packed_trits(length: int) -> int:
    """Bytes of that many codes of three values."""
    return -(-length // _TRITS)


def pack_trits(codes: Codes) -> memoryview:
    """Codes 0, 1 and 2, five to a byte: 1.6 bits each, where two bits would waste a quarter.

    Example:
        >>> pack_trits(np.array([2, 1, 0, 0, 0, 1], np.uint8)).hex()
        '0501'
    """
    groups = _padded(codes, _TRITS).reshape(-1, _TRITS)
    packed = groups[:, -1].copy()
    for place in reversed(range(_TRITS - 1)):
        packed *= 3
        packed += groups[:, place]
    return packed.data


def unpack_trits(packed: memoryview, length: int) -> Codes:
    """The codes of :func:`pack_trits`.

    Example:
        >>> unpack_trits(memoryview(bytes.fromhex("0501")), 6)
        array([2, 1, 0, 0, 0, 1], dtype=uint8)
    """
    given = np.frombuffer(packed, np.uint8)
    if given.max(initial=0) >= 3**_TRITS:
        raise PayloadError(
            f"payload has a byte {given.max()} where five codes of three values make "
            f"{3**_TRITS - 1} at most; it was not made by this encoder"
        )
    table = np.arange(3**_TRITS)[:, None] // 3 ** np.arange(_TRITS) % 3
    return table.astype(np.uint8)[given].reshape(-1)[:length]


def _lowest(bits: int, lane: int) -> np.uint64:
    """A mask of the lowest bits of every two lanes in a word."""
    return np.uint64(((1 << bits) - 1) * (((1 << 64) - 1) // ((1 << 2 * lane) - 1)))


def _padded(codes: Codes, group: int) -> Codes:
    """A copy that is filled with zeros to whole groups."""
    filled = np.zeros(-(-len(codes) // group) * group, np.uint8)
    filled[: len(codes)] = codes
    return filled
