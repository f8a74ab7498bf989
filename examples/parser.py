"""Parse sentences: phrases learned from a few trees, with a certificate, and the drawing of a new tree.

    python examples/parser.py [FILE.png]               FILE.png shows that tree
"""

import numpy as np

from ssvm_dsl import Attributes, Cost, Dim, Factor, Grammar, Input, Label, Model, ParseTree, StructuredSVM, rules, spans
from ssvm_dsl.report import plot_tree, save_for_script

TREEBANK = [
    ParseTree.of(line)
    for line in """
(S (NP (D the) (N cat)) (VP (V sleeps)))
(S (NP (N mary)) (VP (V sees) (NP (D the) (N dog))))
(S (NP (D the) (N man)) (VP (V sees) (NP (D the) (N girl)) (PP (P with) (NP (D a) (N telescope)))))
(S (NP (N mary)) (VP (V feeds) (NP (NP (D the) (N dog)) (PP (P with) (NP (D a) (N collar))))))
(S (NP (NP (D the) (N man)) (PP (P in) (NP (D the) (N park)))) (VP (V sleeps)))
(S (NP (D a) (N girl)) (VP (V feeds) (NP (D the) (A small) (A old) (N cat))))
(S (NP (N john)) (VP (V sees) (NP (D a) (N cat)) (PP (P in) (NP (D the) (N park)))))
""".strip().splitlines()
]
G = Grammar.from_trees(TREEBANK, horizontal=1)


class Parser(Model):
    T = Dim()
    words = Attributes(T)
    ends = Input(T, T, 3)  # of each pair of words: is it one word, is it the end, how many words
    y = Label(T, grammar=G)
    leaf = Factor(y, features=words)
    span = Factor(spans(y), features=ends)
    rule = Factor(rules(y))
    loss = Cost(spans(y), "wrong")


def features(words: tuple[str, ...]) -> dict[str, object]:
    """What the parser knows of a sentence."""
    first, last = np.indices((len(words), len(words)))
    ends = np.stack([first == last, last == len(words) - 1, (last - first) / len(words)], axis=2)
    return {"words": [[f"w={word}", f"s={word[-1]}"] for word in words], "ends": ends.astype(float)}


def main() -> None:
    """Learn from the trees, and parse a sentence that is in none."""
    svm = StructuredSVM(Parser, C=10.0, random_state=0).fit([features(tree.words) for tree in TREEBANK], TREEBANK)
    print(f"backend {svm.report_.plan.backend}, gap {100 * svm.report_.relative_gap:.1f}%")
    found = svm.predict([features(tree.words) for tree in TREEBANK])
    right = [one.brackets() == tree.brackets() for one, tree in zip(found, TREEBANK, strict=True)]
    print(f"phrases of {sum(right)} of {len(right)} trees are as learnt")
    words = ("the", "old", "man", "feeds", "mary")
    tree = svm.predict([features(words)])[0].with_words(words)
    print(tree.draw())
    save_for_script(plot_tree, tree)


if __name__ == "__main__":
    main()
