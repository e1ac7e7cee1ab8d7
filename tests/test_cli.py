"""The flags of `kapiserver`, their help, and the Config that they make."""

import gc
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.durations import parse_duration
from kapiserver.apiserver.serving.process.logs import _quoted
from kapiserver.cli import main, parser
from kapiserver.server_config import config_of


@pytest.fixture(autouse=True)
def _process_settings() -> Iterator[None]:
    """Undo what `serve` sets for its process: handlers of the log, and the garbage collector."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    gc.enable()


def _config(*flags: str) -> Config:
    return config_of(parser().parse_args(["serve", *flags]))


def test_defaults() -> None:
    """Without flags all files are in the data directory."""
    config = _config()
    assert config.store.storage == f"sqlite:{Path('.data/kapiserver.db')}"
    assert config.certificates.cert_dir == Path(".data/certificates")
    assert config.serving.kubeconfig_out == Path(".data/kubeconfig")
    serving = config.serving
    assert (serving.bind_address, serving.secure_port, serving.insecure_port) == (
        "127.0.0.1", 6443, None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "name", "value"),
    [
        (["--secure-port=0"], "secure_port", 0),
        (["--insecure-port", "8080"], "insecure_port", 8080),
        (["--insecure-port=0"], "insecure_port", None),
        (["--storage=sqlite::memory:"], "storage", "sqlite::memory:"),
        (["--etcd-servers=http://a:1,http://b:2"], "storage", "etcd:http://a:1,http://b:2"),
        (["--etcd-prefix=/x"], "etcd_prefix", "/x"),
        (["--etcd-transport=gateway"], "etcd_transport", "gateway"),
        (["--etcd-cafile=ca"], "etcd_cafile", Path("ca")),
        (["--etcd-certfile=c", "--etcd-keyfile=k"], "etcd_certfile", Path("c")),
        (["--etcd-certfile=c", "--etcd-keyfile=k"], "etcd_keyfile", Path("k")),
        (["--event-ttl=1h30m"], "event_ttl", 5400),
        (["--unsafe-no-fsync"], "unsafe_no_fsync", True),
        (["--request-timeout=90s"], "request_timeout", 90.0),
        (["--max-requests-inflight=7"], "max_requests_inflight", 7),
        (["--max-mutating-requests-inflight=7"], "max_mutating_requests_inflight", 7),
        (["--anonymous-auth=false"], "anonymous_auth", False),
        (["--token-auth-file=t"], "token_auth_file", Path("t")),
        (["-vv"], "verbosity", 2),
        (["--v=2"], "verbosity", 0),
        (["--v", "4"], "verbosity", 1),
        (["--v=6"], "verbosity", 2),
        (["--vmodule=workqueue=2,a.*=1"], "vmodule", (("workqueue", 2), ("a.*", 1))),
        (["--logging-format=json"], "logging_format", "json"),
    ],
)
def test_flags(flags: list[str], name: str, value: object) -> None:
    """Each flag sets the setting of its name."""
    assert _config(*flags).settings()[name] == value


def test_flags_with_one_value() -> None:
    """Some flags of kube-apiserver may be set to what the server does anyway."""
    media_type = "--storage-media-type=application/vnd.kubernetes.protobuf"
    flags = (media_type, "--watch-cache", "--watch-cache-sizes=pods#1000,leases.coordination#9")
    assert _config(*flags).replace(flags=()) == _config().replace(flags=())


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        (
            "--storage-media-type=application/json",
            '--storage-media-type "application/json" invalid, allowed values: '
            "application/vnd.kubernetes.protobuf",
        ),
        ("--watch-cache=false", "--watch-cache=false: the watch cache cannot be turned off"),
        *(
            (f"--watch-cache-sizes=a#1,{text}", f"--watch-cache-sizes: {reason}: {text}")
            for text, reason in (
                ("pods", "invalid value of watch cache size"),
                ("pods#1#2", "invalid value of watch cache size"),
                ("pods#", "invalid size of watch cache size"),
                ("pods#x", "invalid size of watch cache size"),
                ("pods#-1", "watch cache size cannot be negative"),
                ("pods#0", "the watch cache cannot be turned off"),
            )
        ),
    ],
)
def test_values_of_kube_apiserver(flag: str, message: str, capsys) -> None:
    """A value that kube-apiserver has, and this server does not, is refused with the reason."""
    assert main(["serve", flag]) == 1
    assert capsys.readouterr().err == f"kapiserver: {message}\n"


@pytest.mark.parametrize(
    "flags",
    [
        ["--tls-cert-file=c"],
        ["--etcd-keyfile=k"],
        ["--storage=sqlite::memory:", "--etcd-servers=http://a:1"],
        ["--etcd-servers="],
    ],
)
def test_contradicting_flags(flags: list[str], capsys) -> None:
    """Flags that contradict each other end the command with a sentence, not with a traceback."""
    assert main(["serve", *flags]) == 1
    assert capsys.readouterr().err.startswith("kapiserver: --")


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--secure-port=x", "--secure-port: 'x' is not a number from 0 to 65535"),
        (
            "--max-requests-inflight=-1",
            "--max-requests-inflight: '-1' is not a number from 0 to 2147483648",
        ),
        ("--workers=0", "--workers: '0' is not a number from 1 to 256"),
        ("--event-ttl=5", "--event-ttl: '5' is not a duration such as 90s or 1h30m"),
        ("--anonymous-auth=maybe", "--anonymous-auth: 'maybe' is neither true nor false"),
        ("--tls-san=a,-b", "--tls-san: '-b' is neither a host name nor an IP address"),
        ("--vmodule=x", "--vmodule: 'x' is not of the form PATTERN=N"),
        ("--no-such-flag", "unrecognized arguments: --no-such-flag"),
    ],
)
def test_bad_flags(flag: str, message: str, capsys) -> None:
    """An unknown flag or a bad value prints the usage and the values that are allowed."""
    with pytest.raises(SystemExit):
        main(["serve", flag])
    stderr = capsys.readouterr().err
    assert stderr.startswith("usage: kapiserver")
    assert stderr.endswith(f"{message}\n")


def test_workers_need_fork(capsys, monkeypatch) -> None:
    """On a system without fork (Windows), `--workers` above 1 is an error."""
    monkeypatch.delattr("os.fork")
    assert main(["serve", "--workers=2", "--etcd-servers=http://a:1"]) == 1
    assert "--workers above 1 needs an operating system with fork" in capsys.readouterr().err


def test_version(capsys) -> None:
    """--version prints the version."""
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out.startswith("kapiserver 0.")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("1s", 1), ("1m30s", 90), ("1.5h", 5400), ("250ms", 0.25), ("3us", 3e-6),
     ("", None), ("5", None), ("-1s", None), ("1x", None), ("s", None), ("1s ", None)],
)  # fmt: skip
def test_durations(text: str, seconds: float | None) -> None:
    """Durations are written as in Go."""
    parsed = parse_duration(text)
    assert parsed == (None if seconds is None else pytest.approx(seconds))


def test_lines_cannot_be_forged() -> None:
    """Text that a client sends cannot break a log line."""
    assert _quoted('a\n"b"') == '"a\\n\\"b\\""'
    assert _quoted("plain/path") == "plain/path"


@pytest.mark.parametrize(
    "flag",
    [
        "--client-ca-file",
        "--service-account-key-file",
        "--service-account-signing-key-file",
        "--token-auth-file",
    ],
)
def test_unusable_files(flag: str, tmp_path: Path, capsys) -> None:
    """A file of the wrong kind ends the command with an error that names the file."""
    junk = tmp_path / "junk"
    junk.write_bytes(b"\x96\x00\xff")
    data, port = f"--data-dir={tmp_path}", "--secure-port=0"
    assert main(["serve", data, port, "--storage=sqlite::memory:", flag, str(junk)]) == 1
    assert capsys.readouterr().err.startswith(f"kapiserver: {junk}")
