"""What one node can say, and that none of it harms the run."""

import io
import logging
import math
import zipfile

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord
from flwr.serverapp.strategy import FedAdam, FedAvgM
from tests.flower.fuzz_messages import CASES, fuzz
from tests.flower.loopback import MODEL, Loopback, arrays, changed, run

from fedsched.runs.checkpoint import read_checkpoint
from fedsched.runs.runlog import read_run

BIAS = "net.0.bias"


def replaced(value):
    """One array of the reply is another."""

    def change(content):
        content["arrays"] = ArrayRecord({**content["arrays"], BIAS: value})

    return change


def bytes_as_array(data):
    return replaced(Array(dtype="float32", shape=(2,), stype="numpy.ndarray", data=data))


def header(text, version=b"\x01\x00"):
    """The bytes of an array with a header of our own."""
    return b"\x93NUMPY" + version + len(text).to_bytes(2, "little") + text.encode()


def npz():
    buffer = io.BytesIO()
    np.savez(buffer, np.zeros(2, np.float32))
    return buffer.getvalue()


def broken_zip():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.npy", b"nothing")
    return buffer.getvalue()[:-7]


def told(**values):
    """The report says something else."""
    return lambda content: content["fedsched"].update(values)


def measured(**values):
    """The metrics say something else."""
    return lambda content: content["metrics"].update(values)


CLAIM = "{'descr': '<f4', 'fortran_order': False, 'shape': (%s,), }\n"
LOST = {  # replies that bring no update
    "the result is infinite: float64": replaced(Array(np.array([1e300, 0.0]))),
    "an npz in the place of an array": bytes_as_array(npz()),
    "a broken zip": bytes_as_array(broken_zip()),
    "a header that claims 1e12 numbers": bytes_as_array(header(CLAIM % 10**12) + b"\0" * 8),
    "a header that is not closed": bytes_as_array(header("{'descr': '<f4', 'shape': (2,")),
    "a header of 60,000 brackets": bytes_as_array(header("(" * 60_000)),
    "a header of no version": bytes_as_array(header(CLAIM % 2, b"\x09\x00") + b"\0" * 8),
    "no bytes at all": bytes_as_array(b""),
    "more bytes than numbers": bytes_as_array(header(CLAIM % 2) + b"\0" * 4000),
    "objects": bytes_as_array(header(CLAIM.replace("<f4", "|O") % 2) + b"\0" * 16),
    "another serialisation": replaced(
        Array(dtype="float32", shape=(2,), stype="pickle", data=b"\0" * 8)
    ),
    "long doubles": replaced(Array(np.zeros(2, np.longdouble))),
}
SAID = {  # replies that say odd things of themselves
    "a name of 5,000 digits": told(device="9" * 5000),
    "a name of a megabyte": told(device="x" * 10**6),
    "a name with a NUL at its end": told(device="1\0"),
    "a name with a line feed": told(device="1\nround 9: all is well"),
    "no name": told(device=""),
    "round 2^63 - 1": told(round=2**63 - 1),
    "round 2^64 - 1": told(round=2**64 - 1),
    "a round before the first": told(round=-(2**63)),
    "a gain that is text": told(gain="good"),
    "a loss of 1e200": measured(train_loss=1e200),
    "a loss of minus infinity": measured(train_loss=-math.inf),
    "a list of losses": measured(train_loss=[1.0, 2.0]),
    "a loss of 2^64 - 1": measured(train_loss=2**64 - 1),
    "a second record of metrics": lambda content: content.__setitem__("more", MetricRecord()),
    "a second record of ours": lambda content: content.__setitem__("config", ConfigRecord()),
}


def finite(found):
    return all(np.isfinite(each).all() for each in found.values())


def harmed(how, folder, *kinds, policy="oort", **options):
    """A run of three nodes of which the middle one says that, and the node's grid."""
    grid = Loopback(3)
    grid.fail(changed(how), *kinds, node_id=101)
    _, done = run(grid, folder, 3, policy, draws=3, **options)
    assert read_run(folder).finished and read_run(folder).rounds == 3
    assert finite(arrays(done.arrays))
    assert not np.array_equal(arrays(done.arrays)[BIAS], MODEL[BIAS])  # the others still count
    memory = read_checkpoint(folder).memory
    assert all(np.isfinite(v).all() for n, v in memory.items() if n.startswith("model."))
    return memory


@pytest.mark.slow
@pytest.mark.parametrize("optimiser", [None, FedAdam, FedAvgM])
@pytest.mark.parametrize("how", LOST)
def test_an_update_that_harms_counts_as_lost(tmp_path, caplog, how, optimiser):
    with caplog.at_level(logging.WARNING, "flwr.fedsched"):
        memory = harmed(
            LOST[how], tmp_path, "train", policy="full",
            optimiser=None if optimiser is None else optimiser(),
        )  # fmt: skip
    assert read_run(tmp_path).column("rejected")[0] == 1.0
    assert "the update of device 1 is lost: " in caplog.text
    assert all(len(record.getMessage()) < 1000 for record in caplog.records)
    moments = [v for n, v in memory.items() if n.startswith("optimiser.")]
    assert all(np.isfinite(each).all() for each in moments)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["train", "query"])
@pytest.mark.parametrize("how", SAID)
def test_a_node_can_say_anything(tmp_path, caplog, how, kind):
    if kind == "query" and how.startswith(("a loss", "a list", "a second")):
        pytest.skip("an answer has no metrics")
    with caplog.at_level(logging.INFO, "flwr.fedsched"):
        memory = harmed(SAID[how], tmp_path, kind)
    assert all(name.isprintable() and len(name) < 200 for name in memory["fleet.name"].tolist())
    assert all(len(record.getMessage()) < 1000 for record in caplog.records)


def test_updates_that_are_finite_one_by_one_and_not_together(tmp_path):
    grid = Loopback(4)
    for node_id in (101, 102):
        grid.fail(
            changed(replaced(Array(np.array([3.0e38, 0.0], np.float32)))), "train", node_id=node_id
        )
    zero = {**MODEL, BIAS: np.array([1e38, 0.0], np.float32)}
    _, done = run(grid, tmp_path, 2, "uniform", draws=1, initial=zero, seed=1)
    assert finite(arrays(done.arrays))


def test_a_step_of_an_optimiser_that_overflows_is_not_taken(tmp_path):
    grid = Loopback(2)
    grid.fail(changed(replaced(Array(np.array([1e30, 0.0], np.float32)))), "train", node_id=101)
    _, done = run(grid, tmp_path, 3, "full", optimiser=FedAdam(), bounds="off")
    memory = read_checkpoint(tmp_path).memory
    assert finite(arrays(done.arrays))
    assert finite({n: v for n, v in memory.items() if n.startswith("optimiser.")})
    assert read_run(tmp_path).column("rejected").tolist()[:2] == [1.0, 1.0]


@pytest.mark.slow
def test_metrics_of_an_evaluation_can_be_anything(tmp_path):
    for place, change in enumerate(
        [
            measured(accuracy=1e308), measured(accuracy=[1.0] * 100_000),
            measured(**{"num-examples": 2**64 - 1}), measured(**{"num-examples": [1]}),
            measured(**{"x" * 10**6: 1.0}), lambda content: content.clear(),
            measured(**{f"metric {n}": 1.0 for n in range(20_000)}),
        ]
    ):  # fmt: skip
        grid = Loopback(3)
        grid.fail(changed(change), "evaluate", node_id=101)
        _, done = run(grid, tmp_path / str(place), 2, fraction_evaluate=1.0)
        assert len(done.evaluate_metrics_clientapp[2]) < 2000
        assert all(map(math.isfinite, read_run(tmp_path / str(place)).column("test_accuracy")))


@pytest.mark.slow
@pytest.mark.parametrize("case", range(len(CASES)))
def test_replies_at_random_do_no_harm(tmp_path, case):
    """A share of what ``python -m tests.flower.fuzz_messages`` does."""
    assert fuzz(tmp_path, case, seed=1) > 200
