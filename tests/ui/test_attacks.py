"""What objects of hostile users, many objects and a server that restarts do to the page."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from kapiserver.testing import TestServer
from tests.ui.conftest import CONFIG_MAPS, SECRETS, Api, OpenPage, show, timeline_marks

pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
from playwright.sync_api import expect

pytestmark = pytest.mark.slow

SCRIPT = "<img src=x onerror=alert(1)><script>alert(2)</script>"
LINK = "javascript:alert(3)"
QUOTES = "\"'><svg onload=alert(4)>{{7*7}}${alert(5)}\u2028</textarea>"
TEXTS = (SCRIPT, LINK, QUOTES)


def hostile_kind() -> dict[str, Any]:
    """A definition whose columns, descriptions and names of fields are markup."""
    column = {"name": SCRIPT, "type": "string", "jsonPath": ".spec.text", "description": QUOTES}
    texts = {"type": "string", "description": SCRIPT, "enum": list(TEXTS)}
    fields = {"text": texts, SCRIPT: {"type": "string"}, "free": {"type": "string"}}
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": fields,
                "x-kubernetes-preserve-unknown-fields": True,
            }
        },
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "additionalPrinterColumns": [column],
    }
    names = {"plural": "traps", "singular": "trap", "kind": "Trap", "listKind": "TrapList"}
    return {
        "metadata": {"name": "traps.evil.example"},
        "spec": {
            "group": "evil.example",
            "scope": "Namespaced",
            "names": names,
            "versions": [version],
        },
    }


def hostile_metadata(name: str) -> dict[str, Any]:
    """Markup in every field of metadata that takes free text."""
    return {
        "name": name,
        "annotations": {f"evil/{index}": text for index, text in enumerate(TEXTS)},
        "finalizers": ["evil.example/x"],
    }


def set_traps(api: Api) -> None:
    """Create objects with markup in every field that takes it: names of data, values, events,
    managers, columns, conditions."""
    api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", hostile_kind())
    traps = "/apis/evil.example/v1/namespaces/default/traps"
    for index, text in enumerate(TEXTS):
        body = {
            "apiVersion": "evil.example/v1",
            "kind": "Trap",
            "metadata": hostile_metadata(f"trap-{index}"),
            "spec": {"text": text, SCRIPT: text, "free": text},
        }
        api.create(f"{traps}?fieldManager={httpx.QueryParams({'x': SCRIPT})['x']}", body)
    api.create(
        f"{CONFIG_MAPS}?fieldManager=evil",
        {"metadata": hostile_metadata("trap"), "data": {f"k{i}": t for i, t in enumerate(TEXTS)}},
    )
    api.patch(f"{CONFIG_MAPS}/trap", {"data": {"k0": QUOTES, "new": SCRIPT}})
    api.create(SECRETS, {"metadata": hostile_metadata("trap"), "stringData": {"key": SCRIPT}})
    uid = api.get(f"{CONFIG_MAPS}/trap")["metadata"]["uid"]
    api.create(
        "/api/v1/namespaces/default/events",
        {
            "metadata": {"name": "trap.1"},
            "involvedObject": {
                "kind": "ConfigMap", "name": "trap", "namespace": "default", "uid": uid
            },
            "reason": SCRIPT,
            "message": QUOTES,
            "source": {"component": SCRIPT},
            "type": "Warning",
        },
    )  # fmt: skip
    api.create(
        "/api/v1/nodes",
        {
            "metadata": {"name": "trap"},
            "status": {"conditions": [{"type": SCRIPT, "status": "True"}]},
        },
    )


def test_markup_in_every_field(open_page: OpenPage) -> None:
    """Markup in names, values, events, columns, schemas and managers is shown as text on every
    view: no element is made of it, no script runs, and the policy has nothing to refuse."""
    with TestServer(enable_ui=True, simulate=True, simulate_nodes=1) as server:
        with Api(server) as api:
            set_traps(api)
        page = open_page(server)
        places = [
            "#/kinds/evil.example/traps",
            "#/kinds/-/configmaps",
            "#/kinds/-/events",
            "#/kinds/-/nodes",
            "#/simulation",
            f"#/kinds/-/pods?labels={SCRIPT}&fields={QUOTES}&namespace={SCRIPT}",
            f"#/objects/{SCRIPT}/{SCRIPT}/{SCRIPT}/{SCRIPT}",
            f"#/new/{SCRIPT}/{SCRIPT}",
        ]
        for name in ("evil.example/traps/default/trap-", "-/configmaps/default/trap"):
            for index in range(3) if name.endswith("-") else ("",):
                for tab in ("yaml", "history", "fields", "owners", "events", "related"):
                    places.append(f"#/objects/{name}{index}/{tab}")
        for place in places:
            show(page, place)
            page.wait_for_timeout(300)
            assert page.locator("main script, main [onerror], main [onload]").count() == 0
            assert page.locator("a[href^='javascript:']").count() == 0
        show(page, "#/objects/-/configmaps/default/trap/events")
        expect(page.get_by_role("tabpanel")).to_contain_text(SCRIPT)
        show(page, "#/objects/-/configmaps/default/trap/history")
        expect(page.get_by_role("tabpanel")).to_contain_text("onerror=alert(1)")
        show(page, "#/new/evil.example/traps")
        editor = page.get_by_role("textbox", name="YAML to edit")
        editor.click()
        page.keyboard.press("Control+End")
        page.keyboard.type("spec:\n  te")
        expect(page.get_by_role("option").first).to_be_visible()
        show(page, "#/timeline")
        marks = timeline_marks(page).get_by_role(
            "button", name=re.compile("ConfigMap default.trap")
        )
        marks.last.click()
        expect(page.get_by_role("region", name="Chosen mark")).to_contain_text("onerror")


def test_the_browser_refuses_html_from_text(shop: TestServer, open_page: OpenPage) -> None:
    """Even a script of the page cannot make HTML of text: trusted types have no policy."""
    page = open_page(shop, expects_refusals=True)
    refused = page.evaluate(
        """() => {
          const tries = [
            () => { document.body.innerHTML = "<b>x</b>"; },
            () => { document.createElement("script").src = "/x.js"; },
            () => { trustedTypes.createPolicy("own", {}); },
          ];
          return tries.map((attempt) => {
            try { attempt(); return false; } catch { return true; }
          });
        }"""
    )
    assert refused == [True] * 3


@pytest.fixture(scope="module", name="many")
def _many() -> Iterator[TestServer]:
    """A server with 10,000 ConfigMaps."""
    with TestServer(enable_ui=True, rbac=False) as server:
        with Api(server) as api:
            for index in range(10_000):
                body = {"metadata": {"name": f"row-{index:05}"}, "data": {"n": str(index)}}
                response = api.http.post(CONFIG_MAPS, json=body)
                assert response.status_code == 201
        yield server


def test_ten_thousand_objects(many: TestServer, open_page: OpenPage) -> None:
    """10,000 rows: few elements exist, every row can be reached, and changes arrive while a person
    scrolls."""
    page = open_page(many, "#/kinds/-/configmaps?namespace=default")
    grid = page.get_by_role("grid")
    expect(page.get_by_text(re.compile(r"^10001 objects$"))).to_be_visible()
    assert page.locator("[role=row]").count() < 80
    grid.get_by_role("row").nth(1).focus()
    page.keyboard.press("End")
    expect(grid.get_by_text("row-09999")).to_be_visible()
    assert page.evaluate("document.activeElement.getAttribute('aria-rowindex')") == "10002"
    page.keyboard.press("Home")
    expect(grid.get_by_text("row-00000")).to_be_visible()
    for part in range(1, 20):
        page.evaluate(
            "part => { const grid = document.querySelector('.grid'); "
            "grid.scrollTop = grid.scrollHeight * part / 20; }",
            part,
        )
        row = page.evaluate(
            "async () => { await new Promise(requestAnimationFrame); await new Promise("
            "requestAnimationFrame); const box = document.querySelector('.grid')"
            ".getBoundingClientRect(); return document.elementFromPoint(box.left + 60, box.top + "
            "box.height / 2)?.closest('.item')?.textContent ?? ''; }"
        )
        assert "row-" in row, f"no row in the middle of part {part}"
    with Api(many) as api:
        api.http.delete(f"{CONFIG_MAPS}/row-05000")
        expect(page.get_by_text(re.compile(r"^10000 objects$"))).to_be_visible()
        api.patch(f"{CONFIG_MAPS}/row-09000", {"data": {"extra": "1"}})
    page.get_by_label("Text").fill("row-0900")
    expect(page.get_by_text(re.compile(r"^10 of 10000 objects$"))).to_be_visible()
    expect(grid.get_by_role("row", name=re.compile("row-09000"))).to_contain_text("2")


def free_port() -> int:
    with contextlib.closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


class Restarted:
    """`kapiserver serve` with a store on disk, which starts again on the same port."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.folder = folder
        tokens = folder / "tokens.csv"
        tokens.write_text("secret-token,ada,ada,system:masters\n")
        self.command = [
            sys.executable, "-m", "kapiserver", "serve", "--enable-ui",
            f"--secure-port={self.port}", f"--data-dir={folder / 'data'}",
            f"--token-auth-file={tokens}",
        ]  # fmt: skip
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> str:
        """Start, and return the link of the page."""
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if "look at it: " in line:
                return line.partition("look at it: ")[2].strip()
        raise AssertionError("the server has not started")

    def stop(self) -> None:
        """End the server, which is drained."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait()
            assert self.process.stdout is not None
            self.process.stdout.close()

    def create(self, name: str) -> None:
        url = f"https://127.0.0.1:{self.port}{CONFIG_MAPS}"
        headers = {"Authorization": "Bearer secret-token"}
        body = {"metadata": {"name": name}}
        response = httpx.post(url, json=body, headers=headers, verify=False)
        assert response.status_code == 201


@pytest.fixture(name="restarted")
def _restarted(tmp_path: Path) -> Iterator[Restarted]:
    server = Restarted(tmp_path)
    yield server
    server.stop()


def test_server_that_restarts(restarted: Restarted, open_page: OpenPage) -> None:
    """After a restart a person with a token sees the table go on; one with a cookie is told that
    the session has ended, and signs in with the new link."""
    page = open_page(None, "#/kinds/-/configmaps?namespace=default", link=restarted.start())
    grid = page.get_by_role("grid")
    restarted.create("first")
    expect(grid).to_contain_text("first")
    restarted.stop()
    expect(page.get_by_role("status").first).to_have_text("not connected")
    restarted.start()
    expect(page.get_by_role("alert")).to_contain_text("may have started again")
    page.get_by_label("Token").fill("secret-token")
    page.get_by_role("button", name="Sign in").click()
    show(page, "#/kinds/-/configmaps?namespace=default")
    expect(grid).to_contain_text("first")
    restarted.stop()
    expect(page.get_by_role("status").first).to_have_text("not connected")
    link = restarted.start()
    expect(page.get_by_role("status").first).to_have_text("live")
    restarted.create("second")
    expect(grid).to_contain_text("second")
    page.goto(link)
    page.reload()
    expect(page.get_by_text("kubernetes-admin")).to_be_visible()


@pytest.mark.skipif(shutil.which("npm") is None, reason="needs Node and npm")
def test_build_gives_the_same_bytes(tmp_path: Path) -> None:
    """`npm run build` makes the files that are committed, byte for byte."""
    root = Path(__file__).parent.parent.parent
    source = tmp_path / "ui"
    shutil.copytree(root / "ui", source, ignore=shutil.ignore_patterns("node_modules"))
    environment = {**os.environ, "CI": "true"}
    for arguments in (["ci"], ["run", "build"]):
        run = subprocess.run(
            ["npm", *arguments],
            cwd=source,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if arguments == ["ci"] and run.returncode:
            pytest.skip(f"npm cannot install the packages: {run.stderr[-200:]}")
        assert run.returncode == 0, run.stdout + run.stderr
    built = tmp_path / "kapiserver/apiserver/ui/built"
    committed = root / "kapiserver/apiserver/ui/built"
    names = {path.name for path in committed.iterdir()}
    assert {path.name for path in built.iterdir()} == names
    different = [
        name for name in names if (built / name).read_bytes() != (committed / name).read_bytes()
    ]
    assert different == []
