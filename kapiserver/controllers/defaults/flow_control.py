"""Create and maintain the flow schemas and priority levels that every cluster has.

The mandatory ones always have the server's spec. A suggested one has it as long as its annotation
`apf.kubernetes.io/autoupdate-spec` says so; without a valid annotation, as long as nobody has
changed its spec. Objects that an earlier release has suggested are deleted. Mirrors
pkg/registry/flowcontrol/ensurer of kube-apiserver.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kapiserver.api.accessors import name_of, value_at
from kapiserver.api.resource_client import ResourceClient
from kapiserver.api.types import Tree
from kapiserver.apiserver.flowcontrol.bootstrap import (
    AUTO_UPDATE,
    FLOWCONTROL,
    MANDATORY_LEVELS,
    MANDATORY_SCHEMAS,
    SUGGESTED_LEVELS,
    SUGGESTED_SCHEMAS,
)
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.writing import create_missing, suppress_reason, update_object
from kapiserver.storage.objects.informer import Informer, ObjectChange

DELAY_SECONDS = 5.0
"""The delay after the start, and after a change: a short-lived server does not need the objects,
and many changes are maintained at once."""
_ALL = "flow schemas and priority levels"
_TRUE = frozenset(("1", "t", "T", "true", "TRUE", "True"))
_FALSE = frozenset(("0", "f", "F", "false", "FALSE", "False"))


class FlowControlBootstrap(Controller[str]):
    """The control loop; its queue holds `_ALL`."""

    def set_up(self) -> None:
        """Watch the objects and begin after a delay, if they are served."""
        if self.server.scheme.is_served(FLOWCONTROL):
            watch = self.watch
            self._schemas = watch(FLOWCONTROL, "flowschemas", _all, delay=DELAY_SECONDS)
            self._levels = watch(
                FLOWCONTROL, "prioritylevelconfigurations", _all, delay=DELAY_SECONDS
            )
            self.queue.add_after(_ALL, DELAY_SECONDS)

    async def reconcile(self, _all: str) -> None:
        """Bring all objects to their specs."""
        version = str(FLOWCONTROL)
        schemas = self.context.resource(version, "flowschemas")
        levels = self.context.resource(version, "prioritylevelconfigurations")
        present_levels = await self._trees(self._levels)
        present_schemas = await self._trees(self._schemas)
        # Levels first, or the schemas would be dangling for a moment.
        await _ensure(levels, MANDATORY_LEVELS, present_levels, is_mandatory=True)
        await _ensure(levels, SUGGESTED_LEVELS, present_levels, is_mandatory=False)
        await _ensure(schemas, MANDATORY_SCHEMAS, present_schemas, is_mandatory=True)
        await _ensure(schemas, SUGGESTED_SCHEMAS, present_schemas, is_mandatory=False)
        await _remove_others(schemas, (*MANDATORY_SCHEMAS, *SUGGESTED_SCHEMAS), present_schemas)
        await _remove_others(levels, (*MANDATORY_LEVELS, *SUGGESTED_LEVELS), present_levels)

    async def _trees(self, informer: Informer) -> dict[str, Tree]:
        """Return the objects by their names. The first one of a kind is decoded in a thread, which
        compiles its decoder."""
        tree = self.server.offloader.tree
        return {
            entry.key.name: await tree(entry, limited=False) for entry in informer.lister.list()
        }


def _all(_change: ObjectChange) -> Iterator[str]:
    yield _ALL


async def _ensure(
    objects: ResourceClient,
    trees: Sequence[Tree],
    present: Mapping[str, Tree],
    *,
    is_mandatory: bool,
) -> None:
    for tree in trees:
        name = name_of(tree)

        def change(obj: Tree, desired: Tree = tree) -> Tree:
            return maintained(obj, desired, is_mandatory=is_mandatory)

        if name not in present:
            await create_missing(objects, tree)
        elif change(present[name]) != present[name]:
            await update_object(objects, name, change)


async def _remove_others(
    objects: ResourceClient, trees: Sequence[Tree], present: Mapping[str, Tree]
) -> None:
    names = {name_of(tree) for tree in trees}
    for name, obj in present.items():
        if name not in names and is_auto_updated(obj):
            with suppress_reason("NotFound"):
                await objects.delete(name)


def is_auto_updated(obj: Tree) -> bool | None:
    """Return what the annotation says about an object; None if it says nothing."""
    value = (value_at(obj, "metadata", "annotations") or {}).get(AUTO_UPDATE)
    return True if value in _TRUE else False if value in _FALSE else None


def maintained(obj: Tree, desired: Tree, *, is_mandatory: bool) -> Tree:
    """Return an object with the annotation that it should have, and with the desired spec if the
    server maintains it."""
    annotated = is_auto_updated(obj)
    is_own = is_mandatory or annotated or (annotated is None and _is_unchanged(obj))
    metadata = obj["metadata"]
    if annotated is not bool(is_own):
        annotations = {
            **(metadata.get("annotations") or {}),
            AUTO_UPDATE: "true" if is_own else "false",
        }
        metadata = {**metadata, "annotations": annotations}
    return {**obj, "metadata": metadata, "spec": desired["spec"] if is_own else obj["spec"]}


def _is_unchanged(obj: Tree) -> bool:
    return bool(value_at(obj, "metadata", "generation") == 1)
