"""Properties of the etcd store only: broken and hung connections, several members, TLS, users."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import subprocess
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import pytest

from kapiserver.storage import etcd, etcd_store
from kapiserver.storage.backends import open_store
from kapiserver.storage.errors import (
    Compacted,
    Refused,
    Unavailable,
    ValueTooLarge,
)
from kapiserver.storage.etcd_config import EtcdConfig
from kapiserver.storage.etcd_responses import base64_text
from kapiserver.storage.etcd_store import EtcdStore, open_etcd
from tests.storage.etcd_server import ETCDCTL_FLAGS, Member, free_port, program, shared_etcd
from tests.storage.recorder import Recorder


@asynccontextmanager
async def opened(*urls: str, **more: object) -> AsyncIterator[EtcdStore]:
    config = EtcdConfig(endpoints=urls, **({"prefix": f"/{uuid.uuid4().hex}"} | more))  # type: ignore[arg-type]
    store = await open_etcd(config)
    try:
        yield store
    finally:
        await store.close()


async def responses(store: EtcdStore) -> None:
    """Return when etcd answers again."""
    async with asyncio.timeout(60):
        while True:
            with suppress(Unavailable):
                await store.current_revision()
                return
            await asyncio.sleep(0.01)


@pytest.fixture
def shared_url(etcd_program: Path) -> str:
    """The URL of a member that tests share."""
    return shared_etcd(etcd_program).url


@pytest.fixture
def member(etcd_program: Path) -> Iterator[Member]:
    """A member of one test, which may kill or hang it."""
    member = Member(etcd=etcd_program)
    member.start()
    member.wait()
    yield member
    member.remove()


async def test_two_stores_see_each_other(shared_url: str) -> None:
    """Writes of one server are visible to reads and watches of another."""
    url = shared_url
    prefix = f"/{uuid.uuid4().hex}"
    first = await open_etcd(EtcdConfig(endpoints=(url,), prefix=prefix))
    second = await open_etcd(EtcdConfig(endpoints=(url,), prefix=prefix))
    recorder = Recorder()
    watch = second.watch("/a/", after=await first.current_revision(), sink=recorder)
    revision = await first.create("/a/x", b"")
    assert await second.current_revision() >= revision
    watch.request_progress()
    await recorder.wait_until(lambda: recorder.progressed)
    assert recorder.progressed[0] >= revision
    assert recorder.keys() == ["/a/x"]
    await first.close()
    await second.close()


async def test_keys_and_values_are_stored_unchanged(member: Member) -> None:
    """Without a prefix, etcd has exactly the keys and values that were written."""
    store = await open_store(f"etcd:{member.url}")
    await store.create("/registry/pods/default/x", b"k8s\0bytes")
    command = [
        program("etcdctl"),
        f"--endpoints={member.url}",
        *ETCDCTL_FLAGS,
        "get",
        "--prefix",
        "/registry",
    ]
    output = subprocess.run(command, capture_output=True, check=True).stdout  # noqa: ASYNC221
    assert output == b"/registry/pods/default/x\nk8s\0bytes\n"
    await store.close()


async def test_keys_that_are_not_text(shared_url: str) -> None:
    """A key that another program wrote and that is not UTF-8 can be listed, watched and deleted,
    and does not block later events."""
    async with opened(shared_url) as store:
        recorder = Recorder()
        store.watch("/a/", after=await store.current_revision(), sink=recorder)
        key = base64_text(store._prefix.encode() + b"/a/\xff\xfe")
        await store._etcd.write("/kv/put", {"key": key, "value": base64_text(b"v")})
        await store.create("/a/x", b"")
        await recorder.count(2)
        page = await store.range("/a/")
        assert [item.key for item in page.items] == ["/a/x", recorder.keys()[0]]
        await store.delete(page.items[1].key, expected=page.items[1].revision)
        await recorder.count(3)


async def test_progress_with_other_users(shared_url: str) -> None:
    """A watch gets progress even if the newest revision belongs to a key of another store."""
    url = shared_url
    async with opened(url) as store, opened(url) as other_store:
        recorder = Recorder()
        watch = store.watch("/a/", after=await store.current_revision(), sink=recorder)
        revision = await other_store.create("/a/x", b"")
        watch.request_progress()
        await recorder.wait_until(lambda: recorder.progressed)
        assert recorder.progressed[0] >= revision
        assert not recorder.seen


async def test_large_ranges_come_in_pieces(
    monkeypatch: pytest.MonkeyPatch, shared_url: str
) -> None:
    """A range that needs several calls is one snapshot."""
    monkeypatch.setattr(etcd_store, "PAGE", 7)
    async with opened(shared_url) as store:
        await asyncio.gather(*(store.create(f"/a/{number:02}", b"") for number in range(30)))
        page = await store.range("/a/")
        assert [item.key for item in page.items] == [f"/a/{number:02}" for number in range(30)]
        page = await store.range("/a/", limit=20)
        assert (len(page.items), page.remaining) == (20, 10)


async def test_a_watch_goes_on_after_a_restart(member: Member) -> None:
    """After a restart of etcd a watch delivers every later event once."""
    async with opened(member.url) as store:
        recorder = Recorder()
        store.watch("/a/", after=await store.current_revision(), sink=recorder)
        await store.create("/a/before", b"")
        await recorder.count(1)
        member.kill()
        with pytest.raises(Unavailable):
            await store.create("/a/lost", b"")
        with pytest.raises(Unavailable):
            await store.get("/a/before")
        member.start()
        member.wait()
        await store.create("/a/after", b"")
        await recorder.count(2)
        assert recorder.keys() == ["/a/before", "/a/after"]


async def test_a_watch_that_missed_what_was_compacted_ends(member: Member) -> None:
    """A watch that was disconnected while its history was compacted ends with Compacted; a new
    watch works."""
    async with opened(member.url) as store, opened(member.url) as other_store:
        recorder = Recorder()
        store.watch("/a/", after=await store.current_revision(), sink=recorder)
        await store.create("/a/x", b"")
        await recorder.count(1)
        assert store._stream is not None
        store._stream.cancel()  # acts like a broken connection
        for number in range(3):
            last = await other_store.create(f"/b/{number}", b"")
        await other_store.compact(last)
        store._stream = asyncio.create_task(store._run_stream())  # and tries again
        assert isinstance(await recorder.end(), Compacted)
        second_recorder = Recorder()
        store.watch("/a/", after=await store.current_revision(), sink=second_recorder)
        await store.create("/a/y", b"")
        await second_recorder.count(1)


async def test_a_hung_etcd_is_unavailable_in_bounded_time(
    member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls to an etcd that accepts and does not answer fail within a bounded time, and succeed
    after it recovers."""
    async with opened(member.url) as store:
        revision = await store.create("/a/x", b"")
        monkeypatch.setattr(etcd, "CALL_SECONDS", 0.5)
        member.hang()
        for operation in (
            lambda: store.get("/a/x"),
            lambda: store.range("/a/"),
            lambda: store.create("/a/y", b""),
            lambda: store.update("/a/x", b"", expected=revision),
            lambda: store.current_revision(),
            lambda: store.compact(revision),
        ):
            async with asyncio.timeout(20):
                with pytest.raises(Unavailable):
                    await operation()
        monkeypatch.undo()
        member.resume()
        await responses(store)  # recovery takes a while
        assert (await store.get("/a/x")).item is not None


async def test_a_stream_that_falls_silent_is_replaced(
    member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watch whose stream hangs while etcd answers is reopened and loses no event."""
    monkeypatch.setattr(etcd_store, "SILENT_STREAM_SECONDS", 0.3)
    async with opened(member.url) as store:
        recorder = Recorder()
        watch = store.watch("/a/", after=await store.current_revision(), sink=recorder)
        assert store._stream is not None
        store._stream.cancel()  # acts like a stream without events
        await store.create("/a/x", b"")
        watch.request_progress()
        await recorder.count(1)


async def test_a_value_beyond_etcds_limit(member: Member) -> None:
    """A value that etcd or its gateway refuses is ValueTooLarge, and is not written."""
    async with opened(member.url) as store:
        revision = await store.create("/a/x", b"")
        for size in (1_600_000, 2_200_000, 3_000_000):
            with pytest.raises(ValueTooLarge):
                await store.create("/a/y", bytes(size))
            with pytest.raises(ValueTooLarge):
                await store.update("/a/x", bytes(size), expected=revision)
        await store.update("/a/x", bytes(1_500_000), expected=revision)
        assert [item.key for item in (await store.range("/a/")).items] == ["/a/x"]


async def test_an_etcd_without_space(etcd_program: Path) -> None:
    """A full etcd refuses writes with its own message, and reads succeed, also in servers that
    start later."""
    member = Member(flags=["--quota-backend-bytes=2000000"], etcd=etcd_program)
    try:
        member.start()
        member.wait()
        async with opened(member.url) as store:

            async def fill() -> None:
                for number in range(10):
                    await store.create(f"/a/{number}", bytes(1_000_000))

            with pytest.raises(Refused, match=r"^etcdserver: mvcc: database space exceeded$"):
                await fill()
            async with opened(member.url) as other_store:
                for item in (store, other_store):
                    assert (await item.current_revision()) > 1
            assert (await store.range("/a/")).items
    finally:
        member.remove()


@contextmanager
def cluster(etcd: Path) -> Iterator[list[Member]]:
    """Three members with an elected leader."""
    peers = {name: free_port() for name in ("one", "two", "three")}
    flags = ("--heartbeat-interval=100", "--election-timeout=1000")  # generous for busy machines
    members = [Member(name, peers, flags, etcd) for name in peers]
    try:
        for member in members:
            member.start()
        for member in members:
            member.wait()
        yield members
    finally:
        for member in members:
            member.remove()


async def is_leader(member: Member) -> bool:
    """Whether a member is the leader of its cluster."""
    async with opened(member.url) as store:
        status = await store._etcd.read("/maintenance/status", {})
        return bool(status["leader"] == status["header"]["member_id"])


@pytest.mark.parametrize("end", [Member.kill, Member.hang], ids=["killed", "hung"])
@pytest.mark.parametrize("leader", [True, False], ids=["leader", "follower"])
async def test_failover(
    etcd_program: Path,
    leader: bool,
    end: Callable[[Member], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If the member that a store uses is killed or hangs, calls and watches continue at the others,
    and each event is delivered once, in order."""
    with cluster(etcd_program) as members:
        leading: list[bool] = []
        while leading.count(True) != 1:
            leading = [await is_leader(member) for member in members]
        first = members[leading.index(leader)]
        other_members = [member for member in members if member is not first]
        async with opened(first.url, *(member.url for member in other_members)) as store:
            recorder = Recorder()
            store.watch("/a/", after=await store.current_revision(), sink=recorder)
            acknowledged = []
            for number in range(10):
                await store.create(f"/a/{number}", b"")
            monkeypatch.setattr(etcd, "CALL_SECONDS", 1.0)
            end(first)
            async with asyncio.timeout(60):
                while len(acknowledged) < 30:
                    number += 1
                    with suppress(Unavailable):  # the failed create may have been applied
                        await store.create(f"/a/{number}", b"")
                        acknowledged.append(f"/a/{number}")
            stored_keys = {item.key for item in (await store.range("/a/")).items}
            assert set(acknowledged) <= stored_keys
            await recorder.wait_until(lambda: stored_keys <= set(recorder.keys()))
            assert sorted(recorder.keys()) == sorted(stored_keys)
            revisions = [event.revision for event in recorder.seen]
            assert revisions == sorted(revisions)


async def test_no_etcd() -> None:
    """Opening a store without a server raises Unavailable."""
    nowhere = tuple(f"http://127.0.0.1:{free_port()}" for _ in range(2))
    with pytest.raises(Unavailable):
        await open_etcd(EtcdConfig(endpoints=nowhere))


class Users:
    """Controls the authentication of a member; root's password is in a file."""

    def __init__(self, member: Member, folder: Path) -> None:
        self._member = member
        self.file = folder / "password"
        self.file.write_text("secret\n")
        self.known = {"username": "root", "password_file": self.file}
        self._control("user", "add", "root:secret")
        self._control("user", "grant-role", "root", "root")

    def enable_authentication(self) -> None:
        """Turn authentication on."""
        self._control("auth", "enable")

    def disable_authentication(self) -> None:
        """Turn authentication off."""
        self._control("auth", "disable", "--user=root:secret")

    def change(self, password: str) -> None:
        """Change the password, which invalidates tokens, and write it to the file."""
        command = ("user", "passwd", "root", "--interactive=false", "--user=root:secret")
        self._control(*command, stdin=password)
        self.file.write_text(password)

    def _control(self, *words: str, stdin: str = "") -> None:
        command = [program("etcdctl"), f"--endpoints={self._member.url}", *ETCDCTL_FLAGS, *words]
        process = subprocess.run(command, check=False, capture_output=True, input=stdin, text=True)
        assert not process.returncode, process.stderr


@pytest.fixture
def users(member: Member, tmp_path: Path) -> Users:
    return Users(member, tmp_path)


async def test_users_and_passwords(member: Member, users: Users) -> None:
    """With etcd's authentication on, the right user gets access, and keeps it when the token
    expires."""
    users.enable_authentication()
    with pytest.raises(Unavailable, match="user name is empty"):
        await open_etcd(EtcdConfig(endpoints=(member.url,)))
    users.file.write_text("wrong")
    with pytest.raises(Unavailable, match="authentication failed"):
        await open_etcd(EtcdConfig(endpoints=(member.url,), **users.known))  # type: ignore[arg-type]
    users.file.unlink()
    with pytest.raises(Unavailable, match="no password"):
        await open_etcd(EtcdConfig(endpoints=(member.url,), **users.known))  # type: ignore[arg-type]
    users.file.write_text("secret\n")
    async with opened(member.url, **users.known) as store:
        recorder = Recorder()
        store.watch("/a/", after=await store.current_revision(), sink=recorder)
        await store.create("/a/x", b"")
        store._etcd._gateway.token = "expired"
        await asyncio.gather(*(store.create(f"/a/{number}", b"") for number in range(5)))
        await recorder.count(6)


async def test_a_watch_whose_token_is_lost(member: Member, users: Users) -> None:
    """When etcd loses its tokens in a restart, watches log in again."""
    users.enable_authentication()
    credentials = {**users.known, "prefix": "/shared"}
    async with (
        opened(member.url, **credentials) as store,
        opened(member.url, **credentials) as other_store,
    ):
        recorder = Recorder()
        store.watch("/a/", after=await store.current_revision(), sink=recorder)
        member.kill()
        member.start()
        member.wait()
        await responses(other_store)
        await other_store.create("/a/x", b"")  # `store` itself calls nothing
        await recorder.count(1)


async def test_authentication_is_turned_on_and_off(member: Member, users: Users) -> None:
    """Credentials are ignored if etcd asks for none, and used when authentication is turned on or
    the password changes."""
    async with opened(member.url, **users.known) as store:
        await store.create("/a/1", b"")
        users.enable_authentication()
        await store.create("/a/2", b"")
        users.disable_authentication()
        await store.create("/a/3", b"")
        users.enable_authentication()
        await store.create("/a/4", b"")
        users.change("other")
        await store.create("/a/5", b"")
        assert len((await store.range("/a/")).items) == 5


class Certificates:
    """A certificate authority, a server's certificate and a client's, as files."""

    def __init__(self, folder: Path, name: str) -> None:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import NameOID

        now = datetime.datetime.now(datetime.UTC)
        day = datetime.timedelta(days=1)
        signer = ec.generate_private_key(ec.SECP256R1())
        issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])

        def sign(subject: str, ca: bool) -> Path:
            key = signer if ca else ec.generate_private_key(ec.SECP256R1())
            subject_attributes = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
            address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
            certificate = (
                x509.CertificateBuilder()
                .subject_name(issuer if ca else subject_attributes)
                .issuer_name(issuer)
                .public_key(key.public_key())
                .serial_number(x509.random_serial_number())
                .not_valid_before(now - day)
                .not_valid_after(now + day)
                .add_extension(x509.BasicConstraints(ca, None), critical=True)
                .add_extension(x509.SubjectAlternativeName([address]), critical=False)
                .sign(signer, hashes.SHA256())
            )
            pem = serialization.Encoding.PEM
            path = folder / f"{name}-{subject}.crt"
            path.write_bytes(certificate.public_bytes(pem))
            path.with_suffix(".key").write_bytes(
                key.private_bytes(
                    pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
                )
            )
            return path

        self.ca = sign("ca", ca=True)
        self.server = sign("server", ca=False)
        self.client = sign("client", ca=False)


async def test_tls(tmp_path: Path, etcd_program: Path) -> None:
    """Both sides verify certificates; a server of another authority is refused."""
    certificates, other_ca = Certificates(tmp_path, "ours"), Certificates(tmp_path, "theirs")
    flags = [
        f"--cert-file={certificates.server}",
        f"--key-file={certificates.server.with_suffix('.key')}",
        f"--trusted-ca-file={certificates.ca}",
        "--client-cert-auth",
    ]
    member = Member(flags=flags, etcd=etcd_program)
    try:
        member.start()
        member.wait()
        client = {
            "certfile": certificates.client,
            "keyfile": certificates.client.with_suffix(".key"),
        }
        async with opened(member.url, cafile=certificates.ca, **client) as store:
            recorder = Recorder()
            store.watch("/a/", after=await store.current_revision(), sink=recorder)
            await store.create("/a/x", b"")
            await recorder.count(1)
        for options in (
            {"cafile": other_ca.ca, **client},
            {"cafile": certificates.ca},
            {},
        ):
            with pytest.raises(Unavailable):
                await open_etcd(EtcdConfig(endpoints=(member.url,), **options))  # type: ignore[arg-type]
        for file in (tmp_path / "missing", Path(__file__)):
            with pytest.raises(OSError, match=file.name):
                await open_etcd(EtcdConfig(endpoints=(member.url,), cafile=file))
    finally:
        member.remove()
