"""``make bench``: every benchmark, or those named on the command line."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

BENCHMARKS = {
    "ocr": ("ocr_speed", "training, passes beside CRFsuite, decoding, threads, growth, memory on the OCR letters"),
    "crf": ("crf_speed", "OCR letters beside CRFsuite: log-loss to one objective, margins to one test error"),
    "cuts": ("cut_speed", "minimum cuts, expansion and swap on grids beside PyMaxflow and gco; small graphs"),
    "tagger": ("tagger", "the drop-in CRF beside CRFsuite: training, predicting, one sentence, memory"),
    "tables": ("tables", "Classifier beside scikit-learn on tables: accuracy, seconds, a certified margin optimum"),
    "chunking": ("chunking_speed", "CoNLL-2000 chunking with 335674 attributes: time, memory and F1 beside CRFsuite"),
    "segments": ("segment_speed", "CoNLL-2000 chunking by segments beside tokens; semi-markov by length"),
    "spans": ("span_speed", "long sequences of segments whose spans are no variables: beside a bare kernel; memory"),
    "f1": ("segment_f1", "CoNLL-2000 chunking by segments: trained for F1 by counts beside losses that add up"),
    "masks": ("mask_speed", "what BIO masks cost: chunking with forbidden transitions beside the same without"),
    "horses": ("horses_accuracy", "Weizmann horses: pixels alone beside grids; SSVM_BENCH_PICTURES=FOLDER shows them"),
    "alignment": ("alignment_error", "Hansards: error rates of learnt matchings beside links judged one by one"),
    "trees": ("tree_speed", "oracles of directed trees on batches beside bare calls of ufal.chu_liu_edmonds"),
    "parses": ("parse_speed", "parse trees: best ones and sums beside bare kernels, NLTK and torch-struct"),
    "treebank": ("treebank", "parsers of the WSJ sample: F1 of probabilistic grammars, margins and log-loss"),
    "torch": ("torch_speed", "a chain as a layer of a network beside pytorch-crf, where torch is installed"),
    "oracles": ("oracle_speed", "oracle calls inside trainers beside batches from Python, and small fits"),
    "assignment": ("assignment_speed", "the assignment oracle on batches beside bare calls of SciPy"),
    "treewidth": ("treewidth_speed", "exact elimination: batches of complete graphs, partition functions of UAI 2014"),
    "loopy": ("loopy_speed", "dual bounds on grids and complete graphs: message passing beside HiGHS"),
    "mixed": ("mixed_speed", "matchings, trees and budgets with tables: decompose beside ilp; two best of grids"),
    "second-order": ("second_order", "dependency trees with and without factors of two arcs: right heads, time"),
    "lp": ("lp_speed", "relaxations and integer programs: solvers side by side, cold and warm"),
    "beside": ("side_by_side", "relaxations under constraints: ad3 beside lp; visits of dual trainers on cycles"),
    "trainers": ("trainer_times", "the trainer that auto takes beside the others: seconds to a gap of 1 %"),
    "polytopes": ("polytope_speed", "matchings on their polytopes beside bcfw; methods of bundle side by side"),
    "map": ("map_instances", "MAP of the UAI-2014 instances: combi beside toulbar2, proofs and anytime quality"),
    "ready": ("ready", "ready models with their defaults beside what one would do without them: quality, seconds"),
    "choices": ("ready_choices", "what each choice of ready models is worth: defaults beside the same without it"),
    "latency": ("latency", "one example predicted: processor time, Python functions, and where both go, by step"),
    "against": ("against", "the OCR workloads beside another checkout, SSVM_BENCH_AGAINST=FOLDER, in turn"),
    "cores": ("cores", "fits on one thread and on all processors: seconds, processors in use, the same weights"),
    "passes": ("pass_speed", "passes of a second over long chains: one thread, process or Dask worker beside two"),
    "cold": ("cold", "first fit and predict, warm processes, kernel families: seconds where nothing is compiled yet"),
    "loading": ("loading", "load a saved model and answer once in a fresh process: seconds by step, libraries apart"),
    "recompiled": ("recompiled", "each task twice in fresh processes, one cache folder: what is compiled again"),
    "shapes": ("shapes_scale", "159 labels, complete graph, 4880 examples: memory and time of grounding and fits"),
    "regret": ("regret", "auto beside the best backend of the same guarantee: structures, sizes, questions and fits"),
    "speeds": ("speeds", "how long backends take beside what their check expects, over the structures of regret"),
    "dense": ("dense_labels", "45 labels with weights for all pairs: what trains within 25 s, and how good it is"),
    "memory": ("larger_than_memory", "data ten times as large as a cap on memory, read in parts, to a certified gap"),
    "relations": ("relation_speed", "clusterings of 200 mentions, orders of 60 items: gaps, seconds, other solvers"),
    "figures": ("page_figures", "small figures of the documentation: budgets, counts, circuits, prices, trainers"),
    "limits": ("limits", "large problems, all backends: how far fit, predict and solve run past 0.2, 1 and 5 s"),
    "fit-limits": ("fit_limits", "fits that a limit ends: how late they are, and what they certify"),
}


def main(names: list[str]) -> int:
    """Run the benchmarks of the given names."""
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        known = "\n".join(f"  {name:10} {text}" for name, (_, text) in BENCHMARKS.items())
        print(f"unknown benchmark {unknown[0]!r}; there are:\n{known}")
        return 2
    for name in names or BENCHMARKS:
        print(f"== {name}: {BENCHMARKS[name][1]}", flush=True)
        importlib.import_module(BENCHMARKS[name][0]).main()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
