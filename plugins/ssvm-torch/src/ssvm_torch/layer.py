"""``StructuredLayer``: a declared model as the last layer of a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from ssvm_dsl import Dim, Factor, Input, StructuredSVM
from ssvm_dsl.errors import DataError, OptionError
from ssvm_dsl.scoring import ScoredAnswers, Scorer, Template
from ssvm_torch.arrays import Scores, as_mask, as_states, plain_label, stacked, to_arrays
from ssvm_torch.graphs import outside_graphs
from ssvm_torch.risks import RISKS, BatchQuestion, Expected, RiskFunction

REDUCTIONS = ("none", "mean", "sum")


class StructuredLayer(torch.nn.Module):
    """A declared model as a layer: its weights are parameters, its inputs are tensors, gradients flow to both.

    Parameters
    ----------
    model : Model class
        Features are dense inputs (``Factor(y, features=x)``); scores that the network computes are declared
        ``Given(y, scores=logits)``.
    risk : {"margin", "log", "softmax-margin"}
        What :meth:`forward` returns: the hinge with the declared loss, the negative log-likelihood, or that with the
        loss added.
    backend, backend_options, guarantee
        As of :class:`~ssvm_dsl.scoring.Scorer`.
    dtype : torch.dtype, optional
        Of the parameters; the default type of torch without it.

    Notes
    -----
    Weights of factors with ``nonneg=True`` are set to 0 where a step of the optimiser made them negative.

    Examples
    --------
    >>> layer = StructuredLayer(Tagger, risk="log")
    >>> loss = layer(network(x), truth, mask=mask)
    >>> labels = layer.decode(network(x), mask=mask)
    """

    def __init__(
        self,
        model: Any,
        risk: str = "margin",
        *,
        backend: str = "auto",
        backend_options: Mapping[str, Any] | None = None,
        guarantee: str = "exact",
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if risk not in RISKS:
            raise OptionError(f"risk must be one of {', '.join(RISKS)}, got {risk!r}")
        self.model, self.risk = model, risk
        self.scorer = Scorer(model, backend=backend, backend_options=backend_options, guarantee=guarantee)
        self.weights = torch.nn.ParameterDict()
        for name, template in self.scorer.templates.items():
            shape = weight_shape(template)
            if shape is not None:
                self.weights[name] = torch.nn.Parameter(torch.zeros(shape, dtype=dtype))
        ties = {name: getattr(one.symbol, "tie", None) for name, one in self.scorer.templates.items()}
        self._owners = {name: name if tie is None else tie.name for name, tie in ties.items()}
        self._signed = [name for name in self.weights if self.scorer.templates[name].nonneg]

    # -- scores -------------------------------------------------------------------------------------------

    @outside_graphs
    def scores(self, inputs: Any) -> Scores:
        """Return the scores of each factor for a batch: what the answers are of."""
        return self._scores(read_inputs(self.scorer, inputs))

    def _scores(self, batch: Batch) -> Scores:
        self._keep_signs()
        weights, n = dict(self.weights.items()), batch.n
        return {
            name: scores_of(template, weights.get(self._owners[name]), batch.tensors, n)
            for name, template in self.scorer.templates.items()
        }

    def _keep_signs(self) -> None:
        """Set weights that must not be negative to 0 where they are."""
        for name in self._signed:
            with torch.no_grad():
                if bool((self.weights[name] < 0).any()):
                    self.weights[name].clamp_(min=0.0)

    def _question(
        self, inputs: Any, mask: Any, lengths: Any, data: Any, truth: Any = None
    ) -> tuple[BatchQuestion, Scores]:
        """Return what is asked about a batch, and its scores."""
        batch = read_inputs(self.scorer, inputs)
        scores = self._scores(batch)
        asked: dict[str, Any] = {"data": data}
        if mask is not None:
            asked["mask"] = as_mask(mask)
        if lengths is not None or batch.lengths:
            asked["lengths"] = batch.lengths if lengths is None else as_mask(lengths)
        if truth is not None:
            asked["truth"] = as_states(truth, self.scorer)
        return BatchQuestion(self.scorer, list(scores), asked), scores

    def _answer(self, question: BatchQuestion, scores: Scores, **more: Any) -> ScoredAnswers:
        return question.answer(to_arrays(scores), **more)

    # -- what it is for -----------------------------------------------------------------------------------

    @outside_graphs
    def forward(
        self,
        inputs: Any,
        truth: Any,
        *,
        mask: Any = None,
        lengths: Any = None,
        data: Mapping[str, Any] | None = None,
        sample_weight: torch.Tensor | None = None,
        reduction: str = "mean",
    ) -> torch.Tensor:
        """Return the risk of a batch.

        Parameters
        ----------
        inputs : Tensor, list of Tensor, or mapping of these by the name of the input
            Padded, or a list with a tensor for each example.
        truth : integer Tensor, list of these, or list of labels
            States, padded or one tensor for each example; or labels as ``StructuredSVM.fit`` takes them.
        mask : bool Tensor, shape (B, width), optional
            Which positions there are, also in the middle; a dict by axis where several are ragged.
        lengths : integer Tensor, shape (B,), optional
            Without a mask, the first positions that there are; with one, it keeps none beyond them.
        data : mapping, optional
            Edges, masks of labels and numbers of constraints by the name of the input, one for each example.
        sample_weight : Tensor, shape (B,), optional
            Finite; where it needs a gradient, that flows to it, too.
        reduction : {"mean", "sum", "none"}
            ``mean`` divides by the number of examples.

        Raises
        ------
        DataError, InfeasibleError, NoBackendError, OptionError
            As for :meth:`~ssvm_dsl.scoring.Scorer.answer`; scores in half precision; a truth that scores of ``-inf``
            forbid, whose risk would be infinite.
        """
        if reduction not in REDUCTIONS:
            raise OptionError(f"reduction must be one of {', '.join(REDUCTIONS)}, got {reduction!r}")
        question, scores = self._question(inputs, mask, lengths, data, truth)
        n = max(len(one) for name, one in scores.items() if one.dim() > len(self.scorer.templates[name].shape))
        share = 1.0 / n if reduction == "mean" else 1.0
        if sample_weight is None:
            coef = np.full(n, share)
        elif sample_weight.shape == (n,):
            coef = share * sample_weight.detach().cpu().double().numpy()
        else:
            raise DataError("sample_weight", expected=f"{n} numbers", found=f"shape {tuple(sample_weight.shape)}")
        if not np.isfinite(coef).all():
            i = int(np.argmin(np.isfinite(coef)))
            raise DataError("sample_weight", example=i, expected="a finite number", found=str(coef[i]))
        learnt = sample_weight is not None and sample_weight.requires_grad
        whole = reduction != "none" and not learnt
        made: torch.Tensor = RiskFunction.apply(question, self.risk, coef, whole, *scores.values())
        if whole or sample_weight is None:
            return made
        made = made * sample_weight.to(made)
        return made if reduction == "none" else share * made.sum()

    @outside_graphs
    @torch.no_grad()
    def decode(self, inputs: Any, *, mask: Any = None, lengths: Any = None, data: Any = None) -> Any:
        """Return the best labels: a padded tensor of states, -1 where there are no positions.

        Where the model has several labels, segments or pointers: a list of labels in the model's classes.
        """
        question, scores = self._question(inputs, mask, lengths, data)
        found = self._answer(question, scores)
        name = plain_label(self.scorer)
        if name is None:
            return found.labels
        return torch.from_numpy(found.padded(name, self._width(scores, name)))

    @outside_graphs
    @torch.no_grad()
    def k_best(self, inputs: Any, k: int, *, mask: Any = None, lengths: Any = None, data: Any = None) -> Any:
        """Return for each example its k best labels with their scores, best first."""
        question, scores = self._question(inputs, mask, lengths, data)
        return self._answer(question, scores, task="kbest", k=k).labels

    @outside_graphs
    def marginals(self, inputs: Any, *, mask: Any = None, lengths: Any = None, data: Any = None) -> Scores:
        """Return the expected counts of each score by factor, in the shape of the scores; differentiable.

        Of unary scores these are the probabilities of the states. Counts of scores that all factors share are sums.
        """
        question, scores = self._question(inputs, mask, lengths, data)
        return dict(zip(scores, Expected.apply(question, *scores.values()), strict=True))

    @outside_graphs
    @torch.no_grad()
    def sample(
        self,
        inputs: Any,
        n: int = 1,
        *,
        seed: int | None = None,
        mask: Any = None,
        lengths: Any = None,
        data: Any = None,
    ) -> torch.Tensor:
        """Return n labellings of each example, drawn with the probabilities of the log-linear model.

        Each position is drawn with its exact conditional probabilities, given those before it: as many calls for
        marginals as there are positions.

        Returns
        -------
        Tensor of ints, shape (n, B, *positions)
            -1 where there are no positions.

        Raises
        ------
        OptionError
            The model has several labels, or no factor with scores for each state of each position.
        NoBackendError
            No backend has exact marginals.
        """
        question, scores = self._question(inputs, mask, lengths, data)
        name = plain_label(self.scorer)
        if name is None:
            raise OptionError(f"sample: model {self.model.__name__} is not of one plain label")
        return draw(question, to_arrays(scores), name, n, seed, self._width(scores, name))

    # -- weights ------------------------------------------------------------------------------------------

    def to_svm(self, **parameters: Any) -> StructuredSVM:
        """Return an estimator with these weights, for inputs as arrays.

        ``to_svm(C=..., warm_start=True).fit(X, Y)`` goes on from them, with the features that the frozen network
        computes as X, and ends with a certificate.

        Parameters
        ----------
        **parameters
            Of :class:`~ssvm_dsl.StructuredSVM`; the risk is the layer's.
        """
        self._keep_signs()
        weights = {name: one.detach().cpu().numpy().astype(np.float64) for name, one in self.weights.items()}
        return StructuredSVM.from_weights(self.model, weights, **({"risk": self.risk} | parameters))

    @classmethod
    def from_weights(cls, model: Any, weights: Any, risk: str = "margin", **options: Any) -> Self:
        """Return a layer with given weights.

        Parameters
        ----------
        model : Model class
        weights : mapping, or fitted StructuredSVM
            Arrays by factor (or its name), in the shapes that ``print(model)`` shows.
        risk : str
        **options
            Of the layer.
        """
        made = cls(model, risk, **options)
        values = weights.weights_ if hasattr(weights, "weights_") else weights
        named = {getattr(key, "name", key): value for key, value in values.items()}
        if set(named) != set(made.weights):
            found = ", ".join(map(str, named)) or "none"
            raise DataError("weights", expected=f"those of {', '.join(made.weights) or 'no factor'}", found=found)
        with torch.no_grad():
            for name, one in made.weights.items():
                value = torch.as_tensor(np.asarray(named[name]))
                if value.shape != one.shape:
                    expected = f"shape {tuple(one.shape)}"
                    raise DataError(f"weights of '{name}'", expected=expected, found=f"shape {tuple(value.shape)}")
                one.copy_(value)
        return made

    def _width(self, scores: Scores, label: str) -> tuple[int, ...] | None:
        """Return the padded size of the positions of a label, from the scores of its states."""
        for name, template in self.scorer.templates.items():
            if (template.target.is_whole or template.target.is_indicator) and template.target.label.name == label:
                tensor, n_axes = scores[name], len(template.axes)
                if tensor.dim() == 1 + n_axes + len(template.shape):
                    return tuple(tensor.shape[1 : 1 + n_axes])
        return None


# -- The inputs of a batch: tensors by name, padded here where they come in lists, and the sizes that follow ---------


@dataclass(frozen=True, eq=False)
class Batch:
    """A batch of inputs.

    Parameters
    ----------
    tensors : dict of str to Tensor
        Padded: ``(B, *axes, *widths)``.
    lengths : dict of str to ndarray of int
        Sizes of ragged axes, where lists told them.
    """

    tensors: dict[str, torch.Tensor]
    lengths: dict[str, Any]

    @property
    def n(self) -> int:
        """Number of examples."""
        return len(next(iter(self.tensors.values())))


def read_inputs(scorer: Scorer, inputs: Any) -> Batch:
    """Return the inputs of a batch by name.

    Parameters
    ----------
    scorer : Scorer
    inputs : Tensor, list of Tensor, or mapping of these by the name of the input
        A list has a tensor for each example.

    Raises
    ------
    DataError
        An input is missing or of the wrong shape.
    """
    needed = {one.name: one for template in scorer.templates.values() for one in template.inputs or ()}
    if not isinstance(inputs, Mapping):
        if len(needed) != 1:
            raise DataError("inputs", expected=f"a dict with {', '.join(needed)}", found=type(inputs).__name__)
        inputs = {next(iter(needed)): inputs}
    tensors: dict[str, torch.Tensor] = {}
    lengths: dict[str, Any] = {}
    for name, one in needed.items():
        if name not in inputs:
            found = ", ".join(map(str, inputs)) or "none"
            raise DataError("inputs", expected=f"a tensor for input '{name}'", found=found)
        tensors[name] = _padded(one, inputs[name], lengths)
        if not len(tensors[name]):
            raise DataError(f"input '{name}'", expected="at least one example", found="none")
    return Batch(tensors, lengths)


def _padded(one: Input, value: Any, lengths: dict[str, Any]) -> torch.Tensor:
    """Return the padded tensor of an input; note the sizes of its axes where it is a list."""
    what, n_axes = f"input '{one.name}'", len(one.dims)
    if isinstance(value, torch.Tensor):
        if not value.dim():
            raise DataError(what, expected="a padded tensor, with an axis of examples", found="a single number")
        return _with_numbers(value, what)
    if not isinstance(value, Sequence) or not value or not all(isinstance(part, torch.Tensor) for part in value):
        expected = "a padded tensor, or a list with a tensor for each example"
        found = "an empty list" if isinstance(value, Sequence) and not value else type(value).__name__
        raise DataError(what, expected=expected, found=found)
    for i, part in enumerate(value):
        _with_numbers(part, what)
        if part.dim() != n_axes + len(one.shape) or part.shape[n_axes:] != one.shape:
            words = ", ".join([dim.name for dim in one.dims] + [str(size) for size in one.shape])
            raise DataError(what, example=i, expected=f"a tensor ({words})", found=f"shape {tuple(part.shape)}")
    sizes = np.array([tuple(part.shape[:n_axes]) for part in value], dtype=np.int64).reshape(len(value), n_axes)
    for k, dim in enumerate(one.dims):
        if dim.ragged:
            lengths[dim.origin.name] = sizes[:, k]
    return stacked(value, sizes.max(axis=0).tolist())


def _with_numbers(tensor: torch.Tensor, what: str) -> torch.Tensor:
    """Return a tensor that has numbers, one after the other."""
    if tensor.layout is not torch.strided or tensor.is_meta:
        found = "one on the device 'meta'" if tensor.is_meta else f"one of layout {tensor.layout}"
        raise DataError(what, expected="a dense tensor with numbers", found=found)
    return tensor


# -- Exact samples, one position after the other, each given those before it -----------------------------------------


def draw(
    question: BatchQuestion, scores: dict[str, NDArray[Any]], label: str, n: int, seed: int | None,
    width: tuple[int, ...] | None,
) -> torch.Tensor:  # fmt: skip
    """Return n samples of the label of each example, ``shape (n, B, *positions)``, -1 where there are none.

    Raises
    ------
    OptionError
        No factor has scores for each state of each position.
    """
    unary = unary_of(question, scores, label)
    rng, marked = np.random.default_rng(seed), scores[unary].astype(np.float64)
    there = question.answer(scores).padded(label, width) >= 0
    places = np.argwhere(there.any(axis=0))
    out = np.full((n, *there.shape), -1, dtype=np.int64)
    for which in range(n):
        fixed = marked.copy()
        for place in map(tuple, places.tolist()):
            counts = question.answer(scores | {unary: fixed}, task="log_z").counts()[unary]
            at: Any = (slice(None), *place)
            chances = np.maximum(counts[at], 0.0)
            ends = np.cumsum(chances, axis=1)
            drawn = (rng.random(len(ends))[:, None] * ends[:, -1:] >= ends).sum(axis=1)
            drawn = np.minimum(drawn, chances.shape[1] - 1)
            out[(which, *at)] = np.where(there[at], drawn, -1)
            kept = np.full(fixed[at].shape, -np.inf)
            rows = np.arange(len(drawn))
            kept[rows, drawn] = marked[at][rows, drawn]
            fixed[at] = np.where(there[at][:, None], kept, fixed[at])
    return torch.from_numpy(out)


def unary_of(question: BatchQuestion, scores: dict[str, NDArray[Any]], label: str | None = None) -> str:
    """Return a factor with padded scores for each state of each position of a label (the only one).

    Raises
    ------
    OptionError
        There is none.
    """
    for name, template in question.scorer.templates.items():
        own = template.target.is_whole and template.shape == template.target.cards
        padded = own and scores[name].ndim == 1 + len(template.axes) + 1
        if padded and (label is None or template.target.label.name == label):
            return name
    where = "" if label is None else f" of label '{label}'"
    raise OptionError(f"no factor has scores for each state of each position{where}: declare Factor(y, features=x)")


# -- Scores of a declared factor from tensors: the factor's weights times the inputs that are its features -----------


def weight_shape(template: Template) -> tuple[int, ...] | None:
    """Return the shape of a factor's own weights; ``None`` where it has none (given scores, or another's weights).

    Raises
    ------
    OptionError
        Its features are no tensors: functions, attributes, sparse inputs.
    """
    symbol = template.symbol
    if template.inputs is None or (isinstance(symbol, Factor) and (symbol.observed or symbol.joint)):
        text = f"factor '{template.name}' has features that are no dense Input: {symbol.features!r}"
        raise OptionError(f"{text}; compute them in the network, and declare Given(target, scores=Input(...))")
    if template.target.is_union and template.inputs:
        text = f"factor '{template.name}' of grid(y) has features"
        raise OptionError(f"{text}; in a layer write a factor of pairs(y, axis) for each axis")
    if not isinstance(symbol, Factor) or symbol.tie is not None:
        return None
    width = sum(one.width for one in template.inputs) if template.inputs else None
    return tuple(int(size) for size in symbol.weight_shape(width) if size is not None)


def scores_of(
    template: Template, weights: torch.Tensor | None, inputs: Mapping[str, torch.Tensor], n: int
) -> torch.Tensor:
    """Return the scores of a factor for padded inputs: a table for all factors where nothing tells them apart.

    Parameters
    ----------
    template : Template
    weights : Tensor, optional
        In the shape that users see; ``None`` for given scores.
    inputs : mapping of str to Tensor
        Padded, ``(B, *axes, *widths)``.
    n : int
        Number of examples.
    """
    assert template.inputs is not None
    if weights is None:
        rows = _rows(template, inputs)
        return rows.reshape(*rows.shape[:-1], *template.shape)
    symbol = template.symbol
    assert isinstance(symbol, Factor)
    if symbol.per == "edge":
        return _by_edge(template, weights, inputs, n)
    if symbol.per:
        return _by_position(template, symbol, weights, inputs, n)
    if not template.inputs:
        return weights
    rows = _rows(template, inputs)
    if rows.dtype != weights.dtype and not torch.is_autocast_enabled(rows.device.type):
        found = f"{rows.dtype} inputs of '{template.name}' and {weights.dtype} weights"
        raise OptionError(f"{found}: convert one of them, e.g. layer.to({rows.dtype})")
    made = _spread(template, rows @ weights.reshape(prod(template.shape), -1).T)
    return made.reshape(*made.shape[:-1], *template.shape)


def _spread(template: Template, made: torch.Tensor) -> torch.Tensor:
    """Return scores with an axis for factors that all have the same ones."""
    for k, axis in enumerate(template.axes):
        if axis.dim is None:
            if template.fixed_count is None:
                text = f"factor '{template.name}': features of the whole example for factors whose number varies"
                raise OptionError(f"{text}; compute its scores in the network, and declare Given")
            made = made.unsqueeze(1 + k).expand(*made.shape[: 1 + k], template.fixed_count, *made.shape[1 + k :])
    return made


def _rows(template: Template, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Return the rows of features at the positions of the factors, ``(B, *positions, width)``."""
    made = []
    for one in template.inputs or ():
        tensor = inputs[one.name]
        n_axes = len(one.dims)
        if tensor.dim() != 1 + n_axes + len(one.shape) or tuple(tensor.shape[1 + n_axes :]) != one.shape:
            axes = "".join(f", {dim.name}" for dim in one.dims) + "".join(f", {size}" for size in one.shape)
            found = f"a tensor of shape {tuple(tensor.shape)}"
            raise DataError(f"input '{one.name}'", expected=f"a padded tensor (B{axes})", found=found)
        tensor = tensor.reshape(*tensor.shape[: 1 + n_axes], one.width)
        names = [dim.name for dim in one.dims]
        for k, axis in enumerate(template.axes):
            if axis.dim is None:
                continue
            if axis.dim.name not in names:
                tensor = tensor.unsqueeze(1 + k)
            elif axis.less:
                tensor = tensor.narrow(1 + k, axis.less, max(tensor.shape[1 + k] - axis.less, 0))
        made.append(tensor)
    if len(made) == 1:
        return made[0]
    shape = torch.broadcast_shapes(*(one.shape[:-1] for one in made))
    return torch.cat([one.expand(*shape, one.shape[-1]) for one in made], dim=-1)


def _by_edge(
    template: Template, weights: torch.Tensor, inputs: Mapping[str, torch.Tensor], n: int
) -> torch.Tensor:
    """Return the scores of factors each of which has weights of its own."""
    n_factors = template.fixed_count or 0
    table = weights.reshape(n_factors, prod(template.shape), -1)
    if template.inputs:
        rows = _rows(template, inputs)
        rows = rows.reshape(len(rows), -1, rows.shape[-1]).expand(-1, n_factors, -1)
        made = torch.einsum("bup,uqp->buq", rows, table)
    else:
        made = table[..., 0].expand(n, *table.shape[:-1])
    sizes = [axis.dim.size - axis.less if axis.dim and axis.dim.size else n_factors for axis in template.axes]
    return made.reshape(n, *sizes, *template.shape)


def _by_position(
    template: Template, symbol: Factor, weights: torch.Tensor, inputs: Mapping[str, torch.Tensor], n: int
) -> torch.Tensor:
    """Return the scores of factors that have weights of their own at each position of some axes."""
    assert not isinstance(symbol.per, str)
    own = [(one if isinstance(one, Dim) else one.axis).name for one in symbol.per]
    of = [axis.dim.name if axis.dim else "" for axis in template.axes]
    table = weights.reshape(*symbol.unit_shape, prod(template.shape), -1)
    table = table.permute(*(own.index(name) for name in of if name in own), -2, -1)
    sizes = [dict(zip(own, symbol.unit_shape, strict=True)).get(name, 1) for name in of]
    table = table.reshape(*sizes, *table.shape[-2:])
    if template.inputs:
        made = (table @ _rows(template, inputs).unsqueeze(-1))[..., 0]
    else:
        made = table[..., 0].expand(n, *table.shape[:-1])
    return made.reshape(*made.shape[:-1], *template.shape)
