"""The operations of the control API about all objects at one time: manifests, dumps, snapshots."""

from __future__ import annotations

from kapiserver.testing.control_api.schemas import (
    BOOLEAN,
    EMPTY_RESULT,
    INTEGER,
    SNAPSHOT,
    STRING,
    Argument,
    described,
    items,
)
from kapiserver.testing.control_api.session import Operation, Session, Tree
from kapiserver.testing.state.memory_store import Snapshot

MAX_SNAPSHOTS = 100

_SNAPSHOT_NUMBER = {
    "number": Argument(schema=INTEGER, description="The number of the snapshot.", required=True)
}


async def _load(session: Session, arguments: Tree) -> Tree:
    sources = arguments.pop("sources")
    return {"items": await session.server.state.load_async(*sources, **arguments)}


async def _dump(session: Session, arguments: Tree) -> Tree:
    kinds = arguments.pop("kinds", ())
    return {"yaml": await session.server.state.dump_async(*kinds, **arguments)}


async def _take_snapshot(session: Session, _: Tree) -> Tree:
    snapshot = await session.server.state.snapshot_async()
    if len(session.snapshots) >= MAX_SNAPSHOTS:
        raise RuntimeError(f"there are {MAX_SNAPSHOTS} snapshots already")
    session.last_snapshot += 1
    session.snapshots[session.last_snapshot] = snapshot
    return {"number": session.last_snapshot}


def _snapshot(session: Session, number: int) -> Snapshot:
    if number not in session.snapshots:
        raise KeyError(f"there is no snapshot {number}")
    return session.snapshots[number]


async def _restore(session: Session, arguments: Tree) -> Tree:
    await session.server.state.restore_async(_snapshot(session, arguments["number"]))
    return {}


def _remove_snapshot(session: Session, arguments: Tree) -> Tree:
    _snapshot(session, arguments["number"])
    del session.snapshots[arguments["number"]]
    return {}


STATE_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="loadObjects",
        method="POST",
        path="/state/load",
        summary="Create the objects of manifests, or replace those that exist, with their status; "
        "return them as stored.",
        run=_load,
        result=items({"type": "object"}),
        arguments={
            "sources": Argument(
                schema={"type": "array", "items": {"anyOf": [STRING, {"type": "object"}]}},
                description="Texts of YAML, objects, and paths of files and directories.",
                required=True,
            ),
            "namespace": Argument(
                schema={**STRING, "default": "default"},
                description="The namespace of objects that name none.",
            ),
        },
    ),
    Operation(
        name="dumpObjects",
        method="POST",
        path="/state/dump",
        summary="Return objects as YAML documents, sorted by kind, namespace and name.",
        run=_dump,
        result=described({"yaml": (STRING, "The documents.")}),
        arguments={
            "kinds": Argument(
                schema={"type": "array", "items": STRING},
                description="As in readHistory. Without them, all kinds except Events and Leases.",
            ),
            "namespace": Argument(schema=STRING, description="The namespace. Without it, all."),
            "everything": Argument(
                schema={**BOOLEAN, "default": False},
                description="Return the objects that have not changed since the start, too.",
            ),
            "normalise": Argument(
                schema={**BOOLEAN, "default": True},
                description="Leave out or replace what differs between runs.",
            ),
        },
    ),
    Operation(
        name="takeSnapshot",
        method="POST",
        path="/state/snapshots",
        summary="Keep the state of all objects, to restore it later.",
        run=_take_snapshot,
        result=SNAPSHOT,
    ),
    Operation(
        name="restoreSnapshot",
        method="POST",
        path="/state/snapshots/{number}/restore",
        summary="Bring all objects back to a snapshot; respond when the controllers have reacted.",
        run=_restore,
        result=EMPTY_RESULT,
        arguments=_SNAPSHOT_NUMBER,
    ),
    Operation(
        name="removeSnapshot",
        method="DELETE",
        path="/state/snapshots/{number}",
        summary="Forget a snapshot.",
        run=_remove_snapshot,
        result=EMPTY_RESULT,
        arguments=_SNAPSHOT_NUMBER,
    ),
)
