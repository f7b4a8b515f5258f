"""Make gpy.json: what GPy 1.15 computes for a Bayesian GPLVM on a fixed, small input.

Run in an environment that has GPy (the ``dev`` extra)::

    python tests/equivalence/reference/make_gpy.py

GPy's definitions are ours: lengthscales divide differences, the noise is a variance, and its
``.gradient`` is that of the bound with respect to the natural parameter, before any transformation.
Its jitter is 1e-8 absolute and ours 1e-8 relative to the kernel's variance: the inducing inputs are
spread so widely that neither shows in the first eight digits.
"""

import json
from pathlib import Path

import GPy
import numpy as np

rng = np.random.default_rng(7)
N, D, Q, M = 12, 4, 2, 5
mean = rng.normal(size=(N, Q)).round(3)
variance = rng.uniform(0.05, 0.6, size=(N, Q)).round(3)
Z = np.array([[-1.6, -0.4], [-0.5, 1.3], [0.2, -1.5], [1.0, 0.5], [2.1, -0.6]])
Y = np.column_stack([np.sin(mean[:, 0]), mean[:, 1], np.cos(mean.sum(1)), rng.normal(size=N)])
Y = (Y + 0.2 * rng.normal(size=(N, D))).round(3)
lengthscales, kernel_variance, noise = np.array([0.9, 1.4]), 1.3, 0.15

model = GPy.models.BayesianGPLVM(
    Y,
    Q,
    X=mean.copy(),
    X_variance=variance.copy(),
    Z=Z.copy(),
    num_inducing=M,
    kernel=GPy.kern.RBF(Q, variance=kernel_variance, lengthscale=lengthscales, ARD=True),
    likelihood=GPy.likelihoods.Gaussian(variance=noise),
)
with_kl = float(np.squeeze(model.log_likelihood()))
kl = float(np.squeeze(model.variational_prior.KL_divergence(model.X)))
reference = {
    "made_by": f"GPy {GPy.__version__}",
    "input": {
        "mean": mean.tolist(),
        "variance": variance.tolist(),
        "Z": Z.tolist(),
        "Y": Y.tolist(),
        "lengthscales": lengthscales.tolist(),
        "kernel_variance": kernel_variance,
        "noise": noise,
    },
    "psi0": float(model.kern.psi0(model.Z, model.X).sum()),
    "psi1": model.kern.psi1(model.Z, model.X).tolist(),
    "psi2": model.kern.psi2(model.Z, model.X).tolist(),
    "kl": kl,
    "bound": with_kl + kl,
    "bound_less_kl": with_kl,
    "gradient": {
        "mean": model.X.mean.gradient.tolist(),
        "variance": model.X.variance.gradient.tolist(),
        "Z": model.Z.gradient.tolist(),
        "lengthscales": model.kern.lengthscale.gradient.tolist(),
        "kernel_variance": float(model.kern.variance.gradient.item()),
        "noise": float(model.likelihood.variance.gradient.item()),
    },
}
target = Path(__file__).with_name("gpy.json")
target.write_text(json.dumps(reference, indent=1) + "\n")
print(f"wrote {target.name}: bound less KL {with_kl:.6f}")
