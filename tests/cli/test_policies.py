import json

from click.testing import CliRunner

from fedsched.cli.policies import command
from fedsched.policies import POLICIES


def test_every_policy_is_listed_with_what_it_reads_and_where_it_comes_from():
    rows = json.loads(CliRunner().invoke(command, ["--json"]).output)["policies"]
    assert {row["name"] for row in rows} >= set(POLICIES)
    by_name = {row["name"]: row for row in rows}
    assert by_name["ocs"]["needs"] == ["current feedback"]
    assert by_name["oort"]["needs"] == ["gains", "stale feedback"]
    assert by_name["uniform"]["needs"] == []
    assert by_name["fedcs"]["unbiased"] == "no"
    for row in rows:
        assert row["about"] and row["reference"] and row["weights"], row["name"]


def test_the_table_names_every_policy():
    shown = CliRunner().invoke(command, []).output
    for name in ("lyapunov", "round-robin (biased)", "clustered-similarity"):
        assert name in shown
    assert "lyapunov (biased)" not in shown
