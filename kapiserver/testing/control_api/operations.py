"""The operations of the control API of `kapiserver testing-server`, as one table.

`testing/control_api/server.py` derives from it the routes, the checks of arguments and the OpenAPI
document. The parts of TestServer do the work.
"""

from __future__ import annotations

from kapiserver.testing.control_api.faults import FAULT_OPERATIONS
from kapiserver.testing.control_api.schemas import (
    BOOLEAN,
    CLOCK,
    EMPTY_RESULT,
    INTEGER,
    MATCHING,
    REQUEST,
    REVISION,
    SNAPSHOT,
    STRING,
    Argument,
    arguments_of,
    described,
    items,
)
from kapiserver.testing.control_api.session import Operation, Session, Tree
from kapiserver.testing.control_api.users import USER_OPERATIONS
from kapiserver.testing.determinism.clock import Duration, TestClock, parse_seconds
from kapiserver.testing.history.requests import Requests
from kapiserver.testing.server import TestServer
from kapiserver.testing.state.memory_store import Snapshot

MAX_SNAPSHOTS = 100
MAX_WAIT_SECONDS = 3600.0


_SNAPSHOT_NUMBER = {
    "number": Argument(schema=INTEGER, description="The number of the snapshot.", required=True)
}
_NAMESPACE = "Its namespace; ignored for kinds without namespaces."
_KIND = "As kubectl takes it: `deployment`, `deploy`, `deployments.apps`."


def _clock(session: Session) -> Tree:
    clock = session.server.clock
    return {"time": clock.time.isoformat(), "frozen": clock.frozen}


def _freeze(session: Session, _: Tree) -> Tree:
    session.server.clock.freeze()
    return _clock(session)


def _resume(session: Session, _: Tree) -> Tree:
    session.server.clock.resume()
    return _clock(session)


async def _advance(session: Session, arguments: Tree) -> Tree:
    await session.server.clock.advance_async(**arguments)
    return _clock(session)


def _requests(session: Session, arguments: Tree) -> Tree:
    return {"items": [record.to_dict() for record in session.server.requests.select(**arguments)]}


def _clear_requests(session: Session, _: Tree) -> Tree:
    session.server.requests.clear()
    return {}


def _history(session: Session, arguments: Tree) -> Tree:
    return {"items": [revision.to_dict() for revision in session.server.history(**arguments)]}


async def _wait(session: Session, arguments: Tree) -> Tree:
    _check_wait(arguments.get("timeout", 0))
    return {"object": await session.server.wait_for_async(**arguments)}


async def _assert_converges(session: Session, arguments: Tree) -> Tree:
    _check_wait(arguments.get("within", 0))
    await session.server.assert_converges_async(**arguments)
    return {}


def _check_wait(duration: Duration) -> None:
    if parse_seconds(duration) > MAX_WAIT_SECONDS:
        raise ValueError(f"{duration!r} is too long; a request waits an hour at most")


def _assert_no_hot_loop(session: Session, arguments: Tree) -> Tree:
    session.server.assert_no_hot_loop(**arguments)
    return {}


def _record(session: Session, arguments: Tree) -> Tree:
    session.server.record(**arguments)
    return {}


async def _reset(session: Session, _: Tree) -> Tree:
    await session.server.reset_async()
    session.users.forget()
    return {}


async def _take_snapshot(session: Session, _: Tree) -> Tree:
    snapshot = await session.server.snapshot_async()
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
    await session.server.restore_async(_snapshot(session, arguments["number"]))
    return {}


def _remove_snapshot(session: Session, arguments: Tree) -> Tree:
    _snapshot(session, arguments["number"])
    del session.snapshots[arguments["number"]]
    return {}


async def _load(session: Session, arguments: Tree) -> Tree:
    sources = arguments.pop("sources")
    return {"items": await session.server.load_async(*sources, **arguments)}


async def _dump(session: Session, arguments: Tree) -> Tree:
    kinds = arguments.pop("kinds", ())
    return {"yaml": await session.server.dump_async(*kinds, **arguments)}


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="readClock",
        method="GET",
        path="/clock",
        summary="Return the time of the server.",
        run=lambda session, _: _clock(session),
        result=CLOCK,
    ),
    Operation(
        name="freezeClock",
        method="POST",
        path="/clock/freeze",
        summary="Stop the time of the server.",
        run=_freeze,
        result=CLOCK,
    ),
    Operation(
        name="resumeClock",
        method="POST",
        path="/clock/resume",
        summary="Let the time flow on from where it stands.",
        run=_resume,
        result=CLOCK,
    ),
    Operation(
        name="advanceClock",
        method="POST",
        path="/clock/advance",
        summary="Move the time forward; respond when the work that fell due is done.",
        run=_advance,
        result=CLOCK,
        arguments=arguments_of(
            TestClock.advance_async,
            {"duration": "Such as `10m`, `1h30m`, `250ms`, `7d`, or a number of seconds."},
        ),
    ),
    *FAULT_OPERATIONS,
    Operation(
        name="listRequests",
        method="GET",
        path="/requests",
        summary="Return the received requests that match all arguments.",
        run=_requests,
        result=items(REQUEST),
        arguments=arguments_of(
            Requests.select, {**MATCHING, "status": "The HTTP status of the response."}
        ),
    ),
    Operation(
        name="clearRequests",
        method="DELETE",
        path="/requests",
        summary="Forget the requests that have come so far.",
        run=_clear_requests,
        result=EMPTY_RESULT,
    ),
    Operation(
        name="readHistory",
        method="GET",
        path="/history/{kind}/{name}",
        summary="Return the revisions of an object, the oldest first, each with its changes.",
        run=_history,
        result=items(REVISION),
        arguments=arguments_of(
            TestServer.history,
            {
                "kind": _KIND,
                "name": "The name of the object.",
                "namespace": _NAMESPACE,
            },
        ),
    ),
    Operation(
        name="waitFor",
        method="POST",
        path="/wait",
        summary="Respond when an object meets a condition; with 417 if it does not in time: the "
        "message has the object, its last revisions and its Events.",
        run=_wait,
        waits=True,
        result=described(
            {"object": ({"type": ["object", "null"]}, "The object; null for `delete`.")}
        ),
        arguments=arguments_of(
            TestServer.wait_for,
            {
                "target": "`kind/name`, with a kind as in readHistory.",
                "condition": "As in `kubectl wait`: `create`, `delete`, `condition=Available`, "
                "`condition=Ready=False`, `jsonpath={.status.phase}=Running`.",
                "namespace": _NAMESPACE,
                "timeout": "Real time: `10s`, `500ms` or seconds; `1h` at most.",
            },
        ),
    ),
    Operation(
        name="assertConverges",
        method="POST",
        path="/assert/converges",
        summary="Respond when no object was written for a time, Events and Leases left out; with "
        "417 if writes go on: the message has the objects that still change.",
        run=_assert_converges,
        waits=True,
        result=EMPTY_RESULT,
        arguments=arguments_of(
            TestServer.assert_converges,
            {
                "within": "Real time to wait at most: `10s` or seconds; `1h` at most.",
                "quiet": "Real time without writes.",
            },
        ),
    ),
    Operation(
        name="assertNoHotLoop",
        method="POST",
        path="/assert/no-hot-loop",
        summary="Respond with 417 if one client sent more than so many requests with the same verb "
        "for the same object within a time; the message compares the last two.",
        run=_assert_no_hot_loop,
        result=EMPTY_RESULT,
        arguments=arguments_of(
            TestServer.assert_no_hot_loop,
            {
                **{name: text for name, text in MATCHING.items() if name != "name"},
                "verb": "As in injectErrors; without it the verbs that write.",
                "requests": "How many requests are allowed.",
                "within": "Time of the server's clock: `10s` or seconds.",
            },
        ),
    ),
    Operation(
        name="saveRecording",
        method="POST",
        path="/recording",
        summary="Write the requests, the writes and the state, Secrets too, to a file on the "
        "server's machine, for `kapiserver replay`.",
        run=_record,
        result=EMPTY_RESULT,
        arguments=arguments_of(
            TestServer.record,
            {"path": "The path of the file.", "test": "The name of the test, to show."},
        ),
    ),
    Operation(
        name="reset",
        method="POST",
        path="/reset",
        summary="Bring all objects back to the state after the start, remove all faults and "
        "users, and forget requests and history. The clock goes on.",
        run=_reset,
        result=EMPTY_RESULT,
    ),
    Operation(
        name="takeSnapshot",
        method="POST",
        path="/snapshots",
        summary="Keep the state of all objects, to restore it later.",
        run=_take_snapshot,
        result=SNAPSHOT,
    ),
    Operation(
        name="restoreSnapshot",
        method="POST",
        path="/snapshots/{number}/restore",
        summary="Bring all objects back to a snapshot; respond when the controllers have reacted.",
        run=_restore,
        result=EMPTY_RESULT,
        arguments=_SNAPSHOT_NUMBER,
    ),
    Operation(
        name="removeSnapshot",
        method="DELETE",
        path="/snapshots/{number}",
        summary="Forget a snapshot.",
        run=_remove_snapshot,
        result=EMPTY_RESULT,
        arguments=_SNAPSHOT_NUMBER,
    ),
    Operation(
        name="loadObjects",
        method="POST",
        path="/load",
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
        path="/dump",
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
    *USER_OPERATIONS,
)
