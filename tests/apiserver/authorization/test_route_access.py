"""Access to every route of discovery and OpenAPI: anonymous, as a user without rights, with wrong
credentials, and as an administrator.

The whole response of a refused request is predicted from the request alone, so no refusal shows
what the server stores.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import jwt
import pytest

from kapiserver.apiserver.config import Config
from kapiserver.app import serve
from tests.apiserver.authentication.test_client_certificates import Authority

NAMESPACE, NAME = "default", "kubernetes"
"""The default namespace has a Service and EndpointSlice of this name."""
VERBS = {
    "get": "get",
    "list": "list",
    "watch": "watch",
    "watchlist": "watch",
    "post": "create",
    "put": "update",
    "patch": "patch",
    "delete": "delete",
    "deletecollection": "deletecollection",
}
"""The verb of each x-kubernetes-action but connect."""
METHOD_VERBS = {
    "get": "get",
    "head": "get",
    "post": "create",
    "put": "update",
    "patch": "patch",
    "delete": "delete",
    "options": "",
}
PUBLIC = ("/healthz", "/livez", "/readyz", "/version", "/version/")
"""The paths of the role system:public-info-viewer."""
DISCOVERED = ("/api", "/apis", "/openapi", "/version", "/healthz", "/livez", "/readyz")
"""Where the non-resource paths begin that the role system:discovery allows."""
OWN_REVIEWS = ("selfsubjectaccessreviews", "selfsubjectreviews", "selfsubjectrulesreviews")
EXTRA_PATHS = (
    *PUBLIC, "/", "/metrics", "/healthz/etcd", "/debug/pprof/", "/logs", "/openapi/v2",
    "/openapi/v3", "/openapi/v3/api/v1", "/.well-known/openid-configuration", "/openid/v1/jwks",
    "/nothing",
)  # fmt: skip


class Route(NamedTuple):
    """A request that a route takes; `verb` to `name` are those of a resource request."""

    method: str
    path: str
    verb: str
    group: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""

    def url(self) -> str:
        """The path and query: writes are dry runs."""
        if self.method in ("get", "head", "options"):
            return self.path
        return f"{self.path}{'&' if '?' in self.path else '?'}dryRun=All"


def resource_route(method: str, action: str, template: str) -> Route:
    """The request of a template such as `/api/v1/namespaces/{namespace}/pods/{name}/log`."""
    parts = template.strip("/").split("/")
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    if rest[0] == "watch":
        rest = rest[1:]
    namespace = ""
    if rest[:2] == ["namespaces", "{namespace}"]:
        namespace, rest = NAMESPACE, rest[2:]
    name = NAME if rest[1:2] == ["{name}"] else ""
    if rest[0] == "namespaces":
        namespace = name
    resource = "/".join((rest[0], *rest[2:3]))
    path = template.format(namespace=NAMESPACE, name=NAME, path="x")
    verb = METHOD_VERBS[method] if action == "connect" else VERBS[action]
    return Route(method, path, verb, group, resource, namespace, name)


def openapi_routes(document: Any) -> Iterator[Route]:
    """The requests of an OpenAPI document; each list as a watch, too."""
    for template, operations in document["paths"].items():
        for method, operation in operations.items():
            if method == "parameters":
                continue
            action = operation.get("x-kubernetes-action")
            if action is None:
                yield Route(method, template, method)
                continue
            route = resource_route(method, action, template)
            yield route
            if action == "list":
                yield route._replace(path=f"{route.path}?watch=1", verb="watch")
            if action == "get":
                yield route._replace(method="head")


DISCOVERY_ACTIONS = {
    "create": "post", "delete": "delete", "deletecollection": "deletecollection", "get": "get",
    "list": "list", "patch": "patch", "update": "put", "watch": "watch",
}  # fmt: skip


def discovery_routes(version: str, resources: Any) -> Iterator[Route]:
    """The requests of an APIResourceList."""
    prefix = f"/apis/{version}" if "/" in version else f"/api/{version}"
    for resource in resources:
        name, _, subresource = resource["name"].partition("/")
        below = "/namespaces/{namespace}" if resource["namespaced"] else ""
        for verb in resource["verbs"]:
            action = DISCOVERY_ACTIONS[verb]
            item = "" if verb in ("create", "list", "watch", "deletecollection") else "/{name}"
            if subresource:
                item = f"/{{name}}/{subresource}"
            method = {"deletecollection": "delete", "list": "get", "watch": "get"}.get(
                action, action
            )
            route = resource_route(method, action, f"{prefix}{below}/{name}{item}")
            watches = action == "watch"
            yield route._replace(path=f"{route.path}?watch=1") if watches else route


Send = Callable[..., Awaitable[tuple[int, Any]]]


async def all_routes(send: Send) -> list[Route]:
    """Each request once, as an administrator discovers it."""
    routes = {(route.method, route.path): route for route in _extra_routes()}
    for route in openapi_routes((await send("get", "/openapi/v2"))[1]):
        routes.setdefault((route.method, route.path), route)
    groups = (await send("get", "/apis"))[1]["groups"]
    versions = ["v1", *(each["groupVersion"] for group in groups for each in group["versions"])]
    for version in versions:
        path = f"/apis/{version}" if "/" in version else f"/api/{version}"
        resources = (await send("get", path))[1]["resources"]
        for route in discovery_routes(version, resources):
            present = routes.setdefault((route.method, route.path), route)
            assert present == route  # discovery and OpenAPI agree
    return list(routes.values())


def _extra_routes() -> Iterator[Route]:
    for path in EXTRA_PATHS:
        for method in ("get", "post", "put", "patch", "delete", "head"):
            yield Route(method, path, method)
    yield resource_route("get", "list", "/apis/example.com/v1/namespaces/{namespace}/widgets")
    yield resource_route("delete", "delete", "/apis/example.com/v1/widgets/{name}")
    yield resource_route("get", "get", "/api/v1/namespaces/{namespace}/nothing/{name}/x")


def forbidden(user: str, route: Route, prefix: str = "") -> Any:
    """kube-apiserver's Status for a request that no authorizer allows. `prefix` begins the verb."""
    details: dict[str, str] = {}
    if route.resource:
        plural = route.resource.partition("/")[0]
        subject = f"{plural}.{route.group}" if route.group else plural
        if route.name:
            subject = f'{subject} "{route.name}"'
            details["name"] = route.name
        if route.group:
            details["group"] = route.group
        details["kind"] = plural
        scope = (
            f'in the namespace "{route.namespace}"' if route.namespace else "at the cluster scope"
        )
        action = f'resource "{route.resource}" in API group "{route.group}" {scope}'
    else:
        subject, action = "", f'path "{route.path}"'
    start = f"{subject} is forbidden" if subject else "forbidden"
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f'{start}: User "{user}" cannot {prefix}{route.verb} {action}',
        "reason": "Forbidden",
        "details": details,
        "code": 403,
    }


UNAUTHORIZED = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": "Unauthorized",
    "reason": "Unauthorized",
    "code": 401,
}


def is_public(route: Route) -> bool:
    return route.verb == "get" and route.path in PUBLIC


def is_for_authenticated(route: Route) -> bool:
    if route.resource:
        return route.verb == "create" and route.resource in OWN_REVIEWS
    path = route.path
    begins = any(path == start or path.startswith(f"{start}/") for start in DISCOVERED)
    return route.verb == "get" and begins and path != "/healthz/etcd"


def serving(
    test: Callable[[Callable[..., Send]], Awaitable[None]],
    folder: Path,
    certificate: Path | None = None,
) -> None:
    """Run a test with a server with every API version; the test gets a function that makes
    clients with headers. A client with `shows_certificate` shows the certificate of that file."""
    folder.mkdir(exist_ok=True)
    (folder / "tokens").write_text('admin-token,admin,1,"system:masters"\njane-token,jane,2\n')

    async def run() -> None:
        config = Config.of(
            cert_dir=folder,
            token_auth_file=folder / "tokens",
            runtime_config="api/all=true",
            shutdown_timeout=0,
            enable_priority_and_fairness=False,
            max_requests_inflight=0,
            max_mutating_requests_inflight=0,
        )
        async with serve(config) as running:
            context = ssl.create_default_context(cafile=str(running.ca_file))
            connector = aiohttp.TCPConnector(ssl=context, limit=8)
            context_of_client = ssl.create_default_context(cafile=str(running.ca_file))
            if certificate is not None:
                context_of_client.load_cert_chain(certificate)
            async with aiohttp.ClientSession(running.url, connector=connector) as session:

                def client(*, shows_certificate: bool = False, **headers: str) -> Send:
                    sent = {"Content-Type": "application/json", **headers}
                    used = context_of_client if shows_certificate else context

                    async def send(method: str, url: str) -> tuple[int, Any]:
                        body = None if method in ("get", "head", "options") else b"{}"
                        async with session.request(
                            method, url, data=body, headers=sent, ssl=used
                        ) as answer:
                            text = await answer.read()
                            is_json = "json" in answer.headers.get("Content-Type", "")
                            return answer.status, json.loads(text) if text and is_json else text

                    return send

                await test(client)

    asyncio.run(run())


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


CLAIMS = {
    "iss": "https://kubernetes.default.svc.cluster.local",
    "aud": ["https://kubernetes.default.svc.cluster.local"],
    "sub": "system:serviceaccount:kube-system:namespace-controller",
    "exp": 4_000_000_000,
    "kubernetes.io": {
        "namespace": "kube-system",
        "serviceaccount": {"name": "namespace-controller", "uid": "x"},
    },
}
WRONG_CREDENTIALS = {
    "unknown token": bearer("guess"),
    "token of another case": bearer("Jane-token"),
    "unsigned account token": bearer(jwt.encode(CLAIMS, "", algorithm="none")),
    "account token of another key": bearer(jwt.encode(CLAIMS, "k" * 64, algorithm="HS256")),
}
REFUSED = {
    "anonymous": ({}, "system:anonymous", is_public),
    "a user without rights": (bearer("jane-token"), "jane", is_for_authenticated),
}


@pytest.mark.parametrize("who", REFUSED)
def test_without_rights(who: str, tmp_path: Path) -> None:
    """A caller without a binding is refused on every route but the public ones, in kube-apiserver's
    words."""
    headers, name, is_allowed = REFUSED[who]

    async def test(client: Callable[..., Send]) -> None:
        send = client(**headers)
        routes = await all_routes(client(**bearer("admin-token")))
        assert len(routes) > 1000
        for route in routes:
            status, body = await send(route.method, route.url())
            if is_allowed(route):
                assert status not in (401, 403), (route, body)
                continue
            assert status == 403, (route, body)
            if route.method != "head":
                assert body == forbidden(name, route), route

    serving(test, tmp_path)


@pytest.mark.slow
def test_wrong_credentials(tmp_path: Path) -> None:
    """A wrong credential is refused on every route, even where anonymous requests are served; so is
    impersonation by a user who may not."""

    async def test(client: Callable[..., Send]) -> None:
        senders = {
            credentials: client(**headers) for credentials, headers in WRONG_CREDENTIALS.items()
        }
        as_admin = client(**bearer("jane-token"), **{"Impersonate-User": "system:admin"})
        prefix = "impersonate-on:user-info:"
        for route in await all_routes(client(**bearer("admin-token"))):
            for credentials, send in senders.items():
                status, body = await send(route.method, route.url())
                assert status == 401, (route, credentials, body)
                assert body == (b"" if route.method == "head" else UNAUTHORIZED), (
                    route,
                    credentials,
                )
            status, body = await as_admin(route.method, route.url())
            assert status == 403, (route, body)
            if route.method != "head":
                assert body == forbidden("jane", route, prefix), route

    serving(test, tmp_path)


@pytest.mark.parametrize("groups", [(), ("system:masters",)])
def test_foreign_certificate(groups: tuple[str, ...], tmp_path: Path) -> None:
    """A client certificate of a CA that the server does not know ends the TLS handshake, whatever
    the certificate says and the route is. The same client gets in without it."""
    certificate = Authority(tmp_path, "foreign").issue("admin", groups)

    async def test(client: Callable[..., Send]) -> None:
        routes = await all_routes(client(**bearer("admin-token")))
        send = client(shows_certificate=True, **bearer("admin-token"))
        for route in (*routes[:: len(routes) // 50], Route("get", "/livez", "get")):
            with pytest.raises(aiohttp.ClientError, match=r"(?i)unknown.ca|reset|disconnected"):
                await send(route.method, route.url())
        assert (await client()("get", "/livez"))[0] == 200

    serving(test, tmp_path / "server", certificate)


def test_administrator(tmp_path: Path) -> None:
    """A member of system:masters is let in on every route; admission may still refuse a write."""

    async def test(client: Callable[..., Send]) -> None:
        send = client(**bearer("admin-token"))
        for route in await all_routes(send):
            if route.verb == "watch":
                continue  # an endless response
            status, body = await send(route.method, route.url())
            assert status != 401, (route, body)
            assert status != 403 or " cannot " not in body["message"], (route, body)

    serving(test, tmp_path)
