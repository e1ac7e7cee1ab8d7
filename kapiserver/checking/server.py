"""An API server in memory, without ports, to which a check applies its objects.

Writes pass the operations, admission plugins, validation and store of `kapiserver serve`. Of the
controllers only those run whose work decides on writes: service accounts of namespaces, the usage
of quotas, aggregated roles.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from msgspec import Struct

from kapiserver.api.accessors import namespace_of
from kapiserver.api.group import GroupVersion, Resource
from kapiserver.api.resource_client import ResourceClient, StatusError
from kapiserver.api.types import Tree
from kapiserver.apiserver.authorization.forbidden import forbidden_message
from kapiserver.apiserver.caller import Warnings
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.operations.apply import has_long_key, read_configuration
from kapiserver.apiserver.errors import BadRequest
from kapiserver.apiserver.feature_gates import parse_feature_gates
from kapiserver.apiserver.internal_client import InternalClient
from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.apiserver.status import status as failure
from kapiserver.apiserver.user import MASTERS, User, service_account_user, with_authenticated
from kapiserver.apiserver.version import emulated_minor
from kapiserver.app import RunningServer, serve
from kapiserver.checking.webhooks import remove_webhooks
from kapiserver.codecs import json
from kapiserver.parts import Parts
from kapiserver.storage.concurrency.clock import SystemClock
from kapiserver.storage.concurrency.time_slice import unlimited_slices
from kapiserver.storage.kv.contract import KV
from kapiserver.testing.determinism.identifiers import InlineOffloader
from kapiserver.testing.history.recorder import Recording
from kapiserver.testing.history.replay import open_recording
from kapiserver.testing.history.settling import settle
from kapiserver.testing.state.memory_store import open_memory_store
from kapiserver.testing.state.prepared import keep_policy, restore_objects

MANAGER = "kubectl"
"""The field manager of `kubectl apply --server-side`."""
DEFAULT_NAMESPACE = "default"

_CONTROLLERS = (
    "serviceaccount-controller",
    "resourcequota-controller",
    "clusterrole-aggregation-controller",
)
_SERVICE_RANGE = "10.96.0.0/12"
"""The range of kubeadm. That of kube-apiserver has addresses for 254 Services only."""
_STAMPS = ("resourceVersion", "uid", "creationTimestamp", "selfLink")
"""Metadata that the server sets."""
_POD_MAKERS = (
    ("v1", "pods"),
    ("v1", "replicationcontrollers"),
    ("apps/v1", "daemonsets"),
    ("apps/v1", "deployments"),
    ("apps/v1", "replicasets"),
    ("apps/v1", "statefulsets"),
    ("batch/v1", "jobs"),
    ("batch/v1", "cronjobs"),
)
_ADMINISTRATOR = User(
    name="kubernetes-admin", groups=with_authenticated("kubernetes-admin", (MASTERS,))
)


class Outcome(Struct, frozen=True, kw_only=True):
    """What the server says to a write.

    status      the Status of the refusal; None if the object is stored
    warnings    texts of the Warning headers
    """

    status: Tree | None = None
    warnings: Sequence[str] = ()


class CheckServer:
    """Applies objects as `kubectl apply --server-side` does, as an administrator or a user."""

    def __init__(self, running: RunningServer, *, has_snapshot: bool = False) -> None:
        self._running = running
        self._has_snapshot = has_snapshot
        self._warnings = Warnings()
        self._administrator = self._client(_ADMINISTRATOR)
        self._reader = InternalClient(self.server, _ADMINISTRATOR, authorize=False)

    @property
    def server(self) -> Server:
        """The parts of the server."""
        return self._running.cluster.server

    def _client(self, user: User) -> InternalClient:
        return InternalClient(self.server, user, user_agent=MANAGER, warnings=self._warnings)

    def resource_of(self, tree: Tree) -> Resource:
        """Return the resource of an object. Raises NotRegistered if it is not served, ValueError
        for a malformed apiVersion."""
        version = GroupVersion.parse(tree["apiVersion"])
        return self.server.scheme.resource_of(version.with_kind(tree["kind"]))

    async def apply(
        self, tree: Tree, resource: Resource, *, dry_run: bool = False, user: User | None = None
    ) -> Outcome:
        """Apply an object that has a name, or a prefix for one. Without a user, an administrator
        applies it."""
        client = self._administrator if user is None else self._client(user)
        namespace = namespace_in(tree, resource)
        objects = client.resource(tree["apiVersion"], resource.name, namespace=namespace)
        if namespace and not tree["metadata"].get("namespace"):  # as kubectl does
            tree = tree | {"metadata": tree["metadata"] | {"namespace": namespace}}
        options = {"fieldValidation": "Strict"} | ({"dryRun": "All"} if dry_run else {})
        self._warnings.clear()
        status = None
        try:
            if tree["metadata"].get("name"):
                _check_keys(tree)
                await objects.apply(tree, manager=MANAGER, **options)
            else:
                await objects.create(tree, **options)
        except StatusError as error:
            status = error.status
        except BadRequest as error:
            status = failure(code=400, reason="BadRequest", message=str(error))
        return Outcome(status=status, warnings=tuple(self._warnings.texts))

    async def denial(self, user: User, tree: Tree, resource: Resource) -> str:
        """Return the message of a verb that the user needs to apply an object and may not use, ""
        if there is none. An object that is not there has to be created, too."""
        name, namespace = str(tree["metadata"].get("name") or ""), namespace_in(tree, resource)
        version = GroupVersion.parse(tree["apiVersion"])
        is_there = name and await self.get(resource, version.version, namespace, name)
        for verb in (*(("patch",) if name else ()), *(() if is_there else ("create",))):
            info = RequestInfo(
                verb=verb,
                prefix="apis" if version.group else "api",
                version=version,
                namespace=namespace,
                resource=resource.name,
                name=name,
                is_item=bool(name),
            )
            decision = await self.server.authorizer.authorize(user, info)
            if not decision.allowed:
                denied = f'{resource.qualified_name} "{name}" is forbidden: '
                return denied + forbidden_message(user, info, decision.reason)
        return ""

    async def load(self, tree: Tree, resource: Resource) -> Outcome:
        """Store an object of a cluster, with its status. Its managed fields are kept; one without
        them counts as applied by kubectl."""
        metadata = {
            name: value
            for name, value in (tree.get("metadata") or {}).items()
            if name not in _STAMPS
        }
        namespace = namespace_in(tree, resource)
        objects = self._reader.resource(tree["apiVersion"], resource.name, namespace=namespace)
        obj = tree | {"metadata": metadata}
        try:
            stored = await self._store(objects, obj)
            if tree.get("status") and any(
                subresource.name == "status" for subresource in resource.subresources
            ):
                await objects.update(stored | {"status": tree["status"]}, subresource="status")
        except StatusError as error:
            return Outcome(status=error.status)
        return Outcome()

    async def _store(self, objects: ResourceClient, obj: Tree) -> Tree:
        """Store an object with its managed fields."""
        metadata = dict(obj["metadata"])
        managed_fields = metadata.pop("managedFields", None)
        stored = await objects.apply(obj | {"metadata": metadata}, manager=MANAGER, force="true")
        if managed_fields is None:
            return stored
        metadata = stored["metadata"] | {"managedFields": managed_fields}
        return await objects.update(stored | {"metadata": metadata})

    async def find(self, group: str, kind: str, namespace: str, name: str) -> Tree | None:
        """Return a stored object, None if there is none."""
        for resource in self.server.scheme.resources(group):
            if resource.kind == kind and resource.stored:
                return await self.get(resource, resource.versions[0], namespace, name)
        return None

    async def get(self, resource: Resource, version: str, namespace: str, name: str) -> Tree | None:
        """Return a stored object in a version, None if there is none."""
        group_version = str(GroupVersion(resource.group, version))
        objects = self._reader.resource(
            group_version, resource.name, namespace=namespace if resource.namespaced else ""
        )
        try:
            return await objects.get(name)
        except StatusError:
            return None

    async def pods(self, namespace: str) -> Sequence[Tree]:
        """Return the pods of a namespace of the snapshot, and what makes pods there."""
        if not self._has_snapshot:
            return ()
        lists = [
            await self._reader.resource(version, name, namespace=namespace).list()
            for version, name in _POD_MAKERS
        ]
        return [item for page in lists for item in page["items"]]

    async def remove_webhooks(self) -> None:
        """Remove the webhooks that a recording has."""
        await remove_webhooks(self._reader)
        await self.settle()

    async def settle(self) -> None:
        """Return when controllers, admission and authorizer know what was written."""
        await settle(self.server, self._running.controllers)


def namespace_in(tree: Tree, resource: Resource) -> str:
    """Return the namespace in which an object is applied, "" for a cluster-scoped kind."""
    if not resource.namespaced:
        return ""
    namespace = namespace_of(tree)
    return namespace if namespace and isinstance(namespace, str) else DEFAULT_NAMESPACE


def user_of(name: str) -> User:
    """Return the user of a name, which may be that of a service account."""
    prefix, _, account = name.partition("system:serviceaccount:")
    namespace, separator, account_name = account.partition(":")
    if not prefix and separator:
        return service_account_user(namespace, account_name)
    return User(name=name, groups=with_authenticated(name, ()))


@asynccontextmanager
async def open_server(
    *, release: str = "", recording: Recording | None = None, has_snapshot: bool = False
) -> AsyncIterator[CheckServer]:
    """Start a server until the block ends. Later ones of the process reuse its bootstrap policy.

    release         the Kubernetes release to emulate, such as 1.34; "" for the newest
    recording       what it holds at its start
    has_snapshot    whether it gets objects that are not in the files

    Raises ValueError for an unknown release.
    """
    config = Config.of(
        secure_port=None,
        insecure_port=None,
        controllers=_CONTROLLERS,
        service_cluster_ip_range=_SERVICE_RANGE,
        emulated_version=release,
        feature_gates=parse_feature_gates("", minor=emulated_minor(release)),
    )
    clock = SystemClock()
    kv: KV
    has_policy = False
    if recording is None:
        kv = store = await open_memory_store(clock)
        has_policy = restore_objects(config, store)
    else:
        config = config.replace(etcd_prefix=recording.root)
        kv = await open_recording(recording, clock)
    parts = Parts(clock=clock, kv=kv, offloader=InlineOffloader())
    with unlimited_slices():  # there are no other requests
        async with serve(config, parts, has_policy=has_policy) as running:
            if recording is None:
                keep_policy(config, store)
            server = CheckServer(running, has_snapshot=has_snapshot or recording is not None)
            await server.settle()
            if recording is not None:
                await server.remove_webhooks()
            yield server


def _check_keys(tree: Tree) -> None:
    """Raise BadRequest for an object with a key that is too long for a body of server-side apply,
    as which kubectl would send it."""
    body = json.encode_value(tree)
    if has_long_key(body):
        read_configuration("application/apply-patch+yaml", body)
