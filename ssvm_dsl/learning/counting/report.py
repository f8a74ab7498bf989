"""``CountingReport``: what a fit by counting found, and how far it is from the optimum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any

import numpy as np

from ssvm_dsl.notebook_tables import text_rows
from ssvm_dsl.units import seconds_text
from ssvm_dsl.values import Value

#: Why training ended.
REASONS = {
    "solved": "the linear system was solved",
    "tolerance": "the relative gap reached the tolerance",
    "iterations": "the limit of iterations was reached",
    "passes": "all passes were made",
    "stream": "a batch of a stream was learnt",
    "seconds": "the time limit was reached",
    "rounding": "the line search found no lower value",
}

#: Where lower bounds come from.
CERTIFICATES = {
    "closed-form": "the optimum was computed in closed form",
    "gradient": "by the norm of the gradient and strong convexity",
    "none": "not computed",
}


@dataclass(frozen=True, eq=False)
class CountingReport(Value):
    """The result of a fit.

    Parameters
    ----------
    objective : float
        Its value at the coefficients, in the convention the user chose.
    lower_bound, gap, relative_gap : float
        What no objective is below, how far it is from ``objective``, and that relative to ``objective``; ``nan``
        without a certificate.
    gradient_norm : float
        The norm of the objective's gradient in the Hilbert space; ``nan`` without a certificate.
    certificate : str
        Where the bound comes from: ``"closed-form"``, ``"gradient"`` or ``"none"``.
    solver : str
    n_iterations : int
        Of the solver: steps of conjugate gradient, examples visited by stochastic descent.
    reason : str
        Why it ended: a key of :data:`REASONS`.
    seconds, processor_seconds, certificate_seconds : float
        Wall time and processor time of the solver, kernels included, and wall time of the certificate.
    n_examples, n_features, n_support : int
        Examples, features of outputs, and examples with coefficients that are not zero.
    convention : str
        The objective as a formula.
    n_products : int
        Products with the Gram matrix that the solver took; 0 for streams, and where it needs none.
    """

    objective: float
    lower_bound: float
    gap: float
    relative_gap: float
    gradient_norm: float
    certificate: str
    solver: str
    n_iterations: int
    reason: str
    seconds: float
    processor_seconds: float
    certificate_seconds: float
    n_examples: int
    n_features: int
    n_support: int
    convention: str
    n_products: int = 0

    def summary(self) -> dict[str, Any]:
        """Return plain data for JSON; numbers that are not finite become ``None``."""
        return {key: None if isinstance(v, float) and not np.isfinite(v) else v for key, v in asdict(self).items()}

    @classmethod
    def of_summary(cls, summary: Mapping[str, Any]) -> CountingReport:
        """Return the report whose summary is given, as from a file.

        Raises
        ------
        KeyError, TypeError, ValueError
            It is none.
        """
        known = {field.name: field.default for field in fields(cls) if field.default is not MISSING} | dict(summary)
        values = {field.name: known[field.name] for field in fields(cls)}
        for name, kind in cls.__annotations__.items():
            if kind == "float":
                values[name] = np.nan if values[name] is None else values[name]
            if type(values[name]) not in {"float": (float, int), "int": (int,), "str": (str,)}[kind]:
                raise TypeError(f"'{name}' is {values[name]!r}")
            if kind == "float":
                values[name] = _as_float(values[name])
        report = cls(**values)
        if report.reason not in REASONS or report.certificate not in CERTIFICATES or len(values) < len(summary):
            raise ValueError("expected a reason, a certificate, and nothing else")
        return report

    def convergence_warning(self, tol: float) -> str:
        """Return the text of a warning; empty if the solver ended regularly."""
        limit = {"iterations": "max_iter", "seconds": "max_seconds"}.get(self.reason)
        short = limit is not None or (self.reason == "rounding" and self.relative_gap > tol)
        if not short:
            return ""
        gap = f"relative gap {self.relative_gap:.2g}" if np.isfinite(self.relative_gap) else "an unknown gap"
        if self.solver == "sgd":
            return f"max_seconds ended the passes at {gap}; raise it, or set fewer passes (n_passes)"
        if limit is None:
            return f"stopped at {gap} > tol={tol:g}: {REASONS['rounding']}; set a larger tol, or scale the inputs"
        return f"stopped at {gap} (tol={tol:g}); raise {limit} or tol"

    def rows(self) -> list[tuple[str, str]]:
        """Return (name, text) of the rows to print."""
        gap = f"{self.gap:.3g}, relative {self.relative_gap:.2e}"
        known = f"{self.objective:.6g} =" if np.isfinite(self.objective) else "not known:"
        return [
            ("objective", f"{known} {self.convention}"),
            ("lower bound", f"{self.lower_bound:.6g} ({CERTIFICATES[self.certificate]})"),
            ("gap", gap if self.certificate != "none" else "unknown"),
            ("gradient", f"norm {self.gradient_norm:.3g}"),
            ("solver", f"{self.solver}, {self.n_iterations} iterations: {REASONS[self.reason]}"),
            ("problem", f"{self.n_examples} examples, {self.n_features} features of outputs, {self.n_support} support"),
            ("time", f"{seconds_text(self.seconds)}, certificate {seconds_text(self.certificate_seconds)}"),
        ]

    def __str__(self) -> str:
        return text_rows(self.rows())


def _as_float(number: float) -> float:
    """Return a number of a file as a float; ``ValueError`` for whole ones beyond the largest float."""
    try:
        return float(number)
    except OverflowError as err:
        raise ValueError(str(err)) from err
