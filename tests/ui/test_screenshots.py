"""Pictures of every view for docs/how-to/page.md: `pytest tests/ui/test_screenshots.py` makes them.

They are written to the folder of the environment variable KAPISERVER_SCREENSHOTS (`make
screenshots` sets it), else to a temporary one, so that a run of all tests changes no file.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kapiserver.testing import TestServer
from tests.ui.conftest import DEPLOYMENTS, WEB, Api, OpenPage, deployment, show, timeline_marks

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
from playwright.sync_api import expect

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent
SIZE = {"width": 1200, "height": 720}
NAMES = {
    "table",
    "yaml",
    "history",
    "fields",
    "owners",
    "events",
    "related",
    "edit",
    "timeline",
    "server",
    "simulation",
    "secret",
    "sign-in",
    "recording",
}


def take(page: Page, folder: Path, name: str) -> None:
    """Write a picture, without a blinking cursor and what the mouse touches."""
    page.mouse.move(0, 0)
    path = folder / f"{name}.png"
    page.screenshot(path=path, animations="disabled", caret="hide")
    assert path.stat().st_size > 10_000
    assert name in NAMES


def test_views(shop: TestServer, api: Api, open_page: OpenPage, folder: Path) -> None:
    """Each view shows what it is for."""
    for name, replicas in (("orders", 4), ("payments", 2), ("search", 5)):
        api.create(DEPLOYMENTS, deployment(name, replicas))
    shop.clock.advance("5s")
    page = open_page(shop, "#/kinds/-/pods", viewport=SIZE)
    expect(page.get_by_role("grid")).to_contain_text("search")
    take(page, folder, "table")
    panel = page.get_by_role("tabpanel")
    for tab, text in (
        ("yaml", "nginx:1.30"),
        ("history", "nginx:1.29"),
        ("fields", "kubectl"),
        ("owners", "ReplicaSet"),
        ("events", "ScalingReplicaSet"),
        ("related", "Selects"),
    ):
        show(page, f"{WEB}/{tab}")
        expect(panel).to_contain_text(text)
        take(page, folder, tab)
    show(page, f"{WEB}/yaml")
    page.get_by_role("button", name="Edit").click()
    page.get_by_role("textbox", name="YAML to edit").get_by_text("3", exact=True).first.dblclick()
    page.keyboard.type("5")
    page.get_by_role("button", name="Check by dry run").click()
    expect(page.get_by_role("region", name="Difference")).to_contain_text("replicas")
    take(page, folder, "edit")
    show(page, "#/objects/-/secrets/default/login")
    expect(panel).to_contain_text("••••••")
    take(page, folder, "secret")
    show(page, "#/timeline?namespace=default")
    marks = timeline_marks(page)
    created = marks.get_by_role("button", name=re.compile("^ReplicaSet default.* created"))
    expect(created).to_have_count(5)
    created.first.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="Chosen mark")).to_contain_text("Led to")
    take(page, folder, "timeline")


def test_simulation_and_server(
    shop: TestServer, api: Api, open_page: OpenPage, folder: Path
) -> None:
    """The map of the simulation, and plots with some history."""
    page = open_page(shop, "#/simulation", viewport=SIZE)
    pod = page.get_by_role("button", name=re.compile("^default.*: running"))
    pod.first.click()
    page.get_by_role("button", name="Fail this pod").click()
    page.get_by_role("button", name="+1 min", exact=True).click()
    expect(page.locator("button.pod.failed")).to_have_count(1)
    page.get_by_role("button", name=re.compile("^simulated-3")).click()
    page.get_by_role("button", name="Stop its kubelet").click()
    expect(page.get_by_role("button", name="Start its kubelet")).to_be_visible()
    take(page, folder, "simulation")
    page.get_by_role("button", name="Start its kubelet").click()
    show(page, "#/server")
    points = page.get_by_role("figure", name="Memory").get_by_role("definition")
    expect(points).to_contain_text("MiB")
    for _ in range(20):
        api.get("/api/v1/pods")
        page.wait_for_timeout(500)  # plots need time on their axis
    take(page, folder, "server")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    take(page, folder, "sign-in")


def test_page_shows_the_pictures() -> None:
    """Every picture that the how-to page names is made here, and is in the repository."""
    text = (ROOT / "docs/how-to/page.md").read_text()
    shown = set(re.findall(r"images/ui/([\w-]+)\.png", text))
    assert shown <= NAMES
    assert {path.stem for path in (ROOT / "docs/images/ui").glob("*.png")} == shown
