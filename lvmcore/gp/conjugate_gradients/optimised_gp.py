"""A Gaussian process with its parameters, before it is conditioned on many rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from numpy.typing import NDArray

from lvmcore import persistence
from lvmcore.gp.exact_regression import ExactGP
from lvmcore.numerics.array_types import FloatArray
from lvmcore.numerics.conversion import to_numpy
from lvmcore.preprocessing.target_column import NumberTarget
from lvmcore.preprocessing.target_transform import TargetTransform
from lvmcore.training.checkpoint import State
from lvmcore.training.outcome import FitOutcome

__all__ = ["OptimisedGP"]


@dataclass(frozen=True)
class OptimisedGP:
    """The result of the optimisation of a fit.

    Attributes:
        gp: fitted.
        target: moments and transform of the target; None for no transform.
        outcome: of the optimisation.
    """

    gp: ExactGP
    target: NumberTarget | None
    outcome: FitOutcome

    def state(self) -> State:
        """The state for a checkpoint of the further computations."""
        outcome = self.outcome
        arrays = {f"gp.{name}": to_numpy(one) for name, one in self.gp.state_dict().items()}
        facts = {
            "kernel": str(self.gp.kernel.expression),
            "transform": None if self.target is None else self.target.transformed.facts(),
            "objective": outcome.objective,
            "converged": outcome.converged,
            "terms": list(outcome.history[0].terms) if outcome.history else [],
        }
        return {**arrays, **persistence.history_arrays(outcome.history)}, facts

    @classmethod
    def restored(
        cls,
        arrays: Mapping[str, NDArray[Any]],
        facts: Mapping[str, Any],
        process: Callable[[str], ExactGP],
        y: FloatArray,
    ) -> OptimisedGP:
        """The process of ``state``.

        Args:
            arrays: of the state.
            facts: likewise.
            process: a process with the kernel of a text, at any parameters.
            y: the target in its own units, [N].
        """
        gp, own = process(facts["kernel"]), persistence.with_prefix(arrays, "gp.")
        gp.load_state_dict({name: torch.as_tensor(own[name]) for name in gp.state_dict()})
        target = None
        if facts["transform"] is not None:
            target = NumberTarget.fit(y, TargetTransform.from_facts(facts["transform"]))
        history = tuple(
            replace(step, terms={name: step.terms[name] for name in facts["terms"]})
            for step in persistence.history_from_arrays(arrays)
        )
        outcome = FitOutcome(float(facts["objective"]), history, bool(facts["converged"]))
        return cls(gp, target, outcome)
