"""RFLVM: a random-feature latent variable model fitted by Markov chain Monte Carlo."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.base.advice import advised_likelihood
from lvmcore.base.estimator_dataclass import estimator_dataclass, fitted
from lvmcore.base.initial_map import pca_start
from lvmcore.base.latent_variable_model import Capabilities, FitProblem, LatentVariableModel
from lvmcore.base.marginal_likelihood import log_marginal
from lvmcore.base.table_size import TableSize
from lvmcore.errors import ConfigError
from lvmcore.mcmc.chains import MAX_R_HAT, ParallelChains
from lvmcore.mcmc.diagnostics import ChainDiagnostics
from lvmcore.mcmc.feature_weights import Likelihood, draw_rows
from lvmcore.mcmc.kept_draws import TENSORS, KeptDraws, align_draws
from lvmcore.mcmc.kernel_frequencies import KernelFrequencies
from lvmcore.mcmc.rflvm_chain import RFLVMChain, initial_chain
from lvmcore.numerics.array_types import FloatArray
from lvmcore.numerics.conversion import to_numpy
from lvmcore.parameters import Advanced, Advised, Doc, Range
from lvmcore.preprocessing.cell_types import check_binary, check_counts
from lvmcore.preprocessing.standardiser import Standardiser
from lvmcore.preprocessing.table_rows import InMemoryRows
from lvmcore.random_features.construction import spectral_kernel
from lvmcore.random_features.settings import SpectralKernel
from lvmcore.results import Posterior, Snapshot
from lvmcore.training.outcome import FitOutcome
from lvmcore.training.snapshots import snapshot_of, thinned

__all__ = ["RFLVM"]


#: Maximum number of cells in a fit.
MOST_CELLS = {"gaussian": 2_000_000, "bernoulli": 200_000, "negative_binomial": 200_000}
#: Maximum number of rows of the fit as starting points for new rows.
MOST_ANCHORS = 256
#: Number of rows over which the slopes of the relevance are averaged.
SLOPE_ROWS = 200


@estimator_dataclass
class RFLVM(LatentVariableModel):
    """Random features with a learned spectrum, sampled by Markov chain Monte Carlo.

    x_n ~ N(0, I), f_d(x) = φ(x)ᵀh_d with φ(x) = L^−½ [sin w_lᵀx …, cos w_lᵀx …], h_d ~ N(0, a² I);
    the frequencies w_l follow a Dirichlet-process mixture of Gaussians, so the kernel is learned
    (Gundersen, Zhang and Engelhardt 2021). y_nd ~ N(f_d(x_n), σ²) of standardised columns, or, of
    columns in their own units and with ψ = f_d(x_n) + an offset, Bernoulli with log-odds ψ or
    negative binomial with mean r_d e^ψ and dispersion r_d.

    A sweep samples Pólya–gamma variables, X and W by Hamiltonian Monte Carlo with the weights
    integrated out, and weights, noise or dispersions, and the mixture from their conditional
    distributions. The first half of the ``max_iter`` sweeps is the warm-up: it adapts the proposals
    and is discarded. All chains start near the principal components, so R̂ cannot detect modes that
    no chain visits.

    The likelihood is invariant to rotations of the map, so every draw is aligned with the first
    chain's mean by an orthogonal transformation before positions are averaged, and the axes are
    those along which the columns change most. There is no bound: ``elbo_`` is NaN and the curve is
    the log likelihood of the draws. The chains run on the CPU in float64, whatever the settings
    device and dtype.

    With a kernel in place of ``"learned"`` the w_l are a fixed quasi-random sample of its spectrum,
    functions of its hyperparameters, which are sampled in place of W. Where it names dimensions,
    draws are reflected along them, not turned.

    Attributes:
        relevance_: ``data`` holds the mean squared slope of the columns along each latent
            dimension, in their sd, [Q].
        diagnostics_: R̂ and effective sample size of rotation-invariant quantities, by name.
        hyperparameters_: draws of the hyperparameters of a given kernel by name, [S]; nothing where
            it is learned. Of a kernel that names no dimensions they are along axes of each draw
            before its rotation.
    """

    key: ClassVar[str] = "rflvm"
    title: ClassVar[str] = "RFLVM"
    summary: ClassVar[str] = (
        "Draws curved maps of numbers, counts or 0 and 1 from the posterior: slow, for small "
        "tables."
    )
    paper: ClassVar[str] = "Gundersen, Zhang and Engelhardt 2021"
    order: ClassVar[int] = 34
    capabilities: ClassVar[Capabilities] = Capabilities(
        sampling=True, uncertainty=True, chains=True
    )

    diagnostics_: dict[str, ChainDiagnostics] = fitted()
    hyperparameters_: dict[str, FloatArray] = fitted()
    _draws: KeptDraws = fitted()

    n_components: Annotated[
        int | None,
        Range(1, 10),
        Doc("How many dimensions the map has; auto is 2.", "dimensions"),
    ] = None
    likelihood: Annotated[
        Literal["gaussian", "bernoulli", "negative_binomial"],
        Doc("What the cells are: numbers, 0 and 1 (bernoulli), or counts (negative_binomial)."),
    ] = "gaussian"
    max_iter: Annotated[
        int,
        Range(1, 100_000),
        Doc("Sweeps of each chain; the first half warms up and is forgotten.", "sweeps"),
    ] = 1000
    n_features: Annotated[
        int,
        Range(2, 1000),
        Doc("Random features that the columns are made of, half sines, half cosines."),
    ] = 50
    n_chains: Annotated[
        int,
        Range(1, 16),
        Doc("Chains side by side: where they disagree, the map is not to be trusted."),
    ] = 2
    kernel: SpectralKernel = "learned"
    n_mixture: Annotated[
        int,
        Range(1, 100),
        Doc("Most Gaussians in the mixture that the kernel's spectrum is.", "mixture"),
        Advanced(),
    ] = 10

    @classmethod
    def advise(cls, size: TableSize) -> dict[str, Advised]:
        """The likelihood for the type of the cells."""
        return advised_likelihood(size.cells)

    # ---- checks of settings and rows -----------------------------------------------------------

    def _scaling(self, measured: Standardiser) -> Standardiser:
        return measured if self.likelihood == "gaussian" else measured.unscaled()

    def _check_values(self, data: NDArray[Any]) -> None:
        if self.likelihood == "bernoulli":
            check_binary(data, self._column_names(), "RFLVM with likelihood bernoulli")
        elif self.likelihood == "negative_binomial":
            check_counts(data, self._column_names(), "RFLVM with likelihood negative_binomial")

    def _decide_components(self, shape: tuple[int, ...]) -> int:
        if self.n_components is not None:
            return super()._decide_components(shape)
        usable = int((~self._standardiser.constant).sum())
        return max(1, min(2, usable, shape[0] - 1))

    # ---- fitting -------------------------------------------------------------------------------

    def _fit(self, problem: FitProblem) -> FitOutcome:
        Y = problem.Y.double().cpu()
        most = MOST_CELLS[self.likelihood]
        if Y.numel() > most:
            raise ConfigError(
                f"RFLVM cannot be fitted to {Y.numel():,} cells: every sweep visits each of them "
                f"many times, and it takes at most {most:,} with likelihood {self.likelihood}. "
                "Choose fewer rows or columns, or SRFLVM, which is of the same kind and draws "
                "nothing."
            )
        X = self._start(problem, Y)
        chains = self._chains(Y, X, problem.generator)
        run = ParallelChains(chains, self.max_iter, _AlignedSnapshots(X, self._scales()))
        outcome = run.run(problem.callback, problem.checkpoint)
        self._store_draws(run, Y)
        return outcome

    def _start(self, problem: FitProblem, Y: Tensor) -> FloatArray:
        """Principal components of the columns, for counts of log(1 + y), [N, Q]."""
        shown = Y.log1p() if self.likelihood == "negative_binomial" else Y
        shown = (shown - shown.mean(0)) / shown.std(0, correction=0)
        return to_numpy(pca_start(replace(problem, table=InMemoryRows(shown))))

    def _chains(self, Y: Tensor, X: FloatArray, generator: torch.Generator) -> list[RFLVMChain]:
        seed = int(torch.randint(2**62, (1,), generator=generator))
        frequencies = -(-self.n_features // 2)
        likelihood: Likelihood = self.likelihood
        expression = spectral_kernel(self.kernel, X.shape[1])

        def kernel() -> KernelFrequencies | None:
            """Frequencies with the same base samples in each chain."""
            if expression is None:
                return None
            return KernelFrequencies(
                expression, frequencies, X.shape[1], np.random.default_rng(seed)
            )

        return [
            initial_chain(
                likelihood,
                to_numpy(Y),
                X,
                frequencies,
                self.n_mixture,
                np.random.default_rng(own),
                kernel(),
            )
            for own in np.random.SeedSequence(seed).spawn(self.n_chains)
        ]

    def _store_draws(self, run: ParallelChains, Y: Tensor) -> None:
        """Align the kept draws, and store them with the map, relevance and diagnostics."""
        kept = [dict(zip(one, part, strict=True)) for one in run.draws for part in _rows(one)]
        draws, positions = self._aligned_draws(run, kept)
        places = positions.mean(axis=0)
        scale = self._scales()
        some = places[:: max(1, len(places) // SLOPE_ROWS)]
        metric = to_numpy(draws.metric(_tensor(some), scale).mean(0))
        slopes, axes = np.linalg.eigh(metric)
        axes = axes[:, ::-1].copy()
        if run.chains[0].mixture.names_dimensions:
            slopes, axes = np.diagonal(metric)[::-1], np.eye(len(metric))
        turned = places @ axes
        axes *= np.sign(turned[np.abs(turned).argmax(axis=0), np.arange(axes.shape[1])])
        self._draws = self._on_device(draws.rotated(_tensor(axes)))
        positions = positions @ axes
        variance = positions.var(axis=0)
        if len(positions) == 1:
            variance = to_numpy(self._posterior(Y)[1])
        self.embedding_ = Posterior(positions.mean(axis=0), variance)
        self.relevance_ = {"data": np.maximum(slopes[::-1], 1e-12).copy()}
        self.inducing_inputs_ = {}
        self.diagnostics_ = run.diagnoses
        names = run.chains[0].mixture.hyperparameters()
        self.hyperparameters_ = {
            name: np.array([one["hyperparameters"][i] for one in kept])
            for i, name in enumerate(names)
        }
        self._note_diagnoses(run)

    def _aligned_draws(
        self, run: ParallelChains, kept: list[dict[str, NDArray[Any]]]
    ) -> tuple[KeptDraws, FloatArray]:
        """The draws aligned with the mean of the first chain's, and their positions [S, N, Q]."""
        positions = [one["X"] for one in kept]
        first = positions[: len(run.draws[0]["X"])]
        reference = first[-1]
        reflections = run.chains[0].mixture.names_dimensions
        for _ in range(2):
            pairs = zip(first, align_draws(first, reference, reflections=reflections), strict=True)
            reference = np.mean([X @ R for X, R in pairs], axis=0)
        rotations = np.stack(align_draws(positions, reference, reflections=reflections))
        aligned = np.stack(positions) @ rotations
        H = np.stack([one["H"] for one in kept])
        R = 2 * len(kept[0]["W"])
        anchors = aligned[:, :: max(1, -(-aligned.shape[1] // MOST_ANCHORS))]
        draws = KeptDraws(
            likelihood=run.chains[0].likelihood,
            anchors=_tensor(anchors),
            W=_tensor(np.stack([one["W"] for one in kept]) @ rotations),
            H=_tensor(H[:, :R]),
            offset=_tensor(H[:, R] if H.shape[1] > R else np.zeros_like(H[:, 0])),
            spread=_tensor(np.stack([one["spread"] for one in kept])),
            scale=_tensor(np.stack([one["scale"] for one in kept])[:, 0]),
        )
        return draws, aligned

    def _note_diagnoses(self, run: ParallelChains) -> None:
        if run.cut_short:
            when = "in" if len(run.history) <= run.warm_up else "just after"
            self._note(
                f"Stopped {when} the warm-up: what was kept is where the chains stood, one draw "
                "each, so variances mean little."
            )
            return
        apart = {name: one.r_hat for name, one in run.diagnoses.items() if one.r_hat > MAX_R_HAT}
        if apart:
            worst = max(apart, key=lambda name: apart[name])
            alone = self.n_chains == 1
            who = "The first and second half of the chain" if alone else "The chains"
            self._note(
                f"{who} do not agree: R-hat is above {MAX_R_HAT} for {len(apart)} of "
                f"{len(run.diagnoses)} quantities, the most for the {worst} ({apart[worst]:.2f}). "
                "Give it more sweeps, and take means and variances with care."
            )
        elif all(math.isnan(one.r_hat) for one in run.diagnoses.values()):
            whether = "it has settled" if self.n_chains == 1 else "the chains agree"
            self._note(f"Too few sweeps to tell whether {whether}: give it at least 16.")

    # ---- inference and decoding ----------------------------------------------------------------

    def _scales(self) -> Tensor:
        """The sd of each column that varies in the model's units, [D]."""
        units = self._measured.scale / self._standardiser.scale
        return _tensor(units[~self._measured.constant])

    def _posterior(self, Y: Tensor) -> tuple[Tensor, Tensor]:
        return self._draws.infer(self._double(Y))

    def _decode(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self._draws.decode(self._double(X))

    def _metric(self, X: Tensor) -> Tensor:
        return self._draws.metric(self._double(X), self._double(self._scales())).to(X)

    def _prior_variance_share(self, X: Tensor) -> Tensor:
        return self._draws.prior_variance_share(self._double(X)).to(X)

    def _log_density(self, Y: Tensor) -> Tensor:
        """Log of the mean of p(y) over the draws, each with the posterior modes of its rows."""
        Y = self._double(Y)
        ways = zip(self._draws, *self._draws.modes(Y), strict=True)
        found = [log_marginal(one.log_density, Y, mode, own) for one, mode, own in ways]
        return torch.stack(found).logsumexp(0) - math.log(len(found))

    def _sample_rows(self, latent: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Rows sampled from one random draw each."""
        chosen = rng.integers(len(self._draws.W), size=len(latent))
        rows = np.empty((len(latent), self._draws.H.shape[2]))
        for s, one in enumerate(self._draws):
            mine = chosen == s
            psi = to_numpy(one.psi(self._double(_tensor(latent[mine])))[0])
            rows[mine] = draw_rows(one.likelihood, psi, to_numpy(one.spread[0]), rng)
        return self._standardiser.inverse_transform(rows)

    def _double(self, tensor: Tensor) -> Tensor:
        return tensor.to(self._device, torch.float64)

    def _on_device(self, draws: KeptDraws) -> KeptDraws:
        parts = {name: self._double(getattr(draws, name)) for name in TENSORS}
        return KeptDraws(likelihood=draws.likelihood, **parts)

    # ---- storage -------------------------------------------------------------------------------

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays = {f"draws.{name}": to_numpy(getattr(self._draws, name)) for name in TENSORS}
        values = np.array(list(self.diagnostics_.values())).reshape(-1, 2)
        facts: dict[str, Any] = {"quantities": list(self.diagnostics_)}
        if self.hyperparameters_:
            arrays["hyperparameters"] = np.stack(list(self.hyperparameters_.values()))
            facts["hyperparameters"] = list(self.hyperparameters_)
        return {**arrays, "diagnostics": values}, facts

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        parts = {name: _tensor(arrays[f"draws.{name}"].copy()) for name in TENSORS}
        self._draws = self._on_device(KeptDraws(likelihood=self.likelihood, **parts))
        names = facts.get("hyperparameters", [])
        draws = arrays["hyperparameters"] if names else np.empty((0, 0))
        self.hyperparameters_ = dict(zip(names, draws, strict=True))
        found = zip(facts["quantities"], arrays["diagnostics"], strict=True)
        self.diagnostics_ = {name: ChainDiagnostics(*map(float, values)) for name, values in found}


class _AlignedSnapshots:
    """Snapshots of a chain, each aligned with the initial map."""

    def __init__(self, start: FloatArray, scale: Tensor) -> None:
        self._start, self._scale = start, scale

    def __call__(self, chain: RFLVMChain) -> Snapshot:
        named = chain.mixture.names_dimensions
        (rotation,) = align_draws([chain.X], self._start, reflections=named)
        R = 2 * len(chain.W)
        H = chain.decoder_weights
        offset = H[R:] if chain.logistic else np.zeros((1, H.shape[1]))
        X = chain.X @ rotation
        draws = KeptDraws(
            likelihood=chain.likelihood,
            anchors=_tensor(X[None]),
            W=_tensor((chain.W @ rotation)[None]),
            H=_tensor(H[None, :R]),
            offset=_tensor(offset),
            spread=_tensor(chain.spread[None]),
            scale=_tensor(np.array([chain.scale])),
        )
        some = _tensor(X[:: max(1, len(X) // SLOPE_ROWS)])
        slopes = draws.metric(some, self._scale).mean(0).diagonal()
        rows = thinned(len(X))
        return snapshot_of(_tensor(X[rows]), {"data": slopes}, rows)


def _tensor(array: NDArray[Any]) -> Tensor:
    return torch.as_tensor(np.ascontiguousarray(array), dtype=torch.float64)


def _rows(draws: dict[str, list[NDArray[Any]]]) -> list[tuple[NDArray[Any], ...]]:
    """The draws of a chain, each with its parts in order."""
    return list(zip(*draws.values(), strict=True))
