"""The attribute ``report_``: a report that knows the estimator it is of, as long as there is one."""

from __future__ import annotations

from typing import Any, Self, overload

from ssvm_dsl.learning.driver.certificate import FitReport


class LinkedReport:
    """Keeps the report among the estimator's attributes; reading it tells the report whose it is."""

    @overload
    def __get__(self, svm: None, owner: type) -> Self: ...

    @overload
    def __get__(self, svm: object, owner: type) -> FitReport: ...

    def __get__(self, svm: Any, owner: type | None = None) -> Any:
        if svm is None:
            return self
        if "report_" not in vars(svm):
            raise AttributeError(f"'{type(svm).__name__}' object has no attribute 'report_'")
        report = vars(svm)["report_"]
        if isinstance(report, FitReport):
            report.link(svm)
        return report

    def __set__(self, svm: Any, report: Any) -> None:
        vars(svm)["report_"] = report

    def __delete__(self, svm: Any) -> None:
        if vars(svm).pop("report_", None) is None:
            raise AttributeError("report_")
