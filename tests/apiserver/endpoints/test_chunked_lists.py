"""Lists with limit and continue, as in KEP-365, on SQLite and on servers that share an etcd."""

import itertools
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.apiserver.conftest import Api, Response, Server
from tests.storage.etcd_server import shared_etcd

_numbers = itertools.count(1)


@dataclass
class Backend:
    """A store and the way to start servers on it."""

    start: Callable[..., Server]
    shared: bool
    """Whether several servers can use it at the same time."""


@contextmanager
def _over(settings: dict, *, shared: bool) -> Iterator[Backend]:
    with ExitStack() as stack:

        def start(**more: object) -> Server:
            server = Server(**settings, **more)
            stack.callback(server.end)
            return server

        yield Backend(start, shared)


@pytest.fixture(params=["sqlite", "etcd"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    """A store of each backend."""
    if request.param == "sqlite":
        settings = {"storage": f"sqlite:{tmp_path / 'store.db'}"}
    else:
        prefix = f"/chunks-{next(_numbers)}-{tmp_path.name}"
        settings = {"storage": f"etcd:{shared_etcd().url}", "etcd_prefix": prefix}
    with _over(settings, shared=request.param == "etcd") as backend:
        yield backend


MAPS = "/api/v1/namespaces/default/configmaps"


def fill(api: Api, count: int = 10) -> None:
    """Create the ConfigMaps m00, m01, ...: every third has third=true, those with odd numbers
    odd=true."""
    for number in range(count):
        labels = {"third": str(number % 3 == 0).lower(), "odd": str(number % 2 == 1).lower()}
        body = {"metadata": {"name": f"m{number:02d}", "labels": labels}}
        assert api.post(MAPS, body).status == 201


def names(response: Response) -> list[str]:
    """The names of the ConfigMaps in a list, without kube-root-ca.crt."""
    assert response.status == 200, response.body
    all_names = [item["metadata"]["name"] for item in response.json["items"]]
    return [name for name in all_names if name != "kube-root-ca.crt"]


def page(api: Api, query: str = "", token: str = "", **options: object) -> Response:
    """A page of our ConfigMaps (kube-root-ca.crt comes before m00 and is left out)."""
    parts = [part for part in (query, token and f"continue={token}") if part]
    return api.get(f"{MAPS}?fieldSelector=metadata.name!=kube-root-ca.crt&{'&'.join(parts)}")


def token_of(response: Response) -> str:
    assert response.status == 200, response.body
    return response.json["metadata"].get("continue", "")


def version_of(response: Response) -> str:
    return response.json["metadata"]["resourceVersion"]


def test_all_pages(backend: Backend) -> None:
    """A page has at most `limit` items and the version of the first page. It has a token if and
    only if more items follow, and all pages together are the whole list."""
    api = backend.start().api
    fill(api)
    whole = page(api)
    assert token_of(whole) == ""
    for limit in (1, 3, 5, 10, 11):
        token, found_names, versions = "", [], set()
        while True:
            response = page(api, f"limit={limit}", token)
            assert len(names(response)) <= limit
            found_names += names(response)
            versions.add(version_of(response))
            token = token_of(response)
            if not token:
                break
            assert len(names(response)) == limit
        assert found_names == names(whole)
        assert len(versions) == 1
    remaining = page(api, "", token_of(page(api, "limit=4")))
    assert (names(remaining), token_of(remaining)) == (names(whole)[4:], "")
    second_page = page(
        api, "limit=2", token_of(page(api, "limit=4"))
    )  # pages may have different limits
    assert names(second_page) == names(whole)[4:6]


def test_pages_stay_consistent_while_writers_run(backend: Backend) -> None:
    """While other clients write, the pages together are the list at the version of the first page.
    The pages may come from different servers."""
    servers = [backend.start() for _ in range(2 if backend.shared else 1)]
    writing, api = servers[-1].api, servers[0].api
    fill(api, 20)
    stop = threading.Event()

    def write() -> None:
        for number in itertools.cycle(range(20)):
            if stop.is_set():
                return
            name = f"m{number:02d}"
            writing.delete(f"{MAPS}/{name}")
            writing.post(MAPS, {"metadata": {"name": f"{name}x"}})
            writing.patch(f"{MAPS}/{name}x", {"data": {"n": str(number)}})
            writing.post(MAPS, {"metadata": {"name": name}, "data": {"again": "yes"}})
            writing.delete(f"{MAPS}/{name}x")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for turn in range(4):
            first = page(api, "limit=3")
            version, token = version_of(first), token_of(first)
            items = list(first.json["items"])
            for server in itertools.cycle(servers):
                response = page(server.api, "limit=3", token)
                assert version_of(response) == version
                items += response.json["items"]
                token = token_of(response)
                if not token:
                    break
            exact = page(api, f"resourceVersion={version}&resourceVersionMatch=Exact")
            assert items == exact.json["items"], turn
    finally:
        stop.set()
        writer.join()


def test_selectors_with_a_limit(backend: Backend) -> None:
    """Pages of a filtered list have no remainingItemCount. The last page has no token."""
    api = backend.start().api
    fill(api)
    first = page(api, "limit=2&labelSelector=third=true")
    assert names(first) == ["m00", "m03"]
    assert "remainingItemCount" not in first.json["metadata"]
    second = page(api, "limit=2&labelSelector=third=true", token_of(first))
    assert names(second) == ["m06", "m09"]
    only = page(api, "limit=1&labelSelector=third=true,odd=true")
    assert names(only) == ["m03"]
    more = page(api, "limit=1&labelSelector=odd=true,third=true", token_of(only))
    assert names(more) == ["m09"]
    empty_page = page(api, "limit=3&labelSelector=third=maybe")
    assert (names(empty_page), token_of(empty_page)) == ([], "")
    of_one = api.get(f"{MAPS}?limit=1&fieldSelector=metadata.name=m03")
    assert (names(of_one), token_of(of_one)) == (["m03"], "")


def test_remaining_item_count(backend: Backend) -> None:
    """remainingItemCount is set in pages of unfiltered lists that have a token."""
    api = backend.start().api
    fill(api, 5)
    whole = api.get(MAPS)
    total = len(whole.json["items"])
    assert "remainingItemCount" not in whole.json["metadata"]
    first = api.get(f"{MAPS}?limit=2")
    assert first.json["metadata"]["remainingItemCount"] == total - 2
    api.post(MAPS, {"metadata": {"name": "later"}})
    second = api.get(f"{MAPS}?limit=1&continue={token_of(first)}")
    assert second.json["metadata"]["remainingItemCount"] == total - 3
    last = api.get(f"{MAPS}?continue={token_of(second)}")
    assert list(last.json["metadata"]) == ["resourceVersion"]
    exactly = api.get(f"{MAPS}?limit={total + 1}")
    assert list(exactly.json["metadata"]) == ["resourceVersion"]
    assert "continue" not in api.get(f"{MAPS}?limit=1&resourceVersion=0").json["metadata"]


CHANGED = [
    f"{MAPS}?limit=2&labelSelector=odd=true&continue=%s",
    f"{MAPS}?limit=2&labelSelector=odd=true,third=false&continue=%s",
    f"{MAPS}?limit=2&labelSelector=odd=false&fieldSelector=metadata.name!=x&continue=%s",
    f"{MAPS}?limit=2&continue=%s",
    "/api/v1/configmaps?limit=2&labelSelector=odd=false&continue=%s",
    "/api/v1/namespaces/other/configmaps?limit=2&labelSelector=odd=false&continue=%s",
    "/api/v1/namespaces/default/secrets?limit=2&labelSelector=odd=false&continue=%s",
    "/apis/apps/v1/namespaces/default/deployments?limit=2&labelSelector=odd=false&continue=%s",
]


def test_token_of_another_list(backend: Backend) -> None:
    """A token used with other selectors, another namespace or another resource is a 400. So is a
    token with a resourceVersion other than 0."""
    api = backend.start().api
    fill(api, 6)
    first = api.get(f"{MAPS}?limit=2&labelSelector=odd=false")
    token, same = token_of(first), f"{MAPS}?limit=2&labelSelector=odd=false"
    assert names(api.get(f"{same}&continue={token}")) == ["m04"]
    for path in CHANGED:
        response = api.get(path % token)
        assert response.status == 400, path
        assert response.json["reason"] == "BadRequest"
        assert response.message == "invalid continue token: continue key is not valid"
    for version in (version_of(first), "1"):
        response = api.get(f"{same}&continue={token}&resourceVersion={version}")
        assert response.status == 400
        assert response.message == "specifying resource version is not allowed when using continue"
    assert names(api.get(f"{same}&continue={token}&resourceVersion=0")) == ["m04"]


def test_tokens_are_sealed(backend: Backend) -> None:
    """A token reveals no name and no namespace. A token with a changed character is a 400."""
    import base64

    api = backend.start().api
    fill(api, 3)
    token = token_of(page(api, "limit=1"))
    content = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    for secret in (b"m00", b"default", b"configmaps", b"{", version_of(page(api)).encode()):
        assert secret not in content or len(secret) < 4
    for at in range(0, len(token), 7):
        other = token[:at] + ("A" if token[at] != "A" else "B") + token[at + 1 :]
        response = page(api, "limit=1", other)
        assert (response.status, response.json["reason"]) == (400, "BadRequest")
    for rubbish in ("x", "%00", "..", "%2e%2e%2f", "A" * 9000, token + "=", token[:-4]):
        assert page(api, "limit=1", rubbish).status == 400
    assert names(page(api, "limit=1", token)) == ["m01"]


def test_tokens_outlive_servers(backend: Backend) -> None:
    """A token is valid on another server of the same store and after restarts. The page has the
    version of the first page."""
    server = backend.start()
    fill(server.api, 6)
    first_page = page(server.api, "limit=2")
    server.api.delete(f"{MAPS}/m03")
    server.api.post(MAPS, {"metadata": {"name": "m02x"}})
    if not backend.shared:
        server.end()
    other_server = backend.start()
    second_page = page(other_server.api, "limit=2", token_of(first_page))
    assert (names(second_page), version_of(second_page)) == (["m02", "m03"], version_of(first_page))
    server.end()
    other_server.end()
    third = page(backend.start().api, "limit=2", token_of(second_page))
    assert (names(third), version_of(third)) == (["m04", "m05"], version_of(first_page))


def test_expired_tokens(backend: Backend) -> None:
    """After compaction, a continue request is a 410 with a new token. A list with the new token
    continues at the same name, at the current version."""
    server = backend.start()
    fill(server.api, 6)
    first_page = page(server.api, "limit=2")
    server.api.delete(f"{MAPS}/m03")
    server.api.post(MAPS, {"metadata": {"name": "m02x"}})
    server.compact()
    server.end()
    api = backend.start().api
    expired = page(api, "limit=2", token_of(first_page))
    assert expired.status == 410
    status = expired.json
    assert (status["kind"], status["reason"], status["code"]) == ("Status", "Expired", 410)
    assert status["message"] == (
        "The provided continue parameter is too old to display a consistent list result. You can "
        "start a new list without the continue parameter, or use the continue token in this "
        "response to retrieve the remainder of the results. Continuing with the provided token "
        "results in an inconsistent list - objects that were created, modified, or deleted "
        "between the time the first chunk was returned and now may show up in the list."
    )
    next_page = page(api, "limit=3", status["metadata"]["continue"])
    assert names(next_page) == ["m02", "m02x", "m04"]
    assert int(version_of(next_page)) > int(version_of(first_page))
    last = page(api, "limit=3", token_of(next_page))
    assert (names(last), version_of(last)) == (["m05"], version_of(next_page))
    exact = page(api, f"resourceVersion={version_of(first_page)}&resourceVersionMatch=Exact")
    assert (exact.status, exact.json["reason"]) == (410, "Expired")
    assert "continue" not in exact.json["metadata"]


_FORBIDDEN = "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden"
MATCHES = [
    ("resourceVersionMatch=Exact", f"{_FORBIDDEN} unless resourceVersion is provided"),
    ("resourceVersionMatch=NotOlderThan", f"{_FORBIDDEN} unless resourceVersion is provided"),
    ("resourceVersionMatch=Exact&resourceVersion=0",
     'resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for '
     'resourceVersion "0"'),
    ("resourceVersionMatch=Exact&resourceVersion=5&continue=x",
     f"{_FORBIDDEN} when continue is provided"),
    ("resourceVersionMatch=NotOlderThan&resourceVersion=0&continue=x",
     f"{_FORBIDDEN} when continue is provided"),
    ("resourceVersionMatch=Exact&continue=x",
     f"[{_FORBIDDEN} unless resourceVersion is provided, {_FORBIDDEN} when continue is provided]"),
    ("resourceVersionMatch=Odd&resourceVersion=5",
     'resourceVersionMatch: Unsupported value: "Odd": supported values: "Exact", '
     '"NotOlderThan", ""'),
]  # fmt: skip


@pytest.mark.parametrize(("query", "words"), MATCHES)
def test_forbidden_matches(api: Api, core: str, query: str, words: str) -> None:
    """Invalid combinations of list options get kube-apiserver's messages."""
    response = api.get(f"{core}/configmaps?{query}")
    assert response.status == 422
    assert response.message == f'ListOptions.meta.k8s.io "" is invalid: {words}'
    assert response.json["details"]["kind"] == "ListOptions"


def test_valid_matches(backend: Backend) -> None:
    """Version, match and limit select the listed state. The continued pages of a past state show
    the same state."""
    api = backend.start().api
    fill(api, 4)
    old = version_of(page(api))
    api.delete(f"{MAPS}/m00")
    current_names = ["m01", "m02", "m03"]
    for query, expected in (
        (f"resourceVersion={old}&resourceVersionMatch=Exact", ["m00", *current_names]),
        (f"resourceVersion={old}&resourceVersionMatch=NotOlderThan", current_names),
        (f"resourceVersion={old}&resourceVersionMatch=NotOlderThan&limit=9", current_names),
        (f"resourceVersion={old}", current_names),
        (f"resourceVersion={old}&limit=9", ["m00", *current_names]),
        ("resourceVersion=0", current_names),
        ("resourceVersion=0&resourceVersionMatch=NotOlderThan", current_names),
    ):
        assert names(page(api, query)) == expected, query
    first_page = page(api, f"resourceVersion={old}&resourceVersionMatch=Exact&limit=1")
    assert (names(first_page), version_of(first_page)) == (["m00"], old)
    assert names(page(api, "limit=2", token_of(first_page))) == ["m01", "m02"]


def test_chunking_turned_off(backend: Backend) -> None:
    """With APIListChunking=false, limit and continue are ignored and responses have no token."""
    gates = {"feature_gates": frozenset({"WatchList"})}
    api = backend.start(**gates).api
    fill(api, 4)
    whole = page(api)
    for query in ("limit=1", "limit=1&continue=rubbish", "continue=x&resourceVersion=1"):
        response = page(api, query)
        assert names(response) == names(whole)
        assert list(response.json["metadata"]) == ["resourceVersion"]


def test_pages_across_namespaces(backend: Backend) -> None:
    """Pages of a list over all namespaces continue from one namespace to the next."""
    api = backend.start().api
    for namespace in ("a", "b"):
        api.post("/api/v1/namespaces", {"metadata": {"name": namespace}})
        for name in ("x", "y", "z"):
            path = f"/api/v1/namespaces/{namespace}/secrets"
            assert api.post(path, {"metadata": {"name": name}}).status == 201
    secrets, token = [], ""
    while True:
        response = api.get(f"/api/v1/secrets?limit=4&continue={urllib.parse.quote(token)}")
        secrets += [
            (i["metadata"]["namespace"], i["metadata"]["name"]) for i in response.json["items"]
        ]
        token = token_of(response)
        if not token:
            break
    assert secrets == [(namespace, name) for namespace in "ab" for name in "xyz"]


@pytest.mark.parametrize(
    "accept",
    [
        "application/json;as=Table;g=meta.k8s.io;v=v1",
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "application/cbor",
    ],
)
def test_tokens_in_every_format(api: Api, core: str, accept: str) -> None:
    """Tables, metadata lists and lists in every encoding have a token that continues them."""
    for name in ("a", "b", "c"):
        api.post(f"{core}/secrets", {"metadata": {"name": name}})
    from kapiserver.codecs import cbor, yaml

    response = api.get(f"{core}/secrets?limit=2", accept=accept)
    if "json" in accept:
        meta = response.json["metadata"]
    elif "protobuf" in accept:
        from kapiserver.api.scheme import Scheme
        from kapiserver.codecs.codec_factory import CodecFactory

        meta = (
            CodecFactory(Scheme()).universal_deserializer.decode(response.body).object["metadata"]
        )
    else:
        meta = (yaml if "yaml" in accept else cbor).decode_value(response.body)["metadata"]
    assert meta["remainingItemCount"] == 1
    rest = api.get(f"{core}/secrets?limit=2&continue={meta['continue']}")
    assert names(rest) == ["c"]
    assert version_of(rest) == meta["resourceVersion"]
