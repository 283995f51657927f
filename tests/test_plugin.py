"""A policy in another package, installed and used by name."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fedsched
from fedsched.errors import InputError, UnknownNameError
from fedsched.policies import policy_info, policy_names, registry

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parent.parent / "examples" / "channel_gate"
SCENARIO = """
[run]
rounds = 3
seed = 1
[policy]
kind = "channel-gate"
draws = 4
[channel]
devices = 20
[data]
samples = 50
[training]
model = "softmax"
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the example package, as pip installs it."""
    folder = tmp_path_factory.mktemp("site")
    source = folder / "source"
    shutil.copytree(EXAMPLE, source)  # building leaves files beside the source
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index",
         "--no-build-isolation", "--disable-pip-version-check", "--target",
         str(folder / "packages"), str(source)],
        check=True,
    )  # fmt: skip
    return folder / "packages"


def cli(installed, *arguments, cwd=None):
    paths = [str(installed), str(Path(fedsched.__file__).parent.parent)]
    return subprocess.run(
        [sys.executable, "-m", "fedsched", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        cwd=cwd,
        check=False,
    )


def test_a_plugged_policy_is_listed_and_schedules(installed):
    done = cli(installed, "policies", "--json")
    (row,) = [r for r in json.loads(done.stdout)["policies"] if r["name"] == "channel-gate"]
    assert row["unbiased"] == "yes"
    assert row["needs"] == ["gains"]
    done = cli(
        installed, "schedule", "--policy", "channel-gate", "--rounds", "200", "--draws", "5",
        "--json",
    )  # fmt: skip
    report = json.loads(done.stdout)
    assert report["policy"] == "channel-gate"
    assert 4.0 < report["devices_per_round"] < 6.0
    assert report["mean_inverse_probability"] > 20.0


def test_a_plugged_policy_trains_by_its_name_in_a_scenario(installed, tmp_path):
    (tmp_path / "scenario.toml").write_text(SCENARIO)
    done = cli(installed, "run", "scenario.toml", "--out", "here", "--workers", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    manifest = json.loads((tmp_path / "here" / "manifest.json").read_text())
    assert manifest["scenario"]["policy"]["kind"] == "channel-gate"
    assert manifest["biased"] is False


def test_without_the_package_the_name_is_not_known():
    assert "channel-gate" not in policy_names()
    with pytest.raises(UnknownNameError, match="policy: 'channel-gate' is not known"):
        policy_info("channel-gate")


def test_an_entry_point_that_is_no_policy_is_refused(monkeypatch):
    class Point:
        name, value = "odd", "odd:thing"

        def load(self):
            return 7

    monkeypatch.setattr(registry, "entry_points", lambda **_: [Point()])
    assert list(policy_names())[-1] == "odd"
    with pytest.raises(InputError, match="'odd' is announced as 'odd:thing', which is a int"):
        policy_info("odd")
