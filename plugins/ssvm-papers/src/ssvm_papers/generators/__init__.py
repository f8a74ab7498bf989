"""Seeded generators of data in place of the papers' own."""

from ssvm_papers.generators.sequences import GaussianHMM, make_blocks, make_gaussian_hmm, make_multilabel, make_walks
from ssvm_papers.generators.street import N_STREET_FEATURES, STREET_CLASSES, StreetScan, make_street_scans
from ssvm_papers.generators.terrains import HeadingPlanner, Plans, TerrainPlan, make_plans, make_terrain, map_terrain

__all__ = [
    "N_STREET_FEATURES",
    "STREET_CLASSES",
    "GaussianHMM",
    "HeadingPlanner",
    "Plans",
    "StreetScan",
    "TerrainPlan",
    "make_blocks",
    "make_gaussian_hmm",
    "make_multilabel",
    "make_plans",
    "make_street_scans",
    "make_terrain",
    "make_walks",
    "map_terrain",
]
