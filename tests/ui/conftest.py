"""A browser, and servers whose page it opens."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx
import pytest

from kapiserver.testing import TestServer

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
SECONDS = 30
"""How long a test waits for what must appear, on a busy machine."""

OpenPage = Callable[..., "Page"]


@pytest.fixture(scope="module", name="browser")
def _browser() -> Iterator[Browser]:
    """Headless Chromium of the system, driven by Playwright."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
    if not CHROMIUM:
        pytest.skip("needs Chromium (Debian package chromium)")
    sync_api.expect.set_options(timeout=SECONDS * 1000)
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(name="open_page")
def _open_page(browser: Browser) -> Iterator[OpenPage]:
    """Open the page of a server, or a link, and sign in. The test fails if a script has failed, if
    the policy has refused something, or if the page has asked another origin."""
    problems: list[str] = []
    with ExitStack() as stack:

        def open_page(
            server: TestServer | None,
            fragment: str = "",
            *,
            link: str = "",
            expects_refusals: bool = False,
            **options: Any,
        ) -> Page:
            context = browser.new_context(ignore_https_errors=True, **options)
            stack.callback(context.close)
            page = context.new_page()
            page.set_default_timeout(SECONDS * 1000)
            page.on("pageerror", lambda error: problems.append(f"error: {error}"))
            page.on("dialog", lambda dialog: problems.append(f"dialog: {dialog.message}"))
            if not expects_refusals:
                page.on("console", lambda message: _note_refusal(message.text, problems))
            url = link or (sign_in_link(server) if server is not None else "")
            page.on("request", lambda request: _note_origin(request.url, url, problems))
            page.goto(url)
            page.wait_for_selector("nav")
            if fragment:
                show(page, fragment)
            return page

        yield open_page
    assert problems == []


def _note_refusal(text: str, problems: list[str]) -> None:
    if "Content Security Policy" in text or "Trusted" in text:
        problems.append(text)


def _note_origin(url: str, page_url: str, problems: list[str]) -> None:
    if not url.startswith("data:") and urlsplit(url).netloc != urlsplit(page_url).netloc:
        problems.append(f"request of {url}")


def sign_in_link(server: TestServer) -> str:
    """Return a new one-time link."""
    page = server.running.cluster.server.page
    assert page is not None
    return server.call(lambda: page.sessions.make_link(server.url))


def show(page: Page, fragment: str) -> None:
    """Go to a place of the page."""
    page.evaluate("fragment => { location.hash = fragment; }", fragment)


def timeline_marks(page: Page) -> Locator:
    """Return the marks of the timeline when all of its history has come."""
    page.wait_for_selector("svg[aria-busy=false]")
    return page.get_by_role("group", name="Writes in their order")


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    """Where pictures are written to: see `test_screenshots.py`."""
    return Path(os.environ.get("KAPISERVER_SCREENSHOTS") or tmp_path)


class Api:
    """An administrator's client that creates objects."""

    def __init__(self, server: TestServer) -> None:
        context = server.ssl_context
        assert context is not None
        self.http = httpx.Client(
            base_url=server.url,
            verify=context,
            headers={"Authorization": f"Bearer {server.token}", "User-Agent": "kubectl/v1.37"},
            timeout=60,
        )

    def __enter__(self) -> Api:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        response = self.http.post(path, json=body)
        assert response.status_code == 201, response.text
        created: dict[str, Any] = response.json()
        return created

    def patch(self, path: str, body: Any, kind: str = "merge-patch+json") -> None:
        headers = {"Content-Type": f"application/{kind}"}
        response = self.http.patch(path, json=body, headers=headers)
        assert response.status_code == 200, response.text

    def get(self, path: str) -> dict[str, Any]:
        response = self.http.get(path)
        assert response.status_code == 200, response.text
        body: dict[str, Any] = response.json()
        return body


CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"
SERVICES = "/api/v1/namespaces/default/services"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
WEB = "#/objects/apps/deployments/default/web"


def deployment(name: str, replicas: int = 3, image: str = "nginx:1.29") -> dict[str, Any]:
    labels = {"app": name}
    container = {"name": "app", "image": image, "envFrom": [{"configMapRef": {"name": "settings"}}]}
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def deploy_shop(server: TestServer, api: Api) -> None:
    """Create a small shop, and roll out a new image of it."""
    api.create(CONFIG_MAPS, {"metadata": {"name": "settings"}, "data": {"currency": "EUR"}})
    api.create(SECRETS, {"metadata": {"name": "login"}, "stringData": {"password": "hunter2"}})
    selector = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
    api.create(SERVICES, {"metadata": {"name": "web"}, "spec": selector})
    api.create(DEPLOYMENTS, deployment("web"))
    server.clock.advance("5s")
    template = {"spec": {"containers": [{"name": "app", "image": "nginx:1.30"}]}}
    body = {"spec": {"template": template}}
    api.patch(f"{DEPLOYMENTS}/web", body, "strategic-merge-patch+json")
    server.clock.advance("5s")


@pytest.fixture(scope="module", name="shop")
def _shop(browser: Browser) -> Iterator[TestServer]:
    """A server with simulated nodes and a small shop."""
    with TestServer(enable_ui=True, simulate=True, simulate_nodes=4) as server:
        with Api(server) as api:
            deploy_shop(server, api)
        yield server


@pytest.fixture(name="api")
def _api(shop: TestServer) -> Iterator[Api]:
    with Api(shop) as api:
        yield api
