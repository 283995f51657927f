"""Virtual queues: the memory of the average-power budget."""

import numpy as np

from fedsched.values import PerDevice

__all__ = ["advance_queue"]


def advance_queue(
    queue: PerDevice, *, power_w: PerDevice, probability: PerDevice, budget_w: float | PerDevice
) -> PerDevice:
    r"""The queue after one round: :math:`Z \leftarrow \max(Z + P q - \bar P, 0)`.

    If all queues stay finite the average of :math:`P q` is at most :math:`\bar P` in the long run.

    Example:
        >>> import numpy as np
        >>> q = np.array([0.5, 0.0])
        >>> advance_queue(np.zeros(2), power_w=np.array([8.0, 8.0]), probability=q, budget_w=1.0)
        array([3., 0.])
    """
    return np.asarray(np.maximum(queue + power_w * probability - budget_w, 0.0))
