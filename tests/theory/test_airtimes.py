"""The expected length of a round: against all cohorts there are, and against long schedules."""

import itertools
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from fedsched.policies.designs import FixedSize, FullCensus, Independent, Pivotal, WithReplacement
from fedsched.radio.access import ACCESSES
from fedsched.rounds import scheduled_rounds, start
from fedsched.runs.scenario import scenario_from
from fedsched.theory.advice import Case, Study, simulate
from fedsched.theory.airtimes import lengths_s, likely_round
from fedsched.theory.verdicts import point

DEVICES = 8
TABLE = {
    "run": {"rounds": 5, "seed": 1},
    "channel": {"devices": DEVICES},
    "uplink": {"bits": 1e6},
    "training": {"model": "softmax"},
}


def study_of(rounds=6, seeds=1, kappa=None, seed=1, **sections):
    table = {**TABLE, "run": {"rounds": 5, "seed": seed}, **sections}
    if "uplink" in sections:
        table["uplink"] = {"bits": 1e6, **sections["uplink"]}
    return Study.of([scenario_from(table)], kappa, rounds, seeds)


def first_round(study, policy, computation_s=0.0):
    """What a case runs on, its first round, and how long that is expected to take."""
    air = study.air(Case(policy=policy, seed=1, computation_s=computation_s))
    before = start(air)
    done, _ = next(scheduled_rounds(air))
    return air, done, float(lengths_s([likely_round(air, before, done)])[0])


def every_cohort(draws, design, devices=DEVICES):
    """All cohorts of a design and their chances, where all devices are alike."""
    if design == "fixed-size":
        found = [*itertools.combinations(range(devices), draws)]
        return [(cohort, 1.0 / len(found)) for cohort in found]
    if design == "with-replacement":
        found = [*itertools.product(range(devices), repeat=draws)]
        return [(tuple(sorted({*cohort})), 1.0 / len(found)) for cohort in found]
    q = draws / devices
    subsets = itertools.product((0, 1), repeat=devices)
    return [
        (np.flatnonzero(each), q ** sum(each) * (1 - q) ** (devices - sum(each)))
        for each in subsets
    ]


@pytest.mark.parametrize("design", ["fixed-size", "with-replacement", "independent"])
@pytest.mark.parametrize("access", ["tdma", "parallel"])
def test_what_has_a_formula_is_the_mean_over_all_cohorts(access, design):
    times = [0.01 * (each + 1) ** 2 for each in range(DEVICES)]
    link = {"access": access} | ({"computation_s": times} if access == "parallel" else {})
    policy = {"kind": "uniform", "design": design, "draws": 3}
    study = study_of(uplink=link, policy=policy)
    air, done, expected_s = first_round(study, study.scenario.policy, study.own_s)
    upload_s = done.decision.plan.upload_s
    ready_s = np.array(times) if access == "parallel" else np.zeros(DEVICES)
    wanted = sum(
        chance * air.access.uploads_s(upload_s[list(cohort)], ready_s[list(cohort)])
        for cohort, chance in every_cohort(3, design)
    )
    assert expected_s == pytest.approx(wanted)


@pytest.mark.parametrize("access", ACCESSES)
def test_one_device_a_round_has_the_link_to_itself_whatever_the_access(access):
    turns, other = study_of(), study_of(uplink={"access": access})
    assert other.upload_s() == pytest.approx(turns.upload_s(), rel=1e-12)
    slow = study_of(uplink={"access": access, "computation_s": 2.0, "computation_spread": 0.5})
    cases = [each.cases(2.0)["uniform m=1", 1] for each in (turns, slow)]
    one, same = (simulate(*each) for each in zip((turns, slow), cases, strict=True))
    # 2 s of computation are beside the airtime where all have them in common, and else within.
    assert same.airtime_s == pytest.approx(one.airtime_s + 2.0)


@pytest.mark.parametrize("access", ["tdma", "ofdma", "ofdma-equal"])
def test_cohorts_that_are_drawn_come_near_the_mean_over_all(access):
    times = [0.02, 0.3] * (DEVICES // 2)
    policy = {"kind": "uniform", "design": "fixed-size", "draws": 3}
    study = study_of(uplink={"access": access, "computation_s": times}, policy=policy)
    air, done, expected_s = first_round(study, study.scenario.policy, study.own_s)
    upload_s, ready_s = done.decision.plan.upload_s, np.array(times)
    wanted = np.mean([
        air.access.uploads_s(upload_s[list(cohort)], ready_s[list(cohort)])
        for cohort, _ in every_cohort(3, "fixed-size")
    ])  # fmt: skip
    assert expected_s == pytest.approx(wanted, rel=0.1)


def test_a_round_of_everybody_needs_no_luck():
    study = study_of(uplink={"access": "ofdma"}, policy={"kind": "full"})
    air, done, expected_s = first_round(study, study.scenario.policy)
    assert expected_s == pytest.approx(done.airtime_s)
    assert air.policy.sampling == FullCensus()


@pytest.mark.slow
def test_a_policy_without_a_design_decides_again():
    """Its probabilities do not say who is drawn together with whom."""
    study = study_of(
        rounds=150, uplink={"access": "parallel"}, policy={"kind": "clustered-sizes", "draws": 3}
    )
    case = Case(policy=study.scenario.policy, seed=1, computation_s=0.0)
    air = study.air(case)
    assert air.policy.sampling is None
    met = [done.airtime_s for done, _ in islice(scheduled_rounds(air), 1500)]
    error = np.std(met) / np.sqrt(len(met))
    assert abs(simulate(study, case).airtime_s - np.mean(met)) < 4.0 * error


def test_an_upload_that_fails_and_is_sent_again_takes_both_times():
    study = study_of(
        rounds=200,
        knowledge={"error_db": 6.0, "resend": True},
        policy={"kind": "uniform", "design": "fixed-size", "draws": DEVICES},
    )
    air = study.air(Case(policy=study.scenario.policy, seed=1, computation_s=0.0))
    before = start(air)
    for done, after in islice(scheduled_rounds(air), 20):
        expected_s = likely_round(air, before, done).mean_s
        assert expected_s == pytest.approx(done.airtime_s)
        before = after


@pytest.mark.parametrize(
    "design", [FixedSize(3), Pivotal(), Independent(3), WithReplacement(3), FullCensus()], ids=repr
)
def test_many_cohorts_at_once_have_the_chances_of_one(design):
    q = np.array([0.0, 0.05, 0.3, 0.3, 0.6, 0.75, 1.0])
    omega = None
    if isinstance(design, WithReplacement):
        omega = q / q.sum()
        q = 1.0 - (1.0 - omega) ** 3
    if isinstance(design, FullCensus):
        q = np.ceil(q)
    member = design.cohorts(q, omega, 4000, np.random.default_rng(1))
    assert member.shape == (4000, 7)
    assert member.mean(axis=0) == pytest.approx(q, abs=5.0 * 0.5 / np.sqrt(4000))
    if isinstance(design, FixedSize | Pivotal):
        assert set(member.sum(axis=1)) == {3}
    nobody = design.nobody_of_first(q, omega)
    if nobody is None:
        assert isinstance(design, FixedSize | Pivotal)
        return
    met = [1.0, *(~np.logical_or.accumulate(member, axis=1)).mean(axis=0)]
    assert nobody == pytest.approx(met, abs=5.0 * 0.5 / np.sqrt(4000))


LONG, AGREED, KAPPA = 2000, 4.0, 12.0  # rounds, standard errors, devices


def long_run(study, case):
    """Airtime as it was met and its error, and mean 1/q, of a long schedule."""
    met, inverse = [], []
    for done, _ in islice(scheduled_rounds(study.air(case)), LONG):
        met.append(done.airtime_s)
        inverse.append(float((1.0 / done.decision.probability).mean()))
    samples = np.reshape(met, (40, -1)).mean(axis=1)
    return np.mean(met), samples.std() / np.sqrt(40), np.mean(inverse)


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.0, 0.5])
@pytest.mark.parametrize("access", ACCESSES)
def test_short_schedules_predict_what_long_ones_meet(access, spread):
    link = {"access": access, "computation_s": 0.02 if spread else 0.0}
    sections = {"channel": {"devices": 12}, "uplink": {**link, "computation_spread": spread}}
    study = study_of(rounds=100, seeds=2, kappa=KAPPA, **sections)
    elsewhere = study_of(rounds=LONG, kappa=KAPPA, seed=11, **sections)
    cases = study.cases(study.own_s)
    costs = {case: simulate(study, case) for case in cases.values()}
    found, times = point(study, costs, study.own_s), {}
    compared = ("auto", "uniform m=1", "uniform m=3", "uniform m=10", f"uniform m={found.best}")
    for label in dict.fromkeys(compared):
        policy = cases[label, 1].policy
        if label != "auto":  # as cohorts are drawn in a run
            policy = replace(policy, design="fixed-size")
        case = Case(policy=policy, seed=11, computation_s=study.own_s)
        met_s, error_s, inverse = long_run(elsewhere, case)
        cost = found.costs[label]
        own_s = cost.airtimes_s.reshape(2, 10, 10).mean(axis=2).std(ddof=1) / np.sqrt(20)
        # By who happens to be drawn it is 0.2 for auto, and 0.38 for a device a round.
        assert own_s <= (0.05 if label == "auto" else 0.15) * cost.airtime_s, label
        # A round of auto may be longer and the mean of 1/q smaller, for the same time.
        told_s, slack = cost.airtime_s, 0.02 if label == "auto" else 0.0
        told_s *= (KAPPA + cost.inverse) / (KAPPA + inverse)
        error = np.hypot(error_s, own_s) + slack * met_s / AGREED
        assert abs(told_s - met_s) <= AGREED * error, label
        times[label] = (KAPPA + inverse) * np.array([met_s, error_s])
    (auto_s, auto_error), (best_s, best_error) = times["auto"], times[f"uniform m={found.best}"]
    gain, error = best_s / auto_s, np.hypot(auto_error / auto_s, best_error / best_s)
    assert found.low <= gain * (1.0 + 2.0 * error) and gain * (1.0 - 2.0 * error) <= found.high
