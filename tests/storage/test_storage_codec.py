"""The stored form of objects: kube-apiserver's keys, values that another decoder can read, and
values that other servers wrote."""

from __future__ import annotations

import asyncio
import base64
import functools
import json
import sqlite3
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import closing
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.message import Message as ProtobufMessage
from google.protobuf.unknown_fields import UnknownFieldSet

from kapiserver.api import generate, idl
from kapiserver.api.custom_kinds import CustomKinds, Definition
from kapiserver.api.group import GroupVersion, Resource
from kapiserver.api.scheme import Scheme
from kapiserver.api.selectors import parse
from kapiserver.api.types import (
    EncodedType,
    ListOf,
    MapOf,
    Message,
    ScalarType,
    Shape,
    Tree,
    Type,
)
from kapiserver.codecs import media_types
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.storage.backends import open_store
from kapiserver.storage.cache.entry import Encoding, Entry, ObjectKey, stamp_resource_version
from kapiserver.storage.cache.query import DeleteQuery, ListQuery, WriteResult
from kapiserver.storage.errors import DefinitionDeleted, Unreadable
from kapiserver.storage.etcd.config import EtcdConfig
from kapiserver.storage.etcd.store import open_etcd
from kapiserver.storage.kv.contract import KV, Revision
from kapiserver.storage.objects.object_codec import EncodingCache, ObjectCodec
from kapiserver.storage.objects.store_registry import ROOT
from tests import trees
from tests.apiserver.customresources import customkit
from tests.storage.etcd_server import shared_etcd
from tests.storage.objectkit import JSON, PROTOBUF, SCHEME, StorageHarness

CODECS = CodecFactory(SCHEME)
STORED = {
    (stored_resource.group, stored_resource.name): stored_resource
    for stored_resource in SCHEME.stored_resources()
}

# The key of the object `x` in kube-apiserver; namespaced objects are in `default`.
KEYS = {
    ("", "configmaps"): "configmaps/default/x",
    ("", "endpoints"): "services/endpoints/default/x",
    ("", "events"): "events/default/x",
    ("", "limitranges"): "limitranges/default/x",
    ("", "namespaces"): "namespaces/x",
    ("", "nodes"): "minions/x",
    ("", "persistentvolumeclaims"): "persistentvolumeclaims/default/x",
    ("", "persistentvolumes"): "persistentvolumes/x",
    ("", "pods"): "pods/default/x",
    ("", "podtemplates"): "podtemplates/default/x",
    ("", "replicationcontrollers"): "controllers/default/x",
    ("", "resourcequotas"): "resourcequotas/default/x",
    ("", "secrets"): "secrets/default/x",
    ("", "serviceaccounts"): "serviceaccounts/default/x",
    ("", "services"): "services/specs/default/x",
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies"): "mutatingadmissionpolicies/x",
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"): (
        "mutatingwebhookconfigurations/x"
    ),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"): (
        "validatingadmissionpolicies/x"
    ),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"): (
        "validatingwebhookconfigurations/x"
    ),
    ("apiextensions.k8s.io", "customresourcedefinitions"): (
        "apiextensions.k8s.io/customresourcedefinitions/x"
    ),
    ("apiregistration.k8s.io", "apiservices"): "apiregistration.k8s.io/apiservices/x",
    ("apps", "controllerrevisions"): "controllerrevisions/default/x",
    ("apps", "daemonsets"): "daemonsets/default/x",
    ("apps", "deployments"): "deployments/default/x",
    ("apps", "replicasets"): "replicasets/default/x",
    ("apps", "statefulsets"): "statefulsets/default/x",
    ("autoscaling", "horizontalpodautoscalers"): "horizontalpodautoscalers/default/x",
    ("batch", "cronjobs"): "cronjobs/default/x",
    ("batch", "jobs"): "jobs/default/x",
    ("certificates.k8s.io", "certificatesigningrequests"): "certificatesigningrequests/x",
    ("coordination.k8s.io", "leases"): "leases/default/x",
    ("discovery.k8s.io", "endpointslices"): "endpointslices/default/x",
    ("flowcontrol.apiserver.k8s.io", "flowschemas"): "flowschemas/x",
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"): (
        "prioritylevelconfigurations/x"
    ),
    ("networking.k8s.io", "ingressclasses"): "ingressclasses/x",
    ("networking.k8s.io", "ingresses"): "ingress/default/x",
    ("networking.k8s.io", "ipaddresses"): "ipaddresses/x",
    ("networking.k8s.io", "networkpolicies"): "networkpolicies/default/x",
    ("networking.k8s.io", "servicecidrs"): "servicecidrs/x",
    ("node.k8s.io", "runtimeclasses"): "runtimeclasses/x",
    ("policy", "poddisruptionbudgets"): "poddisruptionbudgets/default/x",
    ("rbac.authorization.k8s.io", "clusterrolebindings"): "clusterrolebindings/x",
    ("rbac.authorization.k8s.io", "clusterroles"): "clusterroles/x",
    ("rbac.authorization.k8s.io", "rolebindings"): "rolebindings/default/x",
    ("rbac.authorization.k8s.io", "roles"): "roles/default/x",
    ("resource.k8s.io", "resourceclaims"): "resourceclaims/default/x",
    ("scheduling.k8s.io", "priorityclasses"): "priorityclasses/x",
    ("storage.k8s.io", "csidrivers"): "csidrivers/x",
    ("storage.k8s.io", "csinodes"): "csinodes/x",
    ("storage.k8s.io", "csistoragecapacities"): "csistoragecapacities/default/x",
    ("storage.k8s.io", "storageclasses"): "storageclasses/x",
    ("storage.k8s.io", "volumeattachments"): "volumeattachments/x",
}


def codec_of(resource: Resource) -> ObjectCodec:
    kind_info = CODECS.scheme.kind_info_of(resource)
    return ObjectCodec(kind_info, CODECS, root=ROOT, encoding_cache=EncodingCache())


@pytest.mark.parametrize(("resource", "key"), KEYS.items(), ids=lambda pair: str(pair[1]))
def test_keys_are_those_of_kubernetes(resource: tuple[str, str], key: str) -> None:
    """The key of an object is the key that kube-apiserver uses."""
    assert codec_of(STORED[resource]).path(ObjectKey("default", "x")) == f"/registry/{key}"


# --- values read by another decoder


@functools.cache
def _pool() -> descriptor_pool.DescriptorPool:
    """The published IDL, compiled by protoc."""
    from grpc_tools import protoc

    pool = descriptor_pool.DescriptorPool()
    out = Path(f"/tmp/{uuid.uuid4().hex}.bin")
    include = str(files("grpc_tools") / "_proto")
    proto_files = [
        str(path.relative_to(generate.PROTO)) for path in generate.PROTO.rglob("*.proto")
    ]
    flags = [f"-I{generate.PROTO}", f"-I{include}", f"--descriptor_set_out={out}"]
    try:
        assert protoc.main(["protoc", *flags, *proto_files]) == 0
        compiled = FileDescriptorSet.FromString(out.read_bytes())
    finally:
        out.unlink(missing_ok=True)
    for file in compiled.file:
        pool.Add(file)
    return pool


def message(name: str) -> Any:
    """The generated class of a message of the IDL."""
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(name))


def unread(message: ProtobufMessage) -> Iterator[str]:
    """The names of messages that contain fields which are unknown to the IDL."""
    if len(UnknownFieldSet(message)):
        yield message.DESCRIPTOR.full_name
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            below = [item for item in value.values() if isinstance(item, ProtobufMessage)]
        else:
            below = list(value) if field.is_repeated else [value]
        for item in below:
            yield from unread(item)


@pytest.fixture(params=["file", "etcd"])
def raw_store(request: pytest.FixtureRequest, tmp_path: Path) -> RawStore:
    """A store that is read without this project's code."""
    return RawStore(
        tmp_path / "store.db", f"/{uuid.uuid4().hex}" if request.param == "etcd" else ""
    )


class RawStore:
    """A SQLite file, or a prefix in etcd."""

    def __init__(self, path: Path, prefix: str) -> None:
        self._path = path
        self._prefix = prefix

    async def open(self) -> KV:
        if not self._prefix:
            return await open_store(f"sqlite:{self._path}")
        config = EtcdConfig(endpoints=(shared_etcd().url,), prefix=self._prefix)
        return await open_etcd(config)

    def read(self) -> dict[str, bytes]:
        """The current key-value pairs, read with SQL or through etcd's gateway."""
        if not self._prefix:
            query = "SELECT current.key, value FROM current JOIN log USING (revision)"
            with closing(sqlite3.connect(self._path)) as sql:
                return dict(sql.execute(query).fetchall())
        first, range_end = (
            base64.b64encode(f"{self._prefix}{suffix}".encode()).decode() for suffix in "/0"
        )
        body = json.dumps({"key": first, "range_end": range_end}).encode()
        with urllib.request.urlopen(f"{shared_etcd().url}/v3/kv/range", body) as response:
            kvs = json.load(response)["kvs"]
        return {
            base64.b64decode(suffix["key"]).decode().removeprefix(self._prefix): base64.b64decode(
                suffix.get("value", "")
            )
            for suffix in kvs
        }


@pytest.mark.parametrize("empty", ["outer", "inner"])
def test_empty_lists_of_written_objects(empty: str) -> None:
    """An object that was just written is encoded as a later read encodes it, whichever lists and
    maps of it are empty: a message has no empty lists."""
    without_tree = set()
    for resource in STORED.values():
        codec = codec_of(resource)
        kind = codec.stored_version.with_kind(resource.kind)
        fields = without_items(SCHEME.type_of(kind), trees.filled(SCHEME.type_of(kind)), empty)
        body = {"kind": kind.kind, "apiVersion": str(kind.group_version), **fields}
        if kind.kind == "Service":  # one of another type without addresses is of an old server
            body["spec"] |= {"type": "ExternalName", "internalTrafficPolicy": None}
        decoded = CODECS.serializer_for(media_types.JSON).decode(json.dumps(body).encode()).object
        tree = stamp_resource_version(SCHEME.convert(decoded, codec.hub), 7)
        value = codec.stored_value(tree)
        written = codec.written_entry("/registry/x/y", value, Revision(7), tree)
        read = Entry(codec, written.path, value, Revision(7))
        if written.cached_tree is None:
            without_tree.add(kind.kind)
        for version in (GroupVersion(resource.group, name) for name in resource.versions):
            for media in ("json", "yaml", "cbor", "cbor.item", "protobuf"):
                encoding = Encoding(version, media)
                written_data, read_data = (
                    codec.encode(entry, encoding) for entry in (written, read)
                )
                assert written_data == read_data, (kind, version, media)
    assert {"Role", "EndpointSlice"} <= without_tree
    assert not {"ConfigMap", "Service", "Event"} & without_tree


def without_items(type_: type[Type], tree: Tree, empty: str) -> Tree:
    """The tree with empty lists and maps: the outer ones, or only those without structs."""
    return {
        flat.field.name: without_items_in(flat.field.shape, tree[flat.field.name], empty)
        for flat in type_.flat_fields()
        if flat.field.name in tree
    }


def without_items_in(shape: Shape, value: Any, empty: str) -> Any:
    if isinstance(shape, Message):
        is_value = issubclass(shape.type, ScalarType | EncodedType)
        return value if is_value else without_items(shape.type, value, empty)
    if not isinstance(shape, ListOf | MapOf):
        return value
    item_shape = shape.item if isinstance(shape, ListOf) else shape.value
    if empty == "outer" or not isinstance(item_shape, Message):
        return type(value)()
    if isinstance(shape, ListOf):
        return [without_items_in(item_shape, item, empty) for item in value]
    return {name: without_items_in(item_shape, item, empty) for name, item in value.items()}


async def test_values_are_read_by_another_decoder(raw_store: RawStore) -> None:
    """Google's Protobuf decoder reads the stored bytes of every kind with the published IDL: every
    field is known, and encoding again gives the same bytes."""
    kv = await raw_store.open()
    expected: dict[str, tuple[Resource, Tree]] = {}
    for resource in STORED.values():
        codec = codec_of(resource)
        kind = codec.stored_version.with_kind(resource.kind)
        obj = {"kind": kind.kind, "apiVersion": str(kind.group_version)}
        obj |= trees.filled(SCHEME.type_of(kind))
        path = codec.path(ObjectKey("default", resource.name))
        await kv.create(path, codec.stored_value(SCHEME.convert(obj, codec.hub)))
        expected[path] = (resource, obj)
    await kv.close()
    stored = {path: value for path, value in raw_store.read().items() if path in expected}
    assert stored.keys() == expected.keys()
    for path, value in stored.items():
        resource, obj = expected[path]
        assert value.startswith(b"k8s\0")
        envelope = message("k8s.io.apimachinery.pkg.runtime.Unknown").FromString(value[4:])
        assert (envelope.typeMeta.apiVersion, envelope.typeMeta.kind) == (
            obj["apiVersion"],
            obj["kind"],
        )
        type_ = SCHEME.type_of(GroupVersion.parse(obj["apiVersion"]).with_kind(obj["kind"]))
        decoded = message(f"{idl.package_of(type_)}.{type_.__name__}").FromString(envelope.raw)
        assert not list(unread(decoded)), path
        assert decoded.metadata.name == obj["metadata"]["name"]
        assert not decoded.metadata.resourceVersion
        assert decoded.metadata.labels == obj["metadata"]["labels"]
        set_fields = {
            field_value.name.lower() for field_value, _ in decoded.ListFields()
        }  # "Webhooks", once
        assert set_fields == {name.lower() for name in obj} - {"kind", "apiversion"}
        assert decoded.SerializeToString(deterministic=True) == envelope.raw, path


# --- values written by other servers


OLD_POD = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {
        "name": "old",
        "namespace": "default",
        "uid": "00000000-0000-4000-8000-0000000000ff",
        "creationTimestamp": "2016-01-02T03:04:05Z",
        "selfLink": "/api/v1/namespaces/default/pods/old",
        "labels": {"app": "old"},
    },
    "spec": {
        "containers": [{"name": "c", "image": "i"}],
        "nodeName": "n",
        "serviceAccount": "default",
    },
    "status": {"phase": "Running"},
}


async def test_json_at_rest(store: KV) -> None:
    """A value that an old server stored as JSON is readable in every encoding and selectable by
    labels and fields; the next update stores it as Protobuf, even if it changes nothing."""
    harness = StorageHarness(store)
    pods, key = harness.of("pods"), ObjectKey("default", "old")
    path = "/registry/pods/default/old"
    await store.create(path, json.dumps(OLD_POD, indent=1).encode())
    await store.create("/registry/pods/default/other", json.dumps(OLD_POD).encode())

    entry = await pods.get(key)
    assert entry.labels == {"app": "old"}
    assert entry.fields["spec.nodeName"] == "n"
    read_tree = json.loads(pods.encoder.encode_object(entry, JSON))
    assert read_tree["metadata"]["resourceVersion"] == str(entry.revision)
    assert read_tree["spec"]["containers"][0]["image"] == "i"
    assert pods.encoder.encode_object(entry, PROTOBUF).startswith(b"k8s\0")
    assert len((await pods.list(ListQuery(namespace="default"))).entries) == 2

    async def touch() -> WriteResult:
        return await pods.update(key, lambda current: current or {})

    first = await touch()
    assert first.outcome == "updated"
    assert first.entry.revision > entry.revision
    item = (await store.get(path)).item
    assert item is not None
    assert item.value.startswith(b"k8s\0")
    assert b"selfLink" not in item.value
    assert b"resourceVersion" not in item.value
    after_update = json.loads(pods.encoder.encode_object(await pods.get(key), JSON))
    for shown_tree in (read_tree, after_update):
        shown_tree["metadata"].pop("resourceVersion")
        shown_tree["metadata"].pop("selfLink", None)
    assert after_update == read_tree
    assert (await touch()).outcome == "unchanged"
    deletion = await pods.delete(ObjectKey("default", "other"), DeleteQuery(grace_period_seconds=0))
    assert deletion.outcome == "deleted"
    harness.stores.stop()


async def test_json_at_rest_is_defaulted(store: KV) -> None:
    """A stored value that lacks the defaults of newer fields is read with these defaults, in every
    encoding."""
    harness = StorageHarness(store)
    pods = harness.of("pods")
    await store.create("/registry/pods/default/old", json.dumps(OLD_POD).encode())
    entry = await pods.get(ObjectKey("default", "old"))
    read_tree = json.loads(pods.encoder.encode_object(entry, JSON))
    assert read_tree["spec"]["restartPolicy"] == "Always"
    assert read_tree["spec"]["containers"][0]["terminationMessagePolicy"] == "File"
    data = pods.encoder.encode_object(entry, PROTOBUF)
    assert CODECS.universal_deserializer.decode(data).object["spec"]["dnsPolicy"] == "ClusterFirst"
    harness.stores.stop()


OLD_SERVICES = {
    "one": (
        {"type": "ClusterIP", "clusterIP": "10.0.0.1"},
        {"clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"},
    ),
    "six": (
        {"type": "ClusterIP", "clusterIP": "fd00::1"},
        {"clusterIPs": ["fd00::1"], "ipFamilies": ["IPv6"], "ipFamilyPolicy": "SingleStack"},
    ),
    "none": ({"type": "ClusterIP", "clusterIP": "None"}, {"clusterIPs": ["None"]}),
    "name": (
        {"type": "ExternalName", "externalName": "a.b", "internalTrafficPolicy": "Cluster"},
        {"clusterIPs": None, "internalTrafficPolicy": None},
    ),
}


async def test_services_of_old_servers(store: KV) -> None:
    """A Service stored before 1.20 is read with clusterIPs and ipFamilies, in every encoding, and
    selectors still match it."""
    harness = StorageHarness(store)
    services, codec = harness.of("services"), codec_of(STORED["", "services"])
    for name, (spec, _) in OLD_SERVICES.items():
        key = ObjectKey("default", name)
        obj = {"kind": "Service", "apiVersion": "v1", "metadata": key._asdict(), "spec": spec}
        await store.create(codec.path(key), codec.stored_value(obj | {"status": {}}))
    listing = await services.list(ListQuery(namespace="default"))
    assert len(listing.entries) == len(OLD_SERVICES)
    for entry in listing.entries:
        spec, completed = OLD_SERVICES[entry.key.name]
        assert entry.fields["spec.clusterIP"] == spec.get("clusterIP", "")
        for encoding in (JSON, PROTOBUF):
            data = services.encoder.encode_object(entry, encoding)
            decoded_spec = CODECS.universal_deserializer.decode(data).object["spec"]
            assert {name: decoded_spec.get(name) for name in completed} == completed
    harness.stores.stop()


async def test_values_of_unknown_versions(store: KV) -> None:
    """A stored value of an unknown version is an internal error, not a client error."""
    harness = StorageHarness(store)
    old = {**OLD_POD, "apiVersion": "extensions/v1beta1"}
    await store.create("/registry/pods/default/old", json.dumps(old).encode())
    pods = harness.of("pods")
    with pytest.raises(Unreadable, match=r"/registry/pods/default/old: .*extensions"):
        pods.encoder.encode_object(await pods.get(ObjectKey("default", "old")), JSON)
    harness.stores.stop()


def test_values_of_a_deleted_definition() -> None:
    """An object that a request reads while the definition of its resource is deleted is no longer
    served."""
    definition = customkit.definition(group="example.com")
    definition["metadata"] |= {"uid": "u", "generation": 1}
    definition["status"] = {"acceptedNames": definition["spec"]["names"]}
    scheme = Scheme()
    scheme.custom = CustomKinds([Definition(definition, lambda: definition)])
    kind_info = scheme.kind_info(GroupVersion("example.com", "v1"), "widgets")
    cache = EncodingCache()
    codec = ObjectCodec(kind_info, CodecFactory(scheme), root=ROOT, encoding_cache=cache)
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}}
    entry = Entry(codec, codec.path(ObjectKey("default", "a")), codec.stored_value(widget), 5)
    assert entry.tree()["kind"] == "Widget"
    entry.drop_tree()
    scheme.custom = scheme.custom.with_changes({"widgets.example.com": None})
    with pytest.raises(DefinitionDeleted, match="/widgets/default/a: no kind"):
        entry.tree()


@pytest.mark.parametrize("media", ["json", "protobuf"])
async def test_values_of_another_kind(store: KV, media: str) -> None:
    """A stored value whose kind does not fit its key is unreadable, in every encoding."""
    harness = StorageHarness(store)
    config_maps, pods = harness.of("configmaps"), harness.of("pods")
    value = json.dumps(OLD_POD).encode()
    if media == "protobuf":
        value = pods.codec.stored_value(CODECS.universal_deserializer.decode(value).object)
    await store.create("/registry/configmaps/default/pod", value)
    entry = await config_maps.get(ObjectKey("default", "pod"))
    for encoding in (JSON, PROTOBUF):
        with pytest.raises(Unreadable, match=r"/default/pod: .* \(v1.Pod\) to \(core.ConfigMap\)"):
            config_maps.encoder.encode_object(entry, encoding)
    with pytest.raises(Unreadable):
        entry.is_selected(parse("a=b", "", config_maps.resource))
    harness.stores.stop()
    harness.stores.stop()


async def test_forms_of_old_values_agree(store: KV) -> None:
    """A list over both JSON and Protobuf values shows both in the same form."""
    harness = StorageHarness(store)
    maps = harness.of("configmaps")
    await maps.create({"kind": "ConfigMap", "apiVersion": "v1", "data": {"a": "b"},
                       "metadata": {"name": "new", "namespace": "default"}})  # fmt: skip
    old = {"kind": "ConfigMap", "apiVersion": "v1", "data": {"a": "b"},
           "metadata": {"name": "old", "namespace": "default"}}  # fmt: skip
    await store.create("/registry/configmaps/default/old", json.dumps(old).encode())
    await asyncio.sleep(0)
    listing = await maps.list(ListQuery(namespace="default"))
    assert [entry.key.name for entry in listing.entries] == ["new", "old"]
    for media in ("json", "protobuf", "cbor"):
        sizes = {
            len(entry.encode(Encoding(GroupVersion("", "v1"), media))) for entry in listing.entries
        }
        assert all(sizes)
    assert {str(entry.tree()["data"]) for entry in listing.entries} == {"{'a': 'b'}"}
    harness.stores.stop()
