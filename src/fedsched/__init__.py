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

import importlib
import importlib.util
import typing

if typing.TYPE_CHECKING:
    from fedsched.errors import FedschedError as FedschedError
    from fedsched.policies import AbstractPolicy as AbstractPolicy
    from fedsched.policies import make_policy as make_policy
    from fedsched.policies.designs import AbstractDesign as AbstractDesign
    from fedsched.policies.designs import make_design as make_design
    from fedsched.radio.channel import AbstractChannel as AbstractChannel
    from fedsched.radio.names import make_channel as make_channel
    from fedsched.randomness import Luck as Luck
    from fedsched.randomness import stream as stream
    from fedsched.rounds import schedule as schedule
    from fedsched.runs.assembly import schedule_of as schedule_of
    from fedsched.runs.assembly import uplink_of as uplink_of
    from fedsched.runs.comparison import compare as compare
    from fedsched.runs.experiment import run as run
    from fedsched.runs.runlog import RunLog as RunLog
    from fedsched.runs.runlog import read_run as read_run
    from fedsched.runs.scenario import Scenario as Scenario
    from fedsched.runs.scenario_file import load_scenario as load_scenario
    from fedsched.solve.decision import decide as decide
    from fedsched.solve.power import optimal_power as optimal_power
    from fedsched.solve.probabilities import fixed_size_probabilities as fixed_size_probabilities
    from fedsched.solve.probabilities import independent_probabilities as independent_probabilities
    from fedsched.solve.probabilities import optimal_probabilities as optimal_probabilities
    from fedsched.solve.solution import RoundSolution as RoundSolution
    from fedsched.solve.solution import Solution as Solution
    from fedsched.solve.solution import Status as Status
    from fedsched.solve.uplink import PAPER_UPLINK as PAPER_UPLINK
    from fedsched.solve.uplink import Uplink as Uplink
    from fedsched.values import Cohort as Cohort
    from fedsched.values import Decision as Decision
    from fedsched.values import Observation as Observation
    from fedsched.values import Plan as Plan
    from fedsched.values import ScheduledRound as ScheduledRound
    from fedsched.views.report import write_report as write_report

# Where each name lives. It is imported when it is first used: `fedsched --help` and a worker that
# needs one part do not wait for all of them.
_HOME = {
    "fedsched.solve.decision": ("decide",),
    "fedsched.solve.power": ("optimal_power",),
    "fedsched.solve.probabilities": (
        "fixed_size_probabilities",
        "independent_probabilities",
        "optimal_probabilities",
    ),
    "fedsched.solve.solution": ("RoundSolution", "Solution", "Status"),
    "fedsched.solve.uplink": ("PAPER_UPLINK", "Uplink"),
    "fedsched.errors": ("FedschedError",),
    "fedsched.values": ("Cohort", "Decision", "Observation", "Plan", "ScheduledRound"),
    "fedsched.runs.assembly": ("schedule_of", "uplink_of"),
    "fedsched.runs.comparison": ("compare",),
    "fedsched.runs.experiment": ("run",),
    "fedsched.runs.runlog": ("RunLog", "read_run"),
    "fedsched.runs.scenario": ("Scenario",),
    "fedsched.runs.scenario_file": ("load_scenario",),
    "fedsched.policies.designs": ("AbstractDesign", "make_design"),
    "fedsched.policies": ("AbstractPolicy", "make_policy"),
    "fedsched.randomness": ("Luck", "stream"),
    "fedsched.rounds": ("schedule",),
    "fedsched.radio.channel": ("AbstractChannel",),
    "fedsched.radio.names": ("make_channel",),
    "fedsched.views.report": ("write_report",),
}

__all__ = sorted(name for names in _HOME.values() for name in names)

if not typing.TYPE_CHECKING:  # a type checker would take any name for one of these

    def __getattr__(name):
        for home, names in _HOME.items():
            if name in names:
                value = globals()[name] = getattr(importlib.import_module(home), name)
                return value
        # `fedsched.radio` and the other parts need no import of their own.
        if not name.startswith("_") and importlib.util.find_spec(f"fedsched.{name}"):
            return importlib.import_module(f"fedsched.{name}")
        raise AttributeError(f"module 'fedsched' has no attribute {name!r}")

    def __dir__():
        return sorted({*globals(), *__all__})
