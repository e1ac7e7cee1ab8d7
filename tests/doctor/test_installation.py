"""The checks of the server of this machine, each by a real fault."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import socket
import sqlite3
from pathlib import Path

import pytest

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.serving.tls.credentials import ensure_certificates
from kapiserver.doctor import machine
from kapiserver.doctor.checks import INSTALLATION_CHECKS
from kapiserver.doctor.finding import ERROR, INFO, WARNING
from kapiserver.doctor.stores import sqlite
from kapiserver.storage.sqlite.embedded_store import open_embedded
from tests.doctor.examined import installation, problems, write_certificate

BAD_POLICY = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Everything}]\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data directory with certificates and a store, as a server leaves it."""
    path = tmp_path / "data"
    path.mkdir(mode=0o700)
    ensure_certificates(Config(), path / "certificates")
    return path


def test_nothing_is_wrong(folder: Path) -> None:
    """A new installation has no errors, and no warnings but those of the machine."""
    examined = installation(folder)
    for check in INSTALLATION_CHECKS:
        if check.name not in ("clock", "open-files", "memory", "disk"):
            assert [each for each in check.run(examined) if each.severity != INFO] == []


@pytest.mark.parametrize(
    ("flag", "text", "message"),
    [
        ("--audit-policy-file", BAD_POLICY, "Everything"),
        ("--encryption-provider-config", "kind: Pod\n", "Pod"),
        ("--token-auth-file", "one,column\n", "token"),
        ("--tracing-config-file", "", "tracing configuration"),
    ],
)
def test_settings(folder: Path, tmp_path: Path, flag: str, text: str, message: str) -> None:
    """A file with which the server would not start is an error, with the server's words."""
    file = tmp_path / "file"
    if text:
        file.write_text(text)
    (problem,) = problems("settings", installation(folder, f"{flag}={file}"))
    assert problem.severity == ERROR
    assert message in problem.message
    assert os.listdir(folder) == ["certificates"]  # nothing was written


@pytest.mark.parametrize(
    ("storage", "message"),
    [("foo:bar", "want one of sqlite::memory:"), ("etcd:ftp://x", "ftp://x: want http://")],
)
def test_unknown_storage(folder: Path, storage: str, message: str) -> None:
    """A store that no backend opens is an error."""
    (problem,) = problems("settings", installation(folder, f"--storage={storage}"))
    assert message in problem.message


def test_certificate_without_key(folder: Path, tmp_path: Path) -> None:
    """A serving certificate with the key of another one is an error of the settings and of the
    key."""
    file = write_certificate(tmp_path / "a", "localhost")
    other = write_certificate(tmp_path / "b", "localhost").with_suffix(".key")
    examined = installation(folder, f"--tls-cert-file={file}", f"--tls-private-key-file={other}")
    assert [each.severity for each in problems("settings", examined)] == [ERROR]
    (problem,) = problems("certificate-keys", examined)
    assert (problem.about, problem.message) == (str(other), f"is not the key of {file}")


def test_ports(folder: Path) -> None:
    """A port that another program has is an error, unless the server itself runs."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        flag = f"--secure-port={other.getsockname()[1]}"
        (problem,) = problems("ports", installation(folder, flag))
        assert problem.message == "the server cannot listen here: Address already in use"
        assert problems("ports", installation(folder, flag, running=True)) == []
    address = ("--bind-address=192.0.2.1", "--secure-port=6443")
    (problem,) = problems("ports", installation(folder, *address))
    assert "--bind-address" in problem.remedy


@pytest.mark.parametrize(
    ("flags", "severity", "about"),
    [
        (["--authorization-mode=AlwaysAllow"], ERROR, "--authorization-mode=AlwaysAllow"),
        (
            ["--authorization-mode=AlwaysAllow", "--anonymous-auth=false"],
            WARNING,
            "--authorization-mode=AlwaysAllow",
        ),
        (["--insecure-port=8080"], WARNING, "--insecure-port"),
        (["--unsafe-no-fsync"], WARNING, "--unsafe-no-fsync"),
        (["--storage=sqlite::memory:"], WARNING, "--storage=sqlite::memory:"),
        (["--token-auth-file=tokens"], INFO, "--token-auth-file"),
    ],
)
def test_unsafe_settings(folder: Path, flags: list[str], severity: str, about: str) -> None:
    """Flags that let everybody in or lose data are named."""
    first = problems("unsafe-settings", installation(folder, *flags))[0]
    assert (first.severity, first.about) == (severity, about)


def test_file_rights(folder: Path, tmp_path: Path) -> None:
    """A key that others may read, and a folder that others may write to, are errors."""
    (folder / "certificates" / "ca.key").chmod(0o644)
    (folder / "certificates").chmod(0o770)
    tokens = tmp_path / "tokens.csv"
    tokens.write_text("token,name,uid\n")
    tokens.chmod(0o640)
    findings = problems("file-rights", installation(folder, f"--token-auth-file={tokens}"))
    assert [(each.severity, Path(each.about).name) for each in findings] == [
        (ERROR, "certificates"),
        (ERROR, "ca.key"),
        (WARNING, "tokens.csv"),
    ]
    assert findings[1].remedy == f"chmod 600 {folder}/certificates/ca.key"


@pytest.mark.parametrize(("mode", "count"), [(0o700, 0), (0o777, 1), (0o1777, 0)])
def test_rights_of_the_folder_of_the_store(
    folder: Path, tmp_path: Path, mode: int, count: int
) -> None:
    """A folder in which others may replace the store is an error."""
    store = tmp_path / "store"
    store.mkdir()
    store.chmod(mode)
    findings = problems("file-rights", installation(folder, f"--storage=sqlite:{store}/a.db"))
    assert [each.about for each in findings] == [str(store)] * count


@pytest.mark.parametrize(
    ("days", "severity", "message"),
    [
        (0, None, ""),
        (340, WARNING, "expires in 2"),
        (366, ERROR, "has expired on"),
        (-2, ERROR, "is not valid before"),
    ],
)
def test_certificate_expiry(folder: Path, days: int, severity: str | None, message: str) -> None:
    """The server's own certificates live a year."""
    findings = problems("certificate-expiry", installation(folder, days=days))
    assert {each.severity for each in findings} == ({severity} if severity else set())
    assert all(message in each.message for each in findings)


def test_expiry_of_flags(folder: Path, tmp_path: Path) -> None:
    """Certificates that flags name are examined, whatever the flag."""
    file = write_certificate(tmp_path / "ca", last_day=3)
    for flag in ("--client-ca-file", "--etcd-cafile", "--kubelet-certificate-authority"):
        (problem,) = problems("certificate-expiry", installation(folder, f"{flag}={file}"))
        assert (problem.severity, problem.about) == (WARNING, str(file))


def test_certificate_names(folder: Path, tmp_path: Path) -> None:
    """The serving certificate must be for the address in the kubeconfig."""
    file = write_certificate(tmp_path / "tls", "api.example.com")
    flags = [f"--tls-cert-file={file}", f"--tls-private-key-file={file.with_suffix('.key')}"]
    (problem,) = problems("certificate-names", installation(folder, *flags))
    assert problem.message.startswith("is not for 127.0.0.1, the address in the kubeconfig")
    assert problem.message.endswith("its names: api.example.com")


def test_open_files(folder: Path) -> None:
    """A low limit of open files is a warning."""
    usual, highest = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, highest))
    try:
        (problem,) = problems("open-files", installation(folder))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (usual, highest))
    assert problem.message.startswith("a process may have 256,")


def test_memory(folder: Path) -> None:
    """A low limit of memory is a warning."""
    assert len(problems("memory", installation(folder, "--max-memory=100Mi"))) == 1
    assert problems("memory", installation(folder, "--max-memory=1Gi")) == []


def test_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk with little free space is a warning, and an error if it is nearly full."""
    free = shutil.disk_usage(folder).free
    monkeypatch.setattr(machine, "FREE_BYTES", 0)
    monkeypatch.setattr(machine, "FULL_BYTES", 0)
    assert problems("disk", installation(folder)) == []
    monkeypatch.setattr(machine, "FREE_BYTES", 2 * free)
    (problem,) = problems("disk", installation(folder))
    assert problem.severity == WARNING
    monkeypatch.setattr(machine, "FULL_BYTES", 2 * free)
    (problem,) = problems("disk", installation(folder))
    assert problem.severity == ERROR


@pytest.fixture
def store(folder: Path) -> Path:
    """The file of a store with 20 versions of one object."""
    path = folder / "kapiserver.db"
    asyncio.run(_write(path, 20))
    return path


async def _write(path: Path, versions: int) -> None:
    store = await open_embedded(path)
    key = "/registry/configmaps/default/a"
    revision = await store.create(key, b"0")
    for number in range(1, versions):
        revision = await store.update(key, str(number).encode(), expected=revision)
    await store.close()


def test_damage(folder: Path, store: Path) -> None:
    """A store whose rows are missing is damaged."""
    assert problems("sqlite-damage", installation(folder)) == []
    with sqlite3.connect(store) as sql:
        sql.execute("DELETE FROM log WHERE revision = (SELECT max(revision) FROM log)")
    sql.close()
    (problem,) = problems("sqlite-damage", installation(folder))
    assert problem.severity == ERROR
    assert problem.message.startswith("the store is damaged: ")


def test_foreign_file(folder: Path) -> None:
    """A file that is no store is an error, and the other checks go on."""
    (folder / "kapiserver.db").write_bytes(b"no database" * 1000)
    (problem,) = problems("sqlite-damage", installation(folder))
    assert "database" in problem.message


def test_history(folder: Path, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A resource that changes all the time is named."""
    assert problems("sqlite-history", installation(folder)) == []
    monkeypatch.setattr(sqlite, "VERSIONS", 20)
    monkeypatch.setattr(sqlite, "VERSIONS_PER_OBJECT", 10)
    (problem,) = problems("sqlite-history", installation(folder))
    assert problem.about == "/registry/configmaps/"
    assert "20 versions of 1 objects" in problem.message


def test_size(folder: Path, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large file, free pages and a long write-ahead log are named."""
    assert problems("sqlite-size", installation(folder)) == []
    with sqlite3.connect(store) as sql:
        sql.execute("PRAGMA user_version")
        sql.execute("CREATE TABLE filler AS SELECT zeroblob(1000000) AS x")
        sql.execute("DROP TABLE filler")
    sql.close()
    monkeypatch.setattr(sqlite, "LARGE_BYTES", 1000)
    monkeypatch.setattr(sqlite, "FREE_BYTES", 5)
    with sqlite3.connect(store) as reader:  # the log stays while the file is open
        reader.execute("PRAGMA journal_mode = WAL")
        reader.execute("CREATE TABLE other (x)")
        reader.commit()
        findings = problems("sqlite-size", installation(folder))
    reader.close()
    assert [each.severity for each in findings] == [WARNING, INFO, WARNING]
