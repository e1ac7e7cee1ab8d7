"""Pages for administrators: /statusz, /flagz, /configz and /debug/pprof/."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import shutil
import subprocess
import threading
import tracemalloc
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.debugging import heap_profile, pprof
from kapiserver.apiserver.debugging.cpu_profile import profile_cpu
from kapiserver.apiserver.debugging.heap_profile import profile_heap
from kapiserver.apiserver.debugging.pprof_format import Frame, Profile, Sample, encode_profile
from kapiserver.apiserver.debugging.stacks import count_stacks, stacks_text
from kapiserver.cli import parser
from kapiserver.codecs.protobuf.wire import read_varint
from kapiserver.server_config import config_of
from tests.apiserver.conftest import Api, Server

PLAIN = "text/plain; charset=utf-8"


def _typed(kind: str, version: str = "v1beta1", media: str = "application/json") -> str:
    return f"{media};v={version};g=config.k8s.io;as={kind}"


def test_statusz_as_text(api: Api) -> None:
    """The text has kube-apiserver's heading and lines, with a random delimiter."""
    response = api.get("/statusz", accept="*/*")
    assert (response.status, response.headers["Content-Type"]) == (200, PLAIN)
    lines = response.body.decode().split("\n")
    assert lines[:2] == ["", "apiserver statusz"]
    assert lines[2].startswith("Warning: This endpoint is not meant to be machine parseable")
    names = ("Started", "Up", "Go version", "Binary version", "Emulation version", "Paths")
    for line, name in zip(lines[4:], (*names, ""), strict=True):
        assert line.startswith(name), line
    assert lines[-2].endswith(" /configz /flagz /healthz /livez /metrics /readyz /statusz /version")


@pytest.mark.parametrize("media", ["application/json", "application/yaml"])
@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1"])
def test_statusz_as_object(api: Api, media: str, version: str) -> None:
    """A client that names the kind gets an object; the alpha version warns."""
    response = api.get("/statusz", accept=_typed("Statusz", version, media))
    tree = yaml.safe_load(response.body)
    assert response.headers["Content-Type"] == f"{media};g=config.k8s.io;v={version};as=Statusz"
    assert tree["kind"] == "Statusz"
    assert tree["apiVersion"] == f"config.k8s.io/{version}"
    assert tree["metadata"] == {"name": "apiserver"}
    assert (tree["binaryVersion"], tree["emulationVersion"]) == ("1.37.0", "1.37")
    assert tree["uptimeSeconds"] >= 0
    assert [text[:7] for text in response.warnings] == ['299 - "'] * (version == "v1alpha1")


@pytest.mark.parametrize(
    "accept",
    ["application/json", "image/png", _typed("Flagz"),
     _typed("Statusz", "v1"), "text/plain;v=v1beta1;g=config.k8s.io;as=Statusz"],
)  # fmt: skip
def test_statusz_not_acceptable(api: Api, accept: str) -> None:
    """Without a kind that the page has, JSON is refused, as kube-apiserver does."""
    response = api.get("/statusz", accept=accept)
    assert response.status == 406
    assert "application/json, application/yaml, text/plain" in response.message


def test_flagz(make_server: Callable[..., Server]) -> None:
    """The page has each flag with its value as Go writes it, and no password of a URL."""
    options = parser().parse_args(
        ["serve", "--request-timeout=90s", "--service-cluster-ip-range=http://root:secret@host",
         "--enable-admission-plugins=AlwaysPullImages,EventRateLimit"]
    )  # fmt: skip
    flags = config_of(options).debugging.flags
    api = make_server(flags=flags).api
    tree = api.get("/flagz", accept=_typed("Flagz")).json
    assert tree["metadata"] == {"name": "apiserver"}
    expected = {
        "request-timeout": "1m30s",
        "profiling": "true",
        "etcd-servers": "",
        "data-dir": ".data",
        "max-requests-inflight": "400",
        "service-cluster-ip-range": "http://CLASSIFIED@host",
        "enable-admission-plugins": "[AlwaysPullImages,EventRateLimit]",
    }
    assert {name: tree["flags"].get(name) for name in expected} == expected
    text = api.get("/flagz", accept="text/plain").body.decode()
    assert text.startswith("\napiserver flagz\nWarning: ")
    assert len(text.split("\n")) == len(tree["flags"]) + 4
    assert "secret" not in text


def test_configz(make_server: Callable[..., Server], tmp_path: Path) -> None:
    """The page has the settings by section, and no password of a URL."""
    server = make_server(cert_dir=tmp_path, etcd_username="x", request_timeout=7)
    response = server.api.get("/configz")
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    config = response.json["apiserver"]
    assert config["limits"]["request_timeout"] == 7
    assert config["certificates"]["cert_dir"] == str(tmp_path)
    assert config["features"]["feature_gates"]
    assert config.keys() - {"kind", "apiVersion"} == set(Config.__struct_fields__)


def test_pages_that_are_off(make_server: Callable[..., Server]) -> None:
    """Feature gates and --profiling=false turn pages off."""
    api = make_server(feature_gates=frozenset(), profiling=False).api
    for path in ("/statusz", "/flagz", "/debug/pprof", "/debug/pprof/", "/debug/pprof/heap"):
        assert api.get(path).status == 404
        assert path not in api.get("/").json["paths"]


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("", 302, ""),
        ("/", 200, '<li><a href="profile">'),
        ("/cmdline", 200, "\0"),
        ("/goroutine?debug=1", 200, "threading.py"),
        ("/mutex", 404, "Unknown profile\n"),
        ("/profile?seconds=301", 400, 'invalid value for "seconds" - must be from 1 to 300\n'),
        ("/profile?seconds=0", 400, "invalid value"),
        ("/heap?seconds=x", 400, "invalid value"),
        ("/looplag?seconds=-1", 400, "invalid value"),
        ("/looplag?seconds=1", 200, "<= 0.5 ms"),
        ("x", 404, "404 page not found\n"),
    ],
)  # fmt: skip
def test_pprof(api: Api, path: str, status: int, text: str) -> None:
    """The index and its pages; unknown names and times that are not allowed."""
    response = api.get(f"/debug/pprof{path}")
    assert response.status == status
    assert text in response.body.decode()


def test_one_profile_at_a_time(api: Api) -> None:
    """While a profile is taken, others are refused."""
    with pprof._busy:
        for name in ("profile", "heap", "looplag"):
            response = api.get(f"/debug/pprof/{name}?seconds=1")
            assert response.status == 409
            assert response.body == b"Could not enable profiling: profiling already in use\n"


def test_a_client_that_goes_ends_the_profile(api: Api) -> None:
    """The profile of a client that has closed its connection does not go on."""
    connection = http.client.HTTPConnection("127.0.0.1", api.port, timeout=60)
    connection.request("GET", "/debug/pprof/profile?seconds=300")
    while not pprof._busy.locked():
        api.get("/version")
    connection.close()
    assert pprof._busy.acquire(timeout=60)
    pprof._busy.release()


def _spin(stop: threading.Event) -> None:
    while not stop.is_set():
        sum(range(1000))


def test_cpu_profile_in_go(tmp_path: Path) -> None:
    """`go tool pprof -raw` reads a profile, which has the function that takes CPU."""
    stop = threading.Event()
    thread = threading.Thread(target=_spin, args=(stop,), name="spinner")
    thread.start()
    try:
        profile = profile_cpu(0.3, threading.Event())
    finally:
        stop.set()
        thread.join()
    text = _raw(encode_profile(profile), tmp_path)
    assert "samples/count cpu/nanoseconds" in text
    assert "PeriodType: cpu nanoseconds" in text
    assert "_spin" in text
    assert "spinner" in text


def test_heap_and_stacks_in_go(api: Api, tmp_path: Path) -> None:
    """`go tool pprof -raw` reads the profiles of memory and of stacks that the server serves."""
    heap = _raw(api.get("/debug/pprof/heap?seconds=1").body, tmp_path)
    assert "inuse_objects/count inuse_space/bytes" in heap
    stacks = _raw(api.get("/debug/pprof/goroutine").body, tmp_path)
    assert "goroutine/count" in stacks
    assert "run_server" in stacks


def _raw(profile: bytes, folder: Path) -> str:
    go = shutil.which("go")
    if go is None:
        pytest.skip("go is not on PATH")
    path = folder / "profile.pb.gz"
    path.write_bytes(profile)
    command = [go, "tool", "pprof", "-raw", str(path)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_heap_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    """The profile has the lines of allocations that are still in use; it ends when the traces take
    their maximum, and tracing with it."""
    monkeypatch.setattr(heap_profile, "MAX_TRACE_BYTES", 0)
    profile = profile_heap(300, threading.Event())
    assert profile.duration < 60e9
    assert not tracemalloc.is_tracing()
    tracemalloc.start(4)
    try:
        allocated = [bytes(1000) for _ in range(500)]
        samples = profile_heap(300, threading.Event()).samples
        assert tracemalloc.is_tracing()
    finally:
        tracemalloc.stop()
    assert max(sample.values[1] for sample in samples if sample.stack[0].file == __file__) >= (
        len(allocated) * 1000
    )


def test_stacks_of_tasks() -> None:
    """The stack of a task has each coroutine that awaits another one, the innermost first."""

    async def inner(release: asyncio.Event) -> None:
        await release.wait()

    async def outer(release: asyncio.Event) -> None:
        await inner(release)

    async def run() -> str:
        release = asyncio.Event()
        tasks = [asyncio.create_task(outer(release)) for _ in range(3)]
        await asyncio.sleep(0)
        text = stacks_text(count_stacks(asyncio.get_running_loop()))
        release.set()
        await asyncio.gather(*tasks)
        return text

    stack = asyncio.run(run()).partition("3 @ task\n")[2].split("\n")
    names = [line.split("\t")[1].rpartition(".")[2] for line in stack[: stack.index("")]]
    assert names == ["wait", "inner", "outer"]


_frames = st.builds(
    Frame, st.text(max_size=5), st.text(max_size=5), st.integers(0, 9), st.integers(0, 1 << 40)
)
_samples = st.builds(
    Sample,
    stack=st.lists(_frames, max_size=3).map(tuple),
    values=st.tuples(st.integers(-(1 << 63), (1 << 63) - 1)),
)


@given(st.lists(_samples, max_size=5))
def test_any_profile_is_encoded(samples: list[Sample]) -> None:
    """Each text, function and location is written once, and the first text is empty."""
    data = encode_profile(Profile(value_types=(("a", "b"),), samples=samples))
    decoded = _decode(data)
    texts = decoded[6]
    frames = {frame for sample in samples for frame in sample.stack}
    assert texts[0] == b""
    assert len(texts) == len(set(texts))
    assert len(decoded.get(2, [])) == len(samples)
    assert len(decoded.get(4, [])) == len(frames)
    assert len(decoded.get(5, [])) == len({frame[:3] for frame in frames})


def _decode(data: bytes) -> dict[int, list[bytes]]:
    """Return the delimited fields of the message, by their numbers."""
    message, offset = gzip.decompress(data), 0
    fields: dict[int, list[bytes]] = defaultdict(list)
    while offset < len(message):
        tag, offset = read_varint(message, offset)
        assert tag & 7 == 2
        length, offset = read_varint(message, offset)
        fields[tag >> 3].append(message[offset : offset + length])
        offset += length
    return fields
