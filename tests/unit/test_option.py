"""Options of plug-ins: what a value may be, and what is said about others."""

import pytest

from ssvm_dsl.errors import OptionError
from ssvm_dsl.plugin_api import BackendSpec, Option

SPEC = BackendSpec(
    "some",
    "nowhere:Class",
    options=(
        Option("count", 3, "an int", least=1),
        Option("rate", 0.5, "a number", above=0),
        Option("both", True, "a bool"),
        Option("radius", None, "anything"),
        Option("order", "up", "a choice", ("up", "down")),
    ),
)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"count": 0}, "'count' of 'some' is an int of at least 1, got 0"),
        ({"count": 1.5}, "'count' of 'some' is an int of at least 1, got 1.5"),
        ({"count": True}, "'count' of 'some' is an int of at least 1, got True"),
        ({"count": "many"}, "'count' of 'some' is an int of at least 1, got 'many'"),
        ({"rate": 0}, "'rate' of 'some' is a number above 0, got 0"),
        ({"rate": float("nan")}, "'rate' of 'some' is a number above 0, got nan"),
        ({"rate": None}, "'rate' of 'some' is a number above 0, got None"),
        ({"both": "yes"}, "'both' of 'some' is True or False, got 'yes'"),
        ({"order": "left"}, "'order' of 'some' is one of ['up', 'down'], got 'left'"),
        ({"counts": 1}, "'some' has no option 'counts'; its options are: count, rate, both, radius, order"),
    ],
)
def test_wrong_values_are_refused(given, expected):
    with pytest.raises(OptionError) as caught:
        SPEC.resolve(given)
    assert str(caught.value).endswith(expected)


def test_right_values_are_taken_as_they_are():
    given = {"count": 7, "rate": 2, "both": False, "radius": 1.5, "order": "down"}
    assert SPEC.resolve(given) == given
    assert SPEC.resolve(None) == {"count": 3, "rate": 0.5, "both": True, "radius": None, "order": "up"}
