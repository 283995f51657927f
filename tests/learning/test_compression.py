"""Compressors against their definitions: exact sizes, no bias, the variance that theory says."""

import hashlib
import json
import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from scipy import integrate, special

from fedsched.errors import InputError
from fedsched.learning.aggregation import Update, WeightedSum
from fedsched.learning.compression import (
    KINDS,
    Dithered,
    ErrorFeedback,
    Identity,
    Natural,
    RunningOmega,
    Ternary,
    TopK,
    best_width,
    compressor_in,
    decode,
)
from fedsched.randomness import stream

UNBIASED = [
    Identity(),
    *(Dithered(width) for width in range(2, 9)),
    Dithered(3, bucket=7),
    Ternary(),
    Ternary(bucket=7),
    Natural(),
]
BIASED = [TopK(0.01), TopK(0.5), TopK(1.0), TopK(0.25, Dithered(4, bucket=16))]
EVERY = [*UNBIASED, *BIASED]
LENGTHS = (0, 1, 2, 4, 5, 7, 8, 9, 16, 511, 512, 513, 1029)
COPIES = 10_000


def heavy_tailed(length, seed=1):
    """Entries of very different magnitudes, zeros among them; by exact operations alone."""
    words = stream(seed, "test-vector").integers(-(2**20), 2**20, size=length)
    unit = words.astype(np.float32) / np.float32(2**20)
    return np.where(words % 16 == 0, np.float32(0.0), unit * unit * unit)


def squares(vector):
    return float(np.square(vector, dtype=np.float64).sum())


def named(compressor):
    return str(compressor)


# --- what is sent ----------------------------------------------------------------------------


@pytest.mark.parametrize("compressor", EVERY, ids=named)
@pytest.mark.parametrize("length", LENGTHS)
def test_the_payload_has_exactly_the_bits_it_says_and_tells_what_it_is(compressor, length):
    x = heavy_tailed(length)
    before = x.copy()
    payload = compressor.encode(x, stream(1, "compression", length))
    assert isinstance(payload, bytes)
    assert 8 * len(payload) == compressor.bits(length)
    assert compressor_in(payload) == compressor
    decoded = compressor.decode(payload, length)
    assert decoded.dtype == np.float32
    assert decoded.shape == (length,)
    assert np.isfinite(decoded).all()
    assert decode(payload, length).tobytes() == decoded.tobytes()
    assert x.tobytes() == before.tobytes()


@pytest.mark.parametrize(
    ("compressor", "body_bits"),
    [
        (Identity(), 32 * 1030),
        (Dithered(4), 3 * 16 + 4 * 1030),
        (Dithered(3), 3 * 16 + 3 * 1030 + 6),  # 386.25 bytes, and the rest of one
        (Dithered(8, bucket=1030), 16 + 8 * 1030),
        (Ternary(), 3 * 16 + 206 * 8),
        (Natural(), 8 * 1030 + 129 * 8),
        (TopK(0.01), 11 * 16 + 192 + 11 * 32),  # 11 indices of two bytes and a header inside
        (TopK(0.5), 129 * 8 + 192 + 515 * 32),  # one bit an entry is less than indices
    ],
    ids=str,
)
def test_sizes_are_those_of_a_calculation_by_hand(compressor, body_bits):
    assert compressor.bits(1030) == 192 + body_bits


def test_a_model_of_the_paper_is_sent_in_a_sixth_to_a_twentieth_of_the_bits():
    length = 555_178
    ratios = [Identity().bits(length) / c.bits(length) for c in (Dithered(4), Dithered(3))]
    assert ratios[0] > 7.9
    assert ratios[1] > 10.5
    assert Identity().bits(length) / Ternary().bits(length) > 19.5


@pytest.mark.parametrize("compressor", EVERY, ids=named)
def test_the_same_stream_gives_the_same_bytes_and_another_one_does_not(compressor):
    x = heavy_tailed(600)
    payload = compressor.encode(x, stream(1, "compression", 3, 5))
    assert compressor.encode(x, stream(1, "compression", 3, 5)) == payload
    strided = np.repeat(x, 2)[::2]
    assert compressor.encode(strided, stream(1, "compression", 3, 5)) == payload
    chance = not isinstance(compressor, Identity) and compressor not in BIASED[:3]
    assert (compressor.encode(x, stream(1, "compression", 3, 6)) != payload) == chance


def digest():
    """Of the payloads of all compressors, over several pieces that are worked on at a time."""
    sums = hashlib.sha256()
    for compressor in EVERY:
        x = heavy_tailed(70_001, seed=compressor.kind)
        payload = compressor.encode(x, stream(1, "compression", 7, 11))
        sums.update(payload)
        sums.update(decode(payload, len(x)).astype("<f4").tobytes())
    return sums.hexdigest()


DIGEST = "17f559e463a2705c8f5d4b995dbe38e250078cb709fe8fb8ab45e3b3816d8349"


def test_the_bytes_are_the_same_as_ever():
    assert digest() == DIGEST


@pytest.mark.slow
def test_the_bytes_are_the_same_with_the_least_instructions_of_a_processor():
    """NumPy has other kernels for other processors; it can be told to use its plainest."""
    found = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    code = (
        f"import sys; sys.path[:0] = {json.dumps(sys.path)}\n"
        f"import importlib.util as u\ns = u.spec_from_file_location('tests_here', {__file__!r})\n"
        "m = u.module_from_spec(s); s.loader.exec_module(m); print(m.digest())"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env={**os.environ, "NPY_DISABLE_CPU_FEATURES": " ".join(found)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == DIGEST


@pytest.mark.parametrize("compressor", EVERY, ids=named)
def test_zeros_stay_zeros(compressor):
    x = np.zeros(1000, np.float32)
    x[::2] = -0.0
    assert (decode(compressor.encode(x, stream(1, "compression")), 1000) == 0.0).all()


@pytest.mark.parametrize("compressor", UNBIASED, ids=named)
@pytest.mark.parametrize("size", [1e-45, 1e-38, 1e-20, 1e20, 2.0**127])
def test_no_magnitude_is_too_small_or_too_large(compressor, size):
    x = np.array([size, -size, size / 3, 0.0] * 40, np.float32)
    decoded = decode(compressor.encode(x, stream(2, "compression")), 160)
    assert np.isfinite(decoded).all()
    above = 2.0 if isinstance(compressor, Natural) else 1.008  # a power of two, or a scale
    largest = float(np.abs(decoded).max())
    assert largest <= max(above * size, 2.0**-126)
    if size >= 1e-38:  # below, an entry is rarely not zero
        assert largest >= 0.5 * size


@pytest.mark.parametrize("compressor", EVERY, ids=named)
@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf, 3e38])
def test_a_vector_that_is_not_finite_is_refused(compressor, poison):
    x = np.ones(40, np.float32)
    x[17] = poison
    with pytest.raises(InputError, match=r"vector must be finite and within .* at entry 17"):
        compressor.encode(x, stream(1, "compression"))


@pytest.mark.parametrize(
    "x", [np.ones(3), np.ones((2, 2), np.float32), [1.0, 2.0], np.ones(3, np.int32)], ids=str
)
def test_what_is_no_float32_vector_is_refused(x):
    with pytest.raises(InputError, match="vector must be a float32 array of one dimension, got"):
        Dithered().encode(x, stream(1, "compression"))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Dithered(1), "width must be a whole number from 2 to 8, got 1"),
        (lambda: Dithered(9), "width must be a whole number from 2 to 8, got 9"),
        (lambda: Dithered(4.0), "width must be a whole number from 2 to 8, got 4.0"),
        (lambda: Dithered(4, bucket=0), "bucket must be a whole number from 1 to"),
        (lambda: Ternary(bucket=2**32), "bucket must be a whole number from 1 to"),
        (lambda: TopK(0.0), "share must be a whole number of millionths"),
        (lambda: TopK(1.1), "share must be a whole number of millionths"),
        (lambda: TopK(1.5e-6), "share must be a whole number of millionths"),
        (lambda: TopK(0.1, TopK(0.1)), "values must be a compressor that sends every entry"),
        (lambda: ErrorFeedback(Dithered(4)), "inner must be a biased compressor"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(make, sentence):
    with pytest.raises(InputError, match=sentence):
        make()


def test_every_kind_has_a_number_and_a_name_of_its_own():
    assert all(kind == each.kind for kind, each in KINDS.items())
    assert len({each.name for each in KINDS.values()}) == len(KINDS) == 5


def peak(job, update):
    """The result of a job and the most memory it took, in updates."""
    tracemalloc.start()
    result = job()
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return result, used / update.nbytes


@pytest.mark.parametrize("compressor", UNBIASED, ids=named)
def test_encoding_and_decoding_take_the_memory_of_about_one_update(compressor):
    x = heavy_tailed(555_178)
    payload, encoding = peak(lambda: compressor.encode(x, stream(1, "compression")), x)
    _, decoding = peak(lambda: decode(payload, len(x)), x)
    # A payload of 32 bits is an update itself, and so is every decoded vector.
    assert encoding < (2.1 if compressor == Identity() else 1.3)
    assert decoding < 1.8


def test_keeping_few_entries_takes_two_copies_of_the_magnitudes():
    x = heavy_tailed(555_178)
    payload, encoding = peak(lambda: TopK(0.01).encode(x, stream(1, "compression")), x)
    _, decoding = peak(lambda: decode(payload, len(x)), x)
    assert encoding < 2.6
    assert decoding < 1.2


# --- no bias -----------------------------------------------------------------------------------


def neighbours(compressor, x, payload):
    """The levels below and above each entry, by the definition and the scales in the payload."""
    x = x.astype(np.float64)
    if isinstance(compressor, Identity):
        return x, x
    if isinstance(compressor, Natural):
        _, exponent = np.frexp(np.abs(x))
        low = np.where(x == 0.0, 0.0, 2.0 ** (exponent - 1.0))
        low = np.where(np.abs(x) < 2.0**-126, 0.0, low)
        high = np.where(low == 0.0, 2.0**-126, 2.0 * low)
        return np.where(x < 0, -high, low), np.where(x < 0, -low, high)
    steps = 2 if isinstance(compressor, Ternary) else 2**compressor.width - 1
    buckets = -(-len(x) // compressor.bucket)
    upper_halves = np.frombuffer(payload[24 : 24 + 2 * buckets], "<u2").astype(np.uint32)
    scale = (upper_halves << 16).view(np.float32).astype(np.float64)
    h = np.repeat(scale, compressor.bucket)[: len(x)]
    place = np.floor((x / np.where(h > 0, h, 1.0) + steps) / 2)
    place = np.minimum(place, steps - 1)
    return (2 * place - steps) * h, (2 * place + 2 - steps) * h


def assert_unbiased(x, mean, low, high, copies):
    """Within 5 standard errors in every coordinate, and within 4 over all; none beyond levels."""
    variance = (x - low) * (high - x)
    assert variance.min() >= 0.0
    # A place on the grid is a float32: its rounding is what a bias may be.
    rounding = 2.0**-22 * np.abs(x).max()
    error = np.sqrt(variance / copies)
    assert (np.abs(mean - x) <= 5.0 * error + rounding).all()
    over_all = np.sqrt(variance.sum() / copies) / len(x)
    assert abs((mean - x).mean()) <= 4.0 * over_all + rounding


@pytest.mark.parametrize("bucket", [64, 7])
@pytest.mark.parametrize("compressor", UNBIASED, ids=named)
def test_the_mean_of_many_decoded_copies_is_the_vector(compressor, bucket):
    """The copies lie one after the other, each in buckets of its own."""
    if hasattr(compressor, "bucket"):
        args = (compressor.width,) if isinstance(compressor, Dithered) else ()
        compressor = type(compressor)(*args, bucket=bucket)
    x = heavy_tailed(10 * bucket - bucket % 2, seed=bucket)[: bucket * (64 // bucket)]
    payload = compressor.encode(np.tile(x, COPIES), stream(3, "compression", bucket))
    copies = decode(payload, COPIES * len(x)).reshape(COPIES, len(x)).astype(np.float64)
    low, high = neighbours(compressor, x, compressor.encode(x, stream(1, "compression")))
    assert ((copies == low) | (copies == high)).all()
    assert_unbiased(x.astype(np.float64), copies.mean(axis=0), low, high, COPIES)


@pytest.mark.slow
@pytest.mark.parametrize("compressor", [Dithered(3, bucket=16), Ternary(16), Natural()], ids=named)
def test_the_mean_of_many_payloads_is_the_vector(compressor):
    """As a server gets them: each payload of its own stream, the last bucket not whole."""
    x = heavy_tailed(37, seed=5)
    total = np.zeros(37)
    for n in range(COPIES):
        payload = compressor.encode(x, stream(4, "compression", n))
        total += compressor.decode(payload, 37)
    low, high = neighbours(compressor, x, payload)
    assert_unbiased(x.astype(np.float64), total / COPIES, low, high, COPIES)


def test_what_is_said_to_be_unbiased_is_and_what_is_not_is_marked():
    assert all(each.unbiased for each in UNBIASED)
    assert not any(each.unbiased for each in BIASED)
    x = heavy_tailed(100)
    sent = np.mean([decode(TopK(0.1).encode(x, stream(n, "c")), 100) for n in range(50)], axis=0)
    assert np.count_nonzero(sent) == 10


@pytest.mark.slow
def test_a_weighted_sum_of_compressed_updates_is_unbiased_over_coins_and_compression():
    """The server's step with coins of probability q and weights 1 / (N q)."""
    devices, length, rounds = 8, 20, 3_000
    updates = np.stack([heavy_tailed(length, seed=n) for n in range(devices)])
    q = np.linspace(0.3, 1.0, devices)
    compressor, zero = Dithered(3, bucket=8), np.zeros(length, np.float32)
    steps = np.empty((rounds, length))
    for t in range(rounds):
        cohort = np.flatnonzero(stream(1, "sampling", t).random(devices) < q)
        received = (
            (
                1 / (devices * q[n]),
                compressor.decode(
                    compressor.encode(updates[n], stream(1, "compression", t, n)), length
                ),
            )
            for n in cohort
        )
        given = (Update(0, weight, delta) for weight, delta in received)
        steps[t] = WeightedSum().step(zero, {}, given).parameters
    error = steps.std(axis=0) / np.sqrt(rounds)
    assert (np.abs(steps.mean(axis=0) - updates.mean(axis=0)) <= 5 * error).all()


# --- how much variance -------------------------------------------------------------------------


def omega_by_quadrature(steps, bucket):
    """E |C(x) - x|^2 / E |x|^2: an integral over M, and within it one over an entry below M."""
    x = np.linspace(-1.0, 1.0, 20_001)

    def inside(m):
        place = (x + 1) * steps / 2
        f = place - np.floor(place)
        variance = (2 * m / steps) ** 2 * f * (1 - f)
        density = np.exp(-0.5 * (m * x) ** 2)
        return np.sum(variance * density) / np.sum(density)

    def density_of_largest(m):
        within = special.erf(m / np.sqrt(2))
        return bucket * within ** (bucket - 1) * np.sqrt(2 / np.pi) * np.exp(-0.5 * m * m)

    found, _ = integrate.quad(lambda m: density_of_largest(m) * inside(m), 0, 9, limit=200)
    return (bucket - 1) / bucket * found


def measured_omega(compressor, length=512 * 1500):
    x = stream(1, "gaussian").normal(size=length).astype(np.float32)
    decoded = decode(compressor.encode(x, stream(2, "compression")), length)
    return squares(decoded - x) / squares(x)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("compressor", "steps"),
    [
        *((Dithered(width), 2**width - 1) for width in range(2, 9)),
        (Dithered(3, bucket=64), 7),
        (Ternary(), 2),
        (Ternary(bucket=128), 2),
    ],
    ids=str,
)
def test_omega_on_gaussian_vectors_is_that_of_theory(compressor, steps):
    theory = omega_by_quadrature(steps, compressor.bucket)
    assert measured_omega(compressor) == pytest.approx(theory, rel=0.05)
    assert compressor.gaussian_omega() == pytest.approx(theory, rel=0.002)


def test_omega_of_natural_compression_is_that_of_theory_and_an_eighth_at_most():
    theory = 0.0
    for e in range(-30, 4):
        a, b = 2.0**e, 2.0 ** (e + 1)
        found, _ = integrate.quad(
            lambda x, a=a, b=b: (x - a) * (b - x) * np.exp(-0.5 * x * x), a, b
        )
        theory += found * np.sqrt(2 / np.pi)
    assert measured_omega(Natural()) == pytest.approx(theory, rel=0.05)
    assert Natural().gaussian_omega() == pytest.approx(theory, rel=1e-6)
    assert Natural().expected_omega(heavy_tailed(1000)) < 1 / 8
    assert Natural().expected_omega(np.array([4 / 3], np.float32)) == pytest.approx(1 / 8)


def test_theory_reproduces_the_known_products_of_bits_and_second_moment():
    """With scales of 16 bits for 512 entries; the first ones are those that make 3 bits best."""
    length = 512_000
    products = {
        width: (1 + Dithered(width).gaussian_omega()) * Dithered(width).bits(length) / length
        for width in (2, 3, 4)
    }
    assert products == pytest.approx({2: 3.66, 3: 3.47, 4: 4.16}, abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("compressor", EVERY, ids=named)
def test_the_expected_omega_of_a_vector_is_the_mean_of_many(compressor):
    """The last bucket is not whole, and holds the largest entries."""
    x = heavy_tailed(1200)
    x[-60:] *= 100
    found = [
        squares(decode(compressor.encode(x, stream(n, "compression")), 1200) - x) / squares(x)
        for n in range(400)
    ]
    expected = compressor.expected_omega(x)
    assert abs(np.mean(found) - expected) <= 5 * np.std(found) / 20 + 1e-7
    assert compressor.expected_omega(np.zeros(1200, np.float32)) == 0.0
    assert compressor.expected_omega(np.zeros(0, np.float32)) == 0.0


def test_a_running_mean_follows_what_it_sees():
    mean = RunningOmega(window=4)
    assert np.isnan(mean.mean)
    for omega in (1.0, 2.0, 3.0, 6.0):
        mean = mean.observe(omega)
    assert (mean.mean, mean.updates) == (3.0, 4)
    assert mean.observe(7.0).mean == 4.0  # a quarter of the way
    assert mean.mean == 3.0
    for _ in range(100):
        mean = mean.observe(0.5)
    assert mean.mean == pytest.approx(0.5)


@pytest.mark.parametrize("omega", [np.nan, -0.1, np.inf])
def test_an_omega_that_cannot_be_is_refused(omega):
    with pytest.raises(InputError, match="omega must be finite and not below zero, got"):
        RunningOmega().observe(omega)


def test_a_window_that_cannot_be_is_refused():
    with pytest.raises(InputError, match="window must be >= 1 and updates >= 0, got 0 and 0"):
        RunningOmega(window=0)


def test_the_best_width_has_the_least_product():
    omega = {width: Dithered(width).gaussian_omega() for width in range(2, 9)}
    bits = {width: Dithered(width).bits(10_000) for width in range(2, 9)}
    assert best_width(omega, bits) == 3
    # Where every upload has a long preamble, more bits are worth it.
    assert best_width(omega, {width: 1_000_000 + price for width, price in bits.items()}) == 5
    assert best_width({4: 0.5, 3: 1.0}, {4: 4.0, 3: 3.0}) == 3  # the smaller of equal ones


@pytest.mark.parametrize(
    ("omega", "price", "sentence"),
    [
        ({}, {}, "must be given for the same widths"),
        ({3: 0.1}, {4: 1.0}, r"got \[3\] and \[4\]"),
        ({3: np.nan}, {3: 1.0}, "omega at 3 bits must be finite and not below zero, got nan"),
        ({3: 0.1}, {3: -1.0}, "price at 3 bits must be finite and not below zero, got -1.0"),
    ],
)
def test_a_choice_that_cannot_be_made_is_refused(omega, price, sentence):
    with pytest.raises(InputError, match=sentence):
        best_width(omega, price)


# --- few entries -------------------------------------------------------------------------------


def test_the_entries_of_largest_magnitude_are_kept_and_the_first_of_equal_ones():
    x = np.array([1, -3, 2, 2, -2, 3, 0, 1], np.float32)
    kept = decode(TopK(0.5).encode(x, stream(1, "c")), 8)
    assert kept.tolist() == [0, -3, 2, 2, 0, 3, 0, 0]
    every = decode(TopK(1.0).encode(x, stream(1, "c")), 8)
    assert every.tolist() == x.tolist()


@pytest.mark.parametrize("inner", BIASED, ids=named)
def test_error_feedback_loses_nothing(inner):
    """What was sent and what is left add up to all that there was, round by round."""
    feedback, rng = ErrorFeedback(inner), stream(1, "compression")
    residual, sent, given = feedback.init(300), np.zeros(300), np.zeros(300)
    for n in range(30):
        x = heavy_tailed(300, seed=n)
        payload, residual = feedback.encode(x, residual, rng)
        sent += inner.decode(payload, 300)
        given += x
        assert np.abs(sent + residual - given).max() < 1e-5


def test_without_error_feedback_small_entries_never_arrive():
    x = np.array([1.0, 0.4], np.float32)
    feedback, residual, sent = ErrorFeedback(TopK(0.5)), np.zeros(2, np.float32), np.zeros(2)
    for _ in range(20):
        payload, residual = feedback.encode(x, residual, stream(1, "c"))
        sent += decode(payload, 2)
    assert sent[1] / sent[0] == pytest.approx(0.4, rel=0.1)
    assert decode(TopK(0.5).encode(x, stream(1, "c")), 2)[1] == 0.0


def test_a_residual_of_another_shape_is_refused():
    with pytest.raises(InputError, match=r"residual must have the vector's shape \(3,\), got"):
        ErrorFeedback(TopK()).encode(np.ones(3, np.float32), np.zeros(2, np.float32), stream(1, ""))
