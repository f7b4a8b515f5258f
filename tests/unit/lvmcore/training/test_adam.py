"""Adam takes the steps of its formula, and those of torch's to the bit."""

import numpy as np
import torch
from numpy.typing import NDArray

from lvmcore.training.adam import EPSILON, Adam


def gradients(step: int, *shapes: tuple[int, ...]) -> list[NDArray[np.float64]]:
    rng = np.random.default_rng(step)
    return [rng.standard_normal(shape) * 10.0**-i for i, shape in enumerate(shapes)]


def test_steps_follow_the_formula() -> None:
    theta, m, v = np.zeros(3), np.zeros(3), np.zeros(3)
    parameter = torch.nn.Parameter(torch.zeros(3, dtype=torch.float64))
    adam = Adam([parameter], betas=(0.8, 0.95))
    for t in range(1, 30):
        (g,) = gradients(t, (3,))
        rate = 0.1 / t
        m, v = 0.8 * m + 0.2 * g, 0.95 * v + 0.05 * g**2
        theta = theta - rate * m / (1 - 0.8**t) / (np.sqrt(v / (1 - 0.95**t)) + EPSILON)
        parameter.grad = torch.from_numpy(g)
        adam.step(rate)
        np.testing.assert_allclose(parameter.detach().numpy(), theta, rtol=1e-12, atol=1e-15)


def test_steps_are_those_of_torch() -> None:
    shapes = (4, 3), (), (5,), (2, 2)
    types = [torch.float64, torch.float64, torch.float32, torch.float64]
    ours, theirs = (
        [torch.nn.Parameter(torch.ones(s, dtype=t)) for s, t in zip(shapes, types, strict=True)]
        for _ in range(2)
    )
    adam, reference = Adam(ours), torch.optim.Adam(theirs, lr=1.0, betas=(0.9, 0.99), fused=True)
    for step in range(20):
        adam.zero_grad()
        reference.zero_grad()
        reference.param_groups[0]["lr"] = rate = 0.05 * 0.9**step
        for i, g in enumerate(gradients(step, *shapes)):
            if i == 3 and step % 3:  # a parameter that is held for some steps
                continue
            ours[i].grad = torch.as_tensor(g, dtype=types[i])
            theirs[i].grad = torch.as_tensor(g, dtype=types[i])
        adam.step(rate)
        reference.step()
        for one, other in zip(ours, theirs, strict=True):
            assert torch.equal(one, other)
            for name, value in reference.state.get(other, {}).items():
                assert torch.equal(adam.state[one][name], value)


def test_a_cleared_state_begins_again() -> None:
    parameter = torch.nn.Parameter(torch.zeros(2))
    adam = Adam([parameter])
    for _ in range(3):
        parameter.grad = torch.tensor([1.0, -2.0])
        adam.step(0.1)
    adam.state.clear()
    before = parameter.detach().clone()
    parameter.grad = torch.tensor([0.5, 0.5])
    adam.step(0.1)  # the first step has the length of the rate
    torch.testing.assert_close(before - parameter.detach(), torch.full((2,), 0.1))
