import json
import subprocess
import sys

import pytest

from fedsched.cli import main
from fedsched.runs.runlog import read_run

SCENARIO = """
[run]
rounds = 6
seed = 1
eval_every = 3
checkpoint_every = 2
[policy]
kind = "uniform"
draws = 2
[channel]
devices = 6
[uplink]
computation_s = 1000.0
[data]
samples = 30
[training]
model = "softmax"
steps = 1
batch_size = 4
"""
TOO_FEW = (
    "1 of 1 run cannot reach a target: fewer than 4 measurements count; measure more often "
    "(run.eval_every), or take the first measurement at the target with --protocol row "
    "--patience 1\n"
)


@pytest.fixture
def fedsched(monkeypatch, capsys, tmp_path):
    """Call the command line in an empty folder; exit code, standard output and standard error."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["fedsched", *map(str, arguments)])
        monkeypatch.setattr(sys, "path", list(sys.path))  # the command adds to it
        monkeypatch.setenv("PYTHONSAFEPATH", "1")  # and sets this
        with pytest.raises(SystemExit) as ended:
            main()
        seen = capsys.readouterr()
        return ended.value.code or 0, seen.out, seen.err

    return call


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "scenario.toml"
    path.write_text(SCENARIO)
    return path


@pytest.mark.slow
def test_a_sweep_has_a_folder_for_each_run_also_for_a_single_one(fedsched, scenario, tmp_path):
    text = scenario.read_text().replace("seed = 1\n", "")
    for seeds in ("[1]", "[1, 2]"):
        scenario.write_text(f"{text}\n[sweep]\nseeds = {seeds}\n")
        code, _, _ = fedsched("run", scenario, "--out", "there", "--workers", 1)
        assert code == 0
    assert len(list((tmp_path / "there").glob("uniform-m2-seed*"))) == 2
    assert not (tmp_path / "there" / "manifest.json").exists()


def test_a_run_that_failed_before_its_first_round_does_not_block_its_folder(fedsched, scenario):
    text = scenario.read_text().replace('"uniform"', '"lyapunov"')
    scenario.write_text(text.replace("draws = 2", "draws = 2\nqmin = 0.9"))
    code, _, err = fedsched("run", scenario, "--out", "there", "--workers", 1)
    assert code == 2
    assert "floor (qmin) 0.9 asks too much" in err
    scenario.write_text(text.replace("draws = 2", "draws = 2\nqmin = 0.1"))
    code, _, err = fedsched("run", scenario, "--out", "there", "--workers", 1)
    assert (code, err) == (0, "")
    scenario.write_text(text)
    code, _, err = fedsched("run", scenario, "--out", "there", "--workers", 1)
    assert code == 2
    assert "holds a run with policy.qmin = 0.1" in err


def test_what_cannot_be_meant_is_refused(fedsched, scenario, tmp_path):
    for words, sentence in (
        (("--out", ""), "out must name a place to write to, got ''"),
        (("--out", "x", "--address", "auto"), "choose the engine ray, or leave the address out"),
        (("--out", "x", "--training-of", "nowhere"), "nowhere"),
    ):
        code, _, err = fedsched("run", scenario, *words)
        assert code == 2
        assert sentence in err
    assert not (tmp_path / "manifest.json").exists()


def test_what_the_machine_refuses_becomes_a_sentence(fedsched, scenario, tmp_path, monkeypatch):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "rounds.arrows").mkdir()
    code, _, err = fedsched("run", scenario, "--out", "there", "--workers", 1)
    assert code == 2
    assert "rounds.arrows': Is a directory; check the path" in err
    code, _, err = fedsched("schedule", "--devices", 10**10)
    assert code == 2
    assert "devices must be at most 1000000000, got 10000000000" in err

    def full(*_):
        raise MemoryError("unable to allocate 8 TiB")

    monkeypatch.setattr("fedsched.cli.schedule.channel_of", full)
    code, _, err = fedsched("schedule")
    assert code == 2
    assert "there is not enough memory: unable to allocate 8 TiB; ask for fewer" in err


def test_runs_with_a_size_for_each_device_are_read_like_others(fedsched, scenario):
    text = scenario.read_text().replace("samples = 30", "samples = [30, 20, 30, 40, 30, 30]")
    scenario.write_text(text)
    assert fedsched("run", scenario, "--out", "there", "--workers", 1)[0] == 0
    code, out, err = fedsched("times", "there", "--targets", "0.01")
    assert (code, err) == (0, TOO_FEW)
    assert "uniform" in out
    code, out, err = fedsched("advise", scenario, "--rounds", 3, "--seeds", 1)
    assert (code, err) == (0, "")


def test_a_scenario_becomes_a_run_folder_and_a_table(fedsched, scenario, tmp_path):
    code, out, err = fedsched("run", scenario, "--out", "there", "--workers", 1)
    assert (code, err) == (0, "")
    log = read_run(tmp_path / "there")
    assert log.finished
    assert log.rounds == 6
    assert "wrote there" in out
    about = json.loads(fedsched("run", scenario, "--out", "there", "--workers", 1, "--json")[1])
    (row,) = about["runs"]
    assert (about["out"], about["failed"], row["run"], row["rounds"]) == ("there", {}, "uniform", 6)
    assert row["clock_s"] == row["airtime_s"] + 6 * 1000.0
    on_air_s = log.column("airtime_s").sum()
    for text in ("uniform", f"{on_air_s:.1f}", f"{on_air_s + 6000:.1f}",
                 f"{log.column('test_accuracy')[-1]:.4f}"):  # fmt: skip
        assert text in out


def test_a_biased_policy_is_marked_and_an_unknown_one_refused_before_anything_is_loaded(
    fedsched, scenario, tmp_path
):
    scenario.write_text(SCENARIO.replace('"uniform"', '"best-channel"'))
    _, out, _ = fedsched("run", scenario, "--out", "there", "--workers", 1)
    assert "best-channel (biased)" in out
    scenario.write_text(SCENARIO.replace('"uniform"', '"best"'))
    code, _, err = fedsched("run", scenario, "--out", "nowhere")
    assert code == 2
    assert "policy.kind: 'best' is not known" in err
    assert not (tmp_path / "nowhere").exists()


def test_running_it_again_shows_the_same_and_trains_nothing(fedsched, scenario, tmp_path):
    first = fedsched("run", scenario, "--out", "there", "--workers", 1)
    model = tmp_path / "there" / "model.npz"
    before = model.stat().st_mtime_ns
    again = fedsched("run", scenario, "--out", "there", "--workers", 1)
    assert again[0] == first[0] == 0
    assert again[1].splitlines()[:-1] == first[1].splitlines()[:-1]  # the same table
    assert model.stat().st_mtime_ns == before


def test_the_training_of_another_run_is_taken_over(fedsched, scenario, tmp_path):
    fedsched("run", scenario, "--out", "first", "--workers", 1)
    scenario.write_text(SCENARIO.replace("[uplink]", "[uplink]\nbandwidth_hz = 1e6"))
    arguments = ("run", scenario, "--out", "slower", "--workers", 1, "--training-of", "first")
    assert fedsched(*arguments)[0] == 0
    first, slower = read_run(tmp_path / "first"), read_run(tmp_path / "slower")
    assert slower.manifest["training_of"] == "first"
    assert slower.column("train_loss").tolist() == first.column("train_loss").tolist()
    assert slower.column("airtime_s") == pytest.approx(22 * first.column("airtime_s"))


def test_the_training_of_one_run_is_not_that_of_a_sweep(fedsched, scenario):
    scenario.write_text(SCENARIO + "[sweep]\nseeds = [1, 2]\n")
    code, _, err = fedsched("run", scenario, "--out", "there", "--training-of", "first")
    assert code == 2
    assert "training_of: 'first' is the training of one run" in err
    assert "makes 2 with the engine local" in err


def test_another_scenario_in_the_folder_is_refused(fedsched, scenario):
    fedsched("run", scenario, "--out", "there", "--workers", 1)
    scenario.write_text(SCENARIO.replace("seed = 1", "seed = 2"))
    code, _, err = fedsched("run", scenario, "--out", "there", "--workers", 1)
    assert code == 2
    assert "'there' holds a run with run.seed = 1, the scenario says 2" in err


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            "[training]",
            "[trainning]",
            "section: 'trainning' is not known; did you mean 'training'?",
        ),
        ("rounds =", "round =", "run: 'round' is not known; did you mean 'rounds'?"),
        ("rounds = 6", 'rounds = "six"', "run.rounds must be a whole number, got 'six'"),
        ("seed = 1", "", "run.seed is missing; it has no default"),
        ("draws = 2", "draws = 0", "policy.draws must be a whole number of at least 1, got 0"),
        ("computation_s = 1000.0", "computation_s = inf", "uplink.computation_s must be a finite"),
        (
            "computation_s = 1000.0",
            'access = "cdma"',
            "(known: ofdma, ofdma-equal, parallel, tdma)",
        ),
        ("draws = 2", "lam = nan", "policy.lam must be a positive finite number, got nan"),
        ('"uniform"', '"unifrom"', "policy.kind: 'unifrom' is not known; did you mean 'uniform'?"),
        ('"softmax"', '"softmacks"', "did you mean 'softmax'?"),
        ("samples = 30", 'name = "digit"', "dataset: 'digit' is not known; did you mean 'digits'?"),
        ("devices = 6", 'kind = "homogenous"', "channel: 'homogenous' is not known; did you mean"),
        ("devices = 6", 'kind = "missing.csv"', "trace missing.csv: there is no such file"),
        ("[run]", "[run", "is not valid TOML"),
        ("[run]", f"x = {'9' * 5000}\n[run]", "is not valid TOML"),
        ("computation_s = 1000.0", f"bits = 1{'0' * 400}", "uplink.bits must be a number below"),
        ("samples = 30", 'name = "math:pi"', "dataset: 'math:pi' cannot be called, it is a float"),
    ],
)
def test_a_bad_scenario_is_refused_with_a_sentence(fedsched, scenario, old, new, sentence):
    assert SCENARIO.count(old) == 1
    scenario.write_text(SCENARIO.replace(old, new))
    code, out, err = fedsched("run", scenario, "--out", "there", "--workers", 1)
    assert code == 2
    assert sentence in err
    *before, said = err.splitlines()  # a scenario that brings code is told so before it runs
    assert said.startswith("fedsched: ")
    assert before == [line for line in before if line.startswith("this scenario runs code")]
    assert out == ""


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["missing.toml", "--out", "there"], "'missing.toml' cannot be read: No such file"),
        (["scenario.toml"], "out is missing: name the folder that the run of"),
        (["scenario.toml", "--out", "there", "--workers", "0"], "workers must be a whole number"),
        (["scenario.toml", "--out", "there", "--workers", "1", "--device", "tpu"],
         "device must be 'cpu' or 'cuda', got 'tpu'"),
        (["scenario.toml", "--out", "scenario.toml"], "out: the folder 'scenario.toml' cannot be"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("scenario")
def test_a_bad_option_is_refused_with_a_sentence(fedsched, arguments, sentence):
    code, out, err = fedsched("run", *arguments)
    assert code == 2
    assert sentence in err
    assert "Traceback" not in err
    assert out == ""


@pytest.mark.slow
def test_a_bad_scenario_ends_the_real_command_with_code_2_and_without_a_traceback(scenario):
    scenario.write_text(SCENARIO.replace("rounds = 6", "rounds = 0"))
    ended = subprocess.run(
        [sys.executable, "-m", "fedsched", "run", scenario, "--out", "there"],
        cwd=scenario.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert ended.stderr == "fedsched: run.rounds must be a whole number of at least 1, got 0\n"
    assert list(scenario.parent.iterdir()) == [scenario]


def test_an_unknown_command_is_refused_with_the_known_ones(fedsched):
    code, _, err = fedsched("rum")
    assert code == 2
    assert "unknown command 'rum'; did you mean 'run'? known are demo, run" in err


def test_a_run_folder_goes_on_by_its_own_scenario(fedsched, scenario, tmp_path):
    assert fedsched("run", scenario, "--out", "whole", "--workers", 1)[0] == 0
    assert fedsched("run", scenario, "--out", "part", "--workers", 1)[0] == 0
    part = tmp_path / "part"
    (part / "model.npz").unlink()  # as a run that was stopped after its second checkpoint
    (part / "checkpoint-000000006.npz").unlink()
    scenario.unlink()
    code, out, err = fedsched("run", "part", "--workers", 1)
    assert (code, err) == (0, "")
    assert "wrote part" in out
    for name in ("rounds.arrows", "model.npz"):
        assert (part / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_folder_that_is_to_go_on_must_hold_a_run(fedsched, tmp_path):
    (tmp_path / "empty").mkdir()
    code, _, err = fedsched("run", "empty")
    assert code == 2 and "'empty' is not a run folder" in err


@pytest.mark.slow
def test_the_folder_of_a_sweep_is_no_run(fedsched, scenario):
    scenario.write_text(f"{scenario.read_text()}\n[sweep]\nm = [1, 2]\n")
    assert fedsched("run", scenario, "--out", "there", "--workers", 1)[0] == 0
    code, _, err = fedsched("run", "there")
    assert code == 2 and "scenario: 'there' holds 2 runs and is none itself" in err


def test_a_run_folder_that_also_holds_a_copy_is_a_run(fedsched, scenario):
    assert fedsched("run", scenario, "--out", "there", "--workers", 1)[0] == 0
    assert fedsched("pack", "there", "--out", "there/small")[0] == 0
    assert fedsched("run", "there", "--workers", 1)[0] == 0


def test_a_scenario_that_begins_with_a_byte_order_mark_is_read(fedsched, scenario):
    scenario.write_text(f"\ufeff{scenario.read_text()}", encoding="utf-8")
    assert fedsched("run", scenario, "--out", "there", "--workers", 1)[0] == 0


def test_a_run_folder_does_not_go_on_inside_itself_on_a_cluster(fedsched, scenario, tmp_path):
    assert fedsched("run", scenario, "--out", "there", "--workers", 1)[0] == 0
    before = sorted((tmp_path / "there").iterdir())
    code, _, err = fedsched("run", "there", "--engine", "ray")
    assert code == 2 and "goes on where it is, with the engine local, got 'ray'" in err
    assert sorted((tmp_path / "there").iterdir()) == before


SHADOWS = ("sklearn", "torch", "numpy", "rich", "pyarrow", "filelock", "PIL")


@pytest.mark.slow
@pytest.mark.parametrize("way", ["script", "module"])
def test_a_file_in_the_present_folder_is_never_run_for_a_dependency(scenario, tmp_path, way):
    place = tmp_path / "place"
    place.mkdir()
    # A script begins its search beside itself, so modules of Python's are safe in workers too.
    shadows = (*SHADOWS, "socket", "pickle") if way == "script" else SHADOWS
    for name in shadows:
        (place / f"{name}.py").write_text("raise SystemExit('run in place of the real one')")
    (place / "own.py").write_text(
        "from neighbour import load_dataset\ndata = lambda: load_dataset('digits')\n"
    )
    (place / "neighbour.py").write_text("from fedsched.learning.dataset import load_dataset\n")
    scenario.write_text(scenario.read_text().replace("[data]", "[data]\nname = 'own:data'"))
    script = tmp_path / "fedsched"
    script.write_text("if __name__ == '__main__':\n  from fedsched.cli import main\n  main()\n")
    begin = [sys.executable, str(script)] if way == "script" else [sys.executable, "-m", "fedsched"]
    done = subprocess.run(
        [*begin, "run", str(scenario), "--out", str(tmp_path / "out"), "--workers", "2"],
        cwd=place,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "run in place" not in done.stdout + done.stderr


def test_fields_are_set_on_the_command_line_and_a_run_is_made_longer(fedsched, scenario):
    given = ("--workers", 1, "--set", "policy.draws=3", "--set", "run.rounds=3")
    assert fedsched("run", scenario, "--out", "there", *given)[0] == 0
    log = read_run("there")
    assert (log.rounds, log.manifest["scenario"]["policy"]["draws"]) == (3, 3)
    assert fedsched("run", "there", "--workers", 1, "--set", "run.rounds=6")[0] == 0
    assert read_run("there").rounds == 6
    code, _, err = fedsched("run", "there", "--workers", 1, "--set", "policy.draws=2")
    assert code == 2
    assert "holds a run with policy.draws = 3, the scenario says 2" in err
    code, _, err = fedsched("run", scenario, "--out", "other", "--set", "run.round=3")
    assert code == 2
    assert "run: 'round' is not known; did you mean 'rounds'?" in err


@pytest.mark.slow
def test_a_sweep_names_what_was_swept_and_what_was_finished_already(fedsched, scenario, tmp_path):
    text = scenario.read_text().replace('kind = "uniform"', 'kind = "lyapunov"')
    scenario.write_text(f"{text}\n[sweep]\nlambda = [1, 100]\n")
    _, out, _ = fedsched("run", scenario, "--out", tmp_path / "runs")
    for lam in (1, 100):
        assert f"lyapunov λ={lam}, seed 1" in out
    assert "finished already" not in out
    for folder in (tmp_path / "runs").iterdir():
        assert folder.name in out
    _, out, _ = fedsched("run", scenario, "--out", tmp_path / "runs")
    place = tmp_path / "runs"
    assert out.endswith(f"all 2 runs in {place} were finished already, and nothing was done\n")


@pytest.mark.slow
def test_a_finished_run_says_that_nothing_was_done_and_a_longer_one_does_not(fedsched, scenario):
    done = "the run in a was finished already, and nothing was done\n"
    assert fedsched("run", scenario, "--out", "a")[1].endswith("\nwrote a\n")
    again = fedsched("run", scenario, "--out", "a")[1]
    assert again.endswith(done) and "wrote" not in again
    longer = ["run", scenario, "--out", "a", "--set", "run.rounds=8"]
    assert done not in fedsched(*longer)[1]


@pytest.mark.slow
def test_a_folder_that_holds_something_else_is_remarked(fedsched, scenario, tmp_path):
    for name in ("letters", "photos"):
        (tmp_path / "mine" / name).mkdir(parents=True)
    said = "out: 'mine' holds 'letters' and 1 more, left as found\n"
    assert fedsched("run", scenario, "--out", "mine")[2] == said
    assert fedsched("run", scenario, "--out", "mine")[2] == ""


def test_an_empty_scenario_says_how_to_begin(fedsched, tmp_path):
    (tmp_path / "empty.toml").touch()
    code, _, err = fedsched("run", "empty.toml", "--out", "a")
    assert code == 2
    assert "the section [run] is missing" in err and "`fedsched init` writes one" in err


def test_a_data_set_in_capitals_is_guessed(fedsched, scenario):
    code, _, err = fedsched("run", scenario, "--out", "a", "--set", "data.name=CIFAR10")
    assert code == 2 and "did you mean 'cifar10'?" in err
