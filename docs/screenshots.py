"""Pictures of report pages for the documentation; they need Chromium and Pillow.

    python docs/screenshots.py [FOLDER]                into FOLDER, docs/screenshots if there is none

The data come with the package or are made up here.
"""

from __future__ import annotations

import random
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from ssvm_dsl import StructuredSVM
from ssvm_dsl.cli.main import main as ssvm
from ssvm_dsl.cli.ocr import OCR
from ssvm_dsl.datasets import load_letters, pixel_features

HERE = Path(__file__).resolve().parent

#: Words by part of speech, and what follows what in made-up sentences: (part of speech, chunk tag).
WORDS = {
    "DT": "the a my this", "JJ": "old small grey fresh", "NN": "man boat letter garden train lake bread", "IN": "in at",
    "PRP": "she we they", "VB": "sold read saw left", "RB": "never often quickly", "UH": "well",
}  # fmt: skip
PHRASES = {
    "NP": ["DT NN", "DT JJ NN", "PRP", "NN", "DT RB JJ NN"], "VP": ["VB", "RB VB"], "PP": ["IN"], "ADVP": ["RB"],
}  # fmt: skip


def sentences(n: int, seed: int) -> str:
    """Return made-up sentences in columns: word, part of speech, chunk tag; some words are lost."""
    rng, lines = random.Random(seed), []
    for _ in range(n):
        for kind in ["NP", *rng.choice([["ADVP", "VP"], ["VP"]]), "NP", *rng.choice([["PP", "NP"], ["ADVP"], []])]:
            for k, tag in enumerate(rng.choice(PHRASES[kind]).split()):
                word = rng.choice(WORDS[tag].split())
                lines.append(f"{word} {tag if rng.random() < 0.7 else '?'} {'BI'[k > 0]}-{kind}")
        lines.append("")
    return "\n".join(lines) + "\n"


def ocr(page: Path) -> None:
    """Write the page of a reader of handwritten words."""
    letters = load_letters()
    svm = StructuredSVM(OCR, C=1.0, tol=0.02, random_state=0).fit(letters.X[:60], letters.Y[:60])
    svm.to_html(page, letters.X[60:160], letters.Y[60:160])


def chunking(page: Path) -> None:
    """Write the page of a chunker, as ``ssvm report`` does."""
    page.with_name("train.txt").write_text(sentences(40, 0))
    page.with_name("test.txt").write_text(sentences(40, 1))
    for command in (["train", "chain-tagger", "--data", "train.txt", "--C", "0.1", "--json", "--out", "m.ssvm"],
                    ["report", "m.ssvm", "--data", "test.txt", "-o", page.name]):  # fmt: skip
        with redirect_stdout(StringIO()), chdir(page.parent):
            status = ssvm(command)
        if status:
            raise SystemExit(f"ssvm {command[0]} failed")


def horses(page: Path) -> None:
    """Write the page of a segmentation of made-up pictures."""
    example = runpy.run_path(str(HERE.parent / "examples" / "horses.py"))
    data = example["read"](None)
    X, Y = [pixel_features(rgb) for rgb, _ in data], [mask for _, mask in data]
    svm = StructuredSVM(example["Regions"], C=0.01, tol=0.02, random_state=0).fit(X[:40], Y[:40])
    svm.to_html(page, X[40:], Y[40:])


#: What is shown: the page, the sections of it (none: from its top), and the height of the picture.
SHOTS: dict[str, tuple[Callable[[Path], None], tuple[str, ...], int]] = {
    "ocr": (ocr, ("model", "certificate", "curves"), 1150),
    "chunking": (chunking, ("confusion", "costly"), 900),
    "horses": (horses, ("costly",), 800),
}


def browser() -> str | None:
    """Return the command of Chromium, ``None`` where there is none."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def shoot(page: Path, picture: Path, height: int, sections: Sequence[str] = (), dark: bool = False) -> None:
    """Write what Chromium shows of a page, or of some sections, in 64 colours."""
    from PIL import Image

    command = browser()
    if command is None:
        raise SystemExit("pictures of pages are made by Chromium, which is not installed")
    scheme = ["--blink-settings=preferredColorScheme=0"] if dark else []
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={page.parent / 'profile'}", *scheme]
    options += [f"--window-size=900,{height}", "--hide-scrollbars", f"--screenshot={picture}"]
    shown = page.with_name(f"shown_{page.name}")
    others = "section" + "".join(f":not(#{name})" for name in sections) if sections else "none"
    shown.write_text(page.read_text("utf-8").replace("</style>", f"{others}{{display:none}}</style>"), "utf-8")
    subprocess.run([command, *options, shown.as_uri()], check=True, capture_output=True, timeout=120)
    with Image.open(picture) as image:
        image.convert("RGB").quantize(64).save(picture, optimize=True)


def main(folder: Path) -> None:
    """Write all pictures to a folder."""
    folder.mkdir(exist_ok=True)
    with TemporaryDirectory() as place:
        for name, (write, sections, height) in SHOTS.items():
            page = Path(place) / f"{name}.html"
            write(page)
            shoot(page, folder / f"report_{name}.png", height, sections)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "screenshots")
