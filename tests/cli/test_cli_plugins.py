"""``ssvm plugins``: list, show, check and new, with foreign and broken plug-ins."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys

import pytest

from foreign import BROKEN, LAZY, LOUD, NEEDY, distribution, inside, ssvm, ssvm_here
from ssvm_dsl.cli.plugins.command import WRITABLE, template_of, write_package
from ssvm_dsl.learning.risks.kinds import risks


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    for name, source in {"needy": NEEDY, "lazy": LAZY, "broken": BROKEN}.items():
        distribution(folder, name, source)
    return folder


# -- list ------------------------------------------------------------------------------------------------


def test_list_shows_what_is_bundled(capsys):
    status, out, err = inside(capsys, "plugins", "list")
    assert (status, err) == (0, "")
    for words in (["backends"], ["chain", "exact", "chains", "bundled", "usable"], ["bcfw", "margin"]):
        assert any(all(word in line for word in words) for line in out.splitlines())
    assert "left out" not in out


def test_list_shows_what_is_special(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    lines = [line for line in inside(capsys, "plugins", "list")[1].splitlines() if line.strip()]
    words = {line.split()[0]: line.replace(",", "").split() for line in lines}
    for name, special in (("msd", "messages"), ("tree", "counts"), ("dlpw", "messages"), ("eg", "marginals")):
        assert special in words[name]
    assert "treewidth" in words["smo"]
    assert not {"messages", "counts"} & set(words["lp"])
    assert not {"messages", "marginals", "heuristic"} & set(words["bcfw"])
    assert "heuristic" in words["icm"]
    assert "ssvm plugins pairs" in lines[-1]


def test_list_as_json(capsys):
    told = json.loads(inside(capsys, "plugins", "list", "--json")[1])
    found = {(one["kind"], one["name"]): one for one in told["plugins"]}
    chain = found["backend", "chain"]
    assert chain["caps"]["topology"] == "chain"
    assert chain["caps"]["tasks"] == ["kbest", "map", "map_clamped", "marginals"]
    assert chain["auto"]
    assert chain["usable"]
    assert found["trainer", "subgradient"]["incremental"]
    assert told["problems"] == []


def test_list_shows_strangers_what_they_lack_and_what_is_broken(site):
    done = ssvm("plugins", "list", path=site)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert any("needy 1.0" in line and "needs no_such_library; pip install no-such-library" in line for line in lines)
    assert any("'auto' takes none of: lazy, needy" in line for line in lines)
    assert "left out, because something is wrong with them" in lines
    assert any("broken-plugin: cannot be imported: ModuleNotFoundError" in line for line in lines)


def test_problems_as_json(site):
    told = json.loads(ssvm_here("plugins", "list", "--json", path=site).stdout)
    assert [problem["plugin"] for problem in told["problems"]] == ["broken-plugin"]
    needy = next(one for one in told["plugins"] if one["name"] == "needy")
    assert (needy["usable"], needy["missing"], needy["auto"]) == (False, ["no_such_library"], False)


def test_plugins_that_print_do_not_spoil_json_and_those_that_quit_do_not_quit_the_host(tmp_path):
    distribution(tmp_path, "loud", LOUD)
    (tmp_path / "a.uai").write_text("MARKOV 1 2 1 1 0 2 1 3")
    done = ssvm("plugins", "list", "--json", path=tmp_path)
    told = json.loads(done.stdout)
    assert "loud" in {one["name"] for one in told["plugins"]}
    texts = [one["text"] for one in told["problems"]]
    assert texts[0] == "backend is left out: name must be a str, got 3"
    assert texts[1] == "backend is left out: requires must be a tuple of str, got (3,); caps must be a Caps, got 3"
    assert {"hostile import", "hostile hook", "hostile from C"} <= set(done.stderr.splitlines())
    done = ssvm("solve", str(tmp_path / "a.uai"), "--backend", "loud", "--json", path=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    fault = "backend 'loud' (plug-in 'loud-plugin', loud 1.0) broke its contract: it failed with SystemExit: 7"
    assert fault in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [["--no-plugins", "plugins", "list"], ["plugins", "list", "--no-plugins"]])
def test_no_plugins_means_bundled_only(site, arguments):
    out = ssvm_here(*arguments, path=site).stdout
    assert "chain" in out
    assert "needy" not in out
    assert "broken" not in out


# -- show ------------------------------------------------------------------------------------------------


def test_show_a_trainer_with_all_its_options(capsys):
    from ssvm_dsl.plugin_api import TrainerSpec
    from ssvm_dsl.registry import registry

    spec = registry().find(TrainerSpec, "subgradient")
    status, out, _ = inside(capsys, "plugins", "show", "subgradient")
    assert status == 0
    for option in spec.options:
        assert f"\n{option.name} " in out
        assert repr(option.default) in out
    told = json.loads(inside(capsys, "plugins", "show", "subgradient", "--json")[1])
    assert [one["name"] for one in told[0]["options"]] == [option.name for option in spec.options]
    assert [one["default"] for one in told[0]["options"]] == [option.default for option in spec.options]


def test_show_says_what_a_trainer_takes(capsys):
    def rows(name):
        lines = inside(capsys, "plugins", "show", name)[1].split("what it is for")[1].splitlines()[1:]
        return dict(re.split(r"(?<! )  +", line.rstrip(), maxsplit=1) for line in lines[:6] if line[0] != " ")

    bcfw, sub, smo, eg = map(rows, ("bcfw", "subgradient", "smo", "eg"))
    assert (bcfw["powers"], bcfw["regularised"], bcfw["asks for"]) == ("1", "every factor", "what the risk does")
    assert (sub["powers"], sub["regularised"]) == ("any", "factors may be left unregularised")
    assert (bcfw["L1 penalty"], sub["L1 penalty"]) == ("may be added (l1=)", "may be added (l1=)")
    assert smo["asks for"] == "what the risk does, small treewidth"
    assert eg["asks for"] == "what the risk does, marginals"
    assert bcfw["answers"].startswith("of any kind that the risk allows")


def test_show_a_backend_with_all_its_capabilities(capsys):
    out = inside(capsys, "plugins", "show", "tree")[1]
    for words in ("topology", "forest", "guarantee", "exact", "max_arity", "may choose it", "no options"):
        assert words in out


def test_show_what_a_stranger_lacks(site):
    out = ssvm_here("plugins", "show", "needy", path=site).stdout
    for words in ("needs no_such_library; pip install no-such-library", "does not choose it", "effort", "1, 2, 3"):
        assert words in out


def test_pairs_is_a_table_that_fits_a_screen(capsys):
    status, out, _ = inside(capsys, "plugins", "pairs")
    assert status == 0
    rows = [line.split() for line in out.splitlines() if line.startswith("one-slack ")]
    expected = [["EBh^q", "EB^q", "E^q", "EBh^q"], ["B^q", "-", "-", "-"], ["-", "-", "-"]]
    assert rows == [["one-slack", *row] for row in expected]
    assert ["n-slack", "EBh^2"] in [line.split()[:2] for line in out.splitlines()]
    assert ["perceptron", "ebh"] in [line.split()[:2] for line in out.splitlines()]
    assert all(risk in out.split() for risk in risks())
    assert max(map(len, out.splitlines())) <= 80


def test_pairs_of_one_name_tells_reasons_and_backends(capsys):
    found = json.loads(inside(capsys, "plugins", "pairs", "log", "--json")[1])
    assert {one["risk"] for one in found} == {"log"}
    by = {(one["trainer"], one["oracle"]): one for one in found}
    assert by["lbfgs", "exact"]["works"]
    assert by["lbfgs", "exact"]["certificate"] == "gap"
    assert by["lbfgs", "exact"]["powers"] is None
    assert "chain" in by["lbfgs", "exact"]["backends"]
    assert "these do: " in by["bcfw", "exact"]["reason"]
    assert "marginals" in by["lbfgs", "heuristic"]["reason"]
    assert "msd" in inside(capsys, "plugins", "pairs", "dlpw")[1]
    status, _, err = inside(capsys, "plugins", "pairs", "bcwf")
    assert status != 0
    assert "neither a trainer" in err


@pytest.mark.parametrize("name", ["bcfw", "log", "perceptron"])
def test_pairs_of_one_name_fit_a_screen_and_leave_nothing_out(capsys, name):
    """Cells with the same answer are told once; whoever reads them back has every word of the JSON."""
    every = json.loads(inside(capsys, "plugins", "pairs", name, "--json")[1])
    out = inside(capsys, "plugins", "pairs", name)[1]
    assert max(map(len, out.splitlines())) <= 80
    assert len(out.splitlines()) < 1.5 * len(every)
    told = {}
    for block in re.sub(r"\n {4}", " ", out).strip().split("\n\n"):
        head, *lines = re.sub(r"\n  (?! )", "\n", block).splitlines()
        kind, one, partners = re.fullmatch(r"(\w+) (\S+), \w+ (.*)", head).groups()
        for line in lines:
            oracles, text = line.split(": ", 1)
            for partner in partners.split(", "):
                for oracle in ("exact", "bound", "heuristic") if oracles == "all answers" else oracles.split(", "):
                    pair = (one, partner) if kind == "trainer" else (partner, one)
                    told[(*pair, oracle)] = text
    for cell in every:
        text = told[cell["trainer"], cell["risk"], cell["oracle"]]
        assert text.startswith("refused" if not cell["works"] else "certifies")
        assert all(words in text for words in [cell["reason"], *cell["conditions"], ", ".join(cell["backends"])])
        assert not cell["works"] or cell["certificate"].replace("none", "nothing") in text
        powers = cell["powers"]
        words = "any power" if powers is None else "powers " + ", ".join(f"{power:g}" for power in powers)
        assert not cell["works"] or words in text


def test_show_an_unknown_name(site):
    done = ssvm_here("plugins", "show", "chian", path=site)
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no plug-in 'chian'; did you mean 'chain'?" in done.stderr
    assert "left out: broken-plugin: cannot be imported" in done.stderr
    assert "Traceback" not in done.stderr


# -- check -----------------------------------------------------------------------------------------------


def test_check_a_good_backend(capsys):
    status, out, _ = inside(capsys, "plugins", "check", "brute-force", "--problems", "3", "--only", "map")
    assert status == 0
    assert "all 3 checks passed (seed 0, 3 random problems)" in out
    status, out, err = inside(capsys, "plugins", "check", "brute-force", "--problems", "3", "--only", "map", "--json")
    assert json.loads(out)["ok"]
    assert (status, err) == (0, "")


def test_check_with_options_in_the_quick_form_and_with_times(capsys, monkeypatch):
    options = ["--option", "max_entries=20", "--quick", "--only", "map"]
    status, out, _ = inside(capsys, "plugins", "check", "junction-tree", *options)
    assert status in (0, 1)
    assert re.search(r"map: \d+ (of \d+ )?cases?( passed)?, [\d.]+ ", out)
    assert "allowed are 20 numbers" in " ".join(out.split())  # what it refuses
    assert "4 random problems" in out
    status, _, err = inside(capsys, "plugins", "check", "count", "--option", "x=1")
    assert (status, "'count' is a constraint, which has no options" in err) == (2, True)


@pytest.mark.parametrize(
    "name", [["brute-force through counts-to-states"], ["brute-force", "through", "counts-to-states"]]
)
def test_check_takes_what_plans_name(capsys, name):
    """A backend and the bridges that it is reached through are checked one after the other, quoted or not."""
    status, out, _ = inside(capsys, "plugins", "check", *name, "--problems", "1", "--only", "kbest")
    assert status in (0, 1), out
    assert "backend 'brute-force'" in out
    assert "bridge 'counts-to-states'" in out


def test_check_looks_all_names_up_before_it_checks_one(capsys, monkeypatch):
    monkeypatch.setattr("ssvm_dsl.testing.check_backend", lambda *_, **__: pytest.fail("checked"))
    status, _, err = inside(capsys, "plugins", "check", "brute-force", "through", "counts-to-stats")
    assert status == 2
    assert "did you mean 'counts-to-states'?" in err


def test_check_a_bad_backend(site):
    done = ssvm_here("plugins", "check", "lazy", "--problems", "3", "--seed", "5", path=site)
    assert done.returncode == 1
    assert "backend 'lazy': " in done.stdout
    assert "FAIL  map" in done.stdout
    assert "(seed 5, 3 random problems)" in done.stdout
    told = json.loads(ssvm_here("plugins", "check", "lazy", "--problems", "3", "--json", path=site).stdout)
    assert not told["ok"]
    assert "map" in {check["name"] for check in told["checks"] if not check["ok"]}


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["hm"], "check backends, trainers, losses, kinds of constraints, bridges and executors; 'hm' is a risk"),
        (["chian"], "there is no plug-in 'chian'; did you mean 'chain'?"),
        (["chain", "--only", "mapp"], "there is no check 'mapp'"),
    ],
)
def test_check_what_cannot_be_checked(capsys, arguments, word):
    status, out, err = inside(capsys, "plugins", "check", *arguments)
    assert (status, out) == (2, "")
    assert word in err


# -- new -------------------------------------------------------------------------------------------------


#: The names of packages of all kinds, some of them without a hyphen: those must not hide their packages from where they
#: were written.
WRITTEN = {
    "my-solver": "backend", "my-method": "trainer", "hinge2": "risk", "my-price": "loss", "apart": "constraint",
    "my-sums": "bridge", "my-cluster": "executor", "my-count": "command", "lines": "reader",
}  # fmt: skip

#: Those that pip builds, which takes a second or two each.
BUILT = {"my-solver", "apart"}

#: Fewer problems than in the kits of authors.
FEWER = {"my-solver": "n_problems=2", "apart": "n_problems=4", "my-sums": "n_problems=2"}


def test_every_kind_is_tried():
    assert set(WRITTEN.values()) == set(WRITABLE)


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """Packages of all kinds as ``new`` writes them, where they are installed offline, and what their tests say."""
    pytest.importorskip("pip")  # uv makes environments without it
    folder = tmp_path_factory.mktemp("new")
    target = folder / "installed"
    for name, kind in WRITTEN.items():
        if name not in BUILT:
            write_package(name, folder / name, template_of(kind))
            continue
        done = ssvm_here("plugins", "new", name, f"--{kind}", "--dir", folder, path=target)
        files = template_of(kind).written(name)
        assert (done.returncode, done.stdout.count("wrote ")) == (0, len(files)), done.stderr
    paths, built = [str(folder / name) for name in WRITTEN], [str(folder / name) for name in BUILT]
    install = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run([*install, "--target", target, *built], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name in set(WRITTEN) - BUILT:  # as pip would put them there
        shutil.copytree(folder / name / "src", target, dirs_exist_ok=True)
        about = target / f"{name.replace('-', '_')}-0.1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
        (about / "entry_points.txt").write_text(f"[ssvm]\n{name} = {name.replace('-', '_')}\n")
    for name, fewer in FEWER.items():
        for test in (folder / name / "tests").iterdir():
            test.write_text(test.read_text().replace(f'_conformance("{name}"', f'_conformance("{name}", {fewer}'))
    options = ("-v", f"--rootdir={folder}", "-p", "no:cacheprovider")
    done = ssvm(*(f"{path}/tests" for path in paths), *options, path=target, command=("-m", "pytest"))
    return folder, target, done


@pytest.mark.parametrize("name", WRITTEN)
def test_new_writes_packages_that_install_offline_and_pass_their_tests(packages, name):
    folder, _, done = packages
    found = re.findall(rf"/{name}/tests/.* (PASSED|FAILED|ERROR)", done.stdout)
    assert set(found) == {"PASSED"}, done.stdout
    assert "setuptools>=61" in (folder / name / "pyproject.toml").read_text()


def test_a_new_backend_and_a_new_command_are_found(packages):
    folder, target, _ = packages
    told = json.loads(ssvm_here("plugins", "show", "my-solver", "--json", path=target).stdout)
    assert (told[0]["distribution"], told[0]["usable"]) == ("my-solver 0.1.0", True)
    assert "count the factors of a problem in a file" in ssvm_here("--help", path=target).stdout
    (folder / "chain.uai").write_text("MARKOV\n2\n2 2\n1\n2 0 1\n\n4\n1 2 3 4\n")
    shown = ssvm("my-count", str(folder / "chain.uai"), path=target).stdout
    assert shown.splitlines()[-1].split() == ["2", "1"]


@pytest.mark.parametrize("name", ["tune", "reproduce"])
def test_new_refuses_commands_that_there_are(capsys, tmp_path, name):
    status, _, err = inside(capsys, "plugins", "new", name, "--command", "--dir", tmp_path)
    assert status == 2
    assert f"there is a command '{name}' already" in err


def test_the_backend_of_new_takes_about_thirty_lines():
    code = template_of("backend").files["backend.py"][1].splitlines()
    assert len([line for line in code if line.strip() and not line.startswith(("import", "from", '"""'))]) <= 48


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("My_Solver", "NAME: lower-case words joined by hyphens"),
        ("a/b", "NAME: lower-case words joined by hyphens"),
        ("chain", "there is a backend 'chain' already"),
        ("json", "a module 'json' is installed already"),
        ("ssvm-dsl", "a module 'ssvm_dsl' is installed already"),
        ("taken", "is there already"),
    ],
)
def test_new_refuses_names(capsys, tmp_path, name, word):
    (tmp_path / "taken").mkdir()
    status, _, err = inside(capsys, "plugins", "new", name, "--dir", tmp_path)
    assert status == 2
    assert word in err
    assert [path.name for path in tmp_path.rglob("*")] == ["taken"]


def test_new_says_where_it_cannot_write(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    status, _, err = inside(capsys, "plugins", "new", "my-solver", "--dir", tmp_path / "file")
    assert status == 2
    assert "cannot write" in err
