"""Make qpytorch.json: what qpytorch 0.2 says of one block of q-exponential numbers.

It needs numpy < 2 and gpytorch 1.14.3, so in an environment of its own::

    pip install "numpy<2" gpytorch==1.14.3 qpytorch==0.2
    python tests/equivalence/reference/make_qpytorch.py

Its log-density of a flat block is the distribution's. Its entropy is too, only at q = 2: below, it
takes the entropy of χ² for E log χ², which the test that reads this file says by its figures.
"""

import json
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from qpytorch.distributions import MultivariateQExponential

rng = np.random.default_rng(3)
N = 4
A = rng.normal(size=(N, N)).round(3)
C = (A @ A.T + 0.5 * np.eye(N)).round(6)
location = rng.normal(size=N).round(3)
points = (location + 1.5 * rng.normal(size=(6, N))).round(3)
found = {}
for q in (0.8, 1.0, 1.25, 1.5, 2.0):
    block = MultivariateQExponential(
        torch.tensor(location),
        torch.tensor(C),
        power=torch.tensor(q, dtype=torch.float64),
    )
    found[str(q)] = {
        "log_prob": block.log_prob(torch.tensor(points)).tolist(),
        "entropy": float(block.entropy()),
    }
reference = {
    "made_by": f"qpytorch {version('qpytorch')}",
    "input": {"location": location.tolist(), "C": C.tolist(), "points": points.tolist()},
    "found": found,
}
path = Path(__file__).with_name("qpytorch.json")
path.write_text(json.dumps(reference, indent=1) + "\n", encoding="utf-8")
