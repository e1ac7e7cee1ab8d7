"""A web page in a real browser against the insecure port (Chromium, if it is installed)."""

import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.apiserver.conftest import Server

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""

pytestmark = [
    pytest.mark.skipif(not CHROMIUM, reason="needs Chromium (Debian package chromium)"),
    pytest.mark.slow,
]

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"

PAGE = """
<!doctype html><body><script>
const url = "%(url)s";
const body = name => JSON.stringify({metadata: {name}});
const form = (name, type) => {
  const frame = document.createElement("iframe");
  frame.name = name;
  document.body.append(frame);
  const form = document.createElement("form");
  form.method = "post"; form.enctype = type; form.action = url; form.target = name;
  const input = document.createElement("input");
  input.name = `{"metadata":{"name":"${name}"},"data":{"x":"`; input.value = `"}}`;
  form.append(input);
  document.body.append(form);
  return new Promise(done => { frame.onload = done; form.submit(); });
};
const post = (name, options) => fetch(url, {method: "POST", body: body(name), ...options});
const attacks = {
  "blob": () => fetch(url, {method: "POST", mode: "no-cors", body: new Blob([body("blob")])}),
  "bytes": () => fetch(url, {method: "POST", mode: "no-cors",
                             body: new TextEncoder().encode(body("bytes"))}),
  "text": () => post("text", {mode: "no-cors"}),
  "json": () => post("json", {headers: {"Content-Type": "application/json"}}),
  "cors": () => fetch(url, {method: "POST", body: new Blob([body("cors")])}),
  "beacon": async () => navigator.sendBeacon(url, new Blob([body("beacon")])),
  "form-text": () => form("form-text", "text/plain"),
  "form-urlencoded": () => form("form-urlencoded", "application/x-www-form-urlencoded"),
  "read": async () => (await fetch(url)).text(),
  "delete": () => fetch(url + "/kube-root-ca.crt", {method: "DELETE"}),
};
(async () => {
  const results = {};
  for (const [name, attack] of Object.entries(attacks)) {
    try { const answer = await attack(); results[name] = answer.status || String(answer); }
    catch (error) { results[name] = String(error); }
  }
  await fetch("/results", {method: "POST", body: JSON.stringify(results)});
})();
</script>
"""


@dataclass
class Site:
    """A web site with one page, which attacks `url` and reports the results."""

    url: str
    results: dict[str, str] = field(default_factory=dict)
    reported: threading.Event = field(default_factory=threading.Event)


@pytest.fixture
def site(own_server: Server) -> Iterator[tuple[Site, int]]:
    """The site and its port."""
    attacked = Site(f"http://127.0.0.1:{own_server.api.port}{CONFIG_MAPS}")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer((PAGE % {"url": attacked.url}).encode())

        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            attacked.results.update(json.loads(self.rfile.read(length)))
            self._answer(b"")
            attacked.reported.set()

        def _answer(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        yield attacked, http.server_port
        http.shutdown()
        thread.join()


def _command(folder: Path, *arguments: str) -> list[str]:
    """Every name below `example` resolves to the loopback address, as after DNS rebinding."""
    return [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
        f"--user-data-dir={folder}", "--host-resolver-rules=MAP *.example 127.0.0.1", *arguments,
    ]  # fmt: skip


def test_page_of_another_site(own_server: Server, site: tuple[Site, int], tmp_path: Path) -> None:
    """A page reads nothing, and creates and deletes nothing."""
    attacked, port = site
    existing = _names(own_server)
    command = _command(tmp_path, f"http://evil.example:{port}/")
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as browser:
        try:
            assert attacked.reported.wait(120)
        finally:
            browser.terminate()
    assert set(attacked.results) >= {"blob", "bytes", "beacon", "form-text", "read", "delete"}
    assert "Failed to fetch" in attacked.results["read"]
    assert _names(own_server) == existing


def _names(server: Server) -> set[str]:
    items = server.api.get(CONFIG_MAPS).json["items"]
    return {item["metadata"]["name"] for item in items}


@pytest.mark.parametrize(
    ("host", "shown", "hidden"),
    [("evil.example", "serves only the hosts localhost", "kube-root-ca"),
     ("localhost", "kube-root-ca", "serves only the hosts localhost")],
)  # fmt: skip
def test_dns_rebinding(
    own_server: Server, tmp_path: Path, host: str, shown: str, hidden: str
) -> None:
    """A page whose name resolves to the loopback address reads nothing; `localhost` works."""
    own_server.api.post(CONFIG_MAPS, {"metadata": {"name": "kube-root-ca.crt"}})
    url = f"http://{host}:{own_server.api.port}{CONFIG_MAPS}"
    command = _command(tmp_path, "--dump-dom", url)
    page = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    assert shown in page
    assert hidden not in page
