"""The estimator that ``ssvm train`` fits: a ready model or one of the user's file, with the options of the command."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ssvm_dsl.cli.command import positive, positive_int
from ssvm_dsl.cli.learn.reading import input_names
from ssvm_dsl.cli.learn.ready import READY
from ssvm_dsl.cli.tune.sources import find_estimator, option_value

#: Options of the command that are parameters of estimators.
PARAMETERS = {
    "C": "C", "lam": "lam", "l1": "l1", "risk": "risk", "trainer": "trainer", "backend": "backend",
    "guarantee": "guarantee", "tol": "tol", "max_passes": "max_passes", "max_seconds": "max_seconds",
    "threads": "n_threads", "executor": "executor", "checkpoint": "checkpoint", "scoring": "scoring",
}  # fmt: skip

#: Parameters that the command sets itself, and how.
OWN = {"verbose": "it shows progress anyway", "warm_start": "resume with --checkpoint", "callbacks": "not from a shell",
       "model": "name it first"}  # fmt: skip


@dataclass(frozen=True, eq=False)
class TrainingModel:
    """The estimator to train.

    Parameters
    ----------
    name : str
        A ready model, or FILE:Model.
    estimator : estimator
    """

    name: str
    estimator: Any

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs of the user's model; none for a ready model."""
        return () if self.name in READY else input_names(self.estimator)


def add_training_arguments(parser: ArgumentParser) -> None:
    """Add what ``fit`` is to do."""
    strength = parser.add_mutually_exclusive_group()
    strength.add_argument("--C", type=positive, metavar="C", help="weight of the training errors (default: 1)")
    strength.add_argument("--lam", type=positive, metavar="L", help="regularisation instead of --C: 1 / (C n)")
    parser.add_argument("--l1", type=positive, metavar="L", help="strength of an L1 penalty")
    parser.add_argument("--risk", metavar="NAME", help="margin (default), log for a conditional random field, ...")
    parser.add_argument("--trainer", metavar="NAME", help="a trainer of ssvm plugins list (default: auto)")
    parser.add_argument("--backend", metavar="NAME", help="a backend of ssvm plugins list (default: auto)")
    parser.add_argument("--guarantee", choices=("exact", "bound", "heuristic"), help="of answers (default: exact)")
    parser.add_argument("--tol", type=positive, metavar="T", help="relative gap at which it stops (default: 0.001)")
    parser.add_argument("--max-passes", type=positive, metavar="N", help="most passes over the data (default: 500)")
    parser.add_argument("--max-seconds", type=positive, metavar="S", help="time limit; the fit keeps its best weights")
    parser.add_argument("--threads", type=positive_int, metavar="N", help="number of threads (default: all processors)")
    parser.add_argument("--executor", metavar="NAME", help="where it runs: threads (default), processes, stream, ...")
    parser.add_argument("--checkpoint", metavar="FILE", help="keep the state of training; the same command resumes")
    parser.add_argument(
        "--set", type=parse_setting, action="append", default=[], metavar="NAME=VALUE", dest="settings",
        help="another parameter of the model, e.g. order=2 or trainer_options.keep=4 (may be repeated)",
    )  # fmt: skip


def parse_setting(text: str) -> tuple[str, Any]:
    """Read ``NAME=VALUE``: a number, true, false, none, or a word."""
    name, equals, value = text.partition("=")
    if not equals or not value or not name.replace(".", "_").isidentifier():
        raise ArgumentTypeError(f"expected NAME=VALUE, e.g. order=2, got {text!r}")
    return name, option_value(value)


def training_model(place: str, args: Namespace, known: Mapping[str, Any]) -> TrainingModel:
    """Return the estimator, with all options set.

    Parameters
    ----------
    place : str
    args : Namespace
        Of the arguments above.
    known : mapping
        Parameters that follow from the data, unless they are set.

    Raises
    ------
    OptionError
        There is no such model, or it has no such parameter.
    """
    from ssvm_dsl.errors import OptionError, meant
    from ssvm_dsl.learning.tuning.fitting import configured

    found = find_estimator(place)
    names = found.estimator.get_params(deep=False)
    given = {PARAMETERS[key]: getattr(args, key) for key in PARAMETERS if getattr(args, key, None) is not None}
    for name, value in args.settings:
        if name in given:
            raise OptionError(f"--set {name}: given twice")
        given[name] = value
    for name in given:
        outer = name.partition(".")[0]
        if outer in OWN:
            raise OptionError(f"--set {name}: {OWN[outer]}")
        if outer not in names:
            listed = ", ".join(sorted(set(names) - set(OWN)))
            raise OptionError(f"{place} has no parameter '{outer}'{meant(outer, names)}\n  it has: {listed}")
    if names.get("random_state", 0) is None and "random_state" not in given:
        given["random_state"] = 0
    given = {name: value for name, value in known.items() if name in names} | given
    return TrainingModel(place, configured(found.estimator, given))
