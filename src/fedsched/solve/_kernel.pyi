from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_Array = NDArray[np.float64]

def power(
    gain: _Array,
    queue: _Array,
    power: _Array,
    cost: float,
    factor: float,
    noise: float,
    max_power: float,
    threads: int,
    /,
) -> int: ...
def tariff(
    gain: _Array,
    second: _Array,
    watt: _Array,
    joule: _Array,
    peak: _Array,
    power: _Array,
    length: float,
    noise: float,
    /,
) -> int: ...
def solve(
    price: _Array,
    weight: _Array,
    omega: _Array | None,
    q: _Array,
    certificate: _Array,
    devices: int,
    design: int,
    draws: int,
    size: float,
    floor: float,
    threads: int,
    /,
) -> int: ...
def decide(
    gain: _Array,
    queue: _Array,
    power: _Array,
    cost: float,
    factor: float,
    noise: float,
    max_power: float,
    price: _Array,
    weight: _Array,
    omega: _Array | None,
    q: _Array,
    certificate: _Array,
    devices: int,
    design: int,
    draws: int,
    size: float,
    floor: float,
    threads: int,
    /,
) -> int: ...
def distance(y: NDArray[Any], x: NDArray[Any], /) -> float: ...
def step(
    x: NDArray[Any],
    rows: Sequence[NDArray[Any]],
    share: _Array,
    weight: _Array,
    out: NDArray[Any],
    /,
) -> float: ...
def kernels() -> tuple[str, ...]: ...
def use(name: str, /) -> None: ...
