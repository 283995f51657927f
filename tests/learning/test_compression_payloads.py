"""Payloads that no encoder made: each is refused with a sentence, or is a finite vector."""

import struct
import tracemalloc
import zlib

import numpy as np
import pytest

from fedsched.errors import InputError
from fedsched.learning.compression import (
    Dithered,
    Identity,
    Natural,
    PayloadError,
    Ternary,
    TopK,
    compressor_in,
    decode,
)
from fedsched.randomness import stream

LENGTH = 100
COMPRESSORS = [
    Identity(),
    Dithered(3, bucket=16),
    Dithered(8),
    Ternary(bucket=16),
    Natural(),
    TopK(0.05),
    TopK(0.5, Dithered(4, bucket=16)),
]
HEADER = struct.Struct("<4sBBHIQ")
TRIALS = 1_500  # of each kind of damage, for each compressor


def vector(length=LENGTH):
    return stream(1, "test-vector").normal(size=length).astype(np.float32)


def payload_of(compressor, length=LENGTH):
    return compressor.encode(vector(length), stream(1, "compression"))


def sealed_again(payload):
    """With a checksum that is right, as a malicious sender would have it."""
    fields, body = payload[:20], payload[24:]
    return bytes(fields) + struct.pack("<I", zlib.crc32(bytes(fields) + bytes(body))) + bytes(body)


def with_header(payload, **changes):
    names = ("magic", "version", "kind", "width", "bucket", "length")
    fields = dict(zip(names, HEADER.unpack_from(payload), strict=True)) | changes
    return sealed_again(HEADER.pack(*fields.values()) + payload[20:])


def refused(payload, length=LENGTH):
    """The sentence with which a payload is refused."""
    with pytest.raises(PayloadError) as caught:
        decode(payload, length)
    sentence = str(caught.value)
    assert len(sentence) > 20
    assert sentence.startswith("payload")
    return sentence


@pytest.fixture(params=COMPRESSORS, ids=str)
def compressor(request):
    return request.param


def test_a_payload_error_is_an_input_error():
    assert issubclass(PayloadError, InputError)


def test_any_flipped_bits_are_noticed(compressor):
    whole, random = payload_of(compressor), stream(1, "fuzz")
    for _ in range(TRIALS):
        damaged = bytearray(whole)
        for _ in range(random.integers(1, 4)):
            damaged[random.integers(len(whole))] ^= 1 << int(random.integers(8))
        if damaged != whole:
            refused(bytes(damaged))


def test_any_cut_or_longer_payload_is_refused(compressor):
    whole, random = payload_of(compressor), stream(2, "fuzz")
    for size in range(len(whole)):
        refused(whole[:size])
        refused(sealed_again(whole[:size]) if size >= 24 else whole[:size])
    for _ in range(200):
        more = whole + random.bytes(int(random.integers(1, 50)))
        assert "has something appended" in refused(more)
        refused(sealed_again(more))


def test_noise_is_refused():
    random = stream(3, "fuzz")
    for _ in range(TRIALS):
        refused(random.bytes(int(random.integers(0, 300))))


def test_a_forged_payload_is_refused_or_finite(compressor):
    """Whatever a sender seals: no other exception, no other length, nothing infinite."""
    whole, random = payload_of(compressor), stream(4, "fuzz")
    answers = {True: 0, False: 0}
    for _ in range(TRIALS):
        forged = bytearray(whole)
        for _ in range(random.integers(1, 6)):
            # Half of them in the first bytes, where headers and scales are.
            most = len(whole) if random.random() < 0.5 else min(60, len(whole))
            forged[int(random.integers(4, most))] = int(random.integers(256))
        try:
            found = decode(sealed_again(forged), LENGTH)
        except PayloadError:
            answers[False] += 1
            continue
        answers[True] += 1
        assert found.shape == (LENGTH,)
        assert found.dtype == np.float32
        assert np.isfinite(found).all()
    assert answers[False] > 50
    assert answers[True] > 50 or isinstance(compressor, TopK)  # two checksums


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"magic": b"\x93NUM"}, "no compressor of fedsched made it"),
        ({"version": 2}, "payload has version 2 and only 1 is known here"),
        ({"kind": 77}, r"payload is of kind 77, which is not known here: 1 \(identity\)"),
        ({"kind": 0}, "payload is of kind 0, which is not known here"),
        ({"width": 9}, "payload has a header that cannot be right: width must be"),
        ({"width": 0}, "payload has a header that cannot be right: width must be"),
        ({"bucket": 0}, "payload has a header that cannot be right: bucket must be"),
        ({"bucket": 8}, "bytes and its header asks for"),
        ({"width": 4}, "bytes and its header asks for"),
        ({"length": 101}, "payload holds a vector of 101 entries and 100 are expected"),
        ({"length": 2**63}, "entries and 100 are expected"),
    ],
)
def test_a_header_that_says_something_else_is_refused(change, sentence):
    with pytest.raises(PayloadError, match=sentence):
        decode(with_header(payload_of(Dithered(3, bucket=16)), **change), LENGTH)


@pytest.mark.parametrize("kind", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("length", [2**24, 2**40, 2**62])
def test_a_length_that_is_not_there_takes_no_memory(kind, length):
    """Even if the caller expects as much."""
    forged = with_header(payload_of(Dithered(3)), kind=kind, length=length)
    tracemalloc.start()
    refused(forged, length)
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert used < 100_000


def test_the_payload_of_another_compressor_is_refused():
    for made in COMPRESSORS:
        for asked in COMPRESSORS:
            payload = payload_of(made)
            if made == asked:
                asked.decode(payload, LENGTH)
                continue
            with pytest.raises(PayloadError, match="use the same compressor at both ends"):
                asked.decode(payload, LENGTH)


@pytest.mark.parametrize("bits", [0x7F80, 0x7FC0, 0x8000, 0xBF80, 0xFF80, 0x7F00])
@pytest.mark.parametrize("compressor", [Dithered(4, bucket=16), Ternary(bucket=16)], ids=str)
def test_a_scale_that_no_encoder_makes_is_refused(compressor, bits):
    """Infinite, not a number, negative, or so large that levels would be infinite."""
    whole = payload_of(compressor)
    forged = sealed_again(whole[:24] + struct.pack("<H", bits) + whole[26:])
    if compressor == Ternary(bucket=16) and bits == 0x7F00:
        forged = sealed_again(whole[:24] + struct.pack("<H", 0x7F7F) + whole[26:])
    with pytest.raises(PayloadError, match="payload has a scale"):
        decode(forged, LENGTH)


def test_numbers_that_are_not_finite_are_refused():
    for compressor, place, value in (
        (Identity(), 24, b"\x00\x00\x80\x7f"),
        (Identity(), 40, b"\x00\x00\xc0\x7f"),
        (Natural(), 30, b"\xff"),
    ):
        whole = payload_of(compressor)
        forged = sealed_again(whole[:place] + value + whole[place + len(value) :])
        assert "finite" in refused(forged) or "infinite" in refused(forged)


def test_a_byte_that_five_ternary_codes_do_not_make_is_refused():
    whole = payload_of(Ternary())
    for byte in (243, 255):
        forged = sealed_again(whole[:-1] + bytes([byte]))
        assert f"payload has a byte {byte} where five codes" in refused(forged)
    assert np.isfinite(decode(sealed_again(whole[:-1] + bytes([242])), LENGTH)).all()


@pytest.mark.parametrize(
    "places",
    [b"\x05\x04\x06\x07\x08", b"\x05\x05\x06\x07\x08", b"\x05\x06\x07\x08\x64", b"\xff" * 5],
    ids=["falling", "twice", "beyond", "far beyond"],
)
def test_indices_that_no_encoder_makes_are_refused(places):
    whole = payload_of(TopK(0.05))
    forged = sealed_again(whole[:24] + places + whole[29:])
    assert "must name 5 different entries below 100 in rising order" in refused(forged)


def test_a_mask_with_another_number_of_entries_is_refused():
    whole = payload_of(TopK(0.5))
    forged = sealed_again(whole[:24] + bytes([whole[24] ^ 1]) + whole[25:])
    assert "must name 50 different entries" in refused(forged)
    beyond = bytearray(whole[24:37])
    entry = int(np.flatnonzero(np.unpackbits(beyond, bitorder="little"))[0])
    beyond[entry // 8] ^= 1 << entry % 8
    beyond[12] |= 0x80  # entry 103
    forged = sealed_again(whole[:24] + bytes(beyond) + whole[37:])
    assert "must name 50 different entries below 100" in refused(forged)


def test_top_k_within_top_k_is_refused():
    inner = payload_of(TopK(0.5), length=5)
    whole = payload_of(TopK(0.05))
    assert "kind 5, which is not known here" in refused(sealed_again(whole[:29] + inner))


@pytest.mark.parametrize(
    "payload",
    [None, "fsup", 7, [1, 2], np.zeros(30, np.uint8), memoryview(np.zeros(30))],
    ids=["none", "text", "number", "list", "array", "view of numbers"],
)
def test_what_is_no_row_of_bytes_is_refused(payload):
    with pytest.raises(PayloadError, match="payload must be a row of bytes, got"):
        decode(payload, 3)


def test_bytes_in_any_clothes_are_read(compressor):
    whole = payload_of(compressor)
    expected = decode(whole, LENGTH)
    for payload in (bytearray(whole), memoryview(whole), np.frombuffer(whole, np.uint8).data):
        assert decode(payload, LENGTH).tobytes() == expected.tobytes()
        assert compressor_in(payload) == compressor
