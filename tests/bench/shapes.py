"""Requests that are as dear as one client can send, each in a size `n` that can grow.

A shape is one way to send very many parts: a long list, a map of many keys, a long text, deep
nesting, many terms of a selector. `tests/bench/holds.py` sends them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import orjson

NAMESPACE = "/api/v1/namespaces/default"
CONFIG_MAPS = f"{NAMESPACE}/configmaps"
POLICIES = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/bench.example.com/v1/namespaces/default/widgets"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
LARGE_DEPLOYMENT = f"{DEPLOYMENTS}/many"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

JSON = "application/json"
YAML = "application/yaml"
CBOR = "application/cbor"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request; a body that is no bytes is sent as JSON."""

    method: str
    path: str
    body: Any = None
    content_type: str = JSON
    accept: str = JSON
    headers: str = ""

    @property
    def data(self) -> bytes | None:
        if self.body is None or isinstance(self.body, bytes):
            return self.body
        return orjson.dumps(self.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A request of size n.

    call        returns the request
    before      returns the requests that make what it needs
    watch       a watch that is open meanwhile
    ready       a path that must exist before the first request, such as that of a new kind
    known       the size that the issue names; the size of the first run
    most        the size at which a limit of the server must have answered
    """

    name: str
    call: Callable[[int], Call]
    before: Callable[[int], Iterable[Call]] = lambda _: ()
    watch: Call | None = None
    ready: str = ""
    known: int
    most: int = 1_000_000


# Objects.


def config_map(n: int, name: str = "many") -> dict:
    return {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": name},
        "data": {f"k{i}": "v" for i in range(n)},
    }


def named(kind: str, name: str, api_version: str = "v1", **fields: Any) -> dict:
    return {"kind": kind, "apiVersion": api_version, "metadata": {"name": name}, **fields}


def policy(n: int) -> dict:
    blocks = [{"ipBlock": {"cidr": f"10.{i >> 8 & 255}.{i & 255}.0/24"}} for i in range(n)]
    return named(
        "NetworkPolicy", "many", "networking.k8s.io/v1",
        spec={"podSelector": {}, "ingress": [{"from": blocks}]},
    )  # fmt: skip


def containers(n: int) -> list[dict]:
    return [{"name": f"c{i}", "image": "i"} for i in range(n)]


def pod(items: list) -> dict:
    return named("Pod", "many", spec={"containers": items})


def definition(schema: dict, kind: str = "Widget") -> dict:
    plural = kind.lower() + "s"
    return named(
        "CustomResourceDefinition", f"{plural}.bench.example.com", "apiextensions.k8s.io/v1",
        spec={
            "group": "bench.example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                        "spec": schema,
                    }}},
                }
            ],
        },
    )  # fmt: skip


def widget(spec: Any) -> dict:
    return named("Widget", "many", "bench.example.com/v1", spec=spec)


FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
LIST = {"type": "object", "properties": {"items": {"type": "array", "items": {
    "type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
}}}}  # fmt: skip
MAP = {"type": "object", "additionalProperties": {"type": "string"}}


def nested(depth: int, width: int) -> dict:
    tree: dict = {}
    for _ in range(depth):
        tree = {"a": tree}
    return {f"k{i}": tree for i in range(width)}


# Steps.


def post(path: str, body: Any, **more: Any) -> Call:
    return Call(method="POST", path=path, body=body, **more)


def put(path: str, body: Any, **more: Any) -> Call:
    return Call(method="PUT", path=path, body=body, **more)


def patch(path: str, kind: str, body: Any, **more: Any) -> Call:
    return Call(method="PATCH", path=path, body=body, content_type=kind, **more)


def get(path: str, **more: Any) -> Call:
    return Call(method="GET", path=path, **more)


def delete(path: str, body: Any = None) -> Call:
    return Call(method="DELETE", path=path, body=body)


MANY = f"{CONFIG_MAPS}/many"


REMOVE = (patch(MANY, MERGE, {"metadata": {"finalizers": None}}), delete(MANY))


def absent(_: int) -> tuple[Call, ...]:
    """Remove the ConfigMap."""
    return REMOVE


def small(_: int) -> list[Call]:
    """Make a ConfigMap of one key."""
    return [*REMOVE, post(CONFIG_MAPS, config_map(1))]


def large(n: int) -> list[Call]:
    """Make a ConfigMap of n keys."""
    return [*REMOVE, post(CONFIG_MAPS, config_map(n))]


def without(path: str) -> Callable[[int], list[Call]]:
    return lambda _: [delete(path)]


def custom(schema: dict, spec: Callable[[int], Any] | None = None) -> Callable[[int], list[Call]]:
    """Define widgets, and make the widget `many` if `spec` is not None."""

    def before(n: int) -> list[Call]:
        calls = [
            delete(f"{WIDGETS}/many"),
            post(DEFINITIONS, definition(schema)),
            put(f"{DEFINITIONS}/widgets.bench.example.com", definition(schema)),
        ]
        return calls if spec is None else [*calls, post(WIDGETS, widget(spec(n)))]

    return before


def metadata(n: int, **fields: Any) -> dict:
    obj = config_map(1)
    obj["metadata"] |= fields
    return obj


def owners(n: int) -> list[dict]:
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": f"uid-{i}"}
        for i in range(n)
    ]


def fields_of(n: int) -> list[dict]:
    fields = {"f:data": {f"f:k{i}": {} for i in range(n)}}
    return [
        {
            "manager": "m", "operation": "Update", "apiVersion": "v1",
            "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": fields,
        }
    ]  # fmt: skip


def flat(n: int) -> dict:
    return {f"k{i}": "v" for i in range(n)}


def terms(n: int) -> str:
    return ",".join(f"a{i}" for i in range(n))


CONTAINER = {"name": "c", "image": "i"}


def deployment(n: int, name: str = "many") -> dict:
    return named("Deployment", name, "apps/v1", spec={
        "replicas": 0,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers(n)}},
    })  # fmt: skip


def deployed(n: int) -> list[Call]:
    return [delete(LARGE_DEPLOYMENT), post(DEPLOYMENTS, deployment(n))]


SHAPES = (
    # Creates.
    Shape(name="create NetworkPolicy, ipBlocks", known=20_000,
          before=without(f"{POLICIES}/many"), call=lambda n: post(POLICIES, policy(n))),
    Shape(name="create ConfigMap, keys", known=120_000,
          before=absent, call=lambda n: post(CONFIG_MAPS, config_map(n))),
    Shape(name="create ConfigMap, keys, YAML", known=50_000,
          before=absent,
          call=lambda n: post(
              CONFIG_MAPS,
              b"kind: ConfigMap\napiVersion: v1\nmetadata: {name: many}\ndata:\n"
              + b"".join(b"  k%d: v\n" % i for i in range(n)), content_type=YAML)),
    Shape(name="create Pod, containers", known=5_000,
          before=without(f"{NAMESPACE}/pods/many"),
          call=lambda n: post(f"{NAMESPACE}/pods", pod(containers(n)))),
    Shape(name="create Pod, empty containers", known=5_000,
          before=without(f"{NAMESPACE}/pods/many"),
          call=lambda n: post(f"{NAMESPACE}/pods", pod([{}] * n))),
    Shape(name="create Pod, variables", known=20_000,
          before=without(f"{NAMESPACE}/pods/many"),
          call=lambda n: post(f"{NAMESPACE}/pods", pod([
              CONTAINER | {"env": [{"name": f"E{i}", "value": "v"} for i in range(n)]}]))),
    Shape(name="create Pod, bad tolerations", known=20_000,
          before=without(f"{NAMESPACE}/pods/many"),
          call=lambda n: post(f"{NAMESPACE}/pods", named(
              "Pod", "many",
              spec={"containers": [CONTAINER], "tolerations": [{"operator": "?"}] * n}))),
    Shape(name="create ConfigMap, ownerReferences", known=20_000,
          before=absent,
          call=lambda n: post(CONFIG_MAPS, metadata(n, ownerReferences=owners(n)))),
    Shape(name="create ConfigMap, the same ownerReference", known=20_000,
          before=absent,
          call=lambda n: post(CONFIG_MAPS, metadata(n, ownerReferences=owners(1) * n))),
    Shape(name="create ConfigMap, labels", known=50_000,
          before=absent,
          call=lambda n: post(CONFIG_MAPS, metadata(n, labels=flat(n)))),
    Shape(name="create ConfigMap, bad labels", known=50_000,
          before=absent,
          call=lambda n: post(
              CONFIG_MAPS, metadata(n, labels={f"-{i}": "-" for i in range(n)}))),
    Shape(name="create ConfigMap, annotations", known=20_000,
          before=absent,
          call=lambda n: post(CONFIG_MAPS, metadata(n, annotations=flat(n)))),
    Shape(name="create ConfigMap, finalizers", known=50_000,
          before=absent,
          call=lambda n: post(
              CONFIG_MAPS, metadata(n, finalizers=[f"a.b/f{i}" for i in range(n)]))),
    Shape(name="create ConfigMap, managedFields", known=50_000,
          before=absent,
          call=lambda n: post(CONFIG_MAPS, metadata(n, managedFields=fields_of(n)))),
    Shape(name="create ConfigMap, unknown fields", known=50_000,
          before=absent,
          call=lambda n: post(CONFIG_MAPS, config_map(1) | flat(n))),
    Shape(name="create ConfigMap, repeated keys", known=50_000,
          before=absent,
          call=lambda n: post(
              CONFIG_MAPS, b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"many"},'
              b'"data":{%b}}' % b",".join([b'"k":"v"'] * n))),
    Shape(name="create Deployment, containers", known=5_000,
          before=without(LARGE_DEPLOYMENT), call=lambda n: post(DEPLOYMENTS, deployment(n))),
    Shape(name="create Service, ports", known=10_000,
          before=without(f"{NAMESPACE}/services/many"),
          call=lambda n: post(f"{NAMESPACE}/services", named(
              "Service", "many",
              spec={"ports": [{"name": f"p{i}", "port": i % 60_000 + 1} for i in range(n)]}))),
    Shape(name="create ClusterRole, rules", known=20_000,
          before=without("/apis/rbac.authorization.k8s.io/v1/clusterroles/many"),
          call=lambda n: post("/apis/rbac.authorization.k8s.io/v1/clusterroles", named(
              "ClusterRole", "many", "rbac.authorization.k8s.io/v1",
              rules=[{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}] * n))),
    Shape(name="create Endpoints, addresses", known=20_000,
          before=without(f"{NAMESPACE}/endpoints/many"),
          call=lambda n: post(f"{NAMESPACE}/endpoints", named("Endpoints", "many", subsets=[{
              "addresses": [{"ip": f"10.{i >> 16}.{i >> 8 & 255}.{i & 255}"} for i in range(n)],
              "ports": [{"port": 80}]}]))),
    # Definitions and custom objects.
    Shape(name="create definition, enum", known=100_000,
          before=without(f"{DEFINITIONS}/gadgets.bench.example.com"),
          call=lambda n: post(DEFINITIONS, definition(
              {"type": "string", "enum": [f"e{i}" for i in range(n)]}, "Gadget"))),
    Shape(name="create definition, properties", known=20_000,
          before=without(f"{DEFINITIONS}/gadgets.bench.example.com"),
          call=lambda n: post(DEFINITIONS, definition({"type": "object", "properties": {
              f"p{i}": {"type": "string"} for i in range(n)}}, "Gadget"))),
    Shape(name="create custom object, free keys", known=50_000,
          ready=WIDGETS, before=custom(FREE), call=lambda n: post(WIDGETS, widget(flat(n)))),
    Shape(name="create custom object, list", known=20_000,
          ready=WIDGETS, before=custom(LIST),
          call=lambda n: post(WIDGETS, widget({"items": [{"a": "x", "b": 1}] * n}))),
    Shape(name="create custom object, bad list", known=20_000,
          ready=WIDGETS, before=custom(LIST),
          call=lambda n: post(WIDGETS, widget({"items": [{"a": 1, "b": "x"}] * n}))),
    Shape(name="create custom object, depth 200", known=1_000,
          ready=WIDGETS, before=custom(FREE), call=lambda n: post(WIDGETS, widget(nested(200, n)))),
    # Updates and patches.
    Shape(name="update ConfigMap, keys", known=50_000,
          before=small, call=lambda n: put(MANY, config_map(n))),
    Shape(name="update large ConfigMap to a small one", known=50_000,
          before=large, call=lambda n: put(MANY, config_map(1))),
    Shape(name="strategic merge patch, keys", known=100_000,
          before=small, call=lambda n: patch(MANY, STRATEGIC, {"data": flat(n)})),
    Shape(name="merge patch, keys", known=100_000,
          before=small, call=lambda n: patch(MANY, MERGE, {"data": flat(n)})),
    Shape(name="merge patch of one key, large ConfigMap", known=50_000,
          before=large, call=lambda n: patch(MANY, MERGE, {"data": {"x": "y"}})),
    Shape(name="apply, keys", known=100_000,
          before=small,
          call=lambda n: patch(f"{MANY}?fieldManager=a&force=true", APPLY, config_map(n))),
    Shape(name="apply again, keys", known=50_000,
          before=lambda n: [*REMOVE, patch(
              f"{MANY}?fieldManager=a&force=true", APPLY, config_map(n))],
          call=lambda n: patch(f"{MANY}?fieldManager=a&force=true", APPLY, config_map(n // 2))),
    Shape(name="apply custom object, keys", known=100_000,
          ready=WIDGETS, before=custom(MAP, lambda _: {"a": "b"}),
          call=lambda n: patch(
              f"{WIDGETS}/many?fieldManager=a&force=true", APPLY, widget(flat(n)))),
    Shape(name="JSON patch, inserts", known=10_000,
          before=small,
          call=lambda n: patch(MANY, JSON_PATCH, [
              {"op": "add", "path": f"/data/k{i}", "value": "v"} for i in range(n)])),
    Shape(name="JSON patch, inserts at the start of a list", known=10_000,
          before=small,
          call=lambda n: patch(MANY, JSON_PATCH, [
              {"op": "add", "path": "/metadata/finalizers", "value": []},
              *({"op": "add", "path": "/metadata/finalizers/0", "value": "a.b/c"},) * n])),
    Shape(name="strategic merge patch, list by key", known=5_000,
          before=lambda _: [delete(f"{NAMESPACE}/pods/many"),
                            post(f"{NAMESPACE}/pods", pod([CONTAINER]))],
          call=lambda n: patch(f"{NAMESPACE}/pods/many", STRATEGIC, pod(containers(n)))),
    # The pod of the shape above is refused. Here, the old and the new object are freed.
    Shape(name="strategic merge patch, containers by name", known=5_000,
          before=lambda _: deployed(1),
          call=lambda n: patch(LARGE_DEPLOYMENT, STRATEGIC, deployment(n))),
    Shape(name="merge patch of one field, large Deployment", known=5_000, before=deployed,
          call=lambda _: patch(LARGE_DEPLOYMENT, MERGE, {"spec": {"replicas": 1}})),
    Shape(name="update large Deployment", known=5_000, before=deployed,
          call=lambda n: put(LARGE_DEPLOYMENT, deployment(n - 1))),
    Shape(name="update large Deployment to a small one", known=5_000,
          before=deployed, call=lambda _: put(LARGE_DEPLOYMENT, deployment(1))),
    Shape(name="apply of a large Deployment", known=5_000, before=deployed,
          call=lambda n: patch(
              f"{LARGE_DEPLOYMENT}?fieldManager=a&force=true", APPLY, deployment(n))),
    Shape(name="delete large Deployment", known=5_000,
          before=deployed, call=lambda _: delete(LARGE_DEPLOYMENT)),
    Shape(name="dry run, large Deployment", known=5_000, before=without(LARGE_DEPLOYMENT),
          call=lambda n: post(f"{DEPLOYMENTS}?dryRun=All", deployment(n))),
    Shape(name="update large custom object to a small one", known=20_000, ready=WIDGETS,
          before=custom(LIST, lambda n: {"items": [{"a": "x", "b": 1}] * n}),
          call=lambda _: patch(f"{WIDGETS}/many", MERGE, {"spec": {"items": []}})),
    # Reads.
    *(Shape(name=f"GET ConfigMap, keys, {name}", known=80_000, before=large,
            call=lambda n, accept=accept, query=query: get(f"{MANY}{query}", accept=accept))
      for name, accept, query in (
          ("JSON", JSON, ""), ("pretty", JSON, "?pretty=true"), ("YAML", YAML, ""),
          ("CBOR", CBOR, ""), ("Table", TABLE, ""),
          ("Table with object", TABLE, "?includeObject=Object"),
          ("metadata", f"{JSON};as=PartialObjectMetadata;v=v1;g=meta.k8s.io", ""))),
    *(Shape(name=f"list of one ConfigMap, keys, {name}", known=80_000, before=large,
            call=lambda n, accept=accept, query=query: get(f"{CONFIG_MAPS}{query}", accept=accept))
      for name, accept, query in (
          ("JSON", JSON, ""), ("pretty", JSON, "?pretty=true"), ("YAML", YAML, ""),
          ("CBOR", CBOR, ""), ("Table with object", TABLE, "?includeObject=Object"))),
    Shape(name="GET ConfigMap, labels, metadata",  known=50_000,
          before=lambda n: [*REMOVE, post(CONFIG_MAPS, metadata(n, labels=flat(n)))],
          call=lambda n: get(
              MANY, accept=f"{JSON};as=PartialObjectMetadata;v=v1;g=meta.k8s.io")),
    Shape(name="list by label, labels", known=50_000,
          before=lambda n: [*REMOVE, post(CONFIG_MAPS, metadata(n, labels=flat(n)))],
          call=lambda n: get(f"{CONFIG_MAPS}?labelSelector=k1")),
    Shape(name="GET custom object, free keys, YAML", known=50_000,
          ready=WIDGETS, before=custom(FREE, flat),
          call=lambda n: get(f"{WIDGETS}/many", accept=YAML)),
    Shape(name="GET custom object, free keys", known=50_000,
          ready=WIDGETS, before=custom(FREE, flat), call=lambda n: get(f"{WIDGETS}/many")),
    Shape(name="delete ConfigMap, keys", known=80_000, before=large, call=lambda _: delete(MANY)),
    Shape(name="delete ConfigMaps, keys", known=80_000,
          before=large, call=lambda _: delete(CONFIG_MAPS)),
    # Watches.
    *(Shape(name=f"watch as {name}, keys", known=80_000, before=absent,
            watch=get(f"{CONFIG_MAPS}?watch=1&timeoutSeconds=4{query}", accept=accept),
            call=lambda n: post(CONFIG_MAPS, config_map(n)))
      for name, accept, query in (
          ("JSON", JSON, ""), ("CBOR", CBOR, ""), ("Table", TABLE, "&includeObject=Object"),
          ("JSON, by label", JSON, "&labelSelector=!a"))),
    Shape(name="watch with initial events, keys", known=80_000, before=large,
          call=lambda n: get(f"{CONFIG_MAPS}?watch=1&timeoutSeconds=2", accept=CBOR)),
    # Terms.
    Shape(name="labelSelector, terms", known=20_000,
          call=lambda n: get(f"{CONFIG_MAPS}?labelSelector={terms(n)}")),
    Shape(name="labelSelector, values", known=20_000,
          call=lambda n: get(f"{CONFIG_MAPS}?labelSelector=a+in+({terms(n)})")),
    Shape(name="labelSelector in a DELETE, terms", known=20_000,
          call=lambda n: delete(f"{CONFIG_MAPS}?labelSelector={terms(n)}")),
    Shape(name="fieldSelector, terms", known=5_000,
          call=lambda n: get(
              f"{CONFIG_MAPS}?fieldSelector=" + ",".join(["metadata.name!=a"] * n))),
    Shape(name="query, parameters", known=20_000,
          call=lambda n: get(f"{CONFIG_MAPS}?" + "&".join(["a=b"] * n))),
    Shape(name="query, escapes", known=20_000,
          call=lambda n: get(f"{CONFIG_MAPS}?a=" + "%41" * n)),
    Shape(name="path, segments", known=40_000, call=lambda n: get("/" + "a/" * n)),
    Shape(name="path, escapes", known=20_000,
          call=lambda n: get(f"{CONFIG_MAPS}/" + "%41" * n)),
    Shape(name="Accept, media types", known=5_000,
          call=lambda n: get(CONFIG_MAPS, accept=",".join(["a/b;q=0.5"] * n))),
    Shape(name="Accept, parameters", known=10_000,
          call=lambda n: get(CONFIG_MAPS, accept=JSON + ";a=b" * n)),
    # Other bodies.
    Shape(name="DeleteOptions, dryRun", known=50_000,
          before=small, call=lambda n: delete(MANY, {
              "kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"] * n})),
    Shape(name="DeleteOptions, unknown fields", known=50_000,
          before=small, call=lambda n: delete(MANY, {
              "kind": "DeleteOptions", "apiVersion": "v1"} | flat(n))),
    Shape(name="SubjectAccessReview, groups", known=50_000,
          call=lambda n: post(REVIEWS, {
              "kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1",
              "spec": {"user": "a", "groups": [f"g{i}" for i in range(n)],
                       "resourceAttributes": {"verb": "get", "resource": "pods"}}})),
    Shape(name="SubjectAccessReview, extra", known=50_000,
          call=lambda n: post(REVIEWS, {
              "kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1",
              "spec": {"user": "a", "extra": {f"g{i}": ["v"] for i in range(n)},
                       "resourceAttributes": {"verb": "get", "resource": "pods"}}})),
    Shape(name="TokenReview, audiences", known=50_000,
          call=lambda n: post("/apis/authentication.k8s.io/v1/tokenreviews", {
              "kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1",
              "spec": {"token": "x", "audiences": [f"g{i}" for i in range(n)]}})),
    Shape(name="token request, audiences", known=20_000,
          call=lambda n: post(f"{NAMESPACE}/serviceaccounts/default/token", {
              "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1",
              "spec": {"audiences": [f"g{i}" for i in range(n)]}})),
    Shape(name="binding, annotations", known=20_000,
          before=lambda _: [delete(f"{NAMESPACE}/pods/many"),
                            post(f"{NAMESPACE}/pods", pod([CONTAINER]))],
          call=lambda n: post(f"{NAMESPACE}/pods/many/binding", named(
              "Binding", "many", target={"kind": "Node", "name": "n"})
              | {"metadata": {"name": "many", "annotations": flat(n)}})),
    Shape(name="eviction, unknown fields", known=50_000,
          before=lambda _: [delete(f"{NAMESPACE}/pods/many"),
                            post(f"{NAMESPACE}/pods", pod([CONTAINER]))],
          call=lambda n: post(f"{NAMESPACE}/pods/many/eviction", named(
              "Eviction", "many", "policy/v1") | flat(n))),
    Shape(name="scale, unknown fields", known=50_000,
          before=lambda _: [post(DEPLOYMENTS, deployment(1, "small"))],
          call=lambda n: put(f"{DEPLOYMENTS}/small/scale", named(
              "Scale", "small", "autoscaling/v1", spec={"replicas": 0}) | flat(n))),
)  # fmt: skip
