"""Users, passwords and TLS of the etcd store."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from kapiserver.storage.errors import Unavailable
from kapiserver.storage.etcd.store import open_etcd
from tests.storage.certificates import Certificates
from tests.storage.conftest import Configure, Open, answers
from tests.storage.etcd_server import ETCDCTL_FLAGS, Member, program
from tests.storage.recorder import Recorder


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


async def test_users_and_passwords(
    member: Member, users: Users, opened: Open, configure: Configure
) -> None:
    """With etcd's authentication on, the right user gets access, and keeps it when the token
    expires."""
    users.enable_authentication()
    with pytest.raises(Unavailable, match="user name is empty"):
        await open_etcd(configure(member.url))
    users.file.write_text("wrong")
    with pytest.raises(Unavailable, match="authentication failed"):
        await open_etcd(configure(member.url, **users.known))
    users.file.unlink()
    with pytest.raises(Unavailable, match="no password"):
        await open_etcd(configure(member.url, **users.known))
    users.file.write_text("secret\n")
    async with opened(member.url, **users.known) as store:
        recorder = Recorder()
        store.watch("/a/", after=await store.current_revision(), sink=recorder)
        await store.create("/a/x", b"")
        store._etcd._token = "expired"
        await asyncio.gather(*(store.create(f"/a/{number}", b"") for number in range(5)))
        await recorder.count(6)


async def test_a_watch_whose_token_is_lost(member: Member, users: Users, opened: Open) -> None:
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
        await answers(other_store)
        await other_store.create("/a/x", b"")  # `store` itself calls nothing
        await recorder.count(1)


async def test_authentication_is_turned_on_and_off(
    member: Member, users: Users, opened: Open
) -> None:
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


async def test_tls(tmp_path: Path, etcd_program: Path, opened: Open, configure: Configure) -> None:
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
                await open_etcd(configure(member.url, **options))
        for file in (tmp_path / "missing", Path(__file__)):
            with pytest.raises(OSError, match=file.name):
                await open_etcd(configure(member.url, cafile=file))
    finally:
        member.remove()
