"""Flags in, a Config out."""

from pathlib import Path

import pytest

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.durations import parse_duration
from kapiserver.apiserver.filters.headers import warning_header
from kapiserver.apiserver.serving.logs import _quoted
from kapiserver.cli import config_of, main, parser


def _config(*flags: str) -> Config:
    return config_of(parser().parse_args(["serve", *flags]))


def test_defaults() -> None:
    """Without flags everything lies below the data directory."""
    config = _config()
    assert config.storage == f"sqlite:{Path('.data/kapiserver.db')}"
    assert config.cert_dir == Path(".data/certificates")
    assert config.kubeconfig_out == Path(".data/kubeconfig")
    assert (config.bind_address, config.secure_port, config.insecure_port) == (
        "127.0.0.1", 6443, None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "name", "value"),
    [
        (["--secure-port=0"], "secure_port", 0),
        (["--insecure-port", "8080"], "insecure_port", 8080),
        (["--storage=sqlite::memory:"], "storage", "sqlite::memory:"),
        (["--etcd-servers=http://a:1,http://b:2"], "storage", "etcd:http://a:1,http://b:2"),
        (["--etcd-prefix=/x"], "etcd_prefix", "/x"),
        (["--etcd-cafile=ca"], "etcd_cafile", Path("ca")),
        (["--etcd-certfile=c", "--etcd-keyfile=k"], "etcd_certfile", Path("c")),
        (["--etcd-certfile=c", "--etcd-keyfile=k"], "etcd_keyfile", Path("k")),
        (["--event-ttl=1h30m"], "event_ttl", 5400),
        (["--request-timeout=90s"], "request_timeout", 90.0),
        (["--max-requests-inflight=7"], "max_requests_inflight", 7),
        (["--max-mutating-requests-inflight=7"], "max_mutating_requests_inflight", 7),
        (["--anonymous-auth=false"], "anonymous_auth", False),
        (["--token-auth-file=t"], "token_auth_file", Path("t")),
        (["-vv"], "verbosity", 2),
    ],
)
def test_flags(flags: list[str], name: str, value: object) -> None:
    """Each flag sets what it names."""
    assert getattr(_config(*flags), name) == value


@pytest.mark.parametrize(
    "flags",
    [
        ["--tls-cert-file=c"],
        ["--etcd-keyfile=k"],
        ["--storage=sqlite::memory:", "--etcd-servers=http://a:1"],
        ["--etcd-servers="],
    ],
)
def test_flags_that_do_not_go_together(flags: list[str], capsys) -> None:
    """Contradictions end the command with a sentence, not with a traceback."""
    assert main(["serve", *flags]) == 1
    assert capsys.readouterr().err.startswith("kapiserver: --")


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--secure-port=x", "--secure-port: 'x' is no number from 0 to 65535"),
        ("--workers=0", "--workers: '0' is no number from 1 to 256"),
        ("--event-ttl=5", "--event-ttl: '5' is no duration"),
        ("--anonymous-auth=maybe", "--anonymous-auth: 'maybe' is neither true nor false"),
        ("--no-such-flag", "unrecognized arguments: --no-such-flag"),
    ],
)
def test_bad_flags(flag: str, words: str, capsys) -> None:
    """What is no flag is refused with the usage, and with what would be one."""
    with pytest.raises(SystemExit):
        main(["serve", flag])
    told = capsys.readouterr().err
    assert told.startswith("usage: kapiserver")
    assert told.endswith(f"{words}\n")


def test_workers_where_nothing_forks(capsys, monkeypatch) -> None:
    """Where processes do not fork (Windows), several workers are refused at once."""
    monkeypatch.delattr("os.fork")
    assert main(["serve", "--workers=2", "--etcd-servers=http://a:1"]) == 1
    assert "--workers needs a system on which processes fork" in capsys.readouterr().err


def test_version(capsys) -> None:
    """--version says which."""
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out.startswith("kapiserver 0.")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("1s", 1), ("1m30s", 90), ("1.5h", 5400), ("250ms", 0.25), ("3us", 3e-6),
     ("", None), ("5", None), ("-1s", None), ("1x", None), ("s", None), ("1s ", None)],
)  # fmt: skip
def test_durations(text: str, seconds: float | None) -> None:
    """Durations are Go's."""
    found = parse_duration(text)
    assert found == (None if seconds is None else pytest.approx(seconds))


def test_lines_cannot_be_forged() -> None:
    """Nothing that a client sends breaks a log line or a header."""
    assert _quoted('a\n"b"') == '"a\\n\\"b\\""'
    assert _quoted("plain/path") == "plain/path"
    assert warning_header('a\r\n"b"\\') == '299 - "a  \\"b\\"\\\\"'


@pytest.mark.parametrize(
    "flag",
    [
        "--client-ca-file",
        "--service-account-key-file",
        "--service-account-signing-key-file",
        "--token-auth-file",
    ],
)
def test_files_that_are_no_good(flag: str, tmp_path: Path, capsys) -> None:
    """A file that is not what its flag wants ends the command at once, and is named."""
    junk = tmp_path / "junk"
    junk.write_bytes(b"\x96\x00\xff")
    data, port = f"--data-dir={tmp_path}", "--secure-port=0"
    assert main(["serve", data, port, "--storage=sqlite::memory:", flag, str(junk)]) == 1
    assert capsys.readouterr().err.startswith(f"kapiserver: {junk}")
