"""``StructuredLayer``: a declared model as the last layer of a network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import torch

from ssvm_dsl import StructuredSVM
from ssvm_dsl.errors import DataError, OptionError
from ssvm_dsl.scoring import ScoredAnswers, Scorer
from ssvm_torch.arrays import Scores, as_mask, as_states, plain_label, to_arrays
from ssvm_torch.graphs import outside_graphs
from ssvm_torch.inputs import Batch, read_inputs
from ssvm_torch.risks import RISKS, BatchQuestion, Expected, RiskFunction
from ssvm_torch.sampling import draw
from ssvm_torch.weights import scores_of, weight_shape

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
