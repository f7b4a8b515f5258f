"""Another type for a column, chosen in the table of columns."""

from playwright.sync_api import expect

from tests.e2e.dashboard import Dashboard


def _choose_type(dashboard: Dashboard, row: int, kind: str) -> None:
    """Choose a type in the third column of the editor."""
    page = dashboard.page
    dashboard.settled()
    expect(page.get_by_test_id("stDataFrame")).to_have_count(2)  # the preview and the editor
    dashboard.choose_in_cell(row, 310, kind)


def test_a_column_gets_another_type(dashboard: Dashboard) -> None:
    page = dashboard.page
    dashboard.open()
    dashboard.sample("Iris (150 rows)")
    dashboard.says("150 rows, 4 features, label with 3 classes")
    _choose_type(dashboard, 1, "category")
    dashboard.says("150 rows, 3 features, label with 3 classes")
    dashboard.says("Not used: sepal width (cm) (category, not ticked).")
    editor = page.get_by_test_id("stDataFrame").last
    expect(editor.get_by_test_id("glide-cell-2-1")).to_have_text("category")

    _choose_type(dashboard, 4, "numeric")
    dashboard.says("Column 'species' cannot be numeric: its cells are not numbers")
    dashboard.says("150 rows, 3 features, label with 3 classes")

    _choose_type(dashboard, 1, "numeric")
    dashboard.says("150 rows, 4 features, label with 3 classes")
    expect(page.get_by_role("alert")).to_have_count(0)
