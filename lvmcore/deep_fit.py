"""The objective of a deep Gaussian process: its bound, from all rows or from a batch.

Notation: lvmcore/README.md and lvmcore/deep_layers.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor, nn

from lvmcore.deep_likelihoods import Gaussian
from lvmcore.deep_outputs import Posterior, Rows, Sites, of_other_draws
from lvmcore.deep_paths import DeepGP, Draw
from lvmcore.gplvm import snapshot_of, thinned
from lvmcore.results import Snapshot
from lvmcore.stochastic import Batches
from lvmcore.training import Schedule

__all__ = ["DeepFit", "deep_schedule"]

# Draws that a snapshot averages.
SNAPSHOT_DRAWS = 4
# Nats per row: what draws of the functions alone can take from one step to the next. Where the
# noise is a thousandth of the target's variance, first steps differ by 30.
COLLAPSE = 50.0
# Steps that a judgement of flatness averages at least, where functions are drawn.
WINDOW = 100


class DeepFit:
    """The bound's terms by name: fit of the rows, of the subset, and each layer's divergence.

    One draw of the functions serves the likelihood and the divergences. Where the last layer's q is
    kept as sites, they follow the rows. When a step sees all rows, those of a Gaussian likelihood
    do so before the step's bound is taken, which without hidden layers is then the collapsed one;
    with hidden layers q is the best for each draw (``DeepGP.conditional``), or what the rows of the
    other draws make of it. Where prior and noise are q-exponential, q counts them and the rows by
    the weights that they had at the step before, or the last one that saw the row
    (`qexponential_blocks`); the bound, taken at that q, holds whatever the weights.

    Args:
        model: what is fitted, in place.
        X: inputs, standardised, [N, H].
        Y: targets: standardised numbers, or signs of classes, [N, P].
        n_samples: S, draws a step; one is enough without hidden layers.
        batch_size: B.
        generator: draws the functions and the batches.
    """

    def __init__(
        self,
        model: DeepGP,
        X: Tensor,
        Y: Tensor,
        *,
        n_samples: int,
        batch_size: int,
        generator: torch.Generator,
    ) -> None:
        self.model, self.X, self.Y, self.generator = model, X, Y, generator
        self.n_samples = n_samples if len(model.hidden) else 1
        self.rows = model.others(len(X))
        self.batches = Batches(len(self.rows), batch_size, generator)
        likelihood = model.last.likelihood
        # w of each row of a numeric target; None where all are 1.
        self.precision: Tensor | None = None
        if isinstance(likelihood, Gaussian):
            self.precision = likelihood.precision(X.new_ones(len(X)), Y.shape[1])

    def parameters(self) -> Iterable[nn.Parameter]:
        """What Adam moves."""
        return [p for p in self.model.parameters() if p.requires_grad]

    def held(self) -> Iterable[nn.Parameter]:
        """What the warm-up leaves as it is: the noise, and a kernel that was fitted before."""
        if self.model.settled:
            return self.model.last.parameters()
        likelihood = self.model.last.likelihood
        return [likelihood.log_noise] if isinstance(likelihood, Gaussian) else []

    def state(self) -> Iterable[Tensor]:
        """The last layer's sites, where the batches stand, and weights of rows."""
        q = self.model.last.q
        weights = () if self.precision is None else (self.precision,)
        return [*(q.buffers() if isinstance(q, Sites) else ()), *self.batches.buffers(), *weights]

    def batch_terms(self) -> dict[str, Tensor]:
        """Unbiased estimates of the terms from the next batch, which the sites then follow."""
        model, last = self.model, self.model.last
        draw = model.draw(self.n_samples, self.generator)
        batch = self.rows[self.batches.next()]
        scale = len(self.rows) / max(1, len(batch))
        rows = self._seen(draw, self.X[batch], self.Y[batch], scale, self.generator)
        rows = self._weighed(rows, batch)
        own = self._own_rows()
        sites = last.q if isinstance(last.q, Sites) else None
        closed = last.absorbs
        sums, prior = None, None
        if sites is not None and sites.step > 0 and closed and self.batches.whole:
            if last.reweighs and model.conditional and len(model.hidden):
                rows, prior = self._own_weights(draw, rows)
            sums = last.gaussian_sums(draw.last, rows)
            sites.follow(*sums)
            if not model.conditional:
                each = sums[0].dim() > 3 and draw.samples > 1
                sums = of_other_draws(sums) if each else None
        posterior = model.posterior(draw, sums, prior)
        fits = {"data fit": last.fit(draw.last, posterior, rows)}
        if own is not None:
            fits["subset fit"] = last.fit(draw.last, posterior, own)
        terms = {name: fit for name, (fit, _, _) in fits.items()}
        self._reweigh(posterior, batch, *fits["data fit"][1:])
        if sites is not None and closed and not self.batches.whole:
            rows = self._weighed(rows, batch)
            sites.follow(*last.gaussian_sums(draw.last, rows))
        elif sites is not None and not closed and torch.is_grad_enabled():
            parts = (rows,) if own is None else (rows, own)
            found = [
                last.label_sums(draw.last, r, *f) for r, f in zip(parts, fits.values(), strict=True)
            ]
            sites.follow(*(torch.stack(part).sum(0) for part in zip(*found, strict=True)))
        return terms | model.kl_terms(posterior)

    def _weighed(self, rows: Rows, batch: Tensor) -> Rows:
        return rows if self.precision is None else replace(rows, precision=self.precision[batch])

    @torch.no_grad()
    def _own_weights(self, draw: Draw, rows: Rows) -> tuple[Rows, Tensor]:
        """Rows and prior by the weights of each draw's own q, from those of the step before.

        A draw's rows are not where those of the step before were: without this turn q lags behind
        and the bound wavers.
        """
        last = self.model.last
        before = self.model.posterior(draw, last.gaussian_sums(draw.last, rows))
        return last.weighed(draw.last, before, rows), last.prior_under(before)

    @torch.no_grad()
    def _reweigh(self, posterior: Posterior, batch: Tensor, mean: Tensor, variance: Tensor) -> None:
        """Weights of the prior and of the rows of a batch, at what they are under the draws."""
        last = self.model.last
        if isinstance(last.q, Sites) and last.q.exponent < 2:
            last.q.prior.copy_(last.prior_under(posterior).mean())
        if self.precision is not None:
            found = last.row_precision(self.Y[batch], mean, variance, shared=True)
            assert found is not None
            self.precision[batch] = found

    @torch.no_grad()
    def terms(self, draws: int = 1) -> dict[str, Tensor]:
        """The terms from all rows, ``draws`` times S draws of the functions; q stays as it is.

        Where q is that of each draw, it is taken from all rows here, whatever a step sees.
        """
        model, S = self.model, self.n_samples * draws if len(self.model.hidden) else 1
        draw = model.draw(S, self.generator)
        X, Y = self.X[self.rows], self.Y[self.rows]
        seed = int(torch.randint(2**31 - 1, (1,), generator=self.generator))
        if model.conditional:
            posterior = model.given_rows(draw, X, Y, torch.Generator().manual_seed(seed))
        else:
            posterior = model.posterior(draw)
        fit, again = self.X.new_zeros(()), torch.Generator().manual_seed(seed)  # the same noise
        for some, targets in model.blocks_of(X, Y, S):
            rows = self._seen(draw, some, targets, 1.0, again)
            fit = fit + model.last.fit(draw.last, posterior, rows)[0]
        terms = {"data fit": fit}
        own = self._own_rows()
        if own is not None:
            terms["subset fit"] = model.last.fit(draw.last, posterior, own)[0]
        return terms | model.kl_terms(posterior)

    def _seen(
        self, draw: Draw, X: Tensor, Y: Tensor, weight: float, generator: torch.Generator
    ) -> Rows:
        """Rows at the last layer, under a draw."""
        noise = self.model.row_noise(draw.samples, len(X), generator)
        return Rows(draw.last.cross(self.model.inputs(draw, X, noise)), Y, weight)

    def _own_rows(self) -> Rows | None:
        """The subset's rows; None where inducing inputs are no rows."""
        targets = self.model.targets
        return None if targets is None else Rows(None, targets)

    @torch.no_grad()
    def snapshot(self) -> Snapshot:
        """The last layer's inputs as they stand, of at most 2000 rows."""
        model, rows = self.model, thinned(len(self.X))
        shown = self.X[torch.as_tensor(rows)]
        layers = [*model.hidden, model.last]
        relevance = {f"layer{n}": layer.relevance for n, layer in enumerate(layers, start=1)}
        n_hidden, generator = len(model.hidden), torch.Generator().manual_seed(0)
        samples = SNAPSHOT_DRAWS if n_hidden else 1
        draw, noise = model.draw(samples, generator), model.shared_noise(samples, generator)
        parts = torch.split(shown, model.rows_at_a_time(draw.samples))
        if n_hidden:
            shown = torch.cat([model.hidden_mean(draw, noise, part, n_hidden) for part in parts])
        else:
            shown = torch.cat([model.inputs(draw, part, noise) for part in parts])
        last = f"layer{len(layers)}"
        return snapshot_of(shown, {last: relevance[last]}, rows)


def deep_schedule(fit: DeepFit, max_iter: int, learning_rate: float = 0.04) -> Schedule:
    """The course of such a fit, whose bound is an estimate even where a step sees all rows."""
    rows = max(1, len(fit.rows))
    schedule = Schedule.for_batches(
        max_iter, learning_rate, fit.Y.numel(), n_rows=rows, size=max(1, fit.batches.size)
    )
    if len(fit.model.hidden):
        schedule = replace(schedule, window=max(WINDOW, schedule.window), flat=0.1 * schedule.flat)
    return replace(schedule, collapse=COLLAPSE)
