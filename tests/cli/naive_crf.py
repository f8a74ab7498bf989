"""What CRF++ and ``conlleval`` do, written down naively from their documentation, to compare with."""

from __future__ import annotations

import re
from collections import Counter


def template_features(template, rows):
    """The features of each token as CRF++ expands a template, by looking at one token after the other."""
    out = []
    for t in range(len(rows)):
        def cell(match, t=t):
            place, column = t + int(match[1]), int(match[2])
            if place < 0:
                return f"_B{place}"
            if place >= len(rows):
                return f"_B+{place - len(rows) + 1}"
            return rows[place][column]

        lines = [line for line in template.splitlines() if line.startswith("U")]
        out.append([re.sub(r"%x\[(-?\d+),(\d+)\]", cell, line) for line in lines])
    return out


def conlleval(truth, predicted):
    """What conlleval.pl prints for lists of tags, token by token with its rules for ends and beginnings."""
    true, guessed, correct = Counter(), Counter(), Counter()
    tokens = right = 0
    in_correct, last = None, [("O", ""), ("O", "")]
    for one, other in zip(truth, predicted, strict=True):
        for pair in [*zip(one, other, strict=True), None]:  # an empty line ends all phrases
            tags = [("O", ""), ("O", "")] if pair is None else [tuple((tag + "-").split("-")[:2]) for tag in pair]
            ended = [ends(a, b) for a, b in zip(last, tags, strict=True)]
            begun = [begins(a, b) for a, b in zip(last, tags, strict=True)]
            if in_correct is not None:
                if all(ended) and last[0][1] == last[1][1]:
                    correct[last[0][1]] += 1
                    in_correct = None
                elif ended[0] != ended[1] or tags[0][1] != tags[1][1]:
                    in_correct = None
            if all(begun) and tags[0][1] == tags[1][1]:
                in_correct = True
            true[tags[0][1]] += begun[0]
            guessed[tags[1][1]] += begun[1]
            if pair is not None:
                tokens += 1
                right += pair[0] == pair[1]
            last = tags
    return text(tokens, right, true, guessed, correct)


def ends(before, now):
    (place, kind), (next_place, next_kind) = before, now
    return place in "BI" and (next_place in "BO" or kind != next_kind)


def begins(before, now):
    (place, kind), (next_place, next_kind) = before, now
    return next_place == "B" or (next_place == "I" and (place == "O" or kind != next_kind))


def text(tokens, right, true, guessed, correct):
    def rates(c, g, t):
        p, r = (100 * c / g if g else 0.0), (100 * c / t if t else 0.0)
        return f"precision: {p:6.2f}%; recall: {r:6.2f}%; FB1: {2 * p * r / (p + r) if p + r else 0.0:6.2f}"

    c, g, t = (sum(one.values()) for one in (correct, guessed, true))
    lines = [f"processed {tokens} tokens with {t} phrases; found: {g} phrases; correct: {c}."]
    lines.append(f"accuracy: {100 * right / tokens:6.2f}%; {rates(c, g, t)}")
    kinds = sorted(kind for kind in set(true) | set(guessed) if true[kind] or guessed[kind])
    for kind in kinds:
        lines.append(f"{kind:>17}: {rates(correct[kind], guessed[kind], true[kind])}  {guessed[kind]}")
    return "\n".join(lines) + "\n"
