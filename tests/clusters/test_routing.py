"""Which requests are for which cluster."""

from __future__ import annotations

import pytest

from kapiserver.apiserver.request import Request, parse_target
from kapiserver.apiserver.request_info import parse_request_info
from kapiserver.clusters.routing import Destination, Router, enter

PATHS: list[tuple[str, tuple[str, str] | None]] = [
    ("/clusters/a/api", ("a", "/api")),
    ("/clusters/a", ("a", "/")),
    ("/clusters/a/", ("a", "/")),
    ("/clusters/a?x=1", ("a", "/")),
    ("/clusters/a-1/api/v1/namespaces?limit=1", ("a-1", "/api/v1/namespaces")),
    ("/clusters/a/../b/api", ("a", "/../b/api")),
    ("/clusters/a//clusters/b/api", ("a", "//clusters/b/api")),
    ("/clusters/a/clusters/b/api", ("a", "/clusters/b/api")),
    ("/clusters/a/%2e%2e/b/api", ("a", "/../b/api")),
    ("/clusters/" + "a" * 63, ("a" * 63, "/")),
    ("/clusters/" + "a" * 64, None),
    ("/clusters/A/api", None),
    ("/clusters/a%2fb/api", None),
    ("/clusters/a%2Fapi", None),
    ("/clusters/%61/api", None),
    ("/clusters/../api", None),
    ("/clusters/./api", None),
    ("/clusters//a/api", None),
    ("/clusters/-a/api", None),
    ("/clusters/a-/api", None),
    ("/clusters/a.b/api", ("a.b", "/api")),
    ("/clusters/a..b/api", None),
    ("/clusters/a./api", None),
    ("/clusters/.a/api", None),
    ("/clusters/a.-b/api", None),
    ("/clusters/a:b/api", None),
    ("/clusters/" + ".".join("abcdefgh"), (".".join("abcdefgh"), "/")),
    ("/clusters/" + ".".join("abcdefghi"), None),
    ("/clusters/a;b/api", None),
    ("/clusters/a\n/api", None),
    ("/clusters", None),
    ("/clusters/", None),
    ("//clusters/a/api", None),
    ("/./clusters/a/api", None),
    ("/api/clusters/a", None),
    ("/Clusters/a/api", None),
    ("http://host/clusters/a/api", None),
]


def _request(uri: str, host: str = "127.0.0.1:6443") -> Request:
    target = parse_target(uri)

    async def read_body(_: int) -> bytes:
        return b""

    return Request(
        method="GET",
        path=target.path,
        query=target.query,
        headers={"Host": host},
        info=parse_request_info("GET", target.path, target.query),
        uri=uri,
        read_body=read_body,
    )


@pytest.mark.parametrize(("uri", "expected"), PATHS)
def test_paths(uri: str, expected: tuple[str, str] | None) -> None:
    """A request is for a cluster if its path has the name as it is written; what follows is the
    path in the cluster, and leads to no other one."""
    request = _request(uri)
    destination = Router("").destination(request)
    if expected is None:
        assert destination is None
        return
    assert destination is not None
    enter(request, destination)
    assert (destination.name, request.path) == expected
    assert request.info.path in ("", request.path)
    assert request.uri.startswith("/")


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("a.example.com", "a"),
        ("A.Example.COM:6443", "a"),
        ("a.example.com.", "a"),
        ("example.com", None),
        ("b.a.example.com", "b.a"),
        ("b..a.example.com", None),
        (".example.com", None),
        ("a.example.org", None),
        ("axexample.com", None),
        ("a.example.com.org", None),
        ("a.example.com:x", None),
        ("", None),
    ],
)
def test_hosts(host: str, name: str | None) -> None:
    """A subdomain of the domain names a cluster, whose whole path is the path in the cluster."""
    request = _request("/clusters/b/api", host)
    destination = Router("example.com").destination(request)
    if name is None:
        assert destination == Destination("b", "/clusters/b")
        return
    assert destination == Destination(name, "")
    enter(request, destination)
    assert request.path == "/clusters/b/api"
