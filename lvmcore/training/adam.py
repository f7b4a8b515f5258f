"""Adam (Kingma and Ba 2015), as torch has it, without the modules that torch loads for it.

``torch.optim`` imports torch's compiler on the first step of an optimiser, which takes as long as
many fits to small tables.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

__all__ = ["BETAS", "EPSILON", "Adam"]

# Decays β₁ and β₂ of the moments, and ε.
BETAS = (0.9, 0.99)
EPSILON = 1e-8


class Adam:
    """Minimises a function by its gradients: Adam with a learning rate for each step.

    With gradient g of step t and element-wise operations,

        m ← β₁ m + (1 − β₁) g,    v ← β₂ v + (1 − β₂) g²,
        θ ← θ − rate · m / (1 − β₁ᵗ) / (√(v / (1 − β₂ᵗ)) + ε).

    Attributes:
        state: "step" (t, a scalar), "exp_avg" (m) and "exp_avg_sq" (v) of each parameter that had
            a gradient, by parameter.
    """

    def __init__(self, parameters: Iterable[Tensor], betas: tuple[float, float] = BETAS) -> None:
        """Parameters θ, updated in place, and the decays β₁ and β₂."""
        self._parameters = list(parameters)
        self._betas = betas
        self.state: dict[Tensor, dict[str, Tensor]] = {}

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter in self._parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Update the parameters that have a gradient.

        Args:
            rate: the learning rate of this step.
        """
        first, second = self._betas
        for group in self._groups():
            states = [self._state_of(parameter) for parameter in group]
            steps = [state["step"] for state in states]
            torch._foreach_add_(steps, 1)
            torch._fused_adam_(  # one pass over all parameters
                group,
                [parameter.grad for parameter in group if parameter.grad is not None],
                [state["exp_avg"] for state in states],
                [state["exp_avg_sq"] for state in states],
                [],
                steps,
                lr=rate,
                beta1=first,
                beta2=second,
                weight_decay=0.0,
                eps=EPSILON,
                amsgrad=False,
                maximize=False,
            )

    def _groups(self) -> Iterable[list[Tensor]]:
        """The parameters with a gradient, those of a device and precision together."""
        groups: dict[tuple[torch.device, torch.dtype], list[Tensor]] = {}
        for parameter in self._parameters:
            if parameter.grad is not None:
                groups.setdefault((parameter.device, parameter.dtype), []).append(parameter)
        return groups.values()

    def _state_of(self, parameter: Tensor) -> dict[str, Tensor]:
        """The state of a parameter; of the first step zeros."""
        if parameter not in self.state:
            self.state[parameter] = {
                "step": torch.zeros((), dtype=torch.float32, device=parameter.device),
                "exp_avg": torch.zeros_like(parameter, requires_grad=False),
                "exp_avg_sq": torch.zeros_like(parameter, requires_grad=False),
            }
        return self.state[parameter]
