"""Names that users write: aliases and other spellings, and what errors say about unknown ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ssvm_dsl.errors import PluginError, meant
from ssvm_dsl.plugin_api.specs import BackendSpec, NamedSpec, RiskSpec, Spec
from ssvm_dsl.registry.records import PluginProblem, word

#: What stands for backends of other packages that are not there, by the name without case and punctuation.
ELSEWHERE = {
    "unary": "a model without factors of several variables: each variable is then answered by itself",
    "ogm": "backend='combi', which is exact, 'trws' for bounds, or 'icm' for a fast search",
    "opengm": "backend='combi', which is exact, 'trws' for bounds, or 'icm' for a fast search",
}


def unknown_name(
    kind: type[Spec], name: object, known: Sequence[str], advice: str, problems: Iterable[PluginProblem]
) -> PluginError:
    """Return the error for a name that there is not.

    It says what to write for one that is used elsewhere, else a close match, and lists the known ones and why a plug-in
    may be missing.

    Parameters
    ----------
    kind : class
    name : object
        The user's value.
    known : sequence of str
        Names of that kind.
    advice : str
        The name to write instead; may be empty.
    problems : iterable of Problem
    """
    advice = advice or (ELSEWHERE.get(_bare(name), "") if kind is BackendSpec else "")
    hint = f"; write {advice}" if advice else meant(name, known)
    text = f"there is no {word(kind)} '{name}'{hint}\n  known: {', '.join(known) or 'none'}"
    return PluginError(text + "".join(f"\n  {problem.plugin}: {problem.text}" for problem in problems))


def advice_on(name: object, specs: Sequence[NamedSpec]) -> str:
    """Return the names for an alias or another spelling: ``"risk='log', trainer='lbfgs'"``, else ``""``."""
    for spec in specs:
        settings = {_bare(alias.name): alias.settings for alias in spec.aliases}.get(_bare(name))
        if settings is not None:
            return _settings(spec, settings)
    return next((_settings(spec, {}) for spec in specs if _bare(spec.name) == _bare(name)), "")


def _bare(name: object) -> str:
    """Return a name without case and punctuation."""
    return "".join(filter(str.isalnum, str(name))).lower()


def _settings(spec: NamedSpec, more: Mapping[str, Any]) -> str:
    """Return the settings of an estimator that select a spec, as text."""
    if isinstance(spec, RiskSpec) and spec.values:
        return "StructuredRegressor"
    return ", ".join(f"{name}={value!r}" for name, value in {word(type(spec)): spec.name, **more}.items())
