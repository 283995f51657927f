import json

from click.testing import CliRunner

from fedsched.cli.bound import command


def run(*arguments):
    return CliRunner().invoke(command, [str(each) for each in arguments])


def test_the_counterexample_is_drawn_and_told(tmp_path):
    picture = tmp_path / "counter.svg"
    result = run("--counterexample", "--plot", picture)
    assert result.exit_code == 0, result.output
    assert f"wrote {picture}" in result.stdout
    text = picture.read_text(encoding="utf-8")
    assert "printed bound" in text and "corrected bound" in text
    rows = json.loads(run("--counterexample", "--json").stdout)["counterexample"]
    assert all(row["true"] <= row["corrected"] for row in rows)
    smallest = min(rows, key=lambda row: row["learning_rate"])
    assert smallest["true"] > 100 * smallest["printed"]


def test_something_must_be_asked_for():
    assert run().exit_code == 2
