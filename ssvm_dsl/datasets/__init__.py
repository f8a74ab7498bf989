"""Data to try models on: the embedded OCR letters, readers of data you have, and seeded synthetic generators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ssvm_dsl.lazy_api import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)

if TYPE_CHECKING:
    from ssvm_dsl.datasets.conll2000 import CHUNK_TAGS as CHUNK_TAGS
    from ssvm_dsl.datasets.conll2000 import Conll2000 as Conll2000
    from ssvm_dsl.datasets.conll2000 import Sentence as Sentence
    from ssvm_dsl.datasets.conll2000 import chunk_attributes as chunk_attributes
    from ssvm_dsl.datasets.conll2000 import chunk_f1 as chunk_f1
    from ssvm_dsl.datasets.conll2000 import chunk_segments as chunk_segments
    from ssvm_dsl.datasets.conll2000 import chunk_tags as chunk_tags
    from ssvm_dsl.datasets.conll2000 import load_conll2000 as load_conll2000
    from ssvm_dsl.datasets.features import arc_features as arc_features
    from ssvm_dsl.datasets.features import link_features as link_features
    from ssvm_dsl.datasets.features import pixel_features as pixel_features
    from ssvm_dsl.datasets.features import word_features as word_features
    from ssvm_dsl.datasets.features import word_shape as word_shape
    from ssvm_dsl.datasets.letters import N_FOLDS as N_FOLDS
    from ssvm_dsl.datasets.letters import Letters as Letters
    from ssvm_dsl.datasets.letters import Split as Split
    from ssvm_dsl.datasets.letters import load_letters as load_letters
    from ssvm_dsl.datasets.published import ORIGINS as ORIGINS
    from ssvm_dsl.datasets.published import AlignedPair as AlignedPair
    from ssvm_dsl.datasets.published import BayesNode as BayesNode
    from ssvm_dsl.datasets.published import CountedParses as CountedParses
    from ssvm_dsl.datasets.published import Horses as Horses
    from ssvm_dsl.datasets.published import MapInstance as MapInstance
    from ssvm_dsl.datasets.published import MultiLabelData as MultiLabelData
    from ssvm_dsl.datasets.published import ParsedSentence as ParsedSentence
    from ssvm_dsl.datasets.published import StereoPair as StereoPair
    from ssvm_dsl.datasets.published import load_alignments as load_alignments
    from ssvm_dsl.datasets.published import load_atis_grammar as load_atis_grammar
    from ssvm_dsl.datasets.published import load_bayes_net as load_bayes_net
    from ssvm_dsl.datasets.published import load_dependency_treebank as load_dependency_treebank
    from ssvm_dsl.datasets.published import load_grid_map as load_grid_map
    from ssvm_dsl.datasets.published import load_horses as load_horses
    from ssvm_dsl.datasets.published import load_map_instances as load_map_instances
    from ssvm_dsl.datasets.published import load_reuters as load_reuters
    from ssvm_dsl.datasets.published import load_scene as load_scene
    from ssvm_dsl.datasets.published import load_stereo as load_stereo
    from ssvm_dsl.datasets.published import load_treebank as load_treebank
    from ssvm_dsl.datasets.published import load_yeast as load_yeast
    from ssvm_dsl.datasets.synthetic import Tours as Tours
    from ssvm_dsl.datasets.synthetic import make_chains as make_chains
    from ssvm_dsl.datasets.synthetic import make_identity as make_identity
    from ssvm_dsl.datasets.synthetic import make_stripes as make_stripes
    from ssvm_dsl.datasets.synthetic import make_tours as make_tours
    from ssvm_dsl.learning.metrics import phrases as phrases
