"""A share of `make chaos`."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.skipif(
    sys.platform != "linux" or not shutil.which("cc"), reason="a library in C is preloaded"
)
def test_no_death_and_no_error_loses_a_bit():
    share = ("--every", "29", "--kills", "5", "--sweeps", "0", "--deployments", "0")
    ended = subprocess.run(
        [sys.executable, "-m", "tests.chaos.chaos", *share],
        cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert "0 bits lost, 0 tracebacks" in ended.stdout
