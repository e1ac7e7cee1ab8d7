"""`kapiserver ui RECORDING`: a failed test's recording with a slider over its time."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kapiserver.testing import TestServer
from tests.ui.conftest import WEB, Api, OpenPage, deploy_shop, show, timeline_marks
from tests.ui.test_screenshots import SIZE, take

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
from playwright.sync_api import expect

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", name="link")
def _link(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The link that `kapiserver ui` prints for the recording of a shop."""
    assert browser.is_connected()
    path = tmp_path_factory.mktemp("recording") / "shop.json.gz"
    with TestServer(simulate=True, simulate_nodes=2) as server:
        with Api(server) as api:
            deploy_shop(server, api)
        server.record(path, test="tests/test_shop.py::test_rollout")
    command = [sys.executable, "-m", "kapiserver", "ui", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()


def slider_to(page: Page, end: str) -> None:
    """Move the slider to its `Home` or its `End`."""
    page.get_by_role("slider", name="Write").press(end)


def test_recording(link: str, open_page: OpenPage, folder: Path) -> None:
    """The slider moves tables, objects and the timeline through the time of the recording; the
    test's requests are on the same axis, and nothing can be written."""
    page = open_page(None, link=link, viewport=SIZE)
    expect(page.get_by_text("tests/test_shop.py::test_rollout")).to_be_visible()
    expect(page.get_by_role("heading", name="Timeline")).to_be_visible()
    lanes = page.get_by_role("list", name="Actors")
    expect(lanes).to_contain_text("kubernetes-admin (kubectl)")
    marks = timeline_marks(page)
    request = marks.get_by_role("button", name=re.compile("^deployments.apps default create"))
    expect(request).to_have_count(1)
    request.focus()
    page.keyboard.press("Enter")
    details = page.get_by_role("region", name="Chosen mark")
    expect(details).to_contain_text("Led to")
    expect(details).to_contain_text("Deployment default/web created")
    take(page, folder, "recording")

    show(page, f"{WEB}/yaml")
    panel = page.get_by_role("tabpanel")
    expect(panel).to_contain_text("nginx:1.30")
    expect(page.get_by_role("button", name="Edit")).to_have_count(0)
    expect(page.get_by_role("button", name="Delete…")).to_have_count(0)
    slider_to(page, "Home")
    expect(page.get_by_text("This object does not exist.")).to_be_visible()
    slider_to(page, "End")
    page.get_by_role("button", name="One write back").click()
    expect(panel).to_contain_text("nginx:1.30")

    show(page, "#/kinds/-/pods?namespace=default")
    grid = page.get_by_role("grid")
    expect(grid.get_by_role("row")).to_have_count(4)
    slider_to(page, "Home")
    expect(page.get_by_text("No pods here.")).to_be_visible()
    slider_to(page, "End")
    expect(grid.get_by_role("row")).to_have_count(4)
