"""The page by keyboard alone, for screen readers, and in the dark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kapiserver.testing import TestServer
from tests.ui.conftest import WEB, OpenPage, show, timeline_marks

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
from playwright.sync_api import expect

pytestmark = pytest.mark.slow

AXE = Path(__file__).parent.parent.parent / "ui/node_modules/axe-core/axe.min.js"


def press_until(page: Page, key: str, script: str, limit: int = 150) -> None:
    """Press a key until an expression about the focused element `e` is true."""
    for _ in range(limit):
        if page.evaluate(
            f"(() => {{ const e = document.activeElement; return Boolean({script}); }})()"
        ):
            return
        page.keyboard.press(key)
    raise AssertionError(f"{key} has not led to {script}")


def test_by_keyboard_alone(shop: TestServer, open_page: OpenPage) -> None:
    """From the kinds to a table, to an object, its tabs and a mark of the timeline without a
    mouse."""
    page = open_page(shop)
    expect(page.get_by_role("grid")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    press_until(page, "Tab", "e.getAttribute('aria-label') === 'Find a kind'")
    page.keyboard.type("replicas")
    press_until(page, "Tab", "e.textContent === 'ReplicaSet'")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="ReplicaSet")).to_be_visible()
    expect(page.get_by_role("grid").get_by_role("row")).to_have_count(3)
    press_until(page, "Tab", "e.getAttribute('role') === 'row'")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("tab", name="YAML")).to_be_visible()
    press_until(page, "Tab", "e.getAttribute('role') === 'tab'")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="History")).to_be_focused()
    expect(page.get_by_role("tabpanel")).to_contain_text("created")
    page.keyboard.press("Home")
    expect(page.get_by_role("tab", name="YAML")).to_be_focused()
    press_until(page, "Tab", "e.tagName === 'BUTTON' && e.textContent === 'Edit'")
    page.keyboard.press("Enter")
    expect(page.get_by_role("textbox", name="YAML to edit")).to_be_visible()
    press_until(page, "Tab", "e.shadowRoot")
    press_until(page, "Tab", "!e.shadowRoot")  # the editor does not keep the focus
    show(page, "#/timeline?namespace=default")
    timeline_marks(page)
    press_until(page, "Tab", "e.dataset.index")
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("region", name="Chosen mark")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_rules_of_accessibility(shop: TestServer, open_page: OpenPage, scheme: str) -> None:
    """axe finds no violation of WCAG 2.2 AA on any view: names, roles, contrast in both schemes."""
    if not AXE.exists():
        pytest.skip("needs axe-core: run npm ci in ui/")
    page = open_page(shop, color_scheme=scheme, bypass_csp=True)
    violations = []
    places = ["#/kinds/-/pods", "#/kinds/-/jobs", "#/timeline?namespace=default", "#/server"]
    places += ["#/simulation", "#/new/-/configmaps", "#/objects/-/secrets/default/login"]
    places += [
        f"{WEB}/{tab}" for tab in ("yaml", "history", "fields", "owners", "events", "related")
    ]
    for place in places:
        show(page, place)
        page.wait_for_timeout(1500)
        violations += [f"{place}: {problem}" for problem in axe(page)]
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    violations += axe(page)
    assert violations == []


def axe(page: Page) -> list[str]:
    """Return the violations that axe finds in what the page shows."""
    page.evaluate(AXE.read_text())
    tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
    result = page.evaluate("tags => axe.run(document, {runOnly: tags})", tags)
    return [
        f"{violation['id']}: {node['html'][:160]}"
        for violation in result["violations"]
        for node in violation["nodes"][:3]
    ]
