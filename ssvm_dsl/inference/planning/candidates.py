"""The verdict of one backend on a need."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ssvm_dsl.deadline import pause
from ssvm_dsl.errors import PluginError, SsvmError
from ssvm_dsl.inference.planning.plans import Candidate
from ssvm_dsl.ir.need import Need
from ssvm_dsl.memory import shortage
from ssvm_dsl.plugin_api.hosting.contained import contained, refusal
from ssvm_dsl.plugin_api.protocols import Backend, Verdict
from ssvm_dsl.plugin_api.specs import BackendSpec


def consider(need: Need, spec: BackendSpec, options: dict[str, Any] | None = None) -> tuple[Candidate, Backend | None]:
    """Return the verdict of a backend on a need; its code is loaded only if its ``Caps`` fit.

    Parameters
    ----------
    need : Need
    spec : BackendSpec
    options : dict, optional
        What the user gave; the backend sees them as ``need.options``, defaults filled in.

    Raises
    ------
    OptionError
        An unknown option or a value outside the choices.
    """
    return consider_resolved(need, spec, spec.resolve(options))


def consider_resolved(
    need: Need, spec: BackendSpec, resolved: dict[str, Any]
) -> tuple[Candidate, Backend | None]:
    """Return the verdict of a backend on a need, for options that are checked and complete."""
    pause()
    reasons = spec.caps.refusals(need)
    missing = spec.missing()
    if missing:
        hint = f" ({spec.install_hint})" if spec.install_hint else ""
        reasons.append(f"needs {', '.join(missing)}{hint}")
    if reasons:
        return Candidate(spec.name, False, np.inf, tuple(reasons)), None
    try:
        with contained(f"backend '{spec.name}'", PluginError):
            backend: Backend = spec.load()()
            candidate = _candidate(spec, backend.check(replace(need, options=dict(resolved))), need.share)
    except SsvmError as err:
        return Candidate(spec.name, False, np.inf, (f"failed: {refusal(err)}",)), None
    return candidate, backend


def _candidate(spec: BackendSpec, verdict: Verdict, share: float) -> Candidate:
    """Return the candidate of a verdict, if it is one; a backend short of memory does not fit.

    ``share`` is which share of the factors the backend has before it at a time.
    """
    if not isinstance(verdict, Verdict):
        raise PluginError(f"check returned a {type(verdict).__name__}, expected a Verdict")
    ok, cost, reasons = verdict.ok, verdict.cost, verdict.reasons
    if not isinstance(ok, bool | np.bool_):
        raise PluginError(f"check returned Verdict(ok={ok!r:.40}), expected True or False")
    if not isinstance(cost, int | float | np.number) or isinstance(cost, bool) or not cost >= 0.0:
        raise PluginError(f"check returned Verdict(cost={cost!r:.40}), expected a number of operations")
    if not isinstance(reasons, tuple | list) or not all(isinstance(reason, str) for reason in reasons):
        raise PluginError(f"check returned Verdict(reasons={reasons!r:.40}), expected a tuple of texts")
    n_bytes = verdict.n_bytes
    if not isinstance(n_bytes, int | float | np.number) or isinstance(n_bytes, bool) or not n_bytes >= 0.0:
        raise PluginError(f"check returned Verdict(n_bytes={n_bytes!r:.40}), expected a number of bytes")
    n_bytes = float(n_bytes) * share
    facts, seconds = tuple(" ".join(reason.split()) for reason in reasons), float(cost) / spec.speed
    if ok and (lacking := shortage(float(n_bytes))):
        return Candidate(spec.name, False, np.inf, (lacking,), seconds, float(n_bytes))
    return Candidate(spec.name, bool(ok), float(cost), facts, seconds, float(n_bytes))
