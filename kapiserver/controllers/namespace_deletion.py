"""A namespace that is deleted is emptied, and goes when nothing is left in it.

Pods go first: what else there is may be what they need to end. While something holds the namespace,
its conditions say what. Mirrors pkg/controller/namespace of Kubernetes and KEP-5080.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from kapiserver.api.group import CORE, Resource
from kapiserver.api.objects import finalizers_of, is_terminating, uid_of, value_at
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.controllers.workqueue import Work
from kapiserver.storage.entry import ObjectKey
from kapiserver.storage.errors import NotFound
from kapiserver.storage.lifecycle import timestamp
from kapiserver.storage.metadata_informer import Seen
from kapiserver.storage.query import Change, DeleteQuery, ListQuery, Preconditions

NAME = "namespace-controller"
FINALIZER = "kubernetes"
WORKERS = 10
_PODS = ("", "pods")


@dataclass(slots=True)
class Remains:
    """What is still in a namespace: objects by resource, and by the finalizers that hold them."""

    resources: Counter[str] = field(default_factory=Counter)
    finalizers: Counter[str] = field(default_factory=Counter)

    def __bool__(self) -> bool:
        return bool(self.resources)


class NamespaceDeletion:
    """The loop: a reader of the feed, and workers while a namespace is on its way out."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._leaving: set[str] = set()
        self._work: Work[str] = Work(self._look, server.clock, workers=WORKERS, name=NAME)

    async def stop(self) -> None:
        """End; what is being emptied is left as it is."""
        await self._work.stop()

    def begin(self) -> None:
        """Forget everything."""
        self._work.clear()
        self._leaving.clear()

    def put(self, seen: Seen) -> None:
        """An object is there, or changed."""
        if seen.resource.name == "namespaces" and not seen.resource.group and seen.terminating:
            self._leaving.add(seen.key.name)
            self._work.put(seen.key.name)

    def gone(self, seen: Seen) -> None:
        """An object is there no more: perhaps it was the last."""
        if seen.resource.name == "namespaces" and not seen.resource.group:
            self._leaving.discard(seen.key.name)
        elif seen.key.namespace in self._leaving:
            self._work.put(seen.key.namespace)

    async def _look(self, name: str) -> None:
        namespaces = self._server.stores.named(CORE, "namespaces")
        key = ObjectKey("", name)
        try:
            namespace = (await namespaces.get(key)).tree()
        except NotFound:
            return
        if not is_terminating(namespace) or FINALIZER not in _finalizers(namespace):
            return
        remains = await self._emptied(name)
        held = Preconditions(uid=uid_of(namespace))
        now = timestamp(self._server.clock.now())
        subresource = "status" if remains else "finalize"
        change = _with_conditions(remains, now) if remains else _without_finalizer
        try:
            await namespaces.update(key, change, subresource=subresource, preconditions=held)
        except NotFound:
            return

    async def _emptied(self, name: str) -> Remains:
        """Delete what is in the namespace; what is left then."""
        resources = [one for one in self._server.scheme.stored_resources() if one.namespaced]
        pods = [one for one in resources if (one.group, one.name) == _PODS]
        remains = Remains()
        for some in (pods, [one for one in resources if one not in pods]):
            for one in some:
                await self._empty(one, name, remains)
            if remains:
                break
        return remains

    async def _empty(self, resource: Resource, name: str, remains: Remains) -> None:
        store = self._server.stores
        prefix = f"{self._server.config.key_root}/{resource.prefix}/{name}/"
        if not (await store.kv.range(prefix, limit=1)).items:
            return
        objects = store.of(resource)
        inside = ListQuery(namespace=name)
        await objects.delete_collection(inside, DeleteQuery(propagation_policy="Background"))
        for entry in (await objects.list(inside)).entries:
            remains.resources[resource.qualified_name] += 1
            remains.finalizers.update(finalizers_of(entry.tree()))


def _finalizers(namespace: Tree) -> list[str]:
    return value_at(namespace, "spec", "finalizers") or []


def _without_finalizer(namespace: Tree | None) -> Tree:
    assert namespace is not None
    left = [one for one in _finalizers(namespace) if one != FINALIZER]
    namespace["spec"] = {"finalizers": left} if left else {}
    return namespace


@dataclass(frozen=True, slots=True)
class _Condition:
    """One condition: what it says when there is a fault, and when there is none."""

    type: str
    reason: str
    fault: str
    fine_reason: str
    fine: str


def _with_conditions(remains: Remains, now: str) -> Change:
    def change(namespace: Tree | None) -> Tree:
        assert namespace is not None
        status = dict(namespace.get("status") or {})
        before = {one["type"]: one for one in status.get("conditions") or ()}
        wanted = [_stated(one, before.get(one.type), now) for one in _conditions(remains)]
        types = {one["type"] for one in wanted}
        others = [one for kind, one in before.items() if kind not in types]
        status["conditions"] = [*others, *wanted]
        namespace["status"] = status
        return namespace

    return change


def _conditions(remains: Remains) -> Sequence[_Condition]:
    return (
        _Condition(
            "NamespaceDeletionDiscoveryFailure",
            "DiscoveryFailed",
            "",
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        _Condition(
            "NamespaceDeletionGroupVersionParsingFailure",
            "GroupVersionParsingFailed",
            "",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        _Condition(
            "NamespaceDeletionContentFailure",
            "ContentDeletionFailed",
            "",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        _Condition(
            "NamespaceContentRemaining",
            "SomeResourcesRemain",
            _listed(
                "Some resources are remaining: ", remains.resources, "{}. has {} resource instances"
            ),
            "ContentRemoved",
            "All content successfully removed",
        ),
        _Condition(
            "NamespaceFinalizersRemaining",
            "SomeFinalizersRemain",
            _listed(
                "Some content in the namespace has finalizers remaining: ",
                remains.finalizers,
                "{} in {} resource instances",
            ),
            "ContentHasNoFinalizers",
            "All content-preserving finalizers finished",
        ),
    )


def _listed(head: str, counts: Counter[str], form: str) -> str:
    if not counts:
        return ""
    return head + ", ".join(form.format(name, counts[name]) for name in sorted(counts))


def _stated(one: _Condition, before: Tree | None, now: str) -> Tree:
    stated = {
        "type": one.type,
        "status": "True" if one.fault else "False",
        "lastTransitionTime": now,
        "reason": one.reason if one.fault else one.fine_reason,
        "message": one.fault or one.fine,
    }
    if before is not None and before["status"] == stated["status"]:
        stated["lastTransitionTime"] = before.get("lastTransitionTime", now)
    return stated
