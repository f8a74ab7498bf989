"""Read handwritten words: letters seen alone, and letters seen with their neighbours.

    python examples/ocr.py [FILE.png]                  FILE.png shows which letters are taken for which
    ssvm explain examples/ocr.py:OCR
"""

from rich.console import Console
from rich.table import Table

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, chain
from ssvm_dsl.datasets import load_letters
from ssvm_dsl.report import plot_confusion, save_for_script


class Letters(Model):
    T = Dim()
    x = Input(T, 128)
    y = Label(T, "abcdefghijklmnopqrstuvwxyz")
    emit = Factor(y, features=x)
    loss = Hamming(y)


class OCR(Letters):
    trans = Factor(chain(Letters.y))


def main() -> None:
    X, Y, X_test, Y_test = load_letters(fold=1)  # 704 words to train on, 6173 to test on
    table = Table("model", "weights", "test letter error", "relative gap", "seconds")
    for model in (Letters, OCR):
        svm = StructuredSVM(model, C=0.1, random_state=0).fit(X, Y)
        error, report = 1 - svm.score(X_test, Y_test), svm.report_
        gap, seconds = f"{report.relative_gap:.1e}", f"{report.seconds:.1f}"
        table.add_row(model.__name__, str(report.n_weights), f"{error:.3f}", gap, seconds)
    Console().print(table)

    likely = svm.weights_[OCR.trans]  # shape (26, 26): first letter, second letter
    best = [divmod(int(k), 26) for k in likely.ravel().argsort()[::-1][:8]]
    print("pairs of letters with the largest weights:", ", ".join(chr(97 + a) + chr(97 + b) for a, b in best))
    save_for_script(plot_confusion, Y_test, svm.predict(X_test), "abcdefghijklmnopqrstuvwxyz")


if __name__ == "__main__":
    main()
