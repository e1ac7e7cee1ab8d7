"""The status of CustomResourceDefinitions, and their end: which names each has got, and that the
objects of one that is deleted go before it.

Every server does this for itself; the first one writes, the others find it written. Mirrors the
naming, establishing, approval, structure and finalizing controllers of
k8s.io/apiextensions-apiserver.
"""

from __future__ import annotations

from collections.abc import Sequence

from kapiserver.api.apiextensions import structural_rules
from kapiserver.api.apiextensions.conditions import (
    condition,
    is_true,
    set_condition,
    without_condition,
)
from kapiserver.api.apiextensions.validation.approval import approval_of
from kapiserver.api.errors import Path
from kapiserver.api.objects import finalizers_of, is_terminating, metadata_of
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.controllers.workqueue import Work
from kapiserver.storage.entry import Entry, ObjectKey
from kapiserver.storage.errors import NotFound
from kapiserver.storage.kv import Revision
from kapiserver.storage.lifecycle import timestamp
from kapiserver.storage.object_store import ResourceStore
from kapiserver.storage.query import (
    Change,
    DeleteQuery,
    EventType,
    ListQuery,
    Preconditions,
    WatchQuery,
)

NAME = "customresourcedefinitions"
CLEANERS = 5


class Definitions:
    """The loop: told of every change of a definition, with workers while there is something to
    do. Names are given away one definition at a time."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._custom = server.custom_resources
        self._naming: Work[str] = Work(self._name, server.clock, workers=1, name=NAME)
        self._ending: Work[str] = Work(self._end, server.clock, workers=CLEANERS, name=NAME)

    def start(self) -> None:
        """Begin."""
        self._custom.followers.append(self._told)
        self._told(list(self._custom.heads))

    async def stop(self) -> None:
        """End; what is being looked at is broken off."""
        self._custom.followers.remove(self._told)
        await self._naming.stop()
        await self._ending.stop()

    def _told(self, names: Sequence[str]) -> None:
        heads = self._custom.heads
        groups = {name.partition(".")[2] for name in names}
        for name, head in heads.items():
            if is_terminating(head):
                if name in names and _cleanup(head):
                    self._ending.put(name)
            elif (name in names or name.partition(".")[2] in groups) and not _is_settled(head):
                self._naming.put(name)

    async def _name(self, name: str) -> None:
        head = self._custom.heads.get(name)
        if head is None or is_terminating(head) or _is_settled(head):
            return
        await self._write(name, self._with_names)

    def _with_names(self, current: Tree | None) -> Tree:
        assert current is not None
        others = [
            head["status"]["acceptedNames"]
            for name, head in list(self._custom.heads.items())  # perhaps in a thread
            if name != current["metadata"]["name"]
            and head["spec"]["group"] == current["spec"]["group"]
        ]
        now = timestamp(self._server.clock.now())
        return {**current, "status": status_of(current, others, now)}

    async def _write(self, name: str, change: Change) -> None:
        try:
            await self._custom.store.update(ObjectKey("", name), change, subresource="status")
        except NotFound:
            return

    # The end of one.

    async def _end(self, name: str) -> None:
        head = self._custom.heads.get(name)
        if head is None or not is_terminating(head) or not _cleanup(head):
            return
        definition = self._server.scheme.custom.named(name)
        if definition is None:
            await self._terminating(
                name, "False", "NeverEstablished", "resource was never established"
            )
        else:
            if (condition(head, "Terminating") or {}).get("reason") == "InstanceDeletionPending":
                await self._terminating(
                    name,
                    "True",
                    "InstanceDeletionInProgress",
                    "CustomResource deletion is in progress",
                )
            objects = self._server.stores.of(definition.stored.resource)
            if not await self._emptied(objects, name):
                return
            await self._terminating(
                name, "False", "InstanceDeletionCompleted", "removed all instances"
            )
        await self._release(name, head["metadata"]["uid"])

    async def _terminating(self, name: str, value: str, reason: str, message: str) -> None:
        now = timestamp(self._server.clock.now())

        def change(current: Tree | None) -> Tree:
            assert current is not None
            status = set_condition(
                current["status"], "Terminating", value, reason, message, now=now
            )
            return {**current, "status": status}

        await self._write(name, change)

    async def _emptied(self, objects: ResourceStore, name: str) -> bool:
        """Delete all objects; whether they are gone. If not, the next that goes is waited for."""
        everything = ListQuery()
        if (await objects.list(ListQuery(limit=1))).entries:
            await objects.delete_collection(everything, DeleteQuery())
        left = await objects.list(everything)
        if not left.entries:
            return True
        departures = _Departures(self._ending, name)
        query = WatchQuery(framer=departures, resource_version=str(left.revision))
        await objects.watch(query, departures)
        return False

    async def _release(self, name: str, uid: str) -> None:
        def change(current: Tree | None) -> Tree:
            assert current is not None
            metadata = metadata_of(current)
            left = [one for one in finalizers_of(current) if one != _CLEANUP]
            metadata.pop("finalizers", None)
            if left:
                metadata["finalizers"] = left
            return current

        try:
            await self._custom.store.update(
                ObjectKey("", name), change, preconditions=Preconditions(uid=uid)
            )
        except NotFound:
            return


_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


def _cleanup(head: Tree) -> bool:
    return _CLEANUP in finalizers_of(head)


class _Departures:
    """A watch of objects that holds a definition: looks at it again when one of them goes."""

    identity = "departures"

    def __init__(self, work: Work[str], name: str) -> None:
        self._work = work
        self._name = name

    # As a framer.

    def event(self, kind: EventType, entry: Entry) -> bytes:
        return b"." if kind == "DELETED" else b""

    def bookmark(self, revision: Revision, *, initial_events_end: bool) -> bytes:
        return b""

    def error(self, error: Exception) -> bytes:
        return b"."

    # As a sink.

    def write(self, frames: bytes) -> None:
        if frames:
            self._work.put(self._name)

    def backlog(self) -> int:
        return 0

    async def drained(self) -> None:
        pass

    def close(self) -> None:
        self._work.put_later(self._name, 1.0)


# What the status says: pure.

_NAMES = (
    ("plural", "PluralConflict", "resources"),
    ("singular", "SingularConflict", "resources"),
    ("shortNames", "ShortNamesConflict", "resources"),
    ("kind", "KindConflict", "kinds"),
    ("listKind", "ListKindConflict", "kinds"),
)


def _is_settled(head: Tree) -> bool:
    """Whether the status says all there is to say."""
    return (
        head["spec"]["names"] == head["status"]["acceptedNames"]
        and is_true(head, "NamesAccepted")
        and is_true(head, "Established")
        and _approval(head) == _told_approval(head)
        and not _may_lack_structure(head)
    )


def status_of(obj: Tree, others: Sequence[Tree], now: str) -> Tree:
    """The status of a definition, where the others of its group have accepted these names."""
    wanted: Tree = obj["spec"]["names"]
    accepted: Tree = obj["status"]["acceptedNames"]
    used = {
        "resources": {
            name
            for one in others
            for name in (one["plural"], one.get("singular"), *(one.get("shortNames") or ()))
        },
        "kinds": {name for one in others for name in (one["kind"], one.get("listKind"))},
    }
    names, conflict = dict(accepted), ("NoConflicts", "no conflicts found")
    for name, reason, among in _NAMES:
        problem = _problem(wanted.get(name), accepted.get(name), used[among])
        if problem:
            conflict = (reason, problem)
        elif wanted.get(name):
            names[name] = wanted[name]
        else:
            names.pop(name, None)
    names.pop("categories", None)
    if wanted.get("categories"):
        names["categories"] = wanted["categories"]
    good = conflict[0] == "NoConflicts"
    status = {**obj["status"], "acceptedNames": _in_order(names)}
    status = set_condition(status, "NamesAccepted", str(good), *conflict, now=now)
    if not is_true(obj, "Established"):
        why = ("InitialNamesAccepted", "the initial names have been accepted")
        if not good:
            why = ("NotAccepted", "not all names are accepted")
        status = set_condition(status, "Established", str(good), *why, now=now)
    status = _with_structure(status, obj, now)
    approval = _approval(obj)
    if approval is None:
        if condition(obj, _CONFORMANT) is not None:
            status = without_condition(status, _CONFORMANT)
        return status
    return set_condition(status, _CONFORMANT, *approval, now=now)


def _problem(wanted: object, accepted: object, used: set[str]) -> str:
    if isinstance(wanted, list):
        had = accepted if isinstance(accepted, list) else ()
        found = [f'"{one}" is already in use' for one in wanted if one not in had and one in used]
        return found[0] if len(found) == 1 else f"[{', '.join(found)}]" if found else ""
    return f'"{wanted}" is already in use' if wanted != accepted and wanted in used else ""


def _in_order(names: Tree) -> Tree:
    order = ("plural", "singular", "shortNames", "kind", "listKind", "categories")
    return {name: names[name] for name in order if name in names}


_CONFORMANT = "KubernetesAPIApprovalPolicyConformant"


def _approval(obj: Tree) -> tuple[str, str, str] | None:
    """Status, reason and message of the condition about a protected group; None for others."""
    found = approval_of(obj)
    if found is None:
        return None
    state, message = found
    return ("True" if state == "ApprovedAnnotation" else "False", state, message)


def _told_approval(obj: Tree) -> tuple[str, str, str] | None:
    found = condition(obj, _CONFORMANT)
    return None if found is None else (found["status"], found["reason"], found["message"])


_NON_STRUCTURAL = "NonStructuralSchema"


def _may_lack_structure(obj: Tree) -> bool:
    """Whether a schema may be one that nobody could write any more: a definition of old times."""
    return bool(obj["spec"].get("preserveUnknownFields")) or (
        condition(obj, _NON_STRUCTURAL) is not None
    )


def _with_structure(status: Tree, obj: Tree, now: str) -> Tree:
    if not _may_lack_structure(obj):
        return status
    problems: list[str] = []
    for index, one in enumerate(obj["spec"]["versions"]):
        path = (Path("spec") / "versions")[index] / "schema.openAPIV3Schema"
        schema = (one.get("schema") or {}).get("openAPIV3Schema") or {}
        problems += map(str, structural_rules.check(schema, path) if schema else ())
    if not problems:
        return without_condition(status, _NON_STRUCTURAL)
    message = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
    return set_condition(status, _NON_STRUCTURAL, "True", "Violations", message, now=now)
