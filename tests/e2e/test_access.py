"""Pages that everybody can use: what axe-core says of each of them, light and dark."""

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from lvmcore.data import load_sample
from tests.e2e.dashboard import SCHEMES, Dashboard

PATHS = (
    "",
    "fit",
    "latent",
    "generate",
    "compare",
    "predict",
    "new_rows",
    "impute",
    "export",
    "runs",
    "papers",
    "guide",
)
pytestmark = pytest.mark.timeout(600)

#: All rules of the standards WCAG 2.0 to 2.2 at the levels A and AA, and all best practices.
#: Left out are experimental rules, which no standard holds, and those of level AAA.
RULES = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    "rules": {"target-size": {"enabled": True}},  # of WCAG 2.2, which axe-core leaves out otherwise
}
#: What is drawn anew is pale for a moment: only what stays through so many looks counts.
LOOKS, BETWEEN_MS = 6, 700


def violations(page: Page) -> set[str]:
    """What axe-core finds on the page, be it minor or critical: rule and where."""
    found: list[dict[str, Any]] = Axe().run(page, options=RULES).response["violations"]
    return {
        f"{rule['impact']} {rule['id']}: {rule['help']}: {node['html'][:160]}"
        for rule in found
        for node in rule["nodes"]
    }


def lasting_violations(page: Page) -> set[str]:
    """Violations that are still there after some looks."""
    found = violations(page)
    for _ in range(LOOKS - 1):
        if not found:
            break
        page.wait_for_timeout(BETWEEN_MS)
        found &= violations(page)
    return found


def _of_all(dashboard: Dashboard, run: str | None) -> list[str]:
    page, found = dashboard.page, []
    for path in PATHS:
        dashboard.open(path, run=run)
        dashboard.settled()
        for scheme in SCHEMES:
            dashboard.in_scheme(scheme)
            found += [f"{path or 'data'}, {scheme}: {one}" for one in lasting_violations(page)]
    return found


def test_no_page_keeps_anybody_out(dashboard: Dashboard) -> None:
    assert _of_all(dashboard, None) == []


def test_no_page_of_a_fit_keeps_anybody_out(dashboard: Dashboard) -> None:
    run = dashboard.fitted(load_sample("iris").dataset(label="species"), "ldgd", max_iter=40)
    assert _of_all(dashboard, run) == []
