"""The mini-batch objective of LDGD: what the bound of all rows leaves for the fitted model."""

import numpy as np
import torch

from lvmcore import FastLDGD
from lvmcore.base.latent_variable_model import FitProblem
from lvmcore.gp.minibatch.label_terms import LabelSettings
from lvmcore.gp.minibatch.objective import MinibatchObjective
from lvmcore.preprocessing.class_labels import ClassLabels
from lvmcore.preprocessing.table_rows import InMemoryRows


def test_the_bound_leaves_the_sums_of_its_parameters() -> None:
    generator = torch.Generator().manual_seed(0)
    Y = torch.randn(40, 3, generator=generator, dtype=torch.float64)
    codes = (Y[:, 0] > 0).long().numpy()
    labels = ClassLabels(name="y", classes=np.array(["a", "b"], dtype=object), codes=codes)
    problem = FitProblem(InMemoryRows(Y), (labels,), 2, generator, None)
    settings = FastLDGD(batch_size=16, n_hidden=8)
    noise, labels = torch.full((3,), 0.1).double(), LabelSettings("probit", 1.0, "equal")
    fit = MinibatchObjective(settings, problem, noise, 5, labels)
    fit.terms()
    whole = fit.whole_table()
    assert fit.whole_table() is whole
    _equals_a_pass_over_the_rows(fit)

    with torch.no_grad():
        for parameter in fit.parameters():
            parameter.add_(0.1)
    fit.batch_terms()  # a step
    assert not torch.equal(fit.whole_table().mean, whole.mean)
    _equals_a_pass_over_the_rows(fit)


def _equals_a_pass_over_the_rows(fit: MinibatchObjective) -> None:
    whole = fit.whole_table()
    mean, variance = fit.all_rows()
    sums = fit.all_sums(mean, variance)
    torch.testing.assert_close((whole.mean, whole.variance), (mean, variance))
    torch.testing.assert_close(
        (whole.sums.psi0, whole.sums.psi1Y, whole.sums.psi2), (sums.psi0, sums.psi1Y, sums.psi2)
    )
