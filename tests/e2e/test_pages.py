"""Every page, light and dark, before and after a fit: drawn without a word from the browser."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.e2e.dashboard import SCHEMES, Dashboard


def test_pages_are_drawn(dashboard: Dashboard, tmp_path: Path) -> None:
    page = dashboard.page

    def drawn(name: str) -> None:
        dashboard.settled()
        for scheme in SCHEMES:
            dashboard.in_scheme(scheme)
            dashboard.no_traceback()
            picture = tmp_path / f"{name}, {scheme}.png"
            page.screenshot(path=picture)
            assert picture.stat().st_size > 10_000

    dashboard.open("latent")
    dashboard.figure("Illustration of a map, not of your data")
    drawn("latent empty")
    dashboard.open("new_rows")
    dashboard.says("After a fit this page takes another table")
    drawn("new rows empty")
    dashboard.open("impute")
    dashboard.says("After a fit to a table with missing cells")
    drawn("missing cells empty")
    dashboard.open("compare")
    expect(dashboard.button("Compare PCA and t-SNE on the sample")).to_be_visible()
    drawn("compare empty")
    dashboard.open("runs")
    dashboard.says("This page lists all runs")
    drawn("runs empty")
    dashboard.open()
    expect(page.get_by_test_id("stDataFrame")).to_have_count(2)
    drawn("data")
    dashboard.to_fit()
    drawn("fit empty")

    dashboard.choose("pca")
    dashboard.says("Settings of PCA")
    run = dashboard.start()
    dashboard.says("done in")
    drawn("fit done")
    dashboard.explore()
    drawn("latent")
    assert dashboard.map()["rows"]

    dashboard.open("new_rows", run=run)
    dashboard.says("The file needs the columns of the fit")
    drawn("new rows")
    dashboard.open("impute", run=run)
    dashboard.says("No cell is missing")
    drawn("missing cells")
    dashboard.open("compare", run=run)
    for name in ("PCA", "t-SNE", "UMAP"):
        dashboard.map(f"Map of {name}")
    drawn("compare")
    dashboard.open("runs", run=run)
    dashboard.has_rows(page.get_by_test_id("stDataFrame").first, 3)
    dashboard.tick(0)
    expect(dashboard.way("Open the map")).to_be_visible()
    drawn("runs")

    # A link to a run that is not there, and the run's data.
    dashboard.open(run=run)
    dashboard.says("These are the data of the open run.")
    drawn("data of a run")
    dashboard.open("latent", run="0" * 32)
    dashboard.says("The run in the address does not exist. It may have been deleted.")
    drawn("latent without its run")


def test_tables_offer_only_the_pages_own_downloads(dashboard: Dashboard) -> None:
    """What Streamlit's own download writes, a spreadsheet may run as formulas."""
    dashboard.open()
    dashboard.settled()
    dashboard.page.get_by_test_id("stDataFrame").first.hover()
    expect(dashboard.page.get_by_role("button", name="Fullscreen").first).to_be_visible()
    unsafe = dashboard.page.locator('button[aria-label^="Download as CSV"]')
    expect(unsafe.first).to_be_attached()
    expect(unsafe.filter(visible=True)).to_have_count(0)


@pytest.mark.walk
def test_a_first_visit_ends_at_a_map(dashboard: Dashboard) -> None:
    """The button of the empty Latent page fits the sample; the run is open on every page."""
    page = dashboard.page
    dashboard.open("latent")
    dashboard.button("Fit the sample").click()
    dashboard.says("LDGD on wine")
    dashboard.explore()
    run = dashboard.run()
    for name in ("Data", "Fit", "Runs", "Latent"):
        page.get_by_test_id("stSidebarNav").get_by_role("link", name=name).click()
        expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()
        expect(page.get_by_test_id("stSidebar").get_by_text("LDGD on wine")).to_be_visible()
        page.wait_for_url(f"**run={run}")
    dashboard.map()
    dashboard.no_traceback()
