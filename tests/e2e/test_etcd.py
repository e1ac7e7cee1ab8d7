"""Several servers over one etcd."""

import asyncio
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pytest

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.serving.tls.credentials import ensure_certificates
from kapiserver.storage import backends
from kapiserver.storage.errors import Unavailable
from tests.e2e.cluster import (
    CONFIGMAPS,
    WATCH_TIMEOUT_SECONDS,
    Load,
    call,
    create,
    names,
    open_response,
    serving,
)
from tests.e2e.programs import Server, start
from tests.storage.etcd_server import (
    ETCDCTL_FLAGS,
    Member,
    free_port,
    program,
    programs,
    running_member,
    version,
)


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    """The etcd prefix of one test's servers."""
    return f"/{request.node.name}"


@pytest.fixture(scope="module")
def shared_servers(
    tmp_path_factory: pytest.TempPathFactory, etcd: Member
) -> Iterator[tuple[Server, Server]]:
    """Two servers over one etcd, which tests share."""
    folder = tmp_path_factory.mktemp("servers")
    with (
        serving(folder / "one", etcd, "/shared") as first,
        serving(folder / "other", etcd, "/shared") as second,
    ):
        yield first, second


@pytest.fixture
def servers(shared_servers: tuple[Server, Server]) -> Iterator[tuple[Server, Server]]:
    """Two servers over one etcd, whose ConfigMaps are deleted after the test."""
    yield shared_servers
    first, _ = shared_servers
    for name in names(call(first, "GET", CONFIGMAPS)):
        call(first, "DELETE", f"{CONFIGMAPS}/{name}")


def test_reads_see_what_the_other_server_wrote(servers: tuple[Server, Server]) -> None:
    """A write on one server is visible to get and list on the other at once."""
    first, second = servers
    created = create(first, "a")
    assert call(second, "GET", f"{CONFIGMAPS}/a") == created
    assert names(call(second, "GET", CONFIGMAPS)) == ["a"]
    changed = call(second, "PUT", f"{CONFIGMAPS}/a", {**created, "data": {"by": "other"}})
    assert call(first, "GET", f"{CONFIGMAPS}/a") == changed
    stale_copy = call(first, "PUT", f"{CONFIGMAPS}/a", {**created, "data": {}}, status=409)
    assert stale_copy["reason"] == "Conflict"
    call(first, "DELETE", f"{CONFIGMAPS}/a")
    assert names(call(second, "GET", CONFIGMAPS)) == []
    assert call(second, "GET", f"{CONFIGMAPS}/a", status=404)["reason"] == "NotFound"


def test_watches_see_what_the_other_server_wrote(servers: tuple[Server, Server]) -> None:
    """A watch on one server delivers each write of the other, with its revision."""
    first, second = servers
    start_revision = call(second, "GET", CONFIGMAPS)["metadata"]["resourceVersion"]
    only = "fieldSelector=metadata.name=a"  # kube-root-ca.crt may be created meanwhile
    query = (
        f"watch=1&resourceVersion={start_revision}&{only}&timeoutSeconds={WATCH_TIMEOUT_SECONDS}"
    )
    with open_response(second, "GET", f"{CONFIGMAPS}?{query}") as stream:
        created = create(first, "a")
        assert json.loads(stream.readline()) == {"type": "ADDED", "object": created}
        changed = call(first, "PUT", f"{CONFIGMAPS}/a", {**created, "data": {"by": "one"}})
        assert json.loads(stream.readline()) == {"type": "MODIFIED", "object": changed}
        call(first, "DELETE", f"{CONFIGMAPS}/a")
        deleted = json.loads(stream.readline())
    assert (deleted["type"], deleted["object"]["data"]) == ("DELETED", {"by": "one"})


def test_continue_at_the_other_server(servers: tuple[Server, Server]) -> None:
    """A continue token of one server works on the other, at the revision of the first page."""
    first_server, second = servers
    for name in "abc":
        create(first_server, name)
    first = call(first_server, "GET", f"{CONFIGMAPS}?limit=2")
    assert names(first) == ["a", "b"]
    create(first_server, "d")
    token = first["metadata"]["continue"]
    next_page = call(second, "GET", f"{CONFIGMAPS}?limit=10&continue={token}")
    assert names(next_page) == ["c"]
    assert next_page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_a_restart_loses_nothing(tmp_path: Path, etcd: Member, prefix: str) -> None:
    """Objects written before and during a restart of a server exist after it, and watches
    resume."""
    with serving(tmp_path / "one", etcd, prefix) as first:
        with serving(tmp_path / "other", etcd, prefix) as second:
            created_before = create(second, "before")
            create(second, "beyond")
            page = call(second, "GET", f"{CONFIGMAPS}?limit=1")
        during = create(first, "during")
        with serving(tmp_path / "other", etcd, prefix) as second:
            assert call(second, "GET", f"{CONFIGMAPS}/before") == created_before
            assert names(call(second, "GET", CONFIGMAPS)) == ["before", "beyond", "during"]
            path = f"{CONFIGMAPS}?limit=9&continue={page['metadata']['continue']}"
            all_names = names(page) + names(call(second, "GET", path))
            assert all_names == ["before", "beyond"]
            start_revision = created_before["metadata"]["resourceVersion"]
            query = f"watch=1&resourceVersion={start_revision}&fieldSelector=metadata.name=during"
            with open_response(second, "GET", f"{CONFIGMAPS}?{query}") as stream:
                assert json.loads(stream.readline()) == {"type": "ADDED", "object": during}


@pytest.mark.slow  # test_rolling_restart does the same with servers that share a port
def test_a_rolling_restart_loses_nothing(tmp_path: Path, etcd: Member, prefix: str) -> None:
    """While servers restart one after another under load, every acknowledged write is kept, and a
    watch that switches servers gets each event once."""
    ports = {name: free_port() for name in ("one", "other")}

    def starting(name: str) -> AbstractContextManager[Server]:
        return serving(tmp_path / name, etcd, prefix, f"--secure-port={ports[name]}")

    with ExitStack() as stack:
        with starting("one") as first:
            with starting("other") as second:
                start_revision = call(first, "GET", CONFIGMAPS)["metadata"]["resourceVersion"]
                load = Load([first.url, second.url], first, start_revision)
                running = load.running(writers=4)
                running.__enter__()
                stack.push(running)
                acknowledged_before = len(load.acknowledged)
            second = stack.enter_context(starting("other"))
        first = stack.enter_context(starting("one"))
        running.__exit__(None, None, None)
        assert len(load.acknowledged) > acknowledged_before + 10
        load.check(first)
        load.check(second)


def test_one_leader(servers: tuple[Server, Server]) -> None:
    """Of several candidates that take a Lease at once, exactly one succeeds each time."""
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    lease = {"metadata": {"name": "leader"}, "spec": {"holderIdentity": "nobody"}}

    def attempt(operation: Callable[[Server, str], bool], round_number: int) -> list[str]:
        """Let all candidates try at once; return the one that succeeded."""
        candidates = {
            f"candidate-{round_number}-{number}": servers[number % 2] for number in range(6)
        }
        with ThreadPoolExecutor(6) as threads:
            outcomes = threads.map(
                lambda contender: operation(candidates[contender], contender), candidates
            )
            return [
                contender
                for contender, is_leader in zip(candidates, outcomes, strict=True)
                if is_leader
            ]

    def make(server: Server, candidate: str) -> bool:
        with open_response(server, "POST", path, lease) as response:
            assert response.status in (201, 409)
            return response.status == 201

    assert len(attempt(make, 0)) == 1
    for round_number in range(5):
        current_lease = call(servers[0], "GET", f"{path}/leader")

        def take(server: Server, candidate: str, current_lease: Any = current_lease) -> bool:
            claim = {**current_lease, "spec": {"holderIdentity": candidate}}
            with open_response(server, "PUT", f"{path}/leader", claim) as response:
                assert response.status in (200, 409)
                return response.status == 200

        (winner,) = attempt(take, round_number)
        holders = [
            call(any_server, "GET", f"{path}/leader")["spec"]["holderIdentity"]
            for any_server in servers
        ]
        assert holders == [winner, winner]


@pytest.mark.slow
def test_a_hung_etcd(tmp_path: Path) -> None:
    """While etcd hangs, /readyz fails and requests fail within a bounded time; afterwards nothing
    is lost or delivered twice."""
    with running_member() as member, serving(tmp_path / "one", member, "/registry") as first:
        start_revision = call(first, "GET", CONFIGMAPS)["metadata"]["resourceVersion"]
        load = Load([first.url], first, start_revision)
        with load.running(writers=2):
            create(first, "before")
            member.hang()
            started_at = time.monotonic()
            with open_response(first, "GET", "/readyz") as response:
                assert response.status == 500
            assert time.monotonic() - started_at < 4
            for method, path in (("GET", CONFIGMAPS), ("POST", CONFIGMAPS)):
                with open_response(
                    first, method, path, {"metadata": {"generateName": "x"}}
                ) as response:
                    assert response.status in (503, 504)
            assert time.monotonic() - started_at < 20
            member.resume()
            deadline = time.monotonic() + WATCH_TIMEOUT_SECONDS
            while time.monotonic() < deadline:
                with open_response(first, "GET", "/readyz") as response:
                    if response.status == 200:
                        break
            create(first, "after")
        load.check(first)


def test_an_etcd_without_space(tmp_path: Path) -> None:
    """Writes to a full etcd fail with its message, and reads succeed, also on a server that starts
    later."""
    member = Member(flags=["--quota-backend-bytes=4000000"])
    member.start()
    member.wait()
    body = {"metadata": {"generateName": "large"}, "data": {"k": "x" * 900_000}}
    try:
        with serving(tmp_path / "one", member, "/registry") as first:
            status = 201
            for _ in range(1000):  # etcd learns the file's size every 100 ms
                if status != 201:
                    break
                with open_response(first, "POST", CONFIGMAPS, body) as response:
                    status, content = response.status, json.loads(response.read())
            assert status == 500
            assert content["message"] == "etcdserver: mvcc: database space exceeded"
            with serving(tmp_path / "other", member, "/registry") as second:
                assert names(call(second, "GET", CONFIGMAPS)) == names(
                    call(first, "GET", CONFIGMAPS)
                )
    finally:
        member.remove()


def test_prefixes_are_separate(
    servers: tuple[Server, Server], tmp_path: Path, etcd: Member, prefix: str
) -> None:
    """Servers with different prefixes share an etcd and do not see each other's objects."""
    create(servers[0], "a")
    with serving(tmp_path, etcd, prefix) as other:
        assert names(call(other, "GET", CONFIGMAPS)) == []


def test_servers_with_different_cas_do_not_fight(tmp_path: Path, etcd: Member, prefix: str) -> None:
    """Servers that publish different CAs update each namespace's ConfigMap at a bounded rate."""
    own = f"--cert-dir={tmp_path / 'own'}"
    with (
        serving(tmp_path / "one", etcd, prefix) as first,
        serving(tmp_path / "other", etcd, prefix, own),
    ):
        query = "watch=1&fieldSelector=metadata.name%3Dkube-root-ca.crt&timeoutSeconds=2"
        with open_response(first, "GET", f"{CONFIGMAPS}?{query}") as stream:
            assert len(stream.read().splitlines()) <= 4


def test_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server connects to an etcd that requires client certificates with --etcd-cafile, -certfile
    and -keyfile; without them the store does not open."""
    if version(programs()[0]) < "3.5":
        pytest.skip("this etcd's gateway shows the server's certificate as a client's")
    etcd_credentials = ensure_certificates(Config(), tmp_path / "etcd")
    member = Member(
        flags=(
            f"--cert-file={etcd_credentials.serving.certificate}",
            f"--key-file={etcd_credentials.serving.key}",
            f"--trusted-ca-file={etcd_credentials.ca}",
            "--client-cert-auth",
            f"--client-cert-file={etcd_credentials.admin.certificate}",  # for etcd's gateway
            f"--client-key-file={etcd_credentials.admin.key}",
        )
    )
    member.start()
    member.wait()
    etcd_flags = (
        f"--etcd-cafile={etcd_credentials.ca}",
        f"--etcd-certfile={etcd_credentials.admin.certificate}",
        f"--etcd-keyfile={etcd_credentials.admin.key}",
    )
    try:
        with serving(tmp_path / "one", member, "/registry", *etcd_flags) as first:
            made_here = create(first, "a")
            assert call(first, "GET", f"{CONFIGMAPS}/a") == made_here
        monkeypatch.setattr(backends, "START_TIMEOUT_SECONDS", 0.0)
        with pytest.raises(Unavailable, match="etcd: "):
            asyncio.run(backends.open_store(f"etcd:{member.url}"))
    finally:
        member.remove()


def test_users_and_passwords(tmp_path: Path) -> None:
    """A server logs in to etcd with --etcd-username and --etcd-password-file; without them it fails
    with etcd's message."""
    with running_member() as member:
        for arguments in (
            ("user", "add", "root:secret"),
            ("user", "grant-role", "root", "root"),
            ("auth", "enable"),
        ):
            control = [program("etcdctl"), f"--endpoints={member.url}", *ETCDCTL_FLAGS, *arguments]
            subprocess.run(control, check=True, capture_output=True)
        (tmp_path / "password").write_text("secret\n")
        flags = ("--etcd-username=root", f"--etcd-password-file={tmp_path / 'password'}")
        with serving(tmp_path / "one", member, "/registry", *flags) as first:
            created = create(first, "a")
            assert call(first, "GET", f"{CONFIGMAPS}/a") == created
        with pytest.raises(AssertionError, match="user name is empty"):
            start(tmp_path / "one", f"--etcd-servers={member.url}")
        with pytest.raises(AssertionError, match="--etcd-password-file must be set together"):
            start(tmp_path / "one", f"--etcd-servers={member.url}", flags[0])


def test_an_object_beyond_etcds_limit(servers: tuple[Server, Server]) -> None:
    """An object beyond etcd's request limit is 413 with etcd's message."""
    variable = {"name": "A", "value": "x" * 2_000_000}
    container = {"name": "c", "image": "i", "env": [variable]}
    body = {"metadata": {"name": "big"}, "spec": {"containers": [container]}}
    with open_response(servers[0], "POST", "/api/v1/namespaces/default/pods", body) as response:
        status_body = json.loads(response.read())
        assert response.status == 413, status_body
    assert status_body["reason"] == "RequestEntityTooLarge"
    assert status_body["message"] == "etcdserver: request is too large"
