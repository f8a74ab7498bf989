"""ssvm-dsl: declare a structured model in a few lines, train it to a certified optimum.

Importing this package loads no solver, no numba and no scikit-learn; names are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ssvm_dsl.lazy_api import lazy_names
from ssvm_dsl.moved_modules import find_moved_modules
from ssvm_dsl.version import __version__ as __version__

__all__, __getattr__, __dir__ = lazy_names(__name__, "__version__")
find_moved_modules()

if TYPE_CHECKING:
    from ssvm_dsl.compiler.estimate import estimate as estimate
    from ssvm_dsl.compiler.ground import ground as ground
    from ssvm_dsl.datasets.formats.readers import partitioned_files as partitioned_files
    from ssvm_dsl.datasets.formats.readers import read_conll as read_conll
    from ssvm_dsl.datasets.formats.readers import read_conllu as read_conllu
    from ssvm_dsl.datasets.formats.readers import read_examples as read_examples
    from ssvm_dsl.datasets.formats.readers import read_images as read_images
    from ssvm_dsl.inference.problems import solve_problem as solve_problem
    from ssvm_dsl.io.formats.linear_program import write_lp as write_lp
    from ssvm_dsl.io.formats.linear_program import write_mps as write_mps
    from ssvm_dsl.io.formats.uai import write_uai as write_uai
    from ssvm_dsl.io.networkx_graph import from_networkx as from_networkx
    from ssvm_dsl.io.networkx_graph import to_networkx as to_networkx
    from ssvm_dsl.io.problem_file import read_problem as read_problem
    from ssvm_dsl.lang.constraints.durations import Duration as Duration
    from ssvm_dsl.lang.constraints.forbidden import BIO as BIO
    from ssvm_dsl.lang.constraints.forbidden import BIOES as BIOES
    from ssvm_dsl.lang.constraints.forbidden import Allow as Allow
    from ssvm_dsl.lang.constraints.forbidden import Different as Different
    from ssvm_dsl.lang.constraints.forbidden import Forbid as Forbid
    from ssvm_dsl.lang.constraints.forbidden import Same as Same
    from ssvm_dsl.lang.constraints.logic import AnyOf as AnyOf
    from ssvm_dsl.lang.constraints.logic import AtLeast as AtLeast
    from ssvm_dsl.lang.constraints.logic import AtMost as AtMost
    from ssvm_dsl.lang.constraints.logic import Constraint as Constraint
    from ssvm_dsl.lang.constraints.logic import Exactly as Exactly
    from ssvm_dsl.lang.constraints.logic import ExactlyOne as ExactlyOne
    from ssvm_dsl.lang.constraints.logic import Implies as Implies
    from ssvm_dsl.lang.constraints.logic import Linear as Linear
    from ssvm_dsl.lang.constraints.logic import Not as Not
    from ssvm_dsl.lang.constraints.pointers import AllDifferent as AllDifferent
    from ssvm_dsl.lang.constraints.pointers import Arborescence as Arborescence
    from ssvm_dsl.lang.constraints.pointers import ProjectiveTree as ProjectiveTree
    from ssvm_dsl.lang.constraints.relations import Acyclic as Acyclic
    from ssvm_dsl.lang.constraints.relations import Equivalence as Equivalence
    from ssvm_dsl.lang.constraints.relations import LinearOrder as LinearOrder
    from ssvm_dsl.lang.constraints.relations import Transitive as Transitive
    from ssvm_dsl.lang.constraints.structures import Circuit as Circuit
    from ssvm_dsl.lang.constraints.structures import Custom as Custom
    from ssvm_dsl.lang.constraints.structures import Matching as Matching
    from ssvm_dsl.lang.constraints.structures import Path as Path
    from ssvm_dsl.lang.dims import Dim as Dim
    from ssvm_dsl.lang.factors import Factor as Factor
    from ssvm_dsl.lang.factors import Given as Given
    from ssvm_dsl.lang.features.kernel_features import Kernel as Kernel
    from ssvm_dsl.lang.features.kernel_features import Nystroem as Nystroem
    from ssvm_dsl.lang.features.kernel_features import RandomFourier as RandomFourier
    from ssvm_dsl.lang.features.sources import Feature as Feature
    from ssvm_dsl.lang.features.sources import Hashed as Hashed
    from ssvm_dsl.lang.features.sources import JointFeature as JointFeature
    from ssvm_dsl.lang.features.sources import PLiF as PLiF
    from ssvm_dsl.lang.features.sources import Polynomial as Polynomial
    from ssvm_dsl.lang.features.sources import Quantiles as Quantiles
    from ssvm_dsl.lang.features.sources import Scaled as Scaled
    from ssvm_dsl.lang.features.sources import SpanLength as SpanLength
    from ssvm_dsl.lang.features.sources import SpanMean as SpanMean
    from ssvm_dsl.lang.features.sources import SpanSum as SpanSum
    from ssvm_dsl.lang.features.sources import Standardized as Standardized
    from ssvm_dsl.lang.features.sources import Transform as Transform
    from ssvm_dsl.lang.features.sources import Whitened as Whitened
    from ssvm_dsl.lang.forms import ANTISYMMETRIC as ANTISYMMETRIC
    from ssvm_dsl.lang.forms import FULL as FULL
    from ssvm_dsl.lang.forms import POTTS as POTTS
    from ssvm_dsl.lang.forms import SYMMETRIC as SYMMETRIC
    from ssvm_dsl.lang.forms import Form as Form
    from ssvm_dsl.lang.grammars.brackets import bracket_scores as bracket_scores
    from ssvm_dsl.lang.grammars.brackets import read_brackets as read_brackets
    from ssvm_dsl.lang.grammars.brackets import read_trees as read_trees
    from ssvm_dsl.lang.grammars.grammar import Grammar as Grammar
    from ssvm_dsl.lang.grammars.parse_tree import ParseTree as ParseTree
    from ssvm_dsl.lang.grammars.parse_tree import PartialTree as PartialTree
    from ssvm_dsl.lang.inputs import Attributes as Attributes
    from ssvm_dsl.lang.inputs import Edges as Edges
    from ssvm_dsl.lang.inputs import Input as Input
    from ssvm_dsl.lang.inputs import Positions as Positions
    from ssvm_dsl.lang.losses.cost import Cost as Cost
    from ssvm_dsl.lang.losses.label_losses import CountLoss as CountLoss
    from ssvm_dsl.lang.losses.label_losses import CustomLoss as CustomLoss
    from ssvm_dsl.lang.losses.label_losses import Hamming as Hamming
    from ssvm_dsl.lang.losses.label_losses import NoLoss as NoLoss
    from ssvm_dsl.lang.losses.label_losses import ZeroOne as ZeroOne
    from ssvm_dsl.lang.model import Model as Model
    from ssvm_dsl.lang.model import ModelBuilder as ModelBuilder
    from ssvm_dsl.lang.outputs.labels import Label as Label
    from ssvm_dsl.lang.outputs.labels import Latent as Latent
    from ssvm_dsl.lang.outputs.labels import Target as Target
    from ssvm_dsl.lang.outputs.targets import along as along
    from ssvm_dsl.lang.outputs.targets import chain as chain
    from ssvm_dsl.lang.outputs.targets import cliques as cliques
    from ssvm_dsl.lang.outputs.targets import complete as complete
    from ssvm_dsl.lang.outputs.targets import cross as cross
    from ssvm_dsl.lang.outputs.targets import grandparents as grandparents
    from ssvm_dsl.lang.outputs.targets import grid as grid
    from ssvm_dsl.lang.outputs.targets import leaves as leaves
    from ssvm_dsl.lang.outputs.targets import pairs as pairs
    from ssvm_dsl.lang.outputs.targets import rules as rules
    from ssvm_dsl.lang.outputs.targets import siblings as siblings
    from ssvm_dsl.lang.outputs.targets import spans as spans
    from ssvm_dsl.lang.outputs.targets import starts as starts
    from ssvm_dsl.lang.patterns.pattern import Pattern as Pattern
    from ssvm_dsl.lang.rules.formulas import AllOf as AllOf
    from ssvm_dsl.lang.rules.formulas import Count as Count
    from ssvm_dsl.lang.rules.formulas import Iff as Iff
    from ssvm_dsl.lang.rules.formulas import Xor as Xor
    from ssvm_dsl.learning.counting.outputs.dicycles import Dicycles as Dicycles
    from ssvm_dsl.learning.counting.outputs.output_spaces import OutputSpace as OutputSpace
    from ssvm_dsl.learning.counting.outputs.subsets import Subsets as Subsets
    from ssvm_dsl.learning.counting.predictor import CountingPredictor as CountingPredictor
    from ssvm_dsl.learning.estimator import Estimator as Estimator
    from ssvm_dsl.learning.estimators.path import regularization_path as regularization_path
    from ssvm_dsl.learning.estimators.regressor import StructuredRegressor as StructuredRegressor
    from ssvm_dsl.learning.estimators.svm import StructuredSVM as StructuredSVM
    from ssvm_dsl.learning.hmm import MaximumLikelihoodHMM as MaximumLikelihoodHMM
    from ssvm_dsl.learning.json_ready import as_json as as_json
    from ssvm_dsl.learning.metrics import alignment_error_rate as alignment_error_rate
    from ssvm_dsl.learning.metrics import attachment_score as attachment_score
    from ssvm_dsl.learning.metrics import exact_match as exact_match
    from ssvm_dsl.learning.metrics import label_accuracy as label_accuracy
    from ssvm_dsl.learning.metrics import mean_iou as mean_iou
    from ssvm_dsl.learning.metrics import named_scorer as named_scorer
    from ssvm_dsl.learning.metrics import span_f1 as span_f1
    from ssvm_dsl.learning.pcfg import MaximumLikelihoodPCFG as MaximumLikelihoodPCFG
    from ssvm_dsl.learning.score_report import score_report as score_report
    from ssvm_dsl.learning.shards.parts import PartitionedDataset as PartitionedDataset
    from ssvm_dsl.learning.tuning.folds import cross_val_predict as cross_val_predict
    from ssvm_dsl.learning.tuning.grid import grid_scores as grid_scores
    from ssvm_dsl.learning.tuning.grid import nested_scores as nested_scores
    from ssvm_dsl.models.loading import load as load
    from ssvm_dsl.registry import register as register
    from ssvm_dsl.report.instances import instances as instances
    from ssvm_dsl.report.relations import clusters as clusters
    from ssvm_dsl.report.relations import linear_order as linear_order
