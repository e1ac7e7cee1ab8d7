"""Random requests: valid objects of every kind with changes, in all encodings and by all verbs.

`Requests` yields the same requests for the same seed, whatever the server answers.
"""

from __future__ import annotations

import copy
import random
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson
import yaml

from kapiserver.api.group import GroupVersion, Resource
from kapiserver.api.scheme import Scheme
from kapiserver.apiserver.runtime_config import parse_runtime_config, resource_filter
from kapiserver.codecs import cbor
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.codecs.recode import recode
from tests.e2e.every_kind import objects
from tests.fuzz.certificates import CERTIFICATE, REQUEST
from tests.fuzz.mutations import TEXTS, Value, mutated, mutated_bytes, slots
from tests.trees import filled

RUNTIME_CONFIG = "api/all=true"
NAMESPACE = "default"
NAMES = ("one", "one", "one", "two")
JSON, YAML, PROTOBUF, CBOR = (
    "application/json", "application/yaml", "application/vnd.kubernetes.protobuf",
    "application/cbor",
)  # fmt: skip
ACCEPTED = (
    "", "*/*", JSON, JSON, JSON, JSON, YAML, PROTOBUF, CBOR, f"{PROTOBUF};stream=watch",
    "application/cbor-seq",
    f"{JSON};as=Table;v=v1;g=meta.k8s.io", f"{CBOR};as=Table;v=v1;g=meta.k8s.io",
    f"{JSON};as=PartialObjectMetadata;v=v1;g=meta.k8s.io", f"{JSON};pretty=1",
    f"{PROTOBUF};as=PartialObjectMetadataList;v=v1;g=meta.k8s.io, */*", "text/plain",
)  # fmt: skip
PATCHES = (
    "application/json-patch+json", "application/merge-patch+json",
    "application/strategic-merge-patch+json", "application/apply-patch+yaml",
    "application/apply-patch+cbor",
)  # fmt: skip
OPTIONS = (
    "limit", "continue", "resourceVersion", "resourceVersionMatch", "labelSelector",
    "fieldSelector", "timeoutSeconds", "timeout", "allowWatchBookmarks", "sendInitialEvents",
    "watch", "pretty", "dryRun", "fieldManager", "fieldValidation", "force", "propagationPolicy",
    "gracePeriodSeconds", "orphanDependents", "uid", "includeObject", "container", "tailLines",
    "sinceTime", "path", "as", "ignoreStoreReadErrorWithClusterBreakingPotential",
    "shardSelector",
)  # fmt: skip
VALUES = (
    "", "0", "1", "-1", "true", "false", "All", "Strict", "Ignore", "Exact", "NotOlderThan",
    "Foreground", "Background", "Orphan", "fuzz", "99999999999999999999", "metadata.name=one",
)  # fmt: skip
HEADERS = (
    "Accept", "Content-Type", "Content-Encoding", "Accept-Encoding", "User-Agent", "Authorization",
    "Audit-Id", "If-None-Match", "Connection", "Range", "X-Forwarded-For", "Impersonate-User",
    "Upgrade", "X-Remote-User", "Traceparent", "Warning",
)  # fmt: skip
RAW_PATHS = (
    "/", "/api", "/apis", "/api/v1", "/apis/apps", "/apis/apps/v1", "/openapi/v2", "/openapi/v3",
    "/openapi/v3/api/v1", "/version", "/healthz", "/livez?verbose", "/metrics",
    "/readyz?exclude=ping",
    "/.well-known/openid-configuration", "/openid/v1/jwks", "/logs/", "/debug/pprof",
    "/api/v1/watch/pods", "/api/v1/watch/namespaces/default/pods/one", "/api/v1/nodes/one/proxy/x",
    "/api/v1/namespaces/default/services/one:http/proxy/", "/api/v1/componentstatuses/etcd-0",
    "/api/v1/namespaces/default/pods/one/exec?command=x", "/apis/none/v1/nothing",
    "//api//v1//pods",
    "/api/v1/namespaces/default/pods/one/log", "/api/v1/namespaces/default/pods/one/portforward",
)  # fmt: skip
MALFORMED = (
    b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/9.9\r\nHost: x\r\n\r\n", b"\x16\x03\x01\r\n\r\n",
    b"POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    b"POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"GET /%00%ff HTTP/1.1\r\nHost: x\r\nX: \xff\xfe\r\n\r\n", b"GET x HTTP/1.1\r\nHost: x\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET http://other/api HTTP/1.1\r\nHost: x\r\n\r\n", b"get /api HTTP/1.1\r\nHost: x\r\n\r\n",
)  # fmt: skip
DEFINITION, CUSTOM_OBJECT = yaml.safe_load_all(
    (Path(__file__).parent / "custom_kind.yaml").read_text()
)
CUSTOM = Resource(
    group="fuzz.example.com", name="gadgets", kind="Gadget", namespaced=True, versions=("v1",),
    storage_version="v1",
)  # fmt: skip


_SIGNED = {
    "request": b64encode(REQUEST.encode()).decode(),
    "stubPKCS10Request": "".join(REQUEST.splitlines()[1:-1]),
    "trustBundle": CERTIFICATE,
}
"""Fields with certificates, the same in each run."""


@dataclass(frozen=True, slots=True)
class RawRequest:
    """A request as it is sent. The server may close the connection if it is malformed."""

    data: bytes
    is_malformed: bool = False

    @property
    def method(self) -> str:
        """The method of the request line."""
        return self.data.partition(b" ")[0].decode("latin-1")


class Requests:
    """The requests of a seed. `token` authenticates an administrator."""

    def __init__(self, seed: int, token: str) -> None:
        self._rng = random.Random(seed)
        self._token = token
        self._scheme = Scheme(is_enabled=resource_filter(parse_runtime_config(RUNTIME_CONFIG)))
        self._codecs = CodecFactory(Scheme())

    @cached_property
    def _samples(self) -> list[tuple[Resource, dict[str, Value]]]:
        """An object of each kind, with its resource."""
        by_kind = {
            (group.name, resource.kind): resource
            for group in self._scheme.groups
            for resource in self._scheme.resources(group.name)
        }
        samples = []
        for obj in objects():
            spec = obj.get("spec") or {}
            spec.update({name: _SIGNED[name] for name in _SIGNED.keys() & spec.keys()})
            group = GroupVersion.parse(obj["apiVersion"]).group
            samples.append((by_kind[group, obj["kind"]], obj))
        return [*samples, (CUSTOM, CUSTOM_OBJECT)]

    @cached_property
    def _others(self) -> list[tuple[Resource, dict[str, Value]]]:
        """An empty object of each kind that is not stored: reviews and the like."""
        return [
            (
                resource,
                {"kind": resource.kind, "apiVersion": str(GroupVersion(group.name, version))},
            )
            for group in self._scheme.groups
            for resource in self._scheme.resources(group.name)
            for version in resource.versions
            if not resource.stored
        ]

    def preparation(self) -> Iterator[RawRequest]:
        """Yield requests that create the custom kind and an object of each kind."""
        for resource, obj in [(self._definitions, DEFINITION), *self._samples]:
            version = GroupVersion.parse(obj["apiVersion"]).version
            yield self._request(
                "POST", _collection(resource, version), orjson.dumps(obj), **{"Content-Type": JSON}
            )

    @cached_property
    def _definitions(self) -> Resource:
        return self._scheme.resource(
            GroupVersion("apiextensions.k8s.io", "v1"), "customresourcedefinitions"
        )

    def __iter__(self) -> Iterator[RawRequest]:
        while True:
            yield self._rng.choice(_MAKERS)(self)

    # Bodies.

    def _object(self) -> tuple[Resource, str, dict[str, Value]]:
        """Return a resource, one of its versions, and an object of it."""
        rng = self._rng
        resource, obj = rng.choice(self._samples if rng.random() < 0.93 else self._others)
        version = GroupVersion.parse(obj["apiVersion"]).version
        if rng.random() < 0.25:
            version = rng.choice(resource.versions)
            obj = {**obj, "apiVersion": str(GroupVersion(resource.group, version))}
        return resource, version, obj

    def _filled(self, resource: Resource, version: str) -> dict[str, Value]:
        """Return an object of the kind with every field set."""
        if resource is CUSTOM:
            return CUSTOM_OBJECT
        kind = GroupVersion(resource.group, version).with_kind(resource.kind)
        return filled(self._scheme.type_of(kind))

    def _body(self, resource: Resource, version: str, obj: dict[str, Value], name: str) -> Value:
        rng = self._rng
        obj = copy.deepcopy(obj)
        if isinstance(obj.get("metadata"), dict) and obj["metadata"].get("name") == "one":
            obj["metadata"]["name"] = name
        if rng.random() < 0.2:
            return obj
        other = self._filled(resource, version)
        if rng.random() < 0.15:
            other = rng.choice(self._samples)[1]
        return mutated(rng, obj, other)

    def _encode(self, body: Value, media: str) -> bytes:
        data = orjson.dumps(body, default=str) if _is_json(body) else b"{}"
        try:
            if media in (YAML, "application/apply-patch+yaml"):
                data = yaml.safe_dump(body, allow_unicode=self._rng.random() < 0.5).encode()
            elif media in (CBOR, "application/apply-patch+cbor"):
                data = cbor.encode_value(body)
            elif media == PROTOBUF:
                data = recode(data, "json", "protobuf", codecs=self._codecs)
        except Exception:  # the body has no such form: it is sent as JSON
            return data
        return data

    def _encoded(
        self, method: str, path: str, body: Value, media: str, **headers: str
    ) -> RawRequest:
        data = self._encode(body, media)
        if self._rng.random() < 0.08:
            data = mutated_bytes(self._rng, data)
        return self._request(method, path, data, **{"Content-Type": media, **headers})

    def _request(self, method: str, path: str, data: bytes = b"", **headers: str) -> RawRequest:
        rng = self._rng
        lines = {
            "Host": "127.0.0.1",
            "Authorization": f"Bearer {self._token}",
            "Accept": rng.choice(ACCEPTED),
            "User-Agent": rng.choice(("fuzz/1.0", "kubectl/v1.37", "curl/8", "")),
            **headers,
        }
        if data or method in ("POST", "PUT", "PATCH"):
            lines["Content-Length"] = str(len(data))
        if rng.random() < 0.06:
            lines[rng.choice(HEADERS)] = rng.choice(TEXTS)[:200].replace("\n", " ")
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        request_line = f"{method} {path} HTTP/1.1\r\n"
        return RawRequest(f"{request_line}{head}\r\n".encode("utf-8", "replace") + data)

    def _query(self, path: str, *options: tuple[str, str]) -> str:
        rng = self._rng
        pairs = list(options)
        for _ in range(rng.choice((0, 0, 1, 2))):
            value = rng.choice(VALUES) if rng.random() < 0.6 else rng.choice(TEXTS)[:500]
            pairs.append((rng.choice(OPTIONS), value))
        mark = "&" if "?" in path else "?"
        query = "&".join(f"{name}={quote(value)}" for name, value in pairs)
        return f"{path}{mark}{query}" if pairs else path

    def _name(self) -> str:
        rng = self._rng
        return rng.choice(NAMES) if rng.random() < 0.95 else quote(rng.choice(TEXTS)[:100], safe="")

    def _item(self, resource: Resource, version: str, obj: dict[str, Value], name: str) -> str:
        own = (obj.get("metadata") or {}).get("name") or "one"
        name = own if own != "one" and self._rng.random() < 0.9 else name
        return f"{_collection(resource, version)}/{quote(name, safe='')}"

    # Requests.

    def create(self) -> RawRequest:
        resource, version, obj = self._object()
        body = self._body(resource, version, obj, self._name())
        media = self._rng.choice((JSON, JSON, JSON, YAML, PROTOBUF, PROTOBUF, CBOR))
        return self._encoded("POST", self._query(_collection(resource, version)), body, media)

    def update(self) -> RawRequest:
        resource, version, obj = self._object()
        name = self._name()
        path = self._item(resource, version, obj, name) + self._subresource(resource)
        media = self._rng.choice((JSON, JSON, JSON, YAML, PROTOBUF, CBOR))
        return self._encoded(
            "PUT", self._query(path), self._body(resource, version, obj, name), media
        )

    def patch(self) -> RawRequest:
        rng = self._rng
        resource, version, obj = self._object()
        name = self._name()
        path = self._item(resource, version, obj, name) + self._subresource(resource)
        media = rng.choice(PATCHES)
        body = self._body(resource, version, obj, name)
        options = [("fieldManager", "fuzz")]
        if "apply" in media:
            options.append(("force", rng.choice(("true", "true", "false"))))
        elif media == "application/json-patch+json":
            body = self._json_patch(body)
        elif rng.random() < 0.5 and isinstance(body, dict) and body:
            body = {key: body[key] for key in rng.sample(sorted(body), 1)}
        if "strategic" in media and rng.random() < 0.3:
            self._add_directives(body)
        return self._encoded("PATCH", self._query(path, *options), body, media)

    def _json_patch(self, body: Value) -> Value:
        rng = self._rng
        pointers = ["", "/-", "/metadata/labels/a~1b", *_pointers(body)]
        operations = []
        for _ in range(rng.randint(1, 4)):
            operation = rng.choice(("add", "remove", "replace", "test", "move", "copy", "other"))
            holder, key = rng.choice(list(slots({"body": body})))
            operations.append(
                {"op": operation, "path": rng.choice(pointers), "from": rng.choice(pointers),
                 "value": holder[key]}
            )  # fmt: skip
        return operations if rng.random() < 0.95 else mutated(rng, operations, body)

    def _add_directives(self, body: Value) -> None:
        rng = self._rng
        holders = [holder for holder, _ in slots({"body": body}) if isinstance(holder, dict)]
        holder = rng.choice(holders)
        name = rng.choice(_DIRECTIVES)
        holder[name] = rng.choice(
            ("delete", "replace", "merge", "x", [], ["a"], [{"name": "c"}], 1, None)
        )

    def _subresource(self, resource: Resource) -> str:
        names = [subresource.name for subresource in resource.subresources]
        if not names or self._rng.random() > 0.25:
            return ""
        return f"/{self._rng.choice([*names, 'status', 'none'])}"

    def read(self) -> RawRequest:
        resource, version, obj = self._object()
        path = _collection(resource, version)
        if self._rng.random() < 0.4:
            path = self._item(resource, version, obj, self._name()) + self._subresource(resource)
        elif resource.namespaced and self._rng.random() < 0.3:
            path = path.replace(f"/namespaces/{NAMESPACE}", "")
        return self._request("GET", self._query(path))

    def watch(self) -> RawRequest:
        resource, version, _ = self._object()
        path = _collection(resource, version)
        options = [("watch", "1"), ("timeoutSeconds", "1")]
        if self._rng.random() < 0.3:
            options += [("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan"),
                        ("allowWatchBookmarks", "true")]  # fmt: skip
        return self._request("GET", self._query(path, *options))

    def delete(self) -> RawRequest:
        rng = self._rng
        resource, version, obj = self._object()
        path = self._item(resource, version, obj, self._name())
        if rng.random() < 0.2:
            path = _collection(resource, version)
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
        if rng.random() < 0.5:
            return self._request("DELETE", self._query(path, ("gracePeriodSeconds", "0")))
        changed = mutated(rng, body, {"preconditions": {"uid": "x"}, "propagationPolicy": "Orphan"})
        return self._encoded("DELETE", self._query(path), changed, rng.choice((JSON, YAML, CBOR)))

    def subresource(self) -> RawRequest:
        """A body of a subresource's own kind: bindings, evictions, scales, tokens."""
        rng = self._rng
        choices = [
            (resource, subresource)
            for resource, _ in self._samples
            for subresource in resource.subresources
            if subresource.kind is not None
        ]
        resource, subresource = rng.choice(choices)
        assert subresource.kind is not None
        type_ = self._scheme.type_of(subresource.kind)
        head = {"kind": subresource.kind.kind, "apiVersion": str(subresource.kind.group_version)}
        body: dict[str, Value] = {**head, "metadata": {"name": "one", "namespace": NAMESPACE}}
        body = (
            mutated(rng, body, filled(type_)) if rng.random() < 0.7 else {**filled(type_), **body}
        )
        path = f"{_collection(resource, resource.versions[0])}/{self._name()}/{subresource.name}"
        verbs = {"create": "POST", "update": "PUT", "patch": "PATCH", "get": "GET"}
        method = rng.choice(
            [verbs[verb] for verb in subresource.verbs if verb in verbs] or ["POST"]
        )
        media = rng.choice(PATCHES if method == "PATCH" else (JSON, YAML, PROTOBUF, CBOR))
        return self._encoded(method, self._query(path), body, media)

    def raw_path(self) -> RawRequest:
        rng = self._rng
        path = self._query(rng.choice(RAW_PATHS))
        if rng.random() < 0.3:
            path = "/" + quote(mutated_bytes(rng, path.encode()), safe="/?&=%:")
        method = rng.choice(
            ("GET", "GET", "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "TRACE")
        )
        return self._request(method, path)

    def malformed(self) -> RawRequest:
        rng = self._rng
        data = rng.choice(MALFORMED)
        if rng.random() < 0.6:
            data = mutated_bytes(rng, rng.choice((self.read, self.create))().data)
        return RawRequest(data, is_malformed=True)


_DIRECTIVES = (
    "$patch", "$retainKeys", "$setElementOrder/containers", "$deleteFromPrimitiveList/finalizers",
    "$setElementOrder/x", "$other",
)  # fmt: skip
_MAKERS = (
    *[Requests.create] * 7, *[Requests.update] * 5, *[Requests.patch] * 8, *[Requests.read] * 4,
    Requests.watch, Requests.delete, *[Requests.subresource] * 2, Requests.raw_path,
    Requests.malformed,
)  # fmt: skip


def _is_json(body: Value) -> bool:
    try:
        orjson.dumps(body)
    except TypeError:
        return False
    return True


def _collection(resource: Resource, version: str) -> str:
    base = f"/apis/{resource.group}/{version}" if resource.group else f"/api/{version}"
    namespace = f"/namespaces/{NAMESPACE}" if resource.namespaced else ""
    return f"{base}{namespace}/{resource.name}"


def _pointers(value: Value, before: str = "") -> Iterator[str]:
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, item in items:
        pointer = f"{before}/{str(key).replace('~', '~0').replace('/', '~1')}"
        yield pointer
        yield from _pointers(item, pointer)
