"""The pictures of README and the documentation: `python -m tests.e2e.pictures`, `make pictures`.

A dashboard with an empty home of its own is looked at in a real browser, as somebody meets it who
follows the tour. Seeds are fixed, so that the maps are the same each time; of a fit under way the
step at which it is caught is not.
"""

import argparse
import io
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from tests.e2e import browser as chromium
from tests.e2e.dashboard import PATIENCE_MS, Dashboard
from tests.e2e.server import running

__all__ = ["main"]

ASSETS = Path(__file__).parents[2] / "assets"
WIDTH = 1280
MOST_BYTES = 250_000
#: Colours of a picture whose file is too large with all of them, the most first.
COLOURS = (256, 128, 64)
#: How often something is typed until it has been heard.
TRIES = 10
#: A page is still once so many looks at it in a row are alike.
ALIKE, EVERY_MS, PATIENCE_SECONDS = 3, 400, 30.0
#: Steps of the fit to the digits, and where it is caught.
STEPS, CAUGHT = 120, 30
# Nothing has the focus, and the page is at its top.
_TO_THE_TOP = """() => {
  let focus = document.activeElement;
  while (focus?.shadowRoot?.activeElement) focus = focus.shadowRoot.activeElement;
  focus?.blur();
  document.querySelector('[data-testid="stMain"]')?.scrollTo(0, 0);
}"""


class Pictures:
    """Takes pictures of a dashboard.

    Attributes:
        dashboard: a page of it.
        folder: where the pictures go.
        taken: their files.
    """

    def __init__(self, dashboard: Dashboard, folder: Path) -> None:
        self.dashboard, self.folder = dashboard, folder
        self.taken: list[Path] = []

    def take(self, name: str, height: int, *, still: bool = True, page: Page | None = None) -> None:
        """Take a picture of the page's top, once it is still where it will be.

        Args:
            name: of its file, without the ending.
            height: of the picture, in pixels.
            still: whether to wait until nothing moves any more.
            page: what to look at; the dashboard's page by default.
        """
        page = page or self.dashboard.page
        page.set_viewport_size({"width": WIDTH, "height": height})
        page.mouse.move(WIDTH - 2, 2)  # over nothing that would light up
        page.evaluate(_TO_THE_TOP)
        path = self.folder / f"{name}.png"
        path.write_bytes(small(_still(page) if still else page.screenshot()))
        self.taken.append(path)
        print(f"{path} ({path.stat().st_size // 1000} kB)", flush=True)

    # ---- the pages ---------------------------------------------------------------------------

    def data(self) -> None:
        """A table: what was detected, and what its columns are used for."""
        self.dashboard.open()
        self.dashboard.sample("Wine (178 rows)")
        self.dashboard.settled()
        self.take("data", 1060)

    def wine(self) -> str:
        """Fit LDGD to the wines.

        Returns:
            The run's id.
        """
        self.dashboard.to_fit()
        run = self.dashboard.start()
        self.dashboard.says("done in")
        return run

    def latent(self, run: str) -> None:
        """A map with a selection and a point."""
        page = self.dashboard.page
        self.dashboard.open("latent", run=run)
        self.dashboard.settled()
        self.dashboard.tab("Selection")
        self.dashboard.button("Find rows").click()
        self._choose("Column", "cultivar")
        field, found = page.get_by_role("textbox", name="Text"), "Select 48 rows"
        for _ in range(TRIES):  # what is typed while the page is drawn anew is lost
            field.fill("class_2")
            field.press("Enter")
            page.wait_for_timeout(EVERY_MS)
            if self.dashboard.button(found).count():
                break
        self.dashboard.button(found).click()
        self.dashboard.says("Contrast to the other rows")
        page.keyboard.press("Escape")
        self.dashboard.tab("Point")
        self._choose("Row", "100")
        self.dashboard.settled()
        self.take("latent", 1000)

    def compare(self, run: str) -> None:
        """Four maps side by side, and the trails from one to another."""
        page = self.dashboard.page
        self.dashboard.open("compare", run=run)
        self.dashboard.map("Map of UMAP")
        self.dashboard.says("From one map to another")
        self.dashboard.settled()
        slider = page.get_by_role("slider", name="Position between")
        slider.focus()
        for _ in range(3):
            page.keyboard.press("PageUp")
        self.take("compare", 1500)

    def report(self, run: str, browser: Browser) -> None:
        """The report of a run, opened from its file."""
        self.dashboard.open("latent", run=run)
        self.dashboard.settled()
        path = self.dashboard.server.home / "report.html"
        path.write_bytes(self.dashboard.download("Report"))
        page = browser.new_page(color_scheme="light")
        page.goto(path.as_uri())
        self.take("report", 1100, page=page)
        page.close()

    def fit(self) -> str:
        """A fit under way, to images.

        Returns:
            The run's id, once it has ended.
        """
        self.dashboard.open()
        self.dashboard.sample("Digits (1797 rows)")
        self.dashboard.to_fit()
        self.dashboard.number("Steps at most", STEPS)
        run = self.dashboard.start()
        self.dashboard.page.set_viewport_size({"width": WIDTH, "height": 800})
        self.dashboard.passes(CAUGHT)
        self.take("fit", 800, still=False)
        self.dashboard.says("done in")
        return run

    def predict(self) -> None:
        """A column of the wines learned, and predicted for rows that the fit has not seen."""
        self.dashboard.open()
        self.dashboard.sample("Wine (178 rows)")
        self.dashboard.to_fit()
        self._choose("Target", "flavanoids")
        self.dashboard.says("Recommended here: 'flavanoids' is a number")
        self.dashboard.settled()
        self.dashboard.start()
        self.dashboard.says("done in")
        self.dashboard.follow("See the predictions")
        self.dashboard.settled()
        self.take("predict", 845)

    def generate(self, run: str) -> None:
        """A path from one class to another, as images."""
        self.dashboard.open("generate", run=run)
        self.dashboard.settled()
        self.take("generate", 1400)

    def _choose(self, label: str, option: str) -> None:
        """Choose in a list, by its label."""
        page = self.dashboard.page
        page.get_by_role("combobox", name=label, exact=True).click()
        page.keyboard.type(option)
        page.get_by_role("option", name=option).first.click()
        self.dashboard.settled()


def _still(page: Page) -> bytes:
    """A picture of a page that does not change any more."""
    page.evaluate("async () => { await document.fonts.ready; }")
    deadline = time.monotonic() + PATIENCE_SECONDS
    seen: list[bytes] = []
    while time.monotonic() < deadline:
        seen.append(page.screenshot())
        if len(seen) >= ALIKE and len(set(seen[-ALIKE:])) == 1:
            break
        page.wait_for_timeout(EVERY_MS)
    return seen[-1]


def small(picture: bytes) -> bytes:
    """A picture as a PNG, with a palette where it is too large otherwise.

    Raises:
        ValueError: it is too large with the smallest palette.
    """
    whole = Image.open(io.BytesIO(picture)).convert("RGB")
    for colours in (None, *COLOURS):
        content = io.BytesIO()
        found = whole
        if colours is not None:  # the colours of small things, such as a legend, are kept too
            found = whole.quantize(colours, Image.Quantize.MAXCOVERAGE, kmeans=3)
        found.save(content, "PNG", optimize=True)
        if content.tell() <= MOST_BYTES:
            return content.getvalue()
    raise ValueError(f"A picture takes {content.tell()} bytes, more than {MOST_BYTES}.")


def main(arguments: list[str] | None = None) -> int:
    """Take the pictures.

    Returns:
        The exit status: 1 where there is no browser.
    """
    parser = argparse.ArgumentParser(description="Take the pictures of README and getting started.")
    parser.add_argument("--out", type=Path, default=ASSETS, help="the folder that they go to")
    chosen = parser.parse_args(arguments)
    program = chromium.find()
    if program is None:
        print("No Chromium was found: `python -m tests.e2e.browser` gets one.", file=sys.stderr)
        return 1
    chosen.out.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        running(Path(folder)) as server,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(
            executable_path=program, args=chromium.launch_arguments()
        )
        context = browser.new_context(
            viewport={"width": WIDTH, "height": 1600}, color_scheme="light", accept_downloads=True
        )
        context.set_default_timeout(PATIENCE_MS)
        pictures = Pictures(Dashboard(context.new_page(), server), chosen.out)
        pictures.data()
        wine = pictures.wine()
        pictures.latent(wine)
        pictures.compare(wine)
        pictures.report(wine, browser)
        digits = pictures.fit()
        pictures.generate(digits)
        pictures.predict()
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
