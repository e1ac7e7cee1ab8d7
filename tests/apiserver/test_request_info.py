"""RequestInfo: verb, resource and name from method, path and query."""

import pytest

from kapiserver.api.group import GroupVersion
from kapiserver.apiserver.request import parse_query
from kapiserver.apiserver.request_info import RequestInfo, parse_request_info

CORE = GroupVersion("", "v1")
APPS = GroupVersion("apps", "v1")

CASES = [
    # method, target, verb, version, namespace, resource, name, subresource
    ("GET", "/api/v1/pods", "list", CORE, "", "pods", "", ""),
    ("GET", "/api/v1/namespaces/a/pods", "list", CORE, "a", "pods", "", ""),
    ("GET", "/api/v1/namespaces/a/pods/b", "get", CORE, "a", "pods", "b", ""),
    ("HEAD", "/api/v1/namespaces/a/pods/b", "get", CORE, "a", "pods", "b", ""),
    ("GET", "/api/v1/namespaces/a/pods/b/status", "get", CORE, "a", "pods", "b", "status"),
    ("POST", "/api/v1/namespaces/a/pods", "create", CORE, "a", "pods", "", ""),
    ("PUT", "/api/v1/namespaces/a/pods/b", "update", CORE, "a", "pods", "b", ""),
    ("PATCH", "/api/v1/namespaces/a/pods/b", "patch", CORE, "a", "pods", "b", ""),
    ("DELETE", "/api/v1/namespaces/a/pods/b", "delete", CORE, "a", "pods", "b", ""),
    ("DELETE", "/api/v1/namespaces/a/pods", "deletecollection", CORE, "a", "pods", "", ""),
    ("GET", "/api/v1/namespaces", "list", CORE, "", "namespaces", "", ""),
    ("GET", "/api/v1/namespaces/a", "get", CORE, "a", "namespaces", "a", ""),
    ("PUT", "/api/v1/namespaces/a/finalize", "update", CORE, "a", "namespaces", "a", "finalize"),
    ("GET", "/api/v1/namespaces/a/status", "get", CORE, "a", "namespaces", "a", "status"),
    ("GET", "/api/v1/watch/pods", "watch", CORE, "", "pods", "", ""),
    ("GET", "/api/v1/watch/namespaces/a/pods/b", "watch", CORE, "a", "pods", "b", ""),
    ("GET", "/api/v1/pods?watch=true", "watch", CORE, "", "pods", "", ""),
    ("GET", "/api/v1/pods?watch", "watch", CORE, "", "pods", "", ""),
    ("GET", "/api/v1/pods?watch=1", "watch", CORE, "", "pods", "", ""),
    ("GET", "/api/v1/pods?watch=0", "list", CORE, "", "pods", "", ""),
    ("GET", "/api/v1/pods?watch=False", "list", CORE, "", "pods", "", ""),
    ("GET", "/api/v1/pods?fieldSelector=metadata.name%3Db", "list", CORE, "", "pods", "b", ""),
    ("GET", "/apis/apps/v1/deployments", "list", APPS, "", "deployments", "", ""),
    (
        "PUT", "/apis/apps/v1/namespaces/a/deployments/b/scale",
        "update", APPS, "a", "deployments", "b", "scale",
    ),
    ("OPTIONS", "/api/v1/pods", "", CORE, "", "pods", "", ""),
]  # fmt: skip


def _parse(method: str, target: str) -> RequestInfo:
    path, _, query = target.partition("?")
    return parse_request_info(method, path, parse_query(query))


@pytest.mark.parametrize(
    ("method", "target", "verb", "version", "namespace", "resource", "name", "subresource"), CASES
)
def test_resource_requests(
    method, target, verb, version, namespace, resource, name, subresource
) -> None:
    """Method and path name the verb and the object, as in kube-apiserver."""
    info = _parse(method, target)
    parts = (info.verb, info.version, info.namespace, info.resource, info.name, info.subresource)
    assert parts == (verb, version, namespace, resource, name, subresource)
    assert info.is_resource_request


@pytest.mark.parametrize(
    "path",
    ["/", "", "/api", "/apis", "/api/v1", "/api/v1/", "/apis/apps", "/apis/apps/v1", "/version",
     "/healthz", "//", "/openapi/v2", "/api/v1/watch", "/foo/bar/baz"],
)  # fmt: skip
def test_other_requests(path: str) -> None:
    """Discovery, health and similar paths are not resource requests."""
    info = _parse("GET", path)
    assert not info.is_resource_request
    assert info.verb == "get"


def test_trailing_segments() -> None:
    """Segments after a subresource are kept, so that the request can be refused."""
    assert _parse("GET", "/api/v1/namespaces/a/pods/b/c/d/e").trailing == ("d", "e")


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("", {}),
        ("a=1&b=2&a=3", {"a": ["1", "3"], "b": ["2"]}),
        ("a=x%20y+z&b", {"a": ["x y z"], "b": [""]}),
        ("a;b=1&c=2&&", {"c": ["2"]}),
    ],
)
def test_queries(text: str, query: dict) -> None:
    """Query strings are parsed like Go's url.ParseQuery."""
    assert parse_query(text) == query
