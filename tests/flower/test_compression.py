"""A plain federation of Flower's with fewer bits: one line at each end."""

import contextlib
import importlib.util
import logging
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Context,
    Message,
    MessageType,
    MetricRecord,
    RecordDict,
)
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg, FedMedian
from tests.flower.loopback import Loopback, arrays, gain, same, silent

from fedsched.errors import InputError
from fedsched.flower import ChannelClientApp, ChannelStrategy
from fedsched.flower.compression import PAYLOAD, CompressMod, DecompressGrid, restore
from fedsched.learning.compression import (
    Dithered,
    ErrorFeedback,
    Identity,
    PayloadError,
    TopK,
)
from fedsched.randomness import stream
from fedsched.runs.runlog import read_run

MODEL = {
    "weight": np.linspace(-1.0, 1.0, 6_000, dtype=np.float32).reshape(60, 100),
    "seen": np.array(7, dtype=np.int64),
    "bias": np.linspace(0.0, 0.1, 100, dtype=np.float64),
}
REAL = ("weight", "bias")
LENGTH = 6_100


def model():
    return ArrayRecord({name: Array(value) for name, value in MODEL.items()})


def delta_of(device, round_, name):
    rng = stream(1, "test-delta", device, round_, len(name))
    return rng.normal(size=MODEL[name].shape).astype(MODEL[name].dtype)


def train(message, context):
    """Training moves each array by a function of device and round."""
    device, t = int(context.node_config["partition-id"]), int(_config(message)) - 1
    given = arrays(message.content["arrays"])
    moved = {name: given[name] + delta_of(device, t, name) for name in REAL}
    moved["seen"] = given["seen"] + 1
    record = ArrayRecord({name: Array(np.asarray(moved[name])) for name in given})
    metrics = MetricRecord({"num-examples": 10, "train_loss": 1.0})
    return Message(RecordDict({"arrays": record, "metrics": metrics}), reply_to=message)


def _config(message):
    return message.content["config"]["server-round"]


def client(*mods):
    app = ClientApp(mods=list(mods))
    app.train()(train)
    return app


def average(grid, rounds=1, strategy=None):
    strategy = strategy or FedAvg(fraction_evaluate=0.0, min_available_nodes=3)
    return strategy.start(grid, model(), num_rounds=rounds, timeout=30.0).arrays


def flat(found):
    return np.concatenate([found[name].ravel() for name in REAL]).astype(np.float32)


def spoil(change):
    """A way to fail: the node's payload becomes another."""

    def fail(_, reply):
        answer = reply()
        payload = answer.content["arrays"][PAYLOAD].data
        spoiled = change(payload)
        sent = Array("uint8", (len(spoiled),), "fedsched.payload", spoiled)
        answer.content["arrays"] = ArrayRecord({**answer.content["arrays"], PAYLOAD: sent})
        return answer

    return fail


# --- both ends ---------------------------------------------------------------------------------


@pytest.mark.parametrize("compressor", [Dithered(4), Dithered(3, bucket=64), Identity()], ids=str)
def test_plain_averaging_gets_exactly_what_was_decoded(compressor):
    grid = Loopback(client=client(CompressMod(compressor, seed=9)))
    found = arrays(average(DecompressGrid(grid)))
    decoded = []
    for device in range(3):
        delta = np.concatenate(
            [(MODEL[n] + delta_of(device, 0, n) - MODEL[n]).ravel() for n in REAL]
        ).astype(np.float32)
        payload = compressor.encode(delta, stream(9, "compression", 0, device))
        decoded.append(compressor.decode(payload, LENGTH))
    expected = flat(MODEL) + np.mean(decoded, axis=0)
    np.testing.assert_allclose(flat(found), expected, atol=2e-6)
    assert list(found) == list(MODEL)
    assert (found["weight"].dtype, found["bias"].dtype) == (np.float32, np.float64)
    assert found["seen"] == 8


def test_the_mean_over_many_seeds_is_what_averaging_has_without_compression():
    plain = flat(arrays(average(Loopback(client=client()))))
    runs = [
        flat(arrays(average(DecompressGrid(Loopback(client=client(CompressMod(seed=seed)))))))
        for seed in range(60)
    ]
    apart, error = np.mean(runs, axis=0) - plain, np.std(runs, axis=0) / np.sqrt(60)
    assert error.mean() > 1e-4  # there is chance in it
    assert abs(apart.mean()) < 4 * np.sqrt(np.mean(error**2) / LENGTH)
    assert np.mean(np.abs(apart) > 3 * error) < 0.02


def test_a_reply_has_the_size_of_its_payload():
    grid, sizes = Loopback(client=client(CompressMod(Dithered(4)))), []

    def measured(replies):
        sizes.extend(reply.content["arrays"].count_bytes() for reply in replies)
        return replies

    grid.order = measured
    average(DecompressGrid(grid))
    payload = Dithered(4).bits(LENGTH) // 8
    assert all(payload <= size < payload + 400 for size in sizes)  # names, and the counter
    whole = sum(each.nbytes for each in MODEL.values())
    assert whole / max(sizes) > 6


def test_nodes_with_and_without_the_mod_take_part_together():
    grid = Loopback(client=client(CompressMod()))
    grid.nodes[101].app = client()
    found = arrays(average(DecompressGrid(grid)))
    assert np.abs(flat(found) - flat(arrays(average(Loopback(client=client()))))).max() < 0.5
    # Nobody compresses: nothing is changed.
    plain = flat(arrays(average(Loopback(client=client()))))
    again = flat(arrays(average(DecompressGrid(Loopback(client=client())))))
    np.testing.assert_allclose(again, plain, atol=1e-6)  # the order of a sum is Flower's chance


def test_other_strategies_know_as_little():
    strategy = FedMedian(fraction_evaluate=0.0, min_available_nodes=3)
    grid = DecompressGrid(Loopback(client=client(CompressMod(Dithered(8)))))
    found = arrays(average(grid, strategy=strategy))
    plain = FedMedian(fraction_evaluate=0.0, min_available_nodes=3)
    expected = arrays(average(Loopback(client=client()), strategy=plain))
    assert np.abs(flat(found) - flat(expected)).max() < 0.1


def test_a_server_that_does_not_decode_fails_instead_of_averaging_bytes():
    with pytest.raises(TypeError, match=r"fedsched\.payload"):
        average(Loopback(client=client(CompressMod())))


def test_several_rounds_go_on_from_the_decoded_model():
    grid = DecompressGrid(Loopback(client=client(CompressMod(Dithered(8)))))
    found = flat(arrays(average(grid, rounds=3)))
    plain = flat(arrays(average(Loopback(client=client()), rounds=3)))
    assert 0.0 < np.abs(found - plain).max() < 0.15
    again = DecompressGrid(Loopback(client=client(CompressMod(Dithered(8)))))
    apart = flat(arrays(average(again, rounds=3))) - found
    assert np.mean(np.abs(apart) > 1e-5) < 0.01  # the order of a sum is Flower's chance


def test_error_feedback_keeps_its_residual_on_the_node():
    grid = Loopback(client=client(CompressMod(ErrorFeedback(TopK(0.25)))))
    average(DecompressGrid(grid), rounds=2)
    kept = grid.nodes[100].context.state["fedsched.residual"]["fedsched.residual"].numpy()
    deltas = [
        np.concatenate([delta_of(0, t, n).ravel() for n in REAL]).astype(np.float32)
        for t in range(2)
    ]
    feedback, residual = ErrorFeedback(TopK(0.25)), np.zeros(LENGTH, np.float32)
    for delta in deltas:
        residual = feedback.encode(delta, residual, stream(1, "any")).residual
    # The model itself differs a little in the second round, and with it the rounding of y - x.
    np.testing.assert_allclose(kept, residual, atol=1e-5)
    assert np.count_nonzero(kept) > LENGTH / 2


# --- what goes wrong ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda payload: payload[:-1], "it was cut or has something appended"),
        (lambda payload: payload + b"\x00", "it was cut or has something appended"),
        (lambda payload: payload[:50] + b"\x55\xaa" + payload[52:], "it is damaged"),
        (lambda _: b"foreign" * 10, "no compressor of fedsched made it"),
        (lambda _: b"", "it was cut"),
        (
            lambda _: Dithered(4).encode(np.ones(7, np.float32), stream(1, "c")),
            "a vector of 7 entries and 6100 are expected",
        ),
    ],
)
def test_a_damaged_payload_is_an_error_of_its_node_and_the_round_goes_on(change, sentence, caplog):
    grid = Loopback(client=client(CompressMod()))
    grid.fail(spoil(change), "train", node_id=101)
    found = flat(arrays(average(DecompressGrid(grid))))
    others = Loopback(client=client(CompressMod()))
    others.fail(silent, "train", node_id=101)
    np.testing.assert_allclose(found, flat(arrays(average(DecompressGrid(others)))), atol=1e-6)
    assert "error in reply from node 101: PayloadError: payload" in caplog.text
    assert sentence in caplog.text


def test_arrays_that_do_not_belong_there_are_an_error_too(caplog):
    def fail(_, reply):
        answer = reply()
        more = {**answer.content["arrays"], "weight": Array(np.zeros(3))}
        answer.content["arrays"] = ArrayRecord(more)
        return answer

    grid = Loopback(client=client(CompressMod()))
    grid.fail(fail, "train", node_id=102)
    average(DecompressGrid(grid))
    assert "payload holds a vector of 6100 entries and 100 are expected" in caplog.text


@pytest.mark.parametrize("beside", [{}, {"seen": 1, "other": 2}], ids=["missing", "foreign"])
def test_a_payload_with_other_arrays_than_the_model_is_refused(beside):
    payload = Identity().encode(np.zeros(LENGTH, np.float32), stream(1, "c"))
    record = ArrayRecord({name: Array(np.array(each)) for name, each in beside.items()})
    record[PAYLOAD] = Array("uint8", (len(payload),), "fedsched.payload", payload)
    with pytest.raises(PayloadError, match="payload comes with arrays called"):
        restore(RecordDict({"arrays": record}), MODEL)


def test_a_counter_that_a_strategy_made_a_float_does_not_set_the_scale_of_weights():
    """As averaging does with counters; an app may send it back as a float or not."""
    given = {**MODEL, "seen": np.array(7.0)}
    sent = message(
        {"arrays": ArrayRecord({n: Array(x) for n, x in given.items()}), "config": ROUND}
    )
    for counter in (np.array(1000), np.array(1000.0)):
        moved = {**given, "weight": given["weight"] + np.float32(1e-3), "seen": counter}
        reply = CompressMod()(sent, context(), lambda m, _, moved=moved: answered(moved, m))
        restore(reply.content, given)
        found = arrays(reply.content["arrays"])
        assert found["seen"] == 1000
        assert np.abs(found["weight"] - moved["weight"]).max() < 2e-3


def test_a_payload_in_another_type_of_array_is_refused():
    content = RecordDict({"arrays": ArrayRecord({PAYLOAD: Array(np.zeros(30, np.uint8))})})
    with pytest.raises(PayloadError, match=r"must be an array of type 'fedsched\.payload'"):
        restore(content, {"x": np.zeros(3, np.float32)})


def test_the_scheduler_counts_a_damaged_payload_as_lost(tmp_path):
    app = ChannelClientApp(gain, mods=[CompressMod(Dithered(4))])
    app.train()(train)
    grid = Loopback(client=app)
    grid.fail(spoil(lambda payload: payload[:-3]), "train", node_id=101)
    strategy = ChannelStrategy("full", folder=tmp_path / "run", seed=5)
    result = strategy.start(DecompressGrid(grid), model(), num_rounds=2, timeout=30.0)
    assert list(read_run(tmp_path / "run").column("rejected")) == [1, 1]
    whole = Loopback(client=client())
    whole.fail(silent, "train", node_id=101)
    plain = flat(arrays(average(whole)))
    assert np.isfinite(flat(arrays(result.arrays))).all()
    assert not np.array_equal(flat(arrays(result.arrays)), plain)


def message(content, kind=MessageType.TRAIN):
    return Message(RecordDict(content), dst_node_id=100, message_type=kind)


def context(**config):
    return Context(run_id=1, node_id=77, node_config=config, state=RecordDict(), run_config={})


def answered(arrays_, to):
    record = ArrayRecord({name: Array(np.asarray(each)) for name, each in arrays_.items()})
    return Message(RecordDict({"arrays": record}), reply_to=to)


ROUND = ConfigRecord({"server-round": 1})


@pytest.mark.parametrize(
    ("reply", "sentence"),
    [
        ({"other": MODEL["weight"]}, "the reply's arrays must be called as the model's"),
        ({**MODEL, "bias": np.zeros(3)}, r"array 'bias' of the reply must have .*\(100,\), got"),
        ({**MODEL, "bias": np.full(100, np.nan)}, "vector must be finite .* at entry 6000"),
        ({**MODEL, "bias": np.full(100, 1e300)}, "vector must be finite .* got inf"),
    ],
)
def test_a_reply_that_cannot_be_compressed_is_an_error_of_the_app(reply, sentence):
    sent = message({"arrays": model(), "config": ROUND})
    with pytest.raises(InputError, match=sentence):
        CompressMod()(sent, context(), lambda m, _: answered(reply, m))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"arrays": model()}, "must hold a config record with 'server-round'"),
        ({"arrays": model(), "config": ConfigRecord({"server-round": 0})}, "counted from 1"),
        ({"config": ROUND}, "the train message must hold one array record, the model"),
        ({"a": model(), "b": model(), "config": ROUND}, "it holds 2"),
    ],
)
def test_a_message_that_cannot_be_compressed_is_refused_before_training(content, sentence):
    def never(*_):
        pytest.fail("it trained")

    with pytest.raises(InputError, match=sentence):
        CompressMod()(message(content), context(), never)


def test_other_messages_and_errors_pass():
    sent = message({"arrays": model()}, MessageType.EVALUATE)
    reply = answered(MODEL, sent)
    assert CompressMod()(sent, context(), lambda *_: reply) is reply
    assert PAYLOAD not in reply.content["arrays"]
    grid = Loopback(client=client(CompressMod()))
    grid.fail(silent, "train", node_id=100)
    assert len(arrays(average(DecompressGrid(grid)))) == 3


def test_an_app_may_take_the_arrays_out_of_the_message():
    def greedy(message_, _):
        record = message_.content["arrays"]
        given = record.to_numpy_ndarrays(keep_input=False)
        assert len(record) == 0
        return answered(dict(zip(MODEL, given, strict=True)), message_)

    sent = message({"arrays": model(), "config": ROUND})
    reply = CompressMod()(sent, context(), greedy)
    restore(reply.content, MODEL)
    assert same(arrays(reply.content["arrays"]), MODEL)


def test_rounds_and_nodes_have_chances_of_their_own():
    def payload(round_, **config):
        sent = message({"arrays": model(), "config": ConfigRecord({"server-round": round_})})
        moved = {**MODEL, "weight": MODEL["weight"] + np.float32(0.37) * MODEL["weight"]}
        reply = CompressMod()(sent, context(**config), lambda m, _: answered(moved, m))
        return reply.content["arrays"][PAYLOAD].data

    assert payload(1) == payload(1)
    different = [payload(1), payload(2), payload(1, **{"partition-id": 1})]
    assert len(set(different)) == 3


def test_the_grid_inside_does_the_rest():
    class Inside(Loopback):
        run = "the run"

        def set_run(self, run):
            self.was = ("set_run", run)

        def create_message(self, *args):
            return ("create_message", *args)

    inside = Inside(devices=2)
    grid = DecompressGrid(inside)
    grid.set_run(5)
    assert inside.was == ("set_run", 5)
    assert grid.run == "the run"
    assert grid.create_message(1, 2, 3, 4, 5) == ("create_message", 1, 2, 3, 4, 5)
    assert list(grid.get_node_ids()) == [100, 101]
    assert [each.node_id for each in grid.get_nodes()] == [100, 101]


# --- in processes of their own -------------------------------------------------------------------

NUMBERS = 1_000_000  # of the model
APP = f"""
import os
import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from fedsched.flower.compression import CompressMod, DecompressGrid
from fedsched.learning.compression import Dithered

compress = CompressMod(Dithered(4), seed=3)


def chosen(message, context, call_next):
    if context.run_config.get("width") == 0:
        return call_next(message, context)
    return compress(message, context, call_next)


client = ClientApp(mods=[chosen])


@client.train()
def train(message, context):
    x = message.content["arrays"]["x"].numpy()
    device = int(context.node_config["partition-id"])
    rng = np.random.default_rng([device, message.content["config"]["server-round"]])
    y = x + rng.normal(size=x.shape).astype(np.float32)
    metrics = MetricRecord({{"num-examples": 1}})
    content = {{"arrays": ArrayRecord({{"x": Array(y)}}), "metrics": metrics}}
    return Message(RecordDict(content), reply_to=message)


server = ServerApp()


@server.main()
def main(grid, context):
    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=2, min_available_nodes=2)
    x = ArrayRecord({{"x": Array(np.zeros({NUMBERS}, np.float32))}})
    result = strategy.start(DecompressGrid(grid), x, num_rounds=2, timeout=240)
    out = context.run_config.get("out") or os.environ["FEDSCHED_OUT"]
    np.save(out, result.arrays["x"].numpy())
"""


def expected_model(compressor):
    """What two rounds of two nodes give, by the definitions."""
    x = np.zeros(NUMBERS, np.float32)
    for t in range(2):
        moved = []
        for device in range(2):
            rng = np.random.default_rng([device, t + 1])
            delta = x + rng.normal(size=NUMBERS).astype(np.float32) - x
            payload = compressor.encode(delta, stream(3, "compression", t, device))
            moved.append(x + compressor.decode(payload, NUMBERS))
        x = np.mean(moved, axis=0, dtype=np.float64).astype(np.float32)
    return x


def agrees(found, compressor):
    """Rounding in another order moves an entry of the second round to its other level, rarely."""
    apart = np.abs(found - expected_model(compressor))
    return bool(np.mean(apart > 1e-5) < 0.001)


@pytest.mark.slow
def test_flowers_simulation_decodes_the_same_models(tmp_path):
    (tmp_path / "compressed_app.py").write_text(APP)
    run = (
        "from flwr.simulation import run_simulation\n"
        "from compressed_app import client, server\n"
        "resources = {'client_resources': {'num_cpus': 1},"
        " 'init_args': {'num_cpus': 2, 'include_dashboard': False}}\n"
        "run_simulation(server, client, num_supernodes=2, backend_config=resources)\n"
    )
    paths = [str(tmp_path), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "FEDSCHED_OUT": str(tmp_path / "model.npy"),
        "FLWR_HOME": str(tmp_path / "home"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_TMPDIR": "/tmp",  # the socket names of Ray are short of room
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", run],
        env=env, cwd=tmp_path, timeout=600, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert agrees(np.load(tmp_path / "model.npy"), Dithered(4))
    assert not agrees(np.load(tmp_path / "model.npy"), Identity())


class CountingProxy:
    """Passes connections on to a port of loopback, and counts the bytes that go there."""

    def __init__(self, port):
        self.to, self.sent = port, 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._lock, self._sockets, self._threads = threading.Lock(), [self._listener], []

    def __enter__(self):
        self._run(self._accept)
        return self

    def __exit__(self, *_):
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for each in self._threads:
            each.join(timeout=10)
        for each in self._sockets:
            each.close()

    def _run(self, job, *args):
        self._threads.append(threading.Thread(target=job, args=args, daemon=True))
        self._threads[-1].start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                here, _ = self._listener.accept()
                there = socket.create_connection(("127.0.0.1", self.to))
                self._sockets += [here, there]
                self._run(self._pass, here, there, True)
                self._run(self._pass, there, here, False)

    def _pass(self, source, target, count):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                with self._lock:
                    self.sent += len(data) * count
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)


PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "compressed"
version = "1.0.0"
description = "a plain federation with fewer bits"
license = "Apache-2.0"
dependencies = []
[tool.hatch.build.targets.wheel]
packages = ["."]
[tool.flwr.app]
publisher = "fedsched"
[tool.flwr.app.components]
serverapp = "compressed_app:server"
clientapp = "compressed_app:client"
[tool.flwr.app.config]
width = 4
out = ""
"""


@pytest.mark.deployment
def test_the_size_of_replies_on_the_wire(tmp_path, monkeypatch):
    """Bytes that two real nodes send to the SuperLink in two rounds, TLS and all."""
    path = Path(__file__).parents[2] / "examples" / "flower" / "federation.py"
    spec = importlib.util.spec_from_file_location("federation", path)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    app = tmp_path / "app"
    app.mkdir()
    (app / "compressed_app.py").write_text(APP)
    (app / "pyproject.toml").write_text(PROJECT)
    monkeypatch.setattr(example, "APP", app)
    sent = {}
    with (
        example.Federation(tmp_path / "processes") as federation,
        CountingProxy(federation.port) as proxy,
    ):
        federation.start_superlink()
        federation.port, link = proxy.port, federation.port
        for part in range(2):
            federation.start_supernode(part, 2)
        federation.port = link
        for width in (4, 0):
            before, out = proxy.sent, tmp_path / f"{width}.npy"
            run = federation.begin(width=width, out=out)
            assert run.wait(timeout=240) == 0, (federation.folder / "run.log").read_text()[-3000:]
            assert agrees(np.load(out), Dithered(width) if width else Identity())
            sent[width] = proxy.sent - before
    logging.getLogger(__name__).info("bytes on the wire by width: %s", sent)
    # Four replies. Beside them there are heartbeats, and questions whether there is work to do.
    assert sent[0] > 4 * 4 * NUMBERS
    assert sent[4] > 4 * Dithered(4).bits(NUMBERS) // 8
    assert sent[0] / sent[4] > 7.0
