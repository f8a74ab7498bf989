"""Options of plug-ins: what a value may be, what plug-ins get, and what is said about other values."""

from fractions import Fraction

import numpy as np
import pytest

from ssvm_dsl.errors import OptionError
from ssvm_dsl.plugin_api import BackendSpec, Option, TrainerSpec
from ssvm_dsl.registry import registry

SPEC = BackendSpec(
    "some",
    "nowhere:Class",
    options=(
        Option("count", 3, "an int", int, least=1),
        Option("shift", 0, "any int", int),
        Option("rate", 0.5, "a number", float, above=0),
        Option("both", True, "a bool", bool),
        Option("file", "here", "a text", str),
        Option("limit", None, "a number, or none", float, optional=True),
        Option("radius", None, "mixed", (float, "auto"), above=0, optional=True),
        Option("order", "up", "a choice", ("up", "down")),
        Option("level", 1, "a choice of numbers", (1, 2)),
    ),
)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"count": 0}, "'count' of 'some' must be an int of at least 1, got 0"),
        ({"count": 1.5}, "'count' of 'some' must be an int of at least 1, got 1.5"),
        ({"count": 2.0}, "'count' of 'some' must be an int of at least 1, got 2.0"),
        ({"count": True}, "'count' of 'some' must be an int of at least 1, got True"),
        ({"count": "many"}, "'count' of 'some' must be an int of at least 1, got 'many'"),
        ({"count": 2**63}, f"'count' of 'some' must be an int of at least 1, got {2**63}"),
        ({"shift": 2.7}, "'shift' of 'some' must be an int, got 2.7"),
        ({"shift": None}, "'shift' of 'some' must be an int, got None"),
        ({"rate": 0}, "'rate' of 'some' must be a number above 0, got 0"),
        ({"rate": float("nan")}, "'rate' of 'some' must be a number above 0, got nan"),
        ({"rate": float("inf")}, "'rate' of 'some' must be a number above 0, got inf"),
        ({"rate": 10**400}, f"'rate' of 'some' must be a number above 0, got {10**400}"),
        ({"rate": 1j}, "'rate' of 'some' must be a number above 0, got 1j"),
        ({"rate": None}, "'rate' of 'some' must be a number above 0, got None"),
        ({"both": "yes"}, "'both' of 'some' must be True or False, got 'yes'"),
        ({"both": 1}, "'both' of 'some' must be True or False, got 1"),
        ({"file": 3}, "'file' of 'some' must be a text, got 3"),
        ({"limit": "low"}, "'limit' of 'some' must be a number or None, got 'low'"),
        ({"radius": "pegasos"}, "'radius' of 'some' must be a number above 0 or 'auto' or None, got 'pegasos'"),
        ({"radius": -1.0}, "'radius' of 'some' must be a number above 0 or 'auto' or None, got -1.0"),
        ({"order": "left"}, "'order' of 'some' must be one of ['up', 'down'], got 'left'"),
        ({"level": True}, "'level' of 'some' must be one of [1, 2], got True"),
        ({"counts": 1}, "'some' has no option 'counts'; its options are: " + ", ".join(o.name for o in SPEC.options)),
    ],
)
def test_wrong_values_are_refused(given, expected):
    with pytest.raises(OptionError) as caught:
        SPEC.resolve(given)
    assert str(caught.value).endswith(expected)


def test_right_values_are_taken_as_they_are():
    given = {"count": 7, "shift": -3, "rate": 2.5, "both": False, "file": "", "order": "down", "level": 2}
    given |= {"limit": 0.0, "radius": "auto"}
    assert SPEC.resolve(given) == given
    assert SPEC.resolve(None) == {option.name: option.default for option in SPEC.options}


def test_numbers_come_as_the_kind_says():
    given = {"count": np.int32(7), "rate": 2, "limit": Fraction(1, 4), "radius": np.float32(1.0), "both": np.True_}
    told = SPEC.resolve(given | {"file": np.str_("there")})
    assert [told[name] for name in given] == [7, 2.0, 0.25, 1.0, True]
    assert [type(told[name]) for name in (*given, "file")] == [int, float, float, float, bool, str]


@pytest.mark.parametrize("kind", [BackendSpec, TrainerSpec])
def test_bundled_options_refuse_what_is_not_of_their_kind(kind):
    """A fraction for a whole number, a text for a number, nothing where nothing is not offered."""
    for spec in registry().specs(kind):
        for option in spec.options:
            wrong = ["no such value", *([] if option.optional else [None])]
            wrong += [2.7, -3] if option.kind is int else []
            for value in wrong:
                with pytest.raises(OptionError, match=f"option '{option.name}' of '{spec.name}' must be"):
                    spec.resolve({option.name: value})
