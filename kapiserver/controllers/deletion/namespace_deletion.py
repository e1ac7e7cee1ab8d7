"""Delete the content of terminating namespaces, then remove their finalizer.

Pods are deleted first: they may need the other objects to shut down. Objects of extension API
servers are deleted, too; while one of these does not answer, the namespace stays, because it may
have content there. While content remains, the conditions of the namespace report it. Mirrors
pkg/controller/namespace of Kubernetes and KEP-5080.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from msgspec import Struct, field

from kapiserver.api.accessors import finalizers_of, is_terminating, name_of, uid_of, value_at
from kapiserver.api.group import CORE, GroupVersion, Resource
from kapiserver.api.resource_client import StatusError
from kapiserver.api.types import Tree
from kapiserver.controllers.aggregation.aggregated_resources import aggregated_resources
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.writing import suppress_reason, update_object
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.cache.query import DeleteQuery, ListQuery
from kapiserver.storage.errors import NotFound
from kapiserver.storage.objects.lifecycle import timestamp
from kapiserver.storage.objects.metadata_informer import DeletedObject, ObjectMetadata

FINALIZER = "kubernetes"
_PODS = ("", "pods")
AGGREGATED_RETRY_SECONDS = 8.0
"""The time until content of extension API servers is deleted again: they send no events."""


class RemainingContent(Struct):
    """What is still in a namespace, as far as it is known.

    resources, finalizers   numbers of objects, by resource and by finalizer
    errors      of deletions that were refused, as by an admission webhook
    unknown     group-versions whose extension API server does not answer
    is_elsewhere    whether an extension API server has some of the objects
    """

    resources: Counter[str] = field(default_factory=Counter)
    finalizers: Counter[str] = field(default_factory=Counter)
    errors: list[StatusError] = field(default_factory=list)
    unknown: Sequence[GroupVersion] = ()
    is_elsewhere: bool = False

    def __bool__(self) -> bool:
        return bool(self.resources or self.errors or self.unknown)


class NamespaceController(Controller[str]):
    """The control loop; its queue holds names of terminating namespaces."""

    workers = 10

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._terminating: set[str] = set()

    def set_up(self) -> None:
        """Subscribe to the metadata of namespaces, and to the deletion of all objects."""
        self.add_subscription(self.context.metadata.subscribe(self, frozenset({"namespaces"})))
        self.add_subscription(
            self.server.api_services.subscribe_discovery(self._on_aggregated_resources_changed)
        )

    def _on_aggregated_resources_changed(self) -> None:
        """Look at each terminating namespace: an extension API server may answer again."""
        for name in self._terminating:
            self.queue.add(name)

    def on_reset(self) -> None:
        """Forget everything: all present objects follow."""
        self.queue.clear()
        self._terminating.clear()

    def on_upsert(self, observed: ObjectMetadata) -> None:
        """A namespace was created or changed."""
        if observed.terminating:
            self._terminating.add(observed.key.name)
            self.queue.add(observed.key.name)

    def on_delete(self, deleted: DeletedObject) -> None:
        """An object was deleted, perhaps the last of a terminating namespace."""
        if deleted.resource.name == "namespaces" and not deleted.resource.group:
            self._terminating.discard(deleted.key.name)
        elif deleted.key.namespace in self._terminating:
            self.queue.add(deleted.key.namespace)

    async def reconcile(self, name: str) -> None:
        """Delete the content of a terminating namespace, then its finalizer."""
        namespaces = self.server.stores.by_name(CORE, "namespaces")
        key = ObjectKey("", name)
        try:
            namespace = (await namespaces.get(key)).tree()
        except NotFound:
            return
        if not is_terminating(namespace) or FINALIZER not in _finalizers(namespace):
            return
        remaining = await self._delete_content(name)
        now = timestamp(self.clock.now())
        subresource = "status" if remaining else "finalize"
        change = _with_conditions(remaining, now) if remaining else _without_finalizer
        await update_object(
            self.context.resource("v1", "namespaces"),
            name,
            change,
            subresource=subresource,
            uid=uid_of(namespace),
        )
        if remaining.errors:
            raise remaining.errors.pop(0)  # the queue tries again later
        if remaining.unknown or remaining.is_elsewhere:
            self.queue.add_after(name, AGGREGATED_RETRY_SECONDS)

    async def _delete_content(self, name: str) -> RemainingContent:
        """Delete the content of the namespace. Return what remains."""
        resources = [item for item in self.server.scheme.stored_resources() if item.namespaced]
        pods = [item for item in resources if (item.group, item.name) == _PODS]
        remaining = RemainingContent()
        for batch in (pods, [item for item in resources if item not in pods]):
            for item in batch:
                await self._delete_resource(item, name, remaining)
            if remaining:
                return remaining
        await self._delete_aggregated(name, remaining)
        return remaining

    async def _delete_aggregated(self, name: str, remaining: RemainingContent) -> None:
        """Delete the objects of extension API servers in the namespace."""
        served = aggregated_resources(self.server.api_services)
        remaining.unknown = served.failed
        for resource in served.resources:
            if resource.namespaced and "delete" in resource.verbs:
                try:
                    await self._delete_aggregated_resource(resource, name, remaining)
                except StatusError as error:
                    remaining.errors.append(error)

    async def _delete_aggregated_resource(
        self, resource: Resource, name: str, remaining: RemainingContent
    ) -> None:
        """Delete the objects of a resource. Raises StatusError."""
        version = str(GroupVersion(resource.group, resource.storage_version))
        objects = self.context.resource(version, resource.name, namespace=name)
        options = {"propagationPolicy": "Background"}
        if "deletecollection" in resource.verbs:
            await objects.delete_collection(options)
        if "list" not in resource.verbs:
            return
        items = (await objects.list())["items"]
        if "deletecollection" not in resource.verbs:
            for item in items:
                with suppress_reason("NotFound"):
                    await objects.delete(name_of(item), options)
            items = (await objects.list())["items"]
        for item in items:
            remaining.is_elsewhere = True
            remaining.resources[resource.qualified_name] += 1
            remaining.finalizers.update(finalizers_of(item))

    async def _delete_resource(
        self, resource: Resource, name: str, remaining: RemainingContent
    ) -> None:
        store = self.server.stores
        prefix = f"{self.server.config.store.key_root}/{resource.prefix}/{name}/"
        if not (await store.kv.range(prefix, limit=1)).items:
            return
        objects = store.get(resource)
        query = ListQuery(namespace=name)
        client = self.context.served_resource(resource, namespace=name)
        if client is not None:
            try:
                await client.shared.delete_collection({"propagationPolicy": "Background"})
            except StatusError as error:
                remaining.errors.append(error)
                return
        else:  # not served, but these objects must not outlive the namespace
            await objects.delete_collection(query, DeleteQuery(propagation_policy="Background"))
        for entry in (await objects.list(query)).entries:
            remaining.resources[resource.qualified_name] += 1
            remaining.finalizers.update(finalizers_of(entry.tree()))


def _finalizers(namespace: Tree) -> list[str]:
    return value_at(namespace, "spec", "finalizers") or []


def _without_finalizer(namespace: Tree) -> Tree:
    remaining = [item for item in _finalizers(namespace) if item != FINALIZER]
    namespace["spec"] = {"finalizers": remaining} if remaining else {}
    return namespace


class _ConditionTemplate(Struct, frozen=True):
    """One condition: its reason and message with a fault and without."""

    type: str
    reason: str
    fault_message: str
    ok_reason: str
    ok_message: str


def _with_conditions(remaining: RemainingContent, now: str) -> Callable[[Tree], Tree]:
    def change(namespace: Tree) -> Tree:
        status = dict(namespace.get("status") or {})
        before = {item["type"]: item for item in status.get("conditions") or ()}
        conditions = [
            _condition_tree(item, before.get(item.type), now) for item in _conditions(remaining)
        ]
        types = {item["type"] for item in conditions}
        other_conditions = [item for kind, item in before.items() if kind not in types]
        status["conditions"] = [*other_conditions, *conditions]
        namespace["status"] = status
        return namespace

    return change


def _conditions(remaining: RemainingContent) -> Sequence[_ConditionTemplate]:
    return (
        _ConditionTemplate(
            "NamespaceDeletionDiscoveryFailure",
            "DiscoveryFailed",
            _format_unknown(remaining.unknown),
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        _ConditionTemplate(
            "NamespaceDeletionGroupVersionParsingFailure",
            "GroupVersionParsingFailed",
            "",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        _ConditionTemplate(
            "NamespaceDeletionContentFailure",
            "ContentDeletionFailed",
            _format_errors(remaining.errors),
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        _ConditionTemplate(
            "NamespaceContentRemaining",
            "SomeResourcesRemain",
            _format_counts(
                "Some resources are remaining: ",
                remaining.resources,
                "{}. has {} resource instances",
            ),
            "ContentRemoved",
            "All content successfully removed",
        ),
        _ConditionTemplate(
            "NamespaceFinalizersRemaining",
            "SomeFinalizersRemain",
            _format_counts(
                "Some content in the namespace has finalizers remaining: ",
                remaining.finalizers,
                "{} in {} resource instances",
            ),
            "ContentHasNoFinalizers",
            "All content-preserving finalizers finished",
        ),
    )


def _format_unknown(versions: Sequence[GroupVersion]) -> str:
    if not versions:
        return ""
    stale = ", ".join(
        sorted(f"{version}: stale GroupVersion discovery: {version}" for version in versions)
    )
    return (
        f"Discovery failed for some groups, {len(versions)} failing: unable to retrieve the "
        f"complete list of server APIs: {stale}"
    )


def _format_errors(errors: Sequence[StatusError]) -> str:
    if not errors:
        return ""
    messages = ", ".join(sorted(map(str, errors)))
    return f"Failed to delete all resource types, {len(errors)} remaining: {messages}"


def _format_counts(head: str, counts: Counter[str], form: str) -> str:
    if not counts:
        return ""
    return head + ", ".join(form.format(name, counts[name]) for name in sorted(counts))


def _condition_tree(item: _ConditionTemplate, before: Tree | None, now: str) -> Tree:
    stated = {
        "type": item.type,
        "status": "True" if item.fault_message else "False",
        "lastTransitionTime": now,
        "reason": item.reason if item.fault_message else item.ok_reason,
        "message": item.fault_message or item.ok_message,
    }
    if before is not None and before["status"] == stated["status"]:
        stated["lastTransitionTime"] = before.get("lastTransitionTime", now)
    return stated
