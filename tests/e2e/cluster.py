"""Servers over one etcd, and plain HTTP requests to them."""

import http.client
import json
import ssl
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.e2e.programs import Server, start, stop
from tests.storage.etcd_server import Member

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
WATCH_TIMEOUT_SECONDS = 60
"""Seconds without an event after which a watch fails its test."""


@contextmanager
def serving(folder: Path, etcd: Member, prefix: str, *flags: str) -> Iterator[Server]:
    """A server over etcd; the servers of one test share a CA."""
    folder.mkdir(exist_ok=True)
    cert_flag = f"--cert-dir={folder.parent / 'certificates'}"
    over = (f"--etcd-servers={etcd.url}", f"--etcd-prefix={prefix}")
    server = start(folder, cert_flag, *over, *flags)
    try:
        yield server
    finally:
        assert stop(server) == 0, (folder / "log").read_text()


def workers(server: Server) -> list[int]:
    """The process ids of a server's workers."""
    pid = server.process.pid
    return [int(item) for item in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_for_workers(server: Server, count: int, *, but: int = 0) -> None:
    """Return when so many workers answer, without the process `but`."""
    deadline = time.monotonic() + WATCH_TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        pids = workers(server)
        if but not in pids and len(pids) == count == _listening(server):
            return
        time.sleep(0.02)
    raise AssertionError("there are not as many workers as there should be")


def _listening(server: Server) -> int:
    port = int(server.url.rpartition(":")[2])
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(f"0100007F:{port:04X}" == line[1] and line[3] == "0A" for line in lines)


@contextmanager
def open_response(
    server: Server, method: str, path: str, body: Any = None
) -> Iterator[http.client.HTTPResponse]:
    """The open response to a request of the administrator."""
    context = ssl.create_default_context(cafile=str(server.ca_file))
    context.load_cert_chain(server.client_cert, server.client_key)
    host = server.url.removeprefix("https://")
    connection = http.client.HTTPSConnection(host, timeout=WATCH_TIMEOUT_SECONDS, context=context)
    content = None if body is None else json.dumps(body)
    connection.request(method, path, content, {"Content-Type": "application/json"})
    response = connection.getresponse()
    try:
        yield response
    finally:
        response.close()
        connection.close()


def call(server: Server, method: str, path: str, body: Any = None, *, status: int = 200) -> Any:
    """The body of a response, which must have this status."""
    with open_response(server, method, path, body) as response:
        content = response.read()
        assert response.status == status, content
        return json.loads(content)


def create(server: Server, name: str) -> Any:
    """Create a ConfigMap."""
    body = {"metadata": {"name": name}, "data": {"by": "e2e"}}
    return call(server, "POST", CONFIGMAPS, body, status=201)


def established(server: Server, *definitions: str) -> None:
    """Wait until these CustomResourceDefinitions are established. `kubectl wait` cannot be used: it
    fails while a definition has no conditions yet."""
    pending = set(definitions)
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?watch=1"
    with open_response(server, "GET", path) as stream:
        while pending:
            definition = json.loads(stream.readline())["object"]
            conditions = definition["status"]["conditions"] or ()
            if any(
                (condition["type"], condition["status"]) == ("Established", "True")
                for condition in conditions
            ):
                pending.discard(definition["metadata"]["name"])


def names(listing: Any) -> list[str]:
    """The names of a list's objects, without the objects that every namespace has."""
    every = [item["metadata"]["name"] for item in listing["items"]]
    return [name for name in every if name != "kube-root-ca.crt"]


class Load:
    """Clients of several servers that switch to another server when one fails: writers, and a
    watch."""

    def __init__(self, urls: Sequence[str], server: Server, start_revision: str) -> None:
        """`server` has credentials that all servers accept; the watch starts after `since`."""
        self._hosts = [url.removeprefix("https://") for url in urls]
        self._context = ssl.create_default_context(cafile=str(server.ca_file))
        self._context.load_cert_chain(server.client_cert, server.client_key)
        self._since = start_revision
        self._over = threading.Event()
        self.acknowledged: list[str] = []
        self.refused = 0
        """Connections that no server accepted."""
        self.failed = 0
        """Requests whose connection ended without a response."""
        self.watched: list[tuple[int, str]] = []
        """Revision and name of each event."""

    @contextmanager
    def running(self, writers: int) -> Iterator[None]:
        """Run the load during the block, and then let the watch catch up."""
        with ThreadPoolExecutor(writers + 1) as threads:
            writing = [threads.submit(self._write, number) for number in range(writers)]
            watching = threads.submit(self._watch)
            try:
                yield
            finally:
                self._over.set()
            for future in writing:
                future.result()
            self.acknowledged.append("last")
            assert self._create("last", 0)
            watching.result()

    def _write(self, writer: int) -> None:
        count = 0
        while not self._over.is_set():
            name = f"w-{writer}-{count}"
            if self._create(name, count):
                self.acknowledged.append(name)
            count += 1

    def _create(self, name: str, number: int) -> bool:
        """Create an object at any server; an attempt that failed may have created it."""
        body = json.dumps({"metadata": {"name": name}})
        deadline = time.monotonic() + WATCH_TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            host = self._hosts[number % len(self._hosts)]
            number += 1
            try:
                with self._request(host, "POST", CONFIGMAPS, body) as response:
                    response.read()
                    if response.status in (201, 409):
                        return True
                    assert response.status in (429, 500, 503, 504), response.status
            except ConnectionRefusedError:
                self.refused += 1
                time.sleep(0.01)
            except (OSError, http.client.HTTPException):
                self.failed += 1
                time.sleep(0.01)
        return False

    def _watch(self) -> None:
        """Watch at any server until the event of the object "last"."""
        deadline = time.monotonic() + 6 * WATCH_TIMEOUT_SECONDS
        index = 0
        while time.monotonic() < deadline:
            host = self._hosts[index % len(self._hosts)]
            index += 1
            path = f"{CONFIGMAPS}?watch=1&resourceVersion={self._since}"
            with (
                suppress(OSError, http.client.HTTPException),
                self._request(host, "GET", path, None) as stream,
            ):
                if self._take(stream):
                    return
        raise AssertionError("the watch did not see the end")

    def _take(self, stream: http.client.HTTPResponse) -> bool:
        while (line := stream.readline()).endswith(b"\n"):
            event = json.loads(line)
            assert event["type"] == "ADDED", event
            meta = event["object"]["metadata"]
            self._since = meta["resourceVersion"]
            self.watched.append((int(self._since), meta["name"]))
            if meta["name"] == "last":
                return True
        return False

    @contextmanager
    def _request(
        self, host: str, method: str, path: str, body: str | None
    ) -> Iterator[http.client.HTTPResponse]:
        connection = http.client.HTTPSConnection(
            host, timeout=WATCH_TIMEOUT_SECONDS, context=self._context
        )
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            yield connection.getresponse()
        finally:
            connection.close()

    def check(self, server: Server) -> None:
        """Check that every acknowledged write exists and was delivered once, in order."""
        listed_names = set(names(call(server, "GET", CONFIGMAPS)))
        assert set(self.acknowledged) <= listed_names
        watched_names = [name for _, name in self.watched if name != "kube-root-ca.crt"]
        assert sorted(watched_names) == sorted(listed_names)
        revisions = [revision for revision, _ in self.watched]
        assert revisions == sorted(set(revisions))
