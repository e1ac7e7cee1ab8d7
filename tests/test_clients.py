"""One case table over both clients, HTTP and internal: the same results and the same errors.

Each client works in a namespace of its own on the same server; what differs by nature (names of
namespaces, uids, versions, times) is replaced before the transcripts are compared.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import pytest

from kapiserver.api.resource_client import Client as AnyClient
from kapiserver.api.resource_client import ResourceClient, StatusError
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.user import UNSECURED
from kapiserver.app import serve
from kapiserver.client import Client
from tests.apiserver.customresources.customkit import definition

Tree: TypeAlias = dict[str, Any]
AGENT = "kapiserver-client"
WIDGETS = definition()
GROUP = WIDGETS["spec"]["group"]


class Session:
    """One client in one namespace, and a transcript of its results."""

    def __init__(self, client: AnyClient, namespace: str) -> None:
        self.client = client
        self.namespace = namespace
        self.answers: list[Any] = []

    def of(self, version: str, name: str) -> ResourceClient:
        return self.client.resource(version, name, namespace=self.namespace)

    @property
    def maps(self) -> ResourceClient:
        return self.of("v1", "configmaps")

    @property
    def deployments(self) -> ResourceClient:
        return self.of("apps/v1", "deployments")

    @property
    def pods(self) -> ResourceClient:
        return self.of("v1", "pods")

    async def note(self, call: Awaitable[Tree]) -> Tree:
        """Await a call and record its result or its error."""
        try:
            result = await call
        except StatusError as error:
            self.answers.append([error.code, error.reason, str(error), error.status])
            return {}
        self.answers.append(result)
        return result

    async def note_code(self, call: Awaitable[Tree]) -> None:
        """Await a call and record the code and the reason of its error, whose message says what a
        route refuses, or quotes the bytes of the body: the internal client has neither."""
        with pytest.raises(StatusError) as caught:
            await call
        self.answers.append([caught.value.code, caught.value.reason])

    def transcript(self) -> Any:
        text = json.dumps(self.answers, sort_keys=True, indent=1).replace(self.namespace, "NS")
        text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}", "UID", text)
        text = re.sub(r"current: \d+", "current: RV", text)
        text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)
        text = re.sub(r'(resourceVersion\\*": ?\\*")\d+', r"\1RV", text)
        text = re.sub(r"record \(\d+\)", "record (RV)", text)
        text = re.sub(r'("(?:name|token|continue)": "[a-z-]*-)[a-z0-9]{5}"', r'\1SUFFIX"', text)
        return re.sub(r'("(?:token|continue)": )"[^"]+"', r'\1"TOKEN"', text)


def config_map(name: str, **parts: Any) -> Tree:
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}, **parts}


def deployment(replicas: int = 1) -> Tree:
    labels = {"app": "x"}
    return {
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }


def pod(name: str = "p") -> Tree:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


async def creates(s: Session) -> None:
    await s.note(s.maps.create(config_map("a", data={"x": "1"})))
    await s.note(s.maps.create(config_map("a")))
    await s.note(s.maps.create({"metadata": {"generateName": "g-"}}))
    await s.note(s.maps.create(config_map("b"), dryRun="All", fieldManager="me"))
    await s.note(s.maps.create(config_map("B!")))
    await s.note(s.maps.create(config_map("c", spec={"x": 1}), fieldValidation="Strict"))
    await s.note(s.maps.create(config_map("c", data={"x": 1})))
    await s.note(s.maps.create(config_map("c"), fieldValidation="No"))
    await s.note(s.maps.create({**config_map("c"), "kind": "Secret"}))
    await s.note(s.maps.create({**config_map("c"), "apiVersion": "v2"}))
    moved = config_map("c")
    moved["metadata"]["namespace"] = "default"
    await s.note(s.maps.create(moved))
    await s.note(s.of("v1", "nothings").create(config_map("c")))
    await s.note(s.client.resource("v1", "configmaps").create(config_map("c")))
    await s.note(s.client.resource("v1", "configmaps", namespace="no").create(config_map("c")))
    await s.note(s.maps.get("b"))


async def reads(s: Session) -> None:
    for index in range(3):
        await s.maps.create({**config_map(f"m{index}"), "data": {"i": str(index)}})
    await s.note(s.maps.get("m1"))
    await s.note(s.maps.get("m9"))
    await s.note(s.maps.get("m1", resourceVersion="999999999"))
    await s.note(s.maps.get("m1", resourceVersion="x"))
    await s.note(s.maps.list())
    await s.note(s.maps.list(fieldSelector="metadata.name=m2"))
    await s.note(s.maps.list(labelSelector="a in (b)"))
    await s.note(s.maps.list(labelSelector="a in b"))
    await s.note(s.maps.list(fieldSelector="data.i=1"))
    await s.note(s.maps.list_page(limit=2))
    async for page in s.maps.pages(limit=2):
        s.answers.append([len(page["items"]), bool(page["metadata"].get("continue"))])
    await s.note(s.maps.list_page(resourceVersionMatch="Exact"))
    await s.note(s.of("v1", "secrets").list())
    await s.note(s.client.resource("v1", "namespaces").get(s.namespace))
    await s.note(s.client.resource("v1", "namespaces").get("no"))
    await s.note(s.client.resource("v1", "nodes", namespace="x").list_page())
    await s.note(s.maps.get("m1", subresource="status"))


async def updates(s: Session) -> None:
    created = await s.note(s.maps.create(config_map("a", data={"x": "1"})))
    await s.note(s.maps.update({**created, "data": {"x": "2"}}))
    await s.note(s.maps.update({**created, "data": {"x": "3"}}))
    await s.note(s.maps.update(config_map("a", data={"y": "1"}), fieldManager="other"))
    await s.note(s.maps.update(config_map("a", data={"y": "2"}), dryRun="All"))
    await s.note(s.maps.update(config_map("zz")))
    stale_map = config_map("a")
    stale_map["metadata"]["uid"] = "b5b3c2c0-0000-4000-8000-000000000000"
    await s.note(s.maps.update(stale_map))
    frozen = await s.note(s.maps.update(config_map("a", immutable=True)))
    await s.note(s.maps.update({**frozen, "data": {"x": "1"}}))

    def change(obj: Tree) -> Tree:
        obj["metadata"]["labels"] = {"a": "b"}
        return obj

    await s.note(s.maps.update_with_retry("a", change))
    await s.note(s.maps.update_with_retry("zz", change))


async def patches(s: Session) -> None:
    await s.deployments.create(deployment())
    await s.note(s.deployments.patch("d", {"spec": {"replicas": 2}}))
    strategic = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "j"}]}}}}
    type_ = "application/strategic-merge-patch+json"
    await s.note(s.deployments.patch("d", strategic, type=type_))
    operations = [{"op": "replace", "path": "/spec/replicas", "value": 5}]
    type_ = "application/json-patch+json"
    await s.note(s.deployments.patch("d", operations, type=type_, fieldManager="me"))
    await s.note(s.deployments.patch("d", [{"op": "remove", "path": "/spec/x"}], type=type_))
    await s.note(s.deployments.patch("d", [{"op": "nothing"}], type=type_))
    await s.note(s.deployments.patch("d", {"spec": {"replicas": -1}}))
    await s.note(s.deployments.patch("d", {"spec": {"replicas": "x"}}))
    await s.note(s.deployments.patch("d", {"spec": {"no": 1}}, fieldValidation="Strict"))
    await s.note(s.deployments.patch("d", {"kind": "Pod"}))
    await s.note(s.deployments.patch("d", {"spec": {"replicas": 9}}, dryRun="All"))
    await s.note(s.deployments.patch("d", {"spec": {"replicas": 9}}, force="1"))
    await s.note(s.deployments.patch("zz", {"spec": {"replicas": 9}}))
    await s.note_code(s.deployments.patch("d", {}, type="text/plain"))


async def applies(s: Session) -> None:
    config = {**deployment(), "apiVersion": "apps/v1"}
    await s.note(s.deployments.apply(config, manager="one"))
    await s.note(s.deployments.apply(config, manager="one"))
    config["spec"]["replicas"] = 3
    await s.note(s.deployments.apply(config, manager="two"))
    await s.note(s.deployments.apply(config, manager="two", force="1"))
    await s.note(s.deployments.apply(config, manager=""))
    await s.note(s.deployments.apply({"metadata": {"name": "d"}}, manager="one"))
    await s.note(s.deployments.apply({"kind": "Pod", "metadata": {"name": "d"}}, manager="one"))
    await s.note(s.deployments.apply({**config, "no": 1}, manager="one"))


async def deletes(s: Session) -> None:
    created = await s.note(s.maps.create(config_map("a")))
    uid = created["metadata"]["uid"]
    await s.note(s.maps.delete("a", {"preconditions": {"uid": "x"}}))
    await s.note(s.maps.delete("a", {"preconditions": {"resourceVersion": "1"}}))
    await s.note(s.maps.delete("a", {"propagationPolicy": "x"}))
    await s.note_code(s.maps.delete("a", {"kind": "Pod"}))
    await s.note(s.maps.delete("a", dryRun="All"))
    await s.note(s.maps.delete("a", {"preconditions": {"uid": uid}}))
    await s.note(s.maps.delete("a"))
    finalized = config_map("held")
    finalized["metadata"]["finalizers"] = ["example.com/x"]
    await s.note(s.maps.create(finalized))
    await s.note(s.maps.delete("held", {"propagationPolicy": "Foreground"}))
    await s.maps.patch("held", {"metadata": {"finalizers": None}})
    await s.note(s.maps.get("held"))
    await s.note(s.client.resource("v1", "namespaces").delete("kube-system"))
    for name in ("x", "y", "z"):
        labelled = config_map(name)
        labelled["metadata"]["labels"] = {"app": name}
        await s.maps.create(labelled)
    await s.note(s.maps.delete_collection(labelSelector="app in (x, y)"))
    await s.note(s.maps.delete_collection(labelSelector="app in"))
    await s.note(s.maps.delete_collection({"gracePeriodSeconds": 0}, labelSelector="app"))
    await s.note(s.client.resource("v1", "configmaps").delete_collection())


async def subresources(s: Session) -> None:
    await s.deployments.create(deployment())
    await s.note(s.deployments.get("d", subresource="scale"))
    scale = await s.deployments.get("d", subresource="scale")
    scale["spec"]["replicas"] = 4
    await s.note(s.deployments.update(scale, subresource="scale"))
    await s.note(s.deployments.patch("d", {"spec": {"replicas": 2}}, subresource="scale"))
    status = {"status": {"replicas": 2, "observedGeneration": 1}}
    await s.note(s.deployments.patch("d", status, subresource="status"))
    await s.note(s.deployments.get("d", subresource="nothing"))
    await s.note(s.pods.create(pod()))
    binding = {"kind": "Binding", "metadata": {"name": "p"}, "target": {"name": "n"}}
    await s.note(s.pods.create(binding, name="p", subresource="binding"))
    await s.note(s.pods.create(binding, name="p", subresource="binding"))
    running = {"status": {"phase": "Running"}}
    await s.note(s.pods.patch("p", running, subresource="status"))
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    await s.note(s.pods.create(eviction, name="q", subresource="eviction"))
    await s.note(s.pods.create(eviction, name="p", subresource="eviction"))
    await s.note(s.pods.create({**eviction, "kind": "Pod"}, name="p", subresource="eviction"))
    request = {"apiVersion": "authentication.k8s.io/v1", "spec": {"expirationSeconds": 600}}
    accounts = s.of("v1", "serviceaccounts")
    await s.note(accounts.create({"metadata": {"name": "robot"}}))
    await s.note(accounts.create(request, name="robot", subresource="token"))
    await s.note(accounts.create(request, name="nobody", subresource="token"))


async def reviews(s: Session) -> None:
    authorization = "authorization.k8s.io/v1"
    spec = {"resourceAttributes": {"verb": "get", "resource": "pods"}}
    own = s.client.resource(authorization, "selfsubjectaccessreviews")
    await s.note(own.create({"spec": spec}))
    await s.note(own.create({"spec": {}}))
    reviews_of_self = s.client.resource("authentication.k8s.io/v1", "selfsubjectreviews")
    await s.note(reviews_of_self.create({}))
    await s.note(reviews_of_self.get("x"))


async def watches(s: Session) -> None:
    created = await s.maps.create({**config_map("a"), "data": {"x": "1"}})
    version = created["metadata"]["resourceVersion"]

    async def note_all(count: int, **parameters: Any) -> None:
        """Record this number of events; with 0, all until the end."""
        try:
            async for event in s.maps.watch(**parameters):
                if event.type == "BOOKMARK" and "timeoutSeconds" in parameters:
                    continue  # only the stream of a response ends with one
                s.answers.append([event.type, event.object])
                count -= 1
                if count == 0:
                    return
        except StatusError as error:
            s.answers.append([error.code, error.reason, str(error), error.status])

    await note_all(1)
    labels = {"metadata": {"labels": {"app": "x"}}}
    await s.maps.patch("a", labels)
    await s.maps.patch("a", {"data": {"x": "2"}})
    await s.maps.patch("a", {"metadata": {"labels": None}})
    await s.maps.create(config_map("b"))
    await s.maps.delete("a")
    await note_all(5, resource_version=version)
    await note_all(3, resource_version=version, labelSelector="app=x")
    await note_all(1, resource_version=version, fieldSelector="metadata.name=b")
    initial = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    await note_all(2, **initial)
    await note_all(0, resource_version="x")
    await note_all(0, sendInitialEvents="true")
    await note_all(0, resource_version=version, timeoutSeconds=1)
    async for event in s.maps.follow():
        s.answers.append([event.type, event.object])
        break


async def custom(s: Session) -> None:
    widgets = s.of(f"{GROUP}/v1", "widgets")
    await s.note(
        widgets.create({"kind": "Widget", "metadata": {"name": "a"}, "spec": {"replicas": 2}})
    )
    await s.note_code(widgets.create({"metadata": {"name": "b"}}))
    await s.note(widgets.create({"kind": "Gadget", "metadata": {"name": "b"}}))
    await s.note(
        widgets.create({"kind": "Widget", "metadata": {"name": "b"}, "spec": {"replicas": "x"}})
    )
    await s.note(widgets.patch("a", {"spec": {"color": "red"}}))
    await s.note(widgets.patch("a", {}, type="application/strategic-merge-patch+json"))
    config = {"kind": "Widget", "metadata": {"name": "a"}, "spec": {"color": "blue"}}
    await s.note(widgets.apply(config, manager="one"))
    await s.note(widgets.list())
    await s.note(widgets.get("a", subresource="scale"))
    await s.note(widgets.delete("a"))
    await s.note(widgets.delete_collection())


CASES = [
    creates, reads, updates, patches, applies, deletes, subresources, reviews, watches, custom,
]  # fmt: skip


@pytest.fixture(scope="module")
def transcripts() -> Any:
    """Every case's transcript over HTTP and through the internal client, on one server."""

    async def run() -> dict[str, list[str]]:
        config = Config.of(
            secure_port=None, insecure_port=0, shutdown_timeout=1, controllers=("-*",)
        )
        async with serve(config) as running, Client(running.url) as client:
            await establish(client)
            internal = running.cluster.server.client(UNSECURED, user_agent=AGENT)
            return {
                case.__name__: [
                    await play(case, item, f"{kind}-{case.__name__}")
                    for kind, item in (("http", client), ("internal", internal))
                ]
                for case in CASES
            }

    return asyncio.run(run())


async def establish(client: AnyClient) -> None:
    definitions = client.resource("apiextensions.k8s.io/v1", "customresourcedefinitions")
    await definitions.create(WIDGETS)
    async for event in definitions.follow():
        if any(
            condition["type"] == "Established"
            for condition in event.object["status"].get("conditions") or []
        ):
            return


async def play(case: Callable[[Session], Awaitable[None]], client: AnyClient, name: str) -> str:
    await client.resource("v1", "namespaces").create({"metadata": {"name": name}})
    session = Session(client, name)
    await case(session)
    text: str = session.transcript()
    return text


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_same_answers(transcripts: dict[str, list[str]], case: Callable[..., Any]) -> None:
    """Both clients give the same results and raise the same errors."""
    over_http, internal = transcripts[case.__name__]
    assert internal.splitlines() == over_http.splitlines()
