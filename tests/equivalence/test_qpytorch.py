"""One block of q-exponential numbers against qpytorch 0.2, and where that is wrong."""

import json
from pathlib import Path

import pytest
import torch

from lvmcore.qep.distribution import QExponential

REFERENCE = json.loads(
    Path(__file__).with_name("reference").joinpath("qpytorch.json").read_text(encoding="utf-8")
)
GIVEN = {
    name: torch.tensor(values, dtype=torch.float64) for name, values in REFERENCE["input"].items()
}


def block(q: str) -> QExponential:
    return QExponential.from_matrix(GIVEN["location"], GIVEN["C"], float(q))


@pytest.mark.parametrize("q", REFERENCE["found"])
def test_densities_agree(q: str) -> None:
    wanted = torch.tensor(REFERENCE["found"][q]["log_prob"], dtype=torch.float64)
    torch.testing.assert_close(block(q).log_prob(GIVEN["points"]), wanted, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("q", REFERENCE["found"])
def test_its_entropy_is_right_at_two_alone(q: str) -> None:
    """Ours is the mean of −log p of draws; theirs lies above or below it for every other q."""
    ours, theirs = block(q), REFERENCE["found"][q]["entropy"]
    logs = -ours.log_prob(ours.draw(200_000, torch.Generator().manual_seed(0)))
    error = 5 * float(logs.std()) / 200_000**0.5
    assert float(ours.entropy()) == pytest.approx(float(logs.mean()), abs=error)
    if q == "2.0":
        assert theirs == pytest.approx(float(ours.entropy()), abs=1e-8)
    else:
        assert abs(theirs - float(logs.mean())) > 10 * error
