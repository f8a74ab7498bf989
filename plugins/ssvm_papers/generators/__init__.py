"""Seeded generators of data in place of the papers' own."""

from ssvm_papers.generators.multilabel import make_multilabel
from ssvm_papers.generators.sequences import GaussianHMM, make_blocks, make_gaussian_hmm
from ssvm_papers.generators.street import N_STREET_FEATURES, STREET_CLASSES, StreetScan, make_street_scans
from ssvm_papers.generators.walks import make_walks

__all__ = [
    "N_STREET_FEATURES",
    "STREET_CLASSES",
    "GaussianHMM",
    "StreetScan",
    "make_blocks",
    "make_gaussian_hmm",
    "make_multilabel",
    "make_street_scans",
    "make_walks",
]
