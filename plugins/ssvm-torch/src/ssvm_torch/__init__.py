"""Declared structured models as layers of PyTorch networks, and sparse and perturbed answers in their middle."""

from ssvm_torch.collate import collate
from ssvm_torch.layer import StructuredLayer
from ssvm_torch.perturbed import perturbed
from ssvm_torch.sparsemap import SparseMap, sparsemap

__all__ = ["SparseMap", "StructuredLayer", "collate", "perturbed", "sparsemap"]
