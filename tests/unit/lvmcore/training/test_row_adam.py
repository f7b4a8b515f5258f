"""Adam by row takes the steps of torch's Adam for each row alone, and leaves the others."""

import torch

from lvmcore.training.row_adam import RowAdam


def start(n: int = 5) -> torch.Tensor:
    return torch.randn(n, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def loss(rows: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Another curvature for each row; its slope does not depend on the other rows."""
    return ((rows[:, None] + 1.0) * values.square()).sum() + values.sin().sum()


def test_every_row_has_the_steps_of_its_own_adam() -> None:
    rows = RowAdam(start())
    alone = [torch.nn.Parameter(row.clone()) for row in start()]
    reference = [torch.optim.Adam([row], lr=1.0, betas=(0.9, 0.99)) for row in alone]
    generator = torch.Generator().manual_seed(1)
    for step in range(30):
        rate = 0.05 * 0.95**step
        some = torch.randperm(5, generator=generator)[:2]
        before = rows.values.clone()
        loss(some, rows.take(some)).backward()
        rows.step(rate)
        others = [n for n in range(5) if n not in some]
        assert torch.equal(rows.values[others], before[others])
        for n in some.tolist():
            reference[n].zero_grad()
            loss(torch.tensor([n]), alone[n][None]).backward()
            reference[n].param_groups[0]["lr"] = rate
            reference[n].step()
    torch.testing.assert_close(rows.values, torch.stack(list(alone)).detach(), rtol=1e-10, atol=0)


def test_rows_without_a_gradient_stay() -> None:
    rows, known = RowAdam(start()), start()
    rows.take(torch.tensor([0, 1]))
    rows.step(0.1)  # no backward pass reached them
    with torch.no_grad():
        assert not rows.take(torch.tensor([2])).requires_grad
    rows.step(0.1)
    assert torch.equal(rows.values, known)


def test_a_copied_row_begins_anew() -> None:
    rows, everywhere = RowAdam(start()), torch.arange(5)
    for _ in range(3):
        loss(everywhere, rows.take(everywhere)).backward()
        rows.step(0.1)
    before = rows.values.clone()
    rows.copy(torch.tensor([0, 3]), torch.tensor([4, 3]))
    assert torch.equal(rows.values[0], before[4])
    assert torch.equal(rows.values[1:], before[1:])
    assert rows.steps[:, 0].tolist() == [0, 3, 3, 3, 3]
    assert not rows.first[0].any()
    assert not rows.second[0].any()
    assert rows.first[3].all()


def test_its_buffers_are_its_state() -> None:
    rows, again, everywhere = RowAdam(start()), RowAdam(torch.zeros(5, 3).double()), torch.arange(5)
    for copied in (False, True):
        if copied:
            again.load_state_dict(rows.state_dict())
        for _ in range(3):
            for one in (rows, again) if copied else (rows,):
                loss(everywhere, one.take(everywhere)).backward()
                one.step(0.1)
    assert torch.equal(rows.values, again.values)
