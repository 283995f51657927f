"""What one node can do to the model, and that honest ones are left as they are."""

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, RecordDict
from tests.flower.loopback import MODEL, Loopback, arrays, changed, record, run

from fedsched.errors import UnknownNameError
from fedsched.flower import ChannelStrategy
from fedsched.flower.influence import Influence
from fedsched.flower.model import moved, update_in


def model(dtype=np.float32):
    return {"w": np.arange(6, dtype=dtype).reshape(2, 3), "b": np.ones(3, dtype=dtype)}


def update_to(y, here):
    return update_in(RecordDict({"arrays": record(y)}), here)


def update(rng, here, size=0.1, **statistics):
    learnt = {name: x for name, x in here.items() if name not in statistics}
    y = {
        name: (x + size * rng.standard_normal(x.shape)).astype(x.dtype)
        for name, x in learnt.items()
    }
    return update_to({**y, **statistics}, here)


def times(update, factor):
    y = {name: (x + factor * update.delta[name]).astype(x.dtype) for name, x in update.x.items()}
    return update_to(y, update.x)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("bounds", ["off", "clip"])
def test_where_nothing_is_cut_the_sum_is_the_same(dtype, bounds):
    rng, here = np.random.default_rng(1), model(dtype)
    said = [(0.25, update(rng, here)) for _ in range(4)]
    found, _ = Influence(bounds=bounds).step(here, said)
    for name, x in moved(here, said)[0].items():
        assert found[name].dtype == x.dtype and found[name].shape == x.shape
        if dtype == np.float32:
            assert found[name].tobytes() == x.tobytes()
        assert found[name] == pytest.approx(x, rel=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bounds", ["clip", "robust"])
def test_a_node_that_is_a_thousand_times_too_long_hardly_counts(dtype, bounds):
    rng, here = np.random.default_rng(2), model(dtype)
    good = [update(rng, here) for _ in range(5)]
    said = [(0.2, each) for each in good[:4]]
    honest, _ = Influence(bounds=bounds).step(here, said)
    lied, _ = Influence(bounds=bounds).step(here, [*said, (0.2, times(good[4], -1000.0))])
    for name, x in honest.items():
        assert lied[name] == pytest.approx(x, abs=0.03)
    free, _ = Influence(bounds="off").step(here, [*said, (0.2, times(good[4], -1000.0))])
    assert np.abs(free["w"] - honest["w"]).max() > 1.0


def test_statistics_lie_between_those_of_most_nodes():
    rng, here = np.random.default_rng(3), {**model(), "n.running_var": np.ones(2, np.float32)}
    told = [1.0, 1.1, 0.9, 1e30]
    said = [(0.25, update(rng, here, **{"n.running_var": np.full(2, v, np.float32)})) for v in told]
    found, _ = Influence(bounds="clip").step(here, said)
    assert np.all((found["n.running_var"] >= 0.9) & (found["n.running_var"] <= 1.1))


def test_one_long_update_does_not_ruin_a_run_and_a_stop_changes_no_bit(tmp_path):
    def far(content):
        x = {name: Array(x + np.float32(1e6)) for name, x in MODEL.items() if x.dtype.kind == "f"}
        content["arrays"] = ArrayRecord({**content["arrays"], **x})

    def attacked(folder, *rounds, **options):
        done = None
        for number in rounds:
            grid = Loopback(5)
            grid.fail(changed(far), "train", node_id=102)
            _, done = run(grid, folder, number, "full", seed=1, **options)
        return arrays(done.arrays)

    free, bound = attacked(tmp_path / "a", 4, bounds="off"), attacked(tmp_path / "b", 4)
    name = next(name for name, x in MODEL.items() if x.dtype.kind == "f")
    assert np.abs(free[name]).max() > 1e5 > 100.0 > np.abs(bound[name]).max()


def test_bounds_that_are_not_known_are_refused():
    with pytest.raises(UnknownNameError, match="bounds: 'clop' is not known"):
        ChannelStrategy(bounds="clop")
