"""What an extension API server admits under the policies, webhooks and namespaces of its host."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kapiserver.api.resource_client import StatusError
from kapiserver.app import serve
from kapiserver.client import Client
from kapiserver.extension import ApiServer
from kapiserver.extension.admission import plugins
from kapiserver.extension.delegation import Delegation
from tests.apiserver.aggregation.aggregationkit import Authority, resolver_file, tls_of
from tests.apiserver.proxy.https_server import HttpsServer, Received, Reply
from tests.clock import ManualClock
from tests.extension.databases import make_databases
from tests.extension.servers import plain_config

ADMISSION = "admissionregistration.k8s.io/v1"
RULE = {"apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["databases"],
        "operations": ["CREATE"]}  # fmt: skip
CONSTRAINTS = {"resourceRules": [RULE]}
KUBECONFIG = """
current-context: host
clusters: [{{name: host, cluster: {{server: "{url}"}}}}]
contexts: [{{name: host, context: {{cluster: host}}}}]
"""


def _database(name: str, size: int = 1) -> dict[str, Any]:
    kind = {"apiVersion": "example.com/v1", "kind": "Database"}
    return {**kind, "metadata": {"name": name}, "spec": {"size": size}}


def _kubeconfig(folder: Path, url: str) -> Delegation:
    file = folder / "host.kubeconfig"
    file.write_text(KUBECONFIG.format(url=url))
    return Delegation(kubeconfig=file, authentication_skip_lookup=True)


class _Servers:
    """A host, and an extension API server behind it. Each has a client."""

    def __init__(self, host: Client, extension: Client) -> None:
        self.host = host
        self.extension = extension

    async def make(self, version: str, plural: str, obj: Any, namespace: str = "") -> None:
        await self.host.resource(version, plural, namespace=namespace).create(obj)

    async def create(self, name: str, size: int = 1, namespace: str = "default") -> Any:
        databases = self.extension.resource("example.com/v1", "databases", namespace=namespace)
        return await databases.create(_database(name, size))

    async def refusal(self, *arguments: Any, **options: Any) -> tuple[int, str]:
        """Return the code and message of the refusal of a create; (0, "") if it is admitted."""
        try:
            await self.create(*arguments, **options)
        except StatusError as error:
            return error.code, str(error)
        return 0, ""


Prepare = Callable[[Client], Awaitable[None]]


@asynccontextmanager
async def _servers(folder: Path, prepare: Prepare, **settings: Any) -> AsyncIterator[_Servers]:
    """Run both; `prepare` writes objects to the host before the extension API server starts."""
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        host = await enter(serve(plain_config()))
        host_client = await enter(Client(host.url, retry_seconds=0.01))
        await prepare(host_client)
        delegation = _kubeconfig(folder, host.url)
        server = ApiServer([make_databases()])
        running = await enter(server.serve(plain_config(**settings), delegation=delegation))
        yield _Servers(host_client, await enter(Client(running.url, retry_seconds=0.01)))


async def _nothing(_client: Client) -> None:
    pass


async def _until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await condition():  # noqa: ASYNC110 # no event tells a test
            await asyncio.sleep(0.01)


def _policy(kind: str, **spec: Any) -> tuple[Any, Any]:
    """Return a policy for databases and its binding."""
    names = {"metadata": {"name": "p"}}
    bound = {"policyName": "p"}
    if kind == "validating":
        bound |= {"validationActions": ["Deny"]}  # type: ignore[dict-item]
        if "paramKind" in spec:
            reference = {"name": "limit", "parameterNotFoundAction": "Deny"}
            bound |= {"paramRef": reference}  # type: ignore[dict-item]
    return {**names, "spec": {"matchConstraints": CONSTRAINTS, **spec}}, {**names, "spec": bound}


def test_policies(tmp_path: Path) -> None:
    """Policies of the host change and refuse objects here; their parameters are the host's, and
    changes take effect."""

    async def prepare(client: Client) -> None:
        await client.resource("v1", "configmaps", namespace="default").create(
            {"metadata": {"name": "limit"}, "data": {"max": "5"}}
        )
        policy, binding = _policy(
            "validating",
            paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
            validations=[{"expression": "object.spec.size <= int(params.data['max'])"}],
        )
        await client.resource(ADMISSION, "validatingadmissionpolicies").create(policy)
        await client.resource(ADMISSION, "validatingadmissionpolicybindings").create(binding)
        mutation = {
            "patchType": "ApplyConfiguration",
            "applyConfiguration": {
                "expression": "Object{spec: Object.spec{"
                "ownerName: namespaceObject.metadata.name + '-owner'}}"
            },
        }
        policy, binding = _policy("mutating", mutations=[mutation], reinvocationPolicy="Never")
        await client.resource(ADMISSION, "mutatingadmissionpolicies").create(policy)
        await client.resource(ADMISSION, "mutatingadmissionpolicybindings").create(binding)

    async def run() -> None:
        async with _servers(tmp_path, prepare) as servers:
            assert (await servers.create("one", 5))["spec"]["ownerName"] == "default-owner"
            code, message = await servers.refusal("two", 6)
            assert code == 422
            assert message == (
                "databases.example.com \"two\" is forbidden: ValidatingAdmissionPolicy 'p' with "
                "binding 'p' denied request: failed expression: object.spec.size <= "
                "int(params.data['max'])"
            )
            limits = servers.host.resource("v1", "configmaps", namespace="default")
            await limits.update({"metadata": {"name": "limit"}, "data": {"max": "7"}})

            async def is_allowed() -> bool:
                return await servers.refusal("three", 6) == (0, "")

            await _until(is_allowed)
            await limits.delete("limit")

            async def lacks_params() -> bool:
                return "no params found" in (await servers.refusal("four"))[1]

            await _until(lacks_params)
            policies = servers.host.resource(ADMISSION, "validatingadmissionpolicies")
            await policies.delete("p")

            async def is_free() -> bool:
                return await servers.refusal("five", 60) == (0, "")

            await _until(is_free)

    asyncio.run(run())


class _Pair:
    """The credentials of a webhook behind the Service `hook` of the namespace default."""

    def __init__(self, authority: Authority) -> None:
        self.ca = authority.files.certificate
        self._pair = authority.issue("hook.default.svc")

    def server_context(self) -> Any:
        return tls_of(self._pair)


def _respond(received: Received) -> Reply:
    """Set the size of the object to 9, or refuse an object of another size."""
    request = received.json["request"]
    response: dict[str, Any] = {"uid": request["uid"], "allowed": True}
    if received.path.startswith("/mutate"):
        patch = [{"op": "replace", "path": "/spec/size", "value": 9}]
        encoded = base64.b64encode(json.dumps(patch).encode()).decode()
        response |= {"patchType": "JSONPatch", "patch": encoded}
    elif request["object"]["metadata"]["name"] == "bad" or request["object"]["spec"]["size"] != 9:
        response |= {"allowed": False, "status": {"message": "bad name"}}
    return Reply({**received.json, "response": response})


def test_webhooks(tmp_path: Path) -> None:
    """Webhooks of the host change and refuse objects here. A Service is at the address of a file,
    or else at its DNS name."""
    authority = Authority(tmp_path)
    pair: Any = _Pair(authority)
    server = HttpsServer(pair, _respond)

    def webhook(name: str, service: str) -> Any:
        reference = {"namespace": "default", "name": service, "path": f"/{name}"}
        bundle = base64.b64encode(authority.pem.encode()).decode()
        return {
            "name": f"{name}.example.com",
            "clientConfig": {"service": reference, "caBundle": bundle},
            "rules": [RULE],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }

    async def prepare(client: Client) -> None:
        for kind, name in (("mutating", "mutate"), ("validating", "validate")):
            await client.resource(ADMISSION, f"{kind}webhookconfigurations").create(
                {"metadata": {"name": "w"}, "webhooks": [webhook(name, "hook")]}
            )

    async def run() -> None:
        resolver = resolver_file(tmp_path, hook=f"127.0.0.1:{server.port}")
        async with _servers(tmp_path, prepare, service_resolver=resolver) as servers:
            assert (await servers.create("one"))["spec"]["size"] == 9
            code, message = await servers.refusal("bad")
            denied = 'admission webhook "validate.example.com" denied the request: bad name'
            assert (code, message) == (400, denied)
            hooks = servers.host.resource(ADMISSION, "mutatingwebhookconfigurations")
            await hooks.patch("w", {"webhooks": [webhook("gone", "gone")]})

            async def is_unresolved() -> bool:
                code, message = await servers.refusal("two")
                text = 'failed calling webhook "gone.example.com": failed to call webhook: Post '
                return code == 500 and f'{text}"https://gone.default.svc:443/gone' in message

            await _until(is_unresolved)

    try:
        asyncio.run(run())
    finally:
        server.end()


def test_namespaces(tmp_path: Path) -> None:
    """Objects are created in namespaces that the host has, as soon as it has them, and not in
    terminating ones. Other writes are free."""

    async def run() -> None:
        async with _servers(tmp_path, _nothing) as servers:
            missing = await servers.refusal("one", namespace="new")
            assert missing == (404, 'namespaces "new" not found')
            await servers.make("v1", "namespaces", {"metadata": {"name": "new"}})
            await servers.create("one", namespace="new")
            guard = {"metadata": {"name": "guard", "finalizers": ["example.com/wait"]}}
            await servers.make("v1", "configmaps", guard, "new")
            await servers.host.resource("v1", "namespaces").delete("new")

            async def is_terminating() -> bool:
                code, message = await servers.refusal("two", namespace="new")
                return (code, message) == (
                    403,
                    'databases.example.com "two" is forbidden: unable to create new content in '
                    "namespace new because it is being terminated",
                )

            await _until(is_terminating)
            databases = servers.extension.resource("example.com/v1", "databases", namespace="new")
            await databases.patch("one", {"spec": {"size": 2}})
            await databases.delete("one")

    asyncio.run(run())


def test_disabled(tmp_path: Path) -> None:
    """A plugin that a flag turns off does not run, and unknown names are refused."""

    async def run() -> None:
        disabled = {"disable_admission_plugins": ("NamespaceLifecycle",)}
        async with _servers(tmp_path, _nothing, **disabled) as servers:
            await servers.create("one", namespace="nowhere")
        with pytest.raises(ValueError, match="unknown admission plugins: PodSecurity"):
            async with _servers(tmp_path, _nothing, enable_admission_plugins=("PodSecurity",)):
                pass
        server = ApiServer([make_databases()])
        with pytest.raises(ValueError, match="admission plugins need a host cluster"):
            async with server.serve(plain_config(**disabled)):
                pass

    asyncio.run(run())


def _empty(received: Received) -> Reply:
    """Answer as a host without objects, whose watches end at once."""
    if "watch=1" in received.path:
        return Reply(b"")
    if received.path.endswith("/default"):
        return Reply(status=404)
    return Reply({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": []})


def test_unsynced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the copies are complete the server is not ready and refuses writes; then it is and does
    not."""
    monkeypatch.setattr(plugins, "READY_SECONDS", 0)
    host = HttpsServer(None, lambda _: Reply(status=503))

    async def run() -> None:
        clock = ManualClock()
        server = ApiServer([make_databases()])
        delegation = _kubeconfig(tmp_path, host.url)
        async with (
            server.serve(plain_config(), delegation=delegation, clock=clock) as running,
            Client(running.url, retry_seconds=0.01) as client,
        ):
            check = running.server.health.checks("readyz")["informer-sync"]
            databases = client.resource("example.com/v1", "databases", namespace="default")
            with pytest.raises(StatusError) as refused:
                await databases.create(_database("one"))
            assert str(refused.value) == (
                'databases.example.com "one" is forbidden: not yet ready to handle request'
            )
            assert refused.value.code == 403
            assert (await databases.list())["items"] == []
            with pytest.raises(Exception, match="not synced with the host cluster: namespaces"):
                await check()
            host.respond = _empty

            async def is_ready() -> bool:
                clock.advance(60)
                try:
                    await check()
                except Exception:
                    return False
                return True

            await _until(is_ready)
            with pytest.raises(StatusError, match='namespaces "default" not found'):
                await databases.create(_database("one"))

    try:
        asyncio.run(run())
    finally:
        host.end()
