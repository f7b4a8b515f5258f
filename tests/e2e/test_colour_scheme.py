"""A system that changes between light and dark while a page is open."""

import re

from playwright.sync_api import expect

from lvmcore.data import load_sample
from tests.e2e.dashboard import Dashboard

INK = {"light": re.compile(r"rgb\((\d|[1-9]\d), "), "dark": re.compile(r"rgb\((1[6-9]\d|2\d\d), ")}


def test_a_map_and_its_legend_follow_the_system_again_and_again(dashboard: Dashboard) -> None:
    run = dashboard.fitted(load_sample("iris").dataset(label="species"), "pca")
    dashboard.open("latent", run=run)
    dashboard.map()
    entry = dashboard.page.locator(".legend .entry").first
    for scheme in ("dark", "light", "dark"):
        dashboard.in_scheme(scheme)
        expect(entry).to_have_css("color", INK[scheme])
