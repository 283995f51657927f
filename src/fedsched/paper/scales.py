"""How large a reproduction is: from a minute's smoke test to the paper's own size."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedsched.analysis.arrival import ARRIVAL, ArrivalProtocol, InARow
from fedsched.checks import one_of
from fedsched.errors import InputError
from fedsched.solve.uplink import PAPER_UPLINK

__all__ = ["SCALES", "Scale", "make_scale"]


@dataclass(frozen=True, kw_only=True)
class Scale:
    """What a target runs: the data, the sizes, and the accuracies it asks for."""

    name: str
    dataset: str
    devices: int
    draws: tuple[int, ...]
    seeds: tuple[int, ...]
    rounds: Mapping[int, int]  # of training at most, by draws
    schedule_rounds: int  # of the figures that need no training
    targets: Mapping[float, float]  # accuracy to reach, by alpha
    training: Mapping[str, Any]
    samples: int
    eval_every: Mapping[int, int]  # by draws
    protocol: ArrivalProtocol  # what counts as having reached a target
    window: int  # points of the rolling mean, of 200 on each curve
    stops: bool = False  # whether a run ends once it stands at its target
    paper_beside: bool = True  # whether the paper's numbers stand beside ours
    longer: Mapping[float, int] = field(default_factory=dict)  # in place of rounds, by alpha

    def base(self, draws: int, alpha: float) -> dict[str, dict[str, Any]]:
        """The part of a scenario that its runs with so many draws on such data share."""
        run: dict[str, Any] = {
            "rounds": self.longer.get(alpha, self.rounds[draws]),
            "eval_every": self.eval_every[draws],
        }
        if self.stops:
            run["stop_accuracy"] = self.targets[alpha]
        return {
            "run": run,
            "channel": {"devices": self.devices},
            # The bits of the paper's CNN whatever the model, so that airtimes are the paper's.
            "uplink": {"bits": float(PAPER_UPLINK.bits)},
            "data": {"name": self.dataset, "samples": self.samples, "alpha": alpha},
            "training": dict(self.training),
        }


_PAPER_TARGETS = {math.inf: 0.775, 1.0: 0.73, 0.0: 0.65}
_SMOKE = Scale(
    name="smoke", dataset="digits", devices=20, draws=(1, 5, 10), seeds=(1,),
    rounds={1: 24, 5: 16, 10: 16}, schedule_rounds=200,
    targets={math.inf: 0.7, 1.0: 0.6, 0.0: 0.3},
    training={"model": "softmax", "learning_rate": 0.02, "steps": 3, "batch_size": 16},
    samples=100, eval_every={1: 2, 5: 2, 10: 2}, protocol=InARow(1), window=1,
)  # fmt: skip
_SMALL = Scale(
    name="small", dataset="digits", devices=100, draws=(1, 5, 10), seeds=(1, 2),
    rounds={1: 400, 5: 260, 10: 260}, schedule_rounds=2_000,
    targets={math.inf: 0.92, 1.0: 0.90, 0.0: 0.80},
    training={"model": "softmax", "learning_rate": 0.002},
    samples=500, eval_every={1: 4, 5: 4, 10: 4}, protocol=ARRIVAL, window=5,
)  # fmt: skip
_PAPER = Scale(
    name="paper", dataset="cifar10", devices=100, draws=(1, 5, 10), seeds=(1, 2, 3),
    rounds=dict.fromkeys((1, 5, 10), 10_000), schedule_rounds=4_000, targets=_PAPER_TARGETS,
    training={"model": "paper-cnn", "learning_rate": 0.01},
    samples=500, eval_every={1: 50, 5: 20, 10: 20}, protocol=ARRIVAL, window=5,
    stops=True, longer={0.0: 20_000},
)  # fmt: skip

# Scale and data set. The paper is about CIFAR-10; digits stand in for it where time is short.
SCALES: Mapping[tuple[str, str], Scale] = {
    ("smoke", "digits"): _SMOKE,
    ("small", "digits"): _SMALL,
    ("paper", "cifar10"): _PAPER,
}


def make_scale(name: str, dataset: str | None) -> Scale:
    """The scale of that name on a data set; digits, or CIFAR-10 at the paper's size, if None."""
    names = sorted({scale for scale, _ in SCALES})
    one_of("scale", name, names)
    chosen = dataset or ("cifar10" if name == "paper" else "digits")
    if (name, chosen) in SCALES:
        return SCALES[name, chosen]
    if chosen == "cifar10":  # a few rounds of the real thing, to see that it works
        fewer = {"smoke": 4, "small": 120}[name]
        return Scale(
            **{
                **vars(_PAPER),
                "name": name,
                "seeds": (1,),
                "rounds": dict.fromkeys(_PAPER.draws, fewer),
                "eval_every": {draws: max(2, fewer // 10) for draws in _PAPER.draws},
                "targets": {math.inf: 0.4, 1.0: 0.35, 0.0: 0.15},
                "protocol": InARow(1),
                "stops": False,
                "longer": {},
                "schedule_rounds": 1_000,
            }
        )
    if chosen == "digits":
        return Scale(**{**vars(_SMALL), "name": name, "seeds": (1, 2, 3), "schedule_rounds": 4_000})
    raise InputError(f"dataset must be digits or cifar10, got {chosen!r}")
