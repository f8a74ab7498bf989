"""``ssvm demo``: trains the word recogniser on the embedded letters and shows what came out."""

from __future__ import annotations

import shutil
import sys
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.cli.command import Subcommand, add_shared, positive
from ssvm_dsl.cli.screen import aside, console, write_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from ssvm_dsl.datasets.letters import Split
    from ssvm_dsl.learning.estimators.svm import StructuredSVM


# -- letter images and spellings on a terminal ---------------------------------------------------------------------

#: Bit of each of the 4 x 2 dots of a Braille character (Unicode 2800).
_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])


def draw_word(images: NDArray[Any]) -> str:
    """Return a word's letter images side by side in Braille dots: 4 lines, 4 characters a letter.

    Parameters
    ----------
    images : ndarray, shape (T, 128)
        Letters of 16 rows of 8 pixels; ink where not 0.
    """
    pixels = images.reshape(-1, 16, 8) != 0
    wide = pixels.transpose(1, 0, 2).reshape(16, -1)
    cells = wide.reshape(4, 4, -1, 2).transpose(0, 2, 1, 3)
    codes = 0x2800 + (cells * _DOTS).sum(axis=(2, 3))
    return "\n".join("".join(map(chr, row)) for row in codes)


def mark_mistakes(found: str, truth: str, spread: int = 1) -> Text:
    """Return a spelling with the wrong letters marked.

    Parameters
    ----------
    found, truth : str
        The predicted and the true word, of the same length.
    spread : int
        Characters a letter takes.
    """
    from rich.text import Text

    text = Text()
    for mine, right in zip(found, truth, strict=True):
        text.append(mine, style=None if mine == right else "red reverse")
        text.append(" " * (spread - 1))
    return text


#: Name of each protocol here and in ``load_letters``.
PROTOCOLS = {"small": "one", "large": "rest"}

#: Words needed to call every kernel once.
FEW = 2


@dataclass(frozen=True, eq=False)
class DemoOutcome:
    """A trained recogniser and what it reads on the test words.

    Parameters
    ----------
    svm : StructuredSVM
    truth, predicted : list of str
        Spellings of the test words.
    seconds : float
        Wall time from reading the data to the last prediction.
    """

    svm: StructuredSVM
    truth: list[str]
    predicted: list[str]
    seconds: float

    @property
    def letter_error(self) -> float:
        """Share of wrong letters."""
        pairs = zip("".join(self.truth), "".join(self.predicted), strict=True)
        return sum(a != b for a, b in pairs) / sum(map(len, self.truth))

    @property
    def word_error(self) -> float:
        """Share of words with a wrong letter."""
        return sum(a != b for a, b in zip(self.truth, self.predicted, strict=True)) / len(self.truth)


def arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``ssvm demo``."""
    add_shared(parser, "--json")
    parser.add_argument("--C", type=positive, default=0.1, help="weight of the training errors (default: %(default)s)")
    parser.add_argument(
        "--tol", type=positive, default=1e-3, help="relative gap at which training stops (default: %(default)s)"
    )
    parser.add_argument(
        "--fold", type=int, choices=range(10), default=1, metavar="K",
        help="which of the ten folds, 0 to 9 (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--protocol", choices=PROTOCOLS, default="small",
        help="small: train on the fold, test on the nine others (default); large: the other way round",
    )  # fmt: skip
    add_shared(parser, "--threads")


def run(args: Namespace) -> int:
    """Train, test and show."""
    from ssvm_dsl.datasets.letters import load_letters

    screen = console()
    begin = perf_counter()
    split = load_letters(args.fold, PROTOCOLS[args.protocol])  # type: ignore[call-overload]
    if not args.json:
        _show_model(screen)
        n_train, n_test = len(split.X_train), len(split.X_test)
        screen.print(f"{n_train} words to train on, {n_test} to test on; C = {args.C:g}, tol = {args.tol:g}\n")
    svm = _train(args, split)
    predicted = ["".join(letters) for letters in svm.predict(split.X_test)]
    outcome = DemoOutcome(svm, ["".join(letters) for letters in split.Y_test], predicted, perf_counter() - begin)
    if args.json:
        write_json(_summary(args, split, outcome))
    else:
        _show_outcome(screen, split, outcome)
    return 0


def _train(args: Namespace, split: Split) -> StructuredSVM:
    """Return the trained recogniser; kernels are compiled before the clock of the report starts."""
    from ssvm_dsl.cli.ocr import OCR

    begin, side = perf_counter(), aside()
    side.quiet = args.json
    if not side.is_terminal:
        side.print("preparing the kernels (the first run compiles them, which takes about a quarter of a minute)")
    with side.status("preparing the kernels (the first run compiles them: about a quarter of a minute, once)"):
        from ssvm_dsl.learning.estimators.svm import StructuredSVM

        options: dict[str, Any] = {"C": args.C, "tol": args.tol, "random_state": 0, "n_threads": args.threads}
        few = StructuredSVM(OCR, **options).fit(split.X_train[:FEW], split.Y_train[:FEW])
        few.predict(split.X_test[:FEW])
    side.print(f"kernels ready after {perf_counter() - begin:.1f} s", style="dim")
    return StructuredSVM(OCR, **options, verbose=not args.json).fit(split.X_train, split.Y_train)


def _summary(args: Namespace, split: Split, outcome: DemoOutcome) -> dict[str, Any]:
    return {
        "protocol": args.protocol,
        "fold": args.fold,
        "n_train": len(split.X_train),
        "n_test": len(split.X_test),
        "letter_error": outcome.letter_error,
        "word_error": outcome.word_error,
        "seconds": outcome.seconds,
        "report": outcome.svm.report_.summary(),
        "words": [
            {"truth": outcome.truth[i], "predicted": outcome.predicted[i]} for i in _shown_words(outcome.truth, 8)
        ],
    }


def _show_model(screen: Console) -> None:
    from inspect import getsource

    from rich.syntax import Syntax

    from ssvm_dsl.cli.ocr import OCR

    screen.print("[bold]Reading handwritten words, letter by letter[/bold]\n")
    screen.print(Syntax(getsource(OCR), "python", background_color="default"))


def _show_outcome(screen: Console, split: Split, outcome: DemoOutcome) -> None:
    screen.print("", outcome.svm.report_, sep="\n")
    errors = f"{outcome.letter_error:.1%} of the letters, {outcome.word_error:.1%} of the words"
    screen.print(f"\n[bold]Wrong on the {len(outcome.truth)} test words:[/bold] {errors}\n")
    _show_words(screen, split, outcome)
    command = _own_name()
    screen.print("\n[bold]Next[/bold]")
    screen.print(f"  {command} demo --protocol large    [dim]# train on the nine folds[/dim]", soft_wrap=True)
    screen.print(f"  {command} plugins list             [dim]# everything to choose from[/dim]", soft_wrap=True)


def _show_words(screen: Console, split: Split, outcome: DemoOutcome) -> None:
    """Show some test words: their images, their spelling, and what was read, wrong letters in red."""
    from rich.columns import Columns
    from rich.text import Text

    shown = _shown_words(outcome.truth, 20)
    for i in shown[:2]:
        screen.print(draw_word(split.X_test[i]), style="cyan")
        screen.print(mark_mistakes(outcome.predicted[i], outcome.truth[i], spread=4), "\n", sep="")
    screen.print("The true word (without its first letter, which was a capital), and the prediction:")
    pairs = [
        Text(f"{outcome.truth[i]} ").append_text(mark_mistakes(outcome.predicted[i], outcome.truth[i])) for i in shown
    ]
    screen.print(Columns(pairs, padding=(0, 4)))


def _shown_words(truth: list[str], n: int) -> list[int]:
    """Return the first test words with different spellings, of a length that fits the screen."""
    first: dict[str, int] = {}
    for i, word in enumerate(truth):
        if len(word) <= 12:
            first.setdefault(word, i)
    return list(first.values())[:n]


def _own_name() -> str:
    """Return how to call this command: by name where the shell finds it, else by its path."""
    if shutil.which("ssvm"):
        return "ssvm"
    path, here = Path(sys.argv[0]).absolute(), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


COMMAND = Subcommand("demo", "train a word recogniser on the embedded letters and show its certificate", run, arguments)
