import numpy as np
import pytest
from scipy import stats

from fedsched.errors import InputError
from fedsched.radio.fading import GaussMarkov, Nakagami, Rayleigh, Rician
from fedsched.radio.trace import record
from fedsched.randomness import stream

DEVICES = 20_000  # equal devices, so one round is a large sample
ONES = np.ones(DEVICES)


def one_round(channel, seed=1):
    return record(channel, rounds=1, seed=seed)[0]


@pytest.mark.parametrize(
    ("channel", "law"),
    [
        (Rayleigh(3.0 * ONES), stats.rayleigh(scale=3.0)),
        (Rician(k_factor=0.0 * ONES, mean_gain=18.0 * ONES), stats.rayleigh(scale=3.0)),
        # scipy's rice: b = nu / s, with nu^2 = K Omega / (K + 1) and 2 s^2 = Omega / (K + 1).
        (Rician(k_factor=4.0 * ONES, mean_gain=2.0 * ONES), stats.rice(8**0.5, scale=0.2**0.5)),
        (Nakagami(shape=1.0 * ONES, mean_gain=18.0 * ONES), stats.rayleigh(scale=3.0)),
        (Nakagami(shape=0.5 * ONES, mean_gain=4.0 * ONES), stats.halfnorm(scale=2.0)),
        (Nakagami(shape=2.5 * ONES, mean_gain=4.0 * ONES), stats.nakagami(2.5, scale=2.0)),
        (GaussMarkov(sigma=3.0 * ONES, memory=0.95), stats.rayleigh(scale=3.0)),
    ],
    ids=["rayleigh", "rician-0", "rician-4", "nakagami-1", "nakagami-0.5", "nakagami-2.5", "gm"],
)
def test_the_amplitude_follows_the_named_law(channel, law):
    assert stats.kstest(np.sqrt(one_round(channel)), law.cdf).pvalue > 1e-3


def test_the_kolmogorov_smirnov_test_would_notice_another_law():
    amplitude = np.sqrt(one_round(Nakagami(shape=1.1 * ONES, mean_gain=18.0 * ONES)))
    assert stats.kstest(amplitude, stats.rayleigh(scale=3.0).cdf).pvalue < 1e-3


@pytest.mark.parametrize("memory", [0.0, 0.5, 0.99])
def test_correlated_fading_is_stationary(memory):
    gain = record(GaussMarkov(sigma=2.0 * ONES, memory=memory), rounds=20, seed=2)
    for row in (0, 1, 19):
        assert stats.kstest(np.sqrt(gain[row]), stats.rayleigh(scale=2.0).cdf).pvalue > 1e-3


@pytest.mark.parametrize("memory", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("lag", [1, 3])
def test_gains_k_rounds_apart_have_correlation_memory_to_the_2k(memory, lag):
    gain = record(GaussMarkov(sigma=ONES, memory=memory), rounds=6, seed=3)
    measured = np.corrcoef(gain[1], gain[1 + lag])[0, 1]
    # The standard error is at most about 2 / sqrt(DEVICES) for these heavy-tailed products.
    assert measured == pytest.approx(memory ** (2 * lag), abs=0.05)


def test_the_amplitude_itself_has_the_memory_as_correlation():
    channel = GaussMarkov(sigma=ONES, memory=0.6)
    before = channel.init(stream(4, "channel"))
    _, after = channel.step(before, stream(4, "channel", 0))
    cross = np.mean(np.conj(before["amplitude"]) * after["amplitude"])
    assert cross == pytest.approx(2.0 * 0.6, abs=0.07)


@pytest.mark.parametrize("memory", [-0.1, 1.0, np.nan])
def test_a_memory_outside_its_range_is_refused(memory):
    with pytest.raises(
        InputError,
        match=rf"GaussMarkov.memory must lie in \[0, 1\), got {memory}; 0 draws every round afresh",
    ):
        GaussMarkov(sigma=np.ones(2), memory=memory)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Rayleigh(np.array([1.0, -1.0])), r"Rayleigh.sigma\[1\] must be positive"),
        (
            lambda: GaussMarkov(sigma=np.zeros(1), memory=0.5),
            r"GaussMarkov.sigma\[0\] must be positive and finite, got 0.0",
        ),
        (
            lambda: Rician(k_factor=np.array([-1.0]), mean_gain=np.ones(1)),
            r"Rician.k_factor\[0\] must be finite and at least 0 \(0 is Rayleigh fading\), got -1",
        ),
        (
            lambda: Rician(k_factor=np.ones(1), mean_gain=np.array([np.inf])),
            r"Rician.mean_gain\[0\] must be positive and finite, got inf",
        ),
        (
            lambda: Rician(k_factor=np.ones(2), mean_gain=np.ones(3)),
            "k_factor has 2, mean_gain has 3",
        ),
        (
            lambda: Nakagami(shape=np.array([0.4]), mean_gain=np.ones(1)),
            r"Nakagami.shape\[0\] must be .* at least 0.5 \(1 is Rayleigh fading\), got 0.4",
        ),
        (
            lambda: Nakagami(shape=np.ones(1), mean_gain=np.zeros(1)),
            r"Nakagami.mean_gain\[0\] must be positive and finite, got 0.0",
        ),
        (
            lambda: Nakagami(shape=np.ones(1), mean_gain=np.ones(2)),
            "shape has 1, mean_gain has 2",
        ),
    ],
)
def test_a_bad_parameter_is_refused_by_name(make, message):
    with pytest.raises(InputError, match=message):
        make()
