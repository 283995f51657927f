"""Device scheduling for federated learning over a shared wireless uplink.

Each round, read the instantaneous channel gains and decide for every device the probability of
taking part and the transmit power, so that training reaches its target in the least time under
every device's average-power budget.

Example:
    >>> from itertools import islice
    >>> import fedsched
    >>> uplink = fedsched.PAPER_UPLINK
    >>> channel = fedsched.make_channel("heterogeneous", devices=100)
    >>> policy = fedsched.make_policy("lyapunov", uplink=uplink, draws=10)
    >>> rounds = fedsched.schedule(channel=channel, policy=policy, uplink=uplink, seed=0)
    >>> [done.cohort.size for done, state in islice(rounds, 5)]
    [5, 3, 1, 4, 1]
"""

from fedsched.core.power import optimal_power
from fedsched.core.probabilities import (
    fixed_size_probabilities,
    independent_probabilities,
    optimal_probabilities,
)
from fedsched.core.solution import Solution, Status
from fedsched.core.uplink import PAPER_UPLINK, Uplink
from fedsched.errors import FedschedError
from fedsched.policies import AbstractPolicy, make_policy
from fedsched.policies.designs import AbstractDesign, make_design
from fedsched.radio.channel import AbstractChannel
from fedsched.radio.names import make_channel
from fedsched.randomness import Luck
from fedsched.rounds import schedule
from fedsched.runs.scenario import Scenario
from fedsched.runs.scenario_file import load_scenario
from fedsched.values import Cohort, Decision, Observation, Plan, ScheduledRound

__all__ = [
    "PAPER_UPLINK",
    "AbstractChannel",
    "AbstractDesign",
    "AbstractPolicy",
    "Cohort",
    "Decision",
    "FedschedError",
    "Luck",
    "Observation",
    "Plan",
    "Scenario",
    "ScheduledRound",
    "Solution",
    "Status",
    "Uplink",
    "fixed_size_probabilities",
    "independent_probabilities",
    "load_scenario",
    "make_channel",
    "make_design",
    "make_policy",
    "optimal_power",
    "optimal_probabilities",
    "schedule",
]
