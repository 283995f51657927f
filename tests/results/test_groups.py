"""Which runs belong together, and which uniform run is whose baseline."""

from tests.results.report_runs import manifest, run_log, table

from fedsched.results.groups import baseline_of, group_runs


def log(kind, *, draws=10, seed=1, unread=(), **policy):
    about = manifest(kind, draws, seed)
    about["scenario"]["policy"] |= policy
    about["unread"] = [f"policy.{name}" for name in unread]
    return run_log(about, table(seed=seed))


def labelled(*logs):
    return {group.label: group for group in group_runs(logs)}


def test_a_policy_without_designs_is_compared_with_uniform_all_the_same():
    groups = labelled(
        log("uniform", design="with-replacement", lam=100.0, unread=["lam"]),
        log("oort", design="with-replacement", lam=100.0, unread=["lam", "design"]),
    )
    ours = next(group for group in groups.values() if group.fields["policy.kind"] == "oort")
    found = baseline_of(ours, list(groups.values()))
    assert found is not None
    assert found.fields["policy.kind"] == "uniform"


def test_the_baseline_has_the_same_draws_and_the_same_design():
    groups = labelled(
        log("uniform", draws=5, design="with-replacement"),
        log("uniform", draws=10, design="fixed-size"),
        log("lyapunov", draws=10, design="with-replacement"),
    )
    ours = next(group for group in groups.values() if group.fields["policy.kind"] == "lyapunov")
    assert baseline_of(ours, list(groups.values())) is None
