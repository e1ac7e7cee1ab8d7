"""Delete the content of terminating namespaces, then remove their finalizer.

Pods are deleted first: they may need the other objects to shut down. While content remains, the
conditions of the namespace report it. Mirrors pkg/controller/namespace of Kubernetes and KEP-5080.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from msgspec import Struct, field

from kapiserver.api.accessors import finalizers_of, is_terminating, uid_of, value_at
from kapiserver.api.group import CORE, Resource
from kapiserver.api.resource_client import StatusError
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.writing import update_object
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.cache.query import DeleteQuery, ListQuery
from kapiserver.storage.errors import NotFound
from kapiserver.storage.objects.lifecycle import timestamp
from kapiserver.storage.objects.metadata_informer import DeletedObject, ObjectMetadata

FINALIZER = "kubernetes"
_PODS = ("", "pods")


class RemainingContent(Struct):
    """Numbers of objects still in a namespace, by resource and by finalizer; and the errors of
    deletions that were refused, as by an admission webhook."""

    resources: Counter[str] = field(default_factory=Counter)
    finalizers: Counter[str] = field(default_factory=Counter)
    errors: list[StatusError] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.resources or self.errors)


class NamespaceController(Controller[str]):
    """The control loop; its queue holds names of terminating namespaces."""

    workers = 10

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._terminating: set[str] = set()

    def set_up(self) -> None:
        """Subscribe to the metadata of namespaces, and to the deletion of all objects."""
        self.add_subscription(self.context.metadata.subscribe(self, frozenset({"namespaces"})))

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

    async def _delete_content(self, name: str) -> RemainingContent:
        """Delete the content of the namespace. Return what remains."""
        resources = [item for item in self.server.scheme.stored_resources() if item.namespaced]
        pods = [item for item in resources if (item.group, item.name) == _PODS]
        remaining = RemainingContent()
        for batch in (pods, [item for item in resources if item not in pods]):
            for item in batch:
                await self._delete_resource(item, name, remaining)
            if remaining:
                break
        return remaining

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
            "",
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
