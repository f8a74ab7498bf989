"""Data to try models on: the embedded OCR letters and seeded synthetic generators."""

from ssvm_dsl.datasets.letters import Letters, Split, load_letters
from ssvm_dsl.datasets.synthetic import make_chains, make_stripes

__all__ = ["Letters", "Split", "load_letters", "make_chains", "make_stripes"]
