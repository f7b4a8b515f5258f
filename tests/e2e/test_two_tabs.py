"""What happens beside the one page that a person looks at: a second tab, a file that vanishes."""

from pathlib import Path

from playwright.sync_api import Route, expect

from lvmcore.runs import Store
from tests.e2e.dashboard import Dashboard

STEPS = 20_000


def _fit(dashboard: Dashboard, sample: str, rows: str) -> str:
    dashboard.open()
    dashboard.sample(sample)
    dashboard.says(rows)
    dashboard.to_fit()
    dashboard.number("Steps at most", STEPS)
    return dashboard.start()


def test_two_tabs_fit_at_once_and_each_has_its_own_run(dashboard: Dashboard) -> None:
    store = Store(dashboard.server.home)
    other = Dashboard(dashboard.page.context.new_page(), dashboard.server)
    first = _fit(dashboard, "Iris (150 rows)", "150 rows, 4 features")
    second = _fit(other, "Wine (178 rows)", "178 rows, 13 features")
    assert first != second
    assert store.get(first).spec.dataset_name != store.get(second).spec.dataset_name

    expect(dashboard.page.get_by_text("LDGD on iris").first).to_be_visible()
    dashboard.first_point()
    dashboard.button("Cancel").click()
    dashboard.says("cancelled in")
    assert store.get(first).status == "cancelled"

    expect(other.page.get_by_text("LDGD on wine").first).to_be_visible()
    other.first_point()  # it may have waited for the first to end
    other.grows(2)
    assert store.get(second).status == "running"
    other.button("Cancel").click()
    other.says("cancelled in")
    assert dashboard.run() == first
    assert other.run() == second
    other.page.close()


def test_a_file_that_vanishes_while_it_is_uploaded_leaves_the_page_in_order(
    dashboard: Dashboard, page_errors: list[str], tmp_path: Path
) -> None:
    page, table = dashboard.page, tmp_path / "gone.csv"
    table.write_text("a,b\n" + "1,2\n3,5\n" * 1000)

    def vanish(route: Route) -> None:
        table.unlink(missing_ok=True)
        route.continue_()

    dashboard.open()
    page.route("**/upload_file/**", vanish)
    dashboard.sample("Wine (178 rows)")
    dashboard.says("178 rows, 13 features")
    dashboard.upload(table)
    uploader = page.get_by_test_id("stFileUploader")
    expect(uploader.get_by_text("gone.csv")).to_be_visible()
    expect(uploader.get_by_test_id("stFileChipIconError")).to_be_visible()
    dashboard.says("178 rows, 13 features")  # what was there before is still there
    expect(dashboard.way("Fit a model")).to_be_visible()
    for _ in range(100):  # the browser and Streamlit each report it, in either order
        if len(page_errors) == 2:
            break
        page.wait_for_timeout(100)
    first, second = sorted(page_errors)
    assert "File uploader error" in first
    assert "ERR_FILE_NOT_FOUND" in second
    page_errors.clear()
