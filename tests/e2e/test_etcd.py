"""Several servers over one etcd: what one writes, the others show."""

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
from kapiserver.apiserver.serving.tls import ensure_certificates
from tests.e2e.cluster import (
    CONFIGMAPS,
    ENDS_WITHIN,
    Load,
    asked,
    call,
    create,
    names,
    serving,
)
from tests.e2e.programs import Server, start
from tests.storage.etcd_server import PATIENT, Member, free_port, program, programs, version


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


@pytest.fixture
def two(tmp_path: Path, etcd: Member, prefix: str) -> Iterator[tuple[Server, Server]]:
    """Two servers over one etcd."""
    with (
        serving(tmp_path / "one", etcd, prefix) as one,
        serving(tmp_path / "other", etcd, prefix) as other,
    ):
        yield one, other


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
    only = "fieldSelector=metadata.name=a"  # the cluster's CA may be published just now
    query = f"watch=1&resourceVersion={since}&{only}&timeoutSeconds={ENDS_WITHIN}"
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
            create(other, "beyond")
            page = call(other, "GET", f"{CONFIGMAPS}?limit=1")
        during = create(one, "during")
        with serving(tmp_path / "other", etcd, prefix) as other:
            assert call(other, "GET", f"{CONFIGMAPS}/before") == before
            assert names(call(other, "GET", CONFIGMAPS)) == ["before", "beyond", "during"]
            path = f"{CONFIGMAPS}?limit=9&continue={page['metadata']['continue']}"
            seen = names(page) + names(call(other, "GET", path))
            assert seen == ["before", "beyond"]
            since = before["metadata"]["resourceVersion"]
            query = f"watch=1&resourceVersion={since}&fieldSelector=metadata.name=during"
            with asked(other, "GET", f"{CONFIGMAPS}?{query}") as stream:
                assert json.loads(stream.readline()) == {"type": "ADDED", "object": during}


def test_a_rolling_restart_loses_nothing(tmp_path: Path, etcd: Member, prefix: str) -> None:
    """While servers restart one after another under load, every acknowledged write is kept, and a
    watch that goes on at the next server sees each event once."""
    ports = {name: free_port() for name in ("one", "other")}

    def starting(name: str) -> AbstractContextManager[Server]:
        return serving(tmp_path / name, etcd, prefix, f"--secure-port={ports[name]}")

    with ExitStack() as rest:
        with starting("one") as one:
            with starting("other") as other:
                since = call(one, "GET", CONFIGMAPS)["metadata"]["resourceVersion"]
                load = Load([one.url, other.url], one, since)
                running = load.running(writers=4)
                running.__enter__()
                rest.push(running)
                before = len(load.acknowledged)
            other = rest.enter_context(starting("other"))
        one = rest.enter_context(starting("one"))
        running.__exit__(None, None, None)
        assert len(load.acknowledged) > before + 10
        load.check(one)
        load.check(other)


def test_one_leader(two: tuple[Server, Server]) -> None:
    """Of candidates at several servers that take a Lease at once, one gets it each time."""
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    lease = {"metadata": {"name": "leader"}, "spec": {"holderIdentity": "nobody"}}

    def attempt(ask: Callable[[Server, str], bool], turn: int) -> list[str]:
        """Who of all that ask at once is told that it has got it."""
        candidates = {f"candidate-{turn}-{number}": two[number % 2] for number in range(6)}
        with ThreadPoolExecutor(6) as threads:
            got = threads.map(lambda one: ask(candidates[one], one), candidates)
            return [one for one, has in zip(candidates, got, strict=True) if has]

    def make(server: Server, candidate: str) -> bool:
        with asked(server, "POST", path, lease) as answer:
            assert answer.status in (201, 409)
            return answer.status == 201

    assert len(attempt(make, 0)) == 1
    for turn in range(5):
        seen = call(two[0], "GET", f"{path}/leader")

        def take(server: Server, candidate: str, seen: Any = seen) -> bool:
            wanted = {**seen, "spec": {"holderIdentity": candidate}}
            with asked(server, "PUT", f"{path}/leader", wanted) as answer:
                assert answer.status in (200, 409)
                return answer.status == 200

        (winner,) = attempt(take, turn)
        held = [call(one, "GET", f"{path}/leader")["spec"]["holderIdentity"] for one in two]
        assert held == [winner, winner]


@pytest.mark.slow
def test_a_hung_etcd(tmp_path: Path) -> None:
    """While etcd hangs, /readyz is red and requests fail, all in bounded time; afterwards nothing
    is lost or shown twice."""
    member = Member()
    member.start()
    member.wait()
    try:
        with serving(tmp_path / "one", member, "/registry") as one:
            since = call(one, "GET", CONFIGMAPS)["metadata"]["resourceVersion"]
            load = Load([one.url], one, since)
            with load.running(writers=2):
                create(one, "before")
                member.hang()
                began = time.monotonic()
                with asked(one, "GET", "/readyz") as answer:
                    assert answer.status == 500
                assert time.monotonic() - began < 4
                for method, path in (("GET", CONFIGMAPS), ("POST", CONFIGMAPS)):
                    with asked(one, method, path, {"metadata": {"generateName": "x"}}) as answer:
                        assert answer.status in (503, 504)
                assert time.monotonic() - began < 20
                member.resume()
                until = time.monotonic() + ENDS_WITHIN
                while time.monotonic() < until:
                    with asked(one, "GET", "/readyz") as answer:
                        if answer.status == 200:
                            break
                create(one, "after")
            load.check(one)
    finally:
        member.remove()


def test_an_etcd_without_space(tmp_path: Path) -> None:
    """Writes to a full etcd fail in its words, and what is there can be read, in a server that
    starts meanwhile too."""
    member = Member(flags=["--quota-backend-bytes=4000000"])
    member.start()
    member.wait()
    body = {"metadata": {"generateName": "large"}, "data": {"k": "x" * 900_000}}
    try:
        with serving(tmp_path / "one", member, "/registry") as one:
            for _ in range(8):
                with asked(one, "POST", CONFIGMAPS, body) as answer:
                    last = answer.status, json.loads(answer.read())
            assert last[0] == 500
            assert last[1]["message"] == "etcdserver: mvcc: database space exceeded"
            with serving(tmp_path / "other", member, "/registry") as other:
                assert names(call(other, "GET", CONFIGMAPS)) == names(call(one, "GET", CONFIGMAPS))
    finally:
        member.remove()


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
    if version(programs()[0]) < "3.5":
        pytest.skip("this etcd's gateway shows the server's certificate as a client's")
    made = ensure_certificates(Config(), tmp_path / "etcd")
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


def test_users_and_passwords(tmp_path: Path) -> None:
    """A server gets into an etcd that asks for a password by --etcd-username and
    --etcd-password-file, and is refused with etcd's words without them."""
    member = Member()
    member.start()
    member.wait()
    try:
        for words in (
            ("user", "add", "root:secret"),
            ("user", "grant-role", "root", "root"),
            ("auth", "enable"),
        ):
            control = [program("etcdctl"), f"--endpoints={member.url}", *PATIENT, *words]
            subprocess.run(control, check=True, capture_output=True)
        (tmp_path / "password").write_text("secret\n")
        known = ("--etcd-username=root", f"--etcd-password-file={tmp_path / 'password'}")
        with serving(tmp_path / "one", member, "/registry", *known) as one:
            made = create(one, "a")
            assert call(one, "GET", f"{CONFIGMAPS}/a") == made
        with pytest.raises(AssertionError, match="user name is empty"):
            start(tmp_path / "one", f"--etcd-servers={member.url}")
        with pytest.raises(AssertionError, match="--etcd-password-file must be set together"):
            start(tmp_path / "one", f"--etcd-servers={member.url}", known[0])
    finally:
        member.remove()


def test_an_object_that_etcd_will_not_take(tmp_path: Path, etcd: Member, prefix: str) -> None:
    """An object beyond etcd's limit for a request is 413 with etcd's words, not a server's
    failure."""
    with serving(tmp_path / "one", etcd, prefix) as one:
        variable = {"name": "A", "value": "x" * 2_000_000}
        container = {"name": "c", "image": "i", "env": [variable]}
        body = {"metadata": {"name": "big"}, "spec": {"containers": [container]}}
        with asked(one, "POST", "/api/v1/namespaces/default/pods", body) as answer:
            found = json.loads(answer.read())
            assert answer.status == 413, found
        assert found["reason"] == "RequestEntityTooLarge"
        assert found["message"] == "etcdserver: request is too large"
