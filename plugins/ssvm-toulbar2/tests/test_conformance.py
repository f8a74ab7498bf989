"""The conformance kit of ssvm-dsl: everything the backend claims, against brute force."""

from __future__ import annotations


def test_conformance(backend_conformance):
    backend_conformance("toulbar2", seed=1)
