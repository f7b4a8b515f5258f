"""Pages that everybody can use: what axe-core says of each of them, light and dark."""

from typing import Any

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
SERIOUS = ("serious", "critical")
#: Rules that must hold though axe-core calls them less than serious.
ALSO = ("heading-order",)
#: What is drawn anew is pale for a moment: only what stays through so many looks counts.
LOOKS, BETWEEN_MS = 6, 700


def violations(page: Page) -> set[str]:
    """What axe-core finds that keeps somebody from using the page: rule and where."""
    found: list[dict[str, Any]] = Axe().run(page).response["violations"]
    return {
        f"{rule['impact']} {rule['id']}: {rule['help']}: {node['html'][:160]}"
        for rule in found
        if rule["impact"] in SERIOUS or rule["id"] in ALSO
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
    run = dashboard.fitted(load_sample("iris").dataset(label="species"), "ldgd", max_iter=40)
    assert _of_all(dashboard, run) == []
