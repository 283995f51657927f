"""A policy of one's own, named by its import path in a scenario and on the command line."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fedsched
from fedsched.runs.runlog import read_run

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
SCENARIO = """
[run]
rounds = 3
seed = 1
[policy]
kind = "mymodule:BestHalf"
[channel]
devices = 20
[uplink]
bits = 1e6
[data]
samples = 50
[training]
model = "softmax"
steps = 1
"""
NO_POLICIES = """
from dataclasses import dataclass
from fedsched.policies import AbstractPolicy

class Stranger:
    pass

class Plain(AbstractPolicy):
    name = "plain"

thing = 7
"""


@pytest.fixture
def folder(tmp_path):
    """Where a user works: the policy of docs/extending.md in a module, and a scenario."""
    (page,) = (
        block
        for block in BLOCK.findall((ROOT / "docs" / "extending.md").read_text(encoding="utf-8"))
        if "class BestHalf" in block
    )
    definition = page.partition("\n\n\npolicy = ")[0]
    (tmp_path / "mymodule.py").write_text(f"import numpy as np\n{definition}\n")
    (tmp_path / "strangers.py").write_text(NO_POLICIES)
    (tmp_path / "scenario.toml").write_text(SCENARIO)
    return tmp_path


def call(folder, *arguments):
    """The real command in the user's folder, which is on no path."""
    source = str(Path(fedsched.__file__).parent.parent)
    return subprocess.run(
        [sys.executable, "-m", "fedsched", *arguments],
        env={**os.environ, "PYTHONPATH": source, "PYTHONSAFEPATH": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        cwd=folder,
        check=False,
    )


def test_it_runs_by_its_path_in_a_scenario_with_workers(folder):
    done = call(folder, "run", "scenario.toml", "--out", "here", "--workers", "2")
    assert done.returncode == 0, done.stderr
    assert "mymodule:BestHalf" in done.stdout
    log = read_run(folder / "here")
    assert log.manifest["scenario"]["policy"]["kind"] == "mymodule:BestHalf"
    weights = [each for round_ in log.lists("weight") for each in round_]
    assert weights
    for each in weights:  # p / q, of 20 devices
        assert each in (pytest.approx(0.05 / 0.2), pytest.approx(0.05 / 0.02))


def test_channel_and_aggregator_run_by_their_paths_too(folder):
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    blocks = [b for b in BLOCK.findall(page) if "class TwoCells" in b or "class Clipped" in b]
    code = "\n".join(block.partition("\n\n\ndone = ")[0] for block in blocks)
    (folder / "parts.py").write_text(f"import numpy as np\n{code}\n")
    asked = ("--set", "channel.kind=parts:TwoCells", "--set", "training.aggregator=parts:Clipped")
    done = call(folder, "run", "scenario.toml", "--out", "here", "--workers", "2", *asked)
    assert done.returncode == 0, done.stderr
    log = read_run(folder / "here")
    assert log.manifest["devices"] == 20
    assert log.manifest["biased"]
    plain = call(folder, "run", "scenario.toml", "--out", "there", *asked[:2])
    assert plain.returncode == 0, plain.stderr
    other = read_run(folder / "there")
    assert other.lists("device") == log.lists("device")  # the same channel and cohorts
    assert other.column("test_loss").tolist() != log.column("test_loss").tolist()


def test_it_schedules_alone_and_beside_others(folder):
    small = ("--devices", "6", "--rounds", "40", "--bits", "1e6", "--json")
    done = call(folder, "schedule", "--policy", "mymodule:BestHalf", *small)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["policy"] == "mymodule:BestHalf"
    assert (report["draws"], report["design"]) == (None, None)  # it has neither
    assert report["mean_inverse_probability"] == pytest.approx((5 + 50) / 2)
    names = "mymodule:BestHalf,uniform:fixed-size,mymodule:BestHalf:independent"
    done = call(folder, "schedule", "--compare", names, *small)
    assert done.returncode == 0, done.stderr
    first, second, third = json.loads(done.stdout)["compared"]
    assert first["airtime_s_per_round"] == report["airtime_s_per_round"]
    assert (second["policy"], second["design"]) == ("uniform", "fixed-size")
    assert third["policy"] == "mymodule:BestHalf"
    done = call(folder, "schedule", "scenario.toml", *small[-1:])
    assert json.loads(done.stdout)["policy"] == "mymodule:BestHalf"


OPTIONS = """
[policy.options]
boost = 3
"""
BOOSTED = """
from dataclasses import dataclass
import mymodule

@dataclass(frozen=True, kw_only=True)
class Boosted(mymodule.BestHalf):
    boost: float = 1.0
    returns: str = "a decision"
    name = "boosted"

    def decide(self, observed, state):
        if self.returns == "nothing":
            return None
        decision, state = super().decide(observed, state)
        object.__setattr__(decision, "probability", self.boost * decision.probability)
        return decision, state
"""


def test_its_own_fields_are_options(folder):
    (folder / "boosted.py").write_text(BOOSTED)
    scenario = SCENARIO.replace("mymodule:BestHalf", "boosted:Boosted") + OPTIONS
    (folder / "own.toml").write_text(scenario)
    done = call(folder, "run", "own.toml", "--out", "here")
    assert done.returncode == 0, done.stderr
    log = read_run(folder / "here")
    assert log.manifest["scenario"]["policy"]["options.boost"] == 3
    assert log.column("mean_inverse_probability")[0] == pytest.approx((5 + 50) / 2 / 3)
    again = call(folder, "run", "here")  # a run folder knows its own
    assert "finished already" in again.stderr + again.stdout
    other = call(folder, "run", "own.toml", "--out", "here", "--set", "policy.options.boost=2")
    assert "policy.options.boost = 3, the scenario says 2" in other.stderr
    small = ("--devices", "6", "--rounds", "9", "--json", "--policy", "boosted:Boosted")
    done = call(folder, "schedule", *small, "--set", "policy.options.boost=2")
    assert json.loads(done.stdout)["mean_inverse_probability"] == pytest.approx((5 + 50) / 2 / 2)


@pytest.mark.parametrize(
    ("policy", "option", "sentence"),
    [
        (
            "boosted:Boosted",
            "boots=2",
            "policy.options: 'boots' is not known; did you mean 'boost'",
        ),
        ("uniform", "boost=2", "fields of a policy of your own; 'uniform' is none"),
        ("boosted:Boosted", "boost=[1]", "policy.options.boost must be a finite number, a text"),
        ("boosted:Boosted", "boost=nan", "policy.options.boost must be a finite number, a text"),
        ("boosted:Boosted", "boost=6", "the probability of device 0 must lie in [0, 1], got 1."),
        ("boosted:Boosted", "returns=nothing", "decide must return a fedsched.Decision and"),
    ],
)
def test_what_is_wrong_with_its_options_or_decisions_is_said(folder, policy, option, sentence):
    (folder / "boosted.py").write_text(BOOSTED)
    asked = ("--policy", policy, "--set", f"policy.options.{option}")
    done = call(folder, "schedule", "--devices", "1", "--rounds", "9", *asked)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_it_is_compared_in_a_folder_without_a_colon(folder):
    done = call(
        folder, "compare", "scenario.toml", "--policies", "uniform,mymodule:BestHalf", "--out",
        "there", "--json", "--set", "policy.draws=2",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = {row["policy"]: row for row in json.loads(done.stdout)["policies"]}
    assert list(rows) == ["uniform", "mymodule:BestHalf"]
    assert rows["mymodule:BestHalf"]["mean_inverse_probability"] == pytest.approx((5 + 50) / 2)
    assert read_run(folder / "there" / "mymodule-BestHalf").finished


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("strangers:Stranger", "'strangers:Stranger' is a class that is no policy"),
        ("strangers:thing", "'strangers:thing' is a int"),
        ("strangers:Plain", "Plain is no dataclass; its fields say which options it takes"),
        ("strangers:Missing", "the module 'strangers' has no 'Missing'"),
        ("nowhere:Policy", "'nowhere:Policy' cannot be imported"),
        ("strangers:", "'strangers:' is no import path"),
    ],
)
def test_what_is_no_policy_is_refused_with_a_sentence(folder, path, sentence):
    for arguments in (
        ("schedule", "--policy", path),
        ("run", "scenario.toml", "--out", "none", "--set", f"policy.kind={path}"),
        ("compare", "scenario.toml", "--out", "none", "--policies", path),
    ):
        done = call(folder, *arguments)
        assert done.returncode == 2
        assert sentence in done.stderr
        assert "Traceback" not in done.stderr
        assert not (folder / "none").exists()
