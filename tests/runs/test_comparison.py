import pytest

import fedsched
from fedsched.errors import FedschedError, UnknownNameError

TABLE = {
    "run": {"rounds": 3, "seed": 1},
    "policy": {"kind": "uniform", "draws": 2, "v": 3.0},
    "channel": {"devices": 4},
    "data": {"samples": 20},
    "training": {"model": "softmax", "steps": 1},
}


def rows(log):
    """All that is logged, so that NaN is like NaN."""
    return repr(log.table.to_pylist())


@pytest.mark.slow
def test_every_policy_is_the_run_it_would_be_alone_whatever_the_processes(tmp_path):
    names = ["uniform", "lyapunov"]
    logs = fedsched.compare(TABLE, names, tmp_path / "one", settings={"run.rounds": 2})
    beside = fedsched.compare(TABLE, names, tmp_path / "two", settings={"run.rounds": 2}, workers=2)
    alone = fedsched.run(
        fedsched.load_scenario(TABLE, settings={"run.rounds": 2}), tmp_path / "alone"
    )
    assert list(logs) == list(beside) == names
    assert rows(logs["uniform"]) == rows(alone)
    for name in names:
        assert logs[name].rounds == 2
        assert rows(logs[name]) == rows(beside[name])
        assert rows(logs[name]) == rows(fedsched.read_run(tmp_path / "one" / name))
    assert logs["lyapunov"].manifest["scenario"]["policy"]["v"] == 3.0


def test_a_run_takes_a_file_and_plain_values(tmp_path):
    (tmp_path / "file.toml").write_text(
        "[run]\nrounds = 3\nseed = 1\n[policy]\nkind = 'uniform'\ndraws = 2\n[channel]\n"
        "devices = 4\n[data]\nsamples = 20\n[training]\nmodel = 'softmax'\nsteps = 1\n"
    )
    of_file = fedsched.run(tmp_path / "file.toml", tmp_path / "here")
    assert of_file.finished
    assert rows(of_file) == rows(fedsched.run(TABLE, tmp_path / "there"))


def test_bad_names_are_refused_before_anything_is_made(tmp_path):
    with pytest.raises(UnknownNameError, match="did you mean 'uniform'"):
        fedsched.compare(TABLE, ["lyapunov", "unifrom"], tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_that_fails_is_named(tmp_path, workers):
    settings = {"policy.qmin": 0.9}  # more than lyapunov can give everybody
    with pytest.raises(FedschedError, match=r"lyapunov.*floor \(qmin\) 0.9 asks too much"):
        fedsched.compare(
            TABLE, ["lyapunov", "uniform"], tmp_path, settings=settings, workers=workers
        )
    assert fedsched.read_run(tmp_path / "uniform").rounds == 3
