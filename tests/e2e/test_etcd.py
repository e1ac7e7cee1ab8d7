"""Several servers over one etcd: what one writes, the others show."""

import http.client
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.tls import credentials
from tests.e2e.programs import Server, start, stop
from tests.storage.etcd_server import Member

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
ENDS_WITHIN = 10
"""Seconds after which a watch that shows nothing fails its test."""


@pytest.fixture(scope="module")
def etcd() -> Iterator[Member]:
    """A member that all tests of this module share."""
    member = Member()
    member.start()
    member.wait()
    yield member
    member.remove()


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    """Where the servers of a test keep their keys."""
    return f"/{request.node.name}"


@contextmanager
def serving(folder: Path, etcd: Member, prefix: str, *flags: str) -> Iterator[Server]:
    """A server over etcd; those of one test share a CA, as the servers of a cluster do."""
    folder.mkdir(exist_ok=True)
    shared = f"--cert-dir={folder.parent / 'certificates'}"
    over = (f"--etcd-servers={etcd.url}", f"--etcd-prefix={prefix}")
    server = start(folder, shared, *over, *flags)
    try:
        yield server
    finally:
        assert stop(server) == 0, (folder / "log").read_text()


@pytest.fixture
def two(tmp_path: Path, etcd: Member, prefix: str) -> Iterator[tuple[Server, Server]]:
    """Two servers over one etcd."""
    with (
        serving(tmp_path / "one", etcd, prefix) as one,
        serving(tmp_path / "other", etcd, prefix) as other,
    ):
        yield one, other


@contextmanager
def asked(
    server: Server, method: str, path: str, body: Any = None
) -> Iterator[http.client.HTTPResponse]:
    """The answer to a request of the administrator."""
    context = ssl.create_default_context(cafile=str(server.ca_file))
    context.load_cert_chain(server.client_cert, server.client_key)
    host = server.url.removeprefix("https://")
    connection = http.client.HTTPSConnection(host, timeout=ENDS_WITHIN, context=context)
    content = None if body is None else json.dumps(body)
    connection.request(method, path, content, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    try:
        yield answer
    finally:
        answer.close()
        connection.close()


def call(server: Server, method: str, path: str, body: Any = None, *, status: int = 200) -> Any:
    """What the server answers, which must have that status."""
    with asked(server, method, path, body) as answer:
        content = answer.read()
        assert answer.status == status, content
        return json.loads(content)


def create(server: Server, name: str) -> Any:
    """Make a ConfigMap."""
    body = {"metadata": {"name": name}, "data": {"by": "e2e"}}
    return call(server, "POST", CONFIGMAPS, body, status=201)


def names(found: Any) -> list[str]:
    """Of the objects in a list, without what each namespace has by itself."""
    every = [item["metadata"]["name"] for item in found["items"]]
    return [name for name in every if name != "kube-root-ca.crt"]


def test_reads_see_what_the_other_server_wrote(two: tuple[Server, Server]) -> None:
    """A write on one server is seen at once by get and list on the other."""
    one, other = two
    made = create(one, "a")
    assert call(other, "GET", f"{CONFIGMAPS}/a") == made
    assert names(call(other, "GET", CONFIGMAPS)) == ["a"]
    changed = call(other, "PUT", f"{CONFIGMAPS}/a", {**made, "data": {"by": "other"}})
    assert call(one, "GET", f"{CONFIGMAPS}/a") == changed
    stale = call(one, "PUT", f"{CONFIGMAPS}/a", {**made, "data": {}}, status=409)
    assert stale["reason"] == "Conflict"
    call(one, "DELETE", f"{CONFIGMAPS}/a")
    assert names(call(other, "GET", CONFIGMAPS)) == []
    assert call(other, "GET", f"{CONFIGMAPS}/a", status=404)["reason"] == "NotFound"


def test_watches_see_what_the_other_server_wrote(two: tuple[Server, Server]) -> None:
    """A watch on one server shows each write of the other, with the writer's revision."""
    one, other = two
    since = call(other, "GET", CONFIGMAPS)["metadata"]["resourceVersion"]
    query = f"watch=1&resourceVersion={since}&timeoutSeconds={ENDS_WITHIN}"
    with asked(other, "GET", f"{CONFIGMAPS}?{query}") as stream:
        made = create(one, "a")
        assert json.loads(stream.readline()) == {"type": "ADDED", "object": made}
        changed = call(one, "PUT", f"{CONFIGMAPS}/a", {**made, "data": {"by": "one"}})
        assert json.loads(stream.readline()) == {"type": "MODIFIED", "object": changed}
        call(one, "DELETE", f"{CONFIGMAPS}/a")
        gone = json.loads(stream.readline())
    assert (gone["type"], gone["object"]["data"]) == ("DELETED", {"by": "one"})


def test_a_list_goes_on_at_the_other_server(two: tuple[Server, Server]) -> None:
    """A continue token of one server is good for the other, at the state of the first page."""
    one, other = two
    for name in "abc":
        create(one, name)
    first = call(one, "GET", f"{CONFIGMAPS}?limit=2")
    assert names(first) == ["a", "b"]
    create(one, "d")
    token = first["metadata"]["continue"]
    rest = call(other, "GET", f"{CONFIGMAPS}?limit=10&continue={token}")
    assert names(rest) == ["c"]
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_a_restart_loses_nothing(tmp_path: Path, etcd: Member, prefix: str) -> None:
    """What was written before and during a restart of a server is there after it, and watches go
    on where they were."""
    with serving(tmp_path / "one", etcd, prefix) as one:
        with serving(tmp_path / "other", etcd, prefix) as other:
            before = create(other, "before")
            page = call(other, "GET", f"{CONFIGMAPS}?limit=1")
        during = create(one, "during")
        with serving(tmp_path / "other", etcd, prefix) as other:
            assert call(other, "GET", f"{CONFIGMAPS}/before") == before
            assert names(call(other, "GET", CONFIGMAPS)) == ["before", "during"]
            path = f"{CONFIGMAPS}?limit=9&continue={page['metadata']['continue']}"
            seen = names(page) + names(call(other, "GET", path))
            assert seen == ["before"]
            since = before["metadata"]["resourceVersion"]
            with asked(other, "GET", f"{CONFIGMAPS}?watch=1&resourceVersion={since}") as stream:
                assert json.loads(stream.readline()) == {"type": "ADDED", "object": during}


def test_prefixes_are_apart(tmp_path: Path, etcd: Member, prefix: str) -> None:
    """Servers with different prefixes share an etcd and see nothing of each other."""
    with (
        serving(tmp_path / "one", etcd, f"{prefix}/one") as one,
        serving(tmp_path / "other", etcd, f"{prefix}/other") as other,
    ):
        create(one, "a")
        assert names(call(other, "GET", CONFIGMAPS)) == []


def test_servers_with_different_cas_do_not_fight(tmp_path: Path, etcd: Member, prefix: str) -> None:
    """Servers that publish different CAs change each namespace's at a bounded rate."""
    own = f"--cert-dir={tmp_path / 'own'}"
    with (
        serving(tmp_path / "one", etcd, prefix) as one,
        serving(tmp_path / "other", etcd, prefix, own),
    ):
        query = "watch=1&fieldSelector=metadata.name%3Dkube-root-ca.crt&timeoutSeconds=2"
        with asked(one, "GET", f"{CONFIGMAPS}?{query}") as stream:
            assert len(stream.read().splitlines()) <= 4


def test_tls(tmp_path: Path) -> None:
    """A server reaches an etcd that asks for client certificates, by --etcd-cafile, -certfile and
    -keyfile; without them it does not start."""
    made = credentials(Config(), tmp_path / "etcd")
    member = Member(
        flags=(
            f"--cert-file={made.serving.certificate}",
            f"--key-file={made.serving.key}",
            f"--trusted-ca-file={made.ca}",
            "--client-cert-auth",
            f"--client-cert-file={made.admin.certificate}",  # etcd's gateway calls etcd
            f"--client-key-file={made.admin.key}",
        )
    )
    member.start()
    member.wait()
    known = (
        f"--etcd-cafile={made.ca}",
        f"--etcd-certfile={made.admin.certificate}",
        f"--etcd-keyfile={made.admin.key}",
    )
    try:
        with serving(tmp_path / "one", member, "/registry", *known) as one:
            made_here = create(one, "a")
            assert call(one, "GET", f"{CONFIGMAPS}/a") == made_here
        with pytest.raises(AssertionError, match="etcd: "):
            start(tmp_path / "one", f"--etcd-servers={member.url}")
    finally:
        member.remove()
