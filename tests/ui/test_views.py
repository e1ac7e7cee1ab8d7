"""The views of the page in headless Chromium: what a person sees and does there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from kapiserver.testing import TestServer
from tests.ui.conftest import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    WEB,
    Api,
    OpenPage,
    deployment,
    show,
    timeline_marks,
)

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
from playwright.sync_api import expect

pytestmark = pytest.mark.slow


def test_kinds_and_tables(shop: TestServer, api: Api, open_page: OpenPage) -> None:
    """A table has the server's columns, follows changes, and is filtered and searched."""
    page = open_page(shop)
    page.get_by_label("Find a kind").fill("deploy")
    page.get_by_role("link", name="Deployment", exact=True).click()
    grid = page.get_by_role("grid")
    for column in ("Name", "Ready", "Up-to-date", "Available", "Age"):
        expect(grid.get_by_role("columnheader", name=column, exact=True)).to_be_visible()
    row = grid.get_by_role("row", name=re.compile("web"))
    expect(row).to_contain_text("3/3")
    api.create(DEPLOYMENTS, deployment("late", replicas=1))
    expect(grid).to_contain_text("late")
    page.get_by_label("Fields").fill("metadata.name=web")
    page.get_by_label("Fields").press("Enter")
    expect(grid).not_to_contain_text("late")
    page.get_by_label("Fields").fill("nonsense")
    page.get_by_label("Fields").press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("nonsense")
    page.get_by_label("Fields").fill("")
    page.get_by_label("Fields").press("Enter")
    page.get_by_label("Text").fill("lat")
    expect(grid).not_to_contain_text("web")
    page.get_by_label("Text").fill("")
    api.http.delete(f"{DEPLOYMENTS}/late")
    expect(grid).not_to_contain_text("late")
    show(page, "#/kinds/-/pods?namespace=default&labels=app%3Dweb")
    expect(page.get_by_role("status").last).to_have_text("3 objects")
    show(page, "#/kinds/-/pods?namespace=default&labels=app%3Dnone")
    expect(page.get_by_text("No pods here.")).to_be_visible()


def test_edit_with_dry_run(shop: TestServer, api: Api, open_page: OpenPage) -> None:
    """An edit is written after a dry run has shown the difference, and only then."""
    page = open_page(shop, "#/objects/-/configmaps/default/settings")
    page.get_by_role("button", name="Edit").click()
    write = page.get_by_role("button", name="Apply")
    expect(write).to_be_disabled()
    editor = page.get_by_role("textbox", name="YAML to edit")
    expect(editor).to_contain_text("EUR")
    replace_text(page, "EUR", "CHF")
    page.get_by_role("button", name="Check by dry run").click()
    difference = page.get_by_role("region", name="Difference")
    expect(difference).to_contain_text("CHF")
    assert api.get(f"{CONFIG_MAPS}/settings")["data"] == {"currency": "EUR"}
    write.click()
    expect(page.get_by_role("button", name="Edit")).to_be_visible()
    assert api.get(f"{CONFIG_MAPS}/settings")["data"] == {"currency": "CHF"}
    managers = api.get(f"{CONFIG_MAPS}/settings")["metadata"]["managedFields"]
    assert "kapiserver-ui" in {entry["manager"] for entry in managers}


def replace_text(page: Page, old: str, new: str) -> None:
    """Replace a word in the editor by the keyboard."""
    page.get_by_role("textbox", name="YAML to edit").get_by_text(old, exact=True).dblclick()
    page.keyboard.type(new)


def test_checks_and_completion(shop: TestServer, open_page: OpenPage) -> None:
    """The editor completes fields by the schema, marks unknown ones, and shows the server's
    errors."""
    page = open_page(shop, "#/new/apps/deployments")
    editor = page.get_by_role("textbox", name="YAML to edit")
    expect(editor).to_contain_text("example")
    editor.click()
    page.keyboard.press("Control+End")
    page.keyboard.type("spec:\n  repl")
    option = page.get_by_role("option", name=re.compile("^replicas"))
    expect(option).to_be_visible()
    page.keyboard.press("Enter")
    page.keyboard.type("many\n")
    mistakes = page.locator(".cm-lintRange-error")
    expect(mistakes.filter(has_text="many")).to_have_count(1)
    page.keyboard.type("colour: red")
    expect(mistakes.filter(has_text="colour")).to_have_count(1)
    page.get_by_role("button", name="Check by dry run").click()
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_role("button", name="Create")).to_be_disabled()


def test_conflicts_of_apply(shop: TestServer, api: Api, open_page: OpenPage) -> None:
    """Server-side apply names the owners of fields, and takes them when a person says so."""
    api.create(
        f"{CONFIG_MAPS}?fieldManager=owner", {"metadata": {"name": "owned"}, "data": {"a": "one"}}
    )
    page = open_page(shop, "#/objects/-/configmaps/default/owned")
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Method").select_option("apply")
    replace_text(page, "one", "two")
    page.get_by_role("button", name="Check by dry run").click()
    expect(page.get_by_role("alert")).to_contain_text("owner")
    page.get_by_label("Take these fields").check()
    page.get_by_role("button", name="Check by dry run").click()
    expect(page.get_by_role("region", name="Difference")).to_contain_text("two")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("button", name="Edit")).to_be_visible()
    assert api.get(f"{CONFIG_MAPS}/owned")["data"] == {"a": "two"}


def test_create_and_delete(shop: TestServer, api: Api, open_page: OpenPage) -> None:
    """A new object is created from YAML; a deletion is confirmed first."""
    page = open_page(shop, "#/new/-/configmaps")
    expect(page.get_by_role("textbox", name="YAML to edit")).to_contain_text("example")
    page.get_by_role("button", name="Check by dry run").click()
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", name="example")).to_be_visible()
    assert api.get(f"{CONFIG_MAPS}/example")["metadata"]["name"] == "example"
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("deleted", exact=True)).to_be_visible()
    assert api.http.get(f"{CONFIG_MAPS}/example").status_code == 404


def test_history(shop: TestServer, api: Api, open_page: OpenPage) -> None:
    """Each revision has its writer and the fields that it changed; new ones appear at once."""
    page = open_page(shop, f"{WEB}/history")
    entries = page.get_by_role("tabpanel").get_by_role("listitem")
    expect(page.get_by_role("tabpanel")).to_contain_text('"nginx:1.29"')
    expect(page.get_by_role("tabpanel")).to_contain_text('"nginx:1.30"')
    expect(page.get_by_role("tabpanel")).to_contain_text("created by kubectl")
    expect(page.get_by_role("tabpanel")).to_contain_text("kube-controller-manager (status)")
    api.patch(
        f"{DEPLOYMENTS}/web?fieldManager=painter", {"metadata": {"labels": {"color": "blue"}}}
    )
    first = entries.first
    expect(page.get_by_role("tabpanel")).to_contain_text("painter")
    expect(first).to_be_visible()


def test_field_owners(shop: TestServer, open_page: OpenPage) -> None:
    """Each field shows its managers, those of atomic fields too."""
    page = open_page(shop, f"{WEB}/fields")
    rows = page.get_by_role("row")
    expect(rows.filter(has_text="replicas").first).to_contain_text("kubectl")
    expect(rows.filter(has_text="availableReplicas")).to_contain_text(
        "kube-controller-manager (status)"
    )
    expect(rows.filter(has_text="deployment.kubernetes.io/revision")).to_contain_text(
        "kube-controller-manager"
    )


def test_owner_tree(shop: TestServer, open_page: OpenPage) -> None:
    """The tree goes down from the Deployment to its pods, and up from a pod to the Deployment."""
    page = open_page(shop, f"{WEB}/owners")
    tree = page.get_by_role("tabpanel")
    expect(tree.get_by_role("link", name=re.compile(r"^web-\w+-\w+$"))).to_have_count(3)
    tree.get_by_role("link", name=re.compile(r"^web-\w+-\w+$")).first.click()
    expect(tree.locator(".current")).to_contain_text("Pod")
    expect(tree.get_by_role("link", name="web", exact=True)).to_be_visible()


def test_events_and_related(shop: TestServer, open_page: OpenPage) -> None:
    """Events of an object, and objects by selector and reference in both directions."""
    page = open_page(shop, f"{WEB}/events")
    expect(page.get_by_role("tabpanel")).to_contain_text("ScalingReplicaSet")
    show(page, f"{WEB}/related")
    panel = page.get_by_role("tabpanel")
    expect(panel.get_by_role("link", name="settings")).to_be_visible()
    show(page, "#/objects/-/configmaps/default/settings/related")
    expect(panel).to_contain_text("Referred to by")
    expect(panel.get_by_role("link", name="web", exact=True)).to_be_visible()
    show(page, "#/objects/-/services/default/web/related")
    expect(panel).to_contain_text("Selects")
    expect(panel.get_by_role("link", name=re.compile(r"^web-\w+-\w+$")).first).to_be_visible()


def test_secrets_are_hidden_until_asked(shop: TestServer, open_page: OpenPage) -> None:
    """The values of a Secret are on no tab before a person asks for them."""
    page = open_page(shop, "#/objects/-/secrets/default/login")
    panel = page.get_by_role("tabpanel")
    expect(panel).to_contain_text("••••••")
    for tab in ("History", "Field owners", "YAML"):
        page.get_by_role("tab", name=tab).click()
        expect(panel).not_to_contain_text("aHVudGVyMg")
    expect(page.get_by_role("button", name="Edit")).to_be_disabled()
    page.get_by_role("button", name="Show values").click()
    expect(panel).to_contain_text("aHVudGVyMg")
    page.get_by_role("button", name="Hide values").click()
    expect(panel).not_to_contain_text("aHVudGVyMg")


def test_timeline(shop: TestServer, api: Api, open_page: OpenPage) -> None:
    """Writes have the lanes of their managers and arrows of cause; a mark shows what it changed."""
    page = open_page(shop, "#/timeline?namespace=default")
    lanes = page.get_by_role("list", name="Actors")
    for actor in ("kubectl", "kube-controller-manager", "kubelet"):
        expect(lanes).to_contain_text(actor)
    marks = timeline_marks(page)
    created = marks.get_by_role("button", name=re.compile("^ReplicaSet default.web-.* created"))
    expect(created.first).to_be_attached()
    created.first.focus()
    page.keyboard.press("Enter")
    details = page.get_by_role("region", name="Chosen mark")
    expect(details).to_contain_text("Because of")
    expect(details).to_contain_text("Deployment default/web")
    assert page.locator(".arrow.owner").count() > 0
    assert page.locator(".arrow.manager").count() > 0
    api.patch(f"{CONFIG_MAPS}/settings?fieldManager=latecomer", {"data": {"late": "yes"}})
    expect(lanes).to_contain_text("latecomer")


def test_server_plots(shop: TestServer, open_page: OpenPage) -> None:
    """The plots get values of rates, memory and loop lag."""
    page = open_page(shop, "#/server")
    for title in ("Requests per second", "Memory", "Lag of the event loop", "fair queues"):
        expect(page.get_by_role("figure", name=re.compile(title))).to_be_visible()
    memory = page.get_by_role("figure", name="Memory")
    expect(memory.get_by_role("definition")).to_contain_text("MiB")
    expect(page.locator(".plot canvas").first).to_be_visible()


def test_simulation(shop: TestServer, api: Api, open_page: OpenPage) -> None:
    """A click fails a pod or stops a node, and the clock's hand moves."""
    page = open_page(shop, "#/simulation")
    pod = page.get_by_role("button", name=re.compile("^default.web-.*: running")).first
    name = (pod.get_attribute("aria-label") or "").partition(":")[0].partition("/")[2]
    pod.click()
    page.get_by_role("button", name="Fail this pod").click()
    expect(page.get_by_role("button", name="Let it recover")).to_be_visible()
    page.get_by_role("button", name="+10 s").click()
    expect(page.get_by_role("group", name="Selected pod")).not_to_contain_text("0 restarts")
    annotations = api.get(f"/api/v1/namespaces/default/pods/{name}")["metadata"]["annotations"]
    assert annotations["simulation.kapiserver.dev/exit-code"] == "1"
    page.get_by_role("button", name="Let it recover").click()
    page.get_by_role("button", name=re.compile("^simulated-3")).click()
    page.get_by_role("button", name="Stop its kubelet").click()
    expect(page.get_by_role("button", name="Start its kubelet")).to_be_visible()
    page.get_by_role("button", name="+1 min", exact=True).click()
    expect(page.get_by_role("group", name="Selected node")).to_contain_text("not ready")
    page.get_by_role("button", name="Start its kubelet").click()
    expect(page.get_by_role("group", name="Selected node")).to_contain_text("ready")
    page.get_by_role("button", name="Stop the time").click()
    expect(page.get_by_text("the time stands still")).to_be_visible()
    assert shop.clock.frozen
    page.get_by_role("button", name="Let it flow").click()
    expect(page.get_by_text("the time flows")).to_be_visible()


def test_sign_in_with_a_token(shop: TestServer, open_page: OpenPage) -> None:
    """A person's token works for all requests, is stored nowhere, and shows only what it may."""
    page = open_page(shop)
    page.get_by_role("button", name="Sign out").click()
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("does not know this token")
    page.get_by_label("Token").fill(shop.token)
    page.get_by_role("button", name="Sign in").click()
    show(page, "#/simulation")
    expect(page.get_by_text("4 nodes")).to_be_visible()
    stored = page.evaluate(
        "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])"
    )
    assert stored == '[{},{},""]'
    page.reload()
    expect(page.get_by_label("Token")).to_be_visible()
    token = shop.add_token("visitor")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    show(page, "#/kinds/-/secrets")
    expect(page.get_by_role("alert")).to_contain_text(
        'User "visitor" cannot list resource "secrets"'
    )
