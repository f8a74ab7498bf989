"""The models that tests share: each maker returns the same class for the same arguments.

A test that is about a declaration writes its own class; a test that only needs some model of a kind takes one of these.
"""

from __future__ import annotations

from functools import cache

from ssvm_dsl import (
    AtMost,
    Attributes,
    Dim,
    Edges,
    Factor,
    Hamming,
    Input,
    Label,
    Latent,
    Matching,
    Model,
    along,
    chain,
    complete,
    cross,
)


@cache
def tagger(width, states):
    """A chain whose positions have ``width`` features."""

    class Tagger(Model):
        T = Dim()
        x = Input(T, width)
        y = Label(T, states)
        emit = Factor(y, features=x)
        trans = Factor(chain(y))
        loss = Hamming(y)

    return Tagger


@cache
def token_tagger(states):
    """A chain whose positions have named attributes."""

    class TokenTagger(Model):
        T = Dim()
        words = Attributes(T)
        y = Label(T, states)
        emit = Factor(y, features=words)
        trans = Factor(chain(y))
        loss = Hamming(y)

    return TokenTagger


@cache
def few_tagger(width, states, most):
    """A chain with at most ``most`` positions in state 1."""

    class FewTagger(tagger(width, states)):
        few = AtMost(most, tagger(width, states).y.is_(1))

    return FewTagger


@cache
def independent(width, states):
    """Positions without factors between them."""

    class Independent(Model):
        T = Dim()
        x = Input(T, width)
        y = Label(T, states)
        emit = Factor(y, features=x)
        loss = Hamming(y)

    return Independent


@cache
def few(width, states, most):
    """Independent positions, at most ``most`` of them in state 1."""

    class Few(independent(width, states)):
        few = AtMost(most, independent(width, states).y.is_(1))

    return Few


@cache
def classifier(width, states):
    """One label with ``width`` features."""

    class Classifier(Model):
        x = Input(width)
        y = Label(states)
        emit = Factor(y, features=x)
        loss = Hamming(y)

    return Classifier


@cache
def complete_labels(n_labels, width, states):
    """A fixed number of labels, a table for each pair of them."""

    class CompleteLabels(Model):
        K = Dim(n_labels)
        x = Input(width)
        y = Label(K, states)
        unary = Factor(y, features=x, per=K)
        pair = Factor(complete(y), per="edge")
        loss = Hamming(y)

    return CompleteLabels


@cache
def complete_graph(width, states):
    """A ragged set of labels, all pairs of which share one table."""

    class CompleteGraph(Model):
        T = Dim()
        x = Input(T, width)
        y = Label(T, states)
        emit = Factor(y, features=x)
        pair = Factor(complete(y))
        loss = Hamming(y)

    return CompleteGraph


@cache
def graph(width, states, edge_width=None):
    """Nodes, and edges that come with the examples, with features if ``edge_width`` is given."""

    class Graph(Model):
        N, M = Dim(), Dim()
        x = Input(N, width)
        e = Edges(M, over=N)
        y = Label(N, states)
        node = Factor(y, features=x)
        loss = Hamming(y)
        if edge_width is None:
            edge = Factor(along(y, e))
        else:
            f = Input(M, edge_width)
            edge = Factor(along(y, e), features=f)

    return Graph


@cache
def matching(width):
    """Links between rows and columns, at most one for each."""

    class Links(Model):
        I, J = Dim(), Dim()
        x = Input(I, J, width)
        y = Label(I, J, 2)
        sim = Factor(y.is_(1), features=x)
        one = Matching(y.is_(1), rows=I, cols=J)
        loss = Hamming(y)

    return Links


@cache
def hidden_chain(width, hidden, states):
    """One label of a chain of latent states."""

    class HiddenChain(Model):
        T = Dim()
        x = Input(T, width)
        h = Latent(T, hidden)
        y = Label(states)
        emit = Factor(h, features=x)
        joint = Factor(cross(h, y))
        trans = Factor(chain(h))
        loss = Hamming(y)

    return HiddenChain


@cache
def segmenter(width, states, longest):
    """Segments of at most ``longest`` positions."""

    class Segments(Model):
        T = Dim()
        x = Input(T, width)
        y = Label(T, states, segments=longest)
        emit = Factor(y, features=x)
        trans = Factor(chain(y))
        loss = Hamming(y)

    return Segments
