"""The operations of the control API about single objects: their revisions, and waiting for them."""

from __future__ import annotations

from kapiserver.testing.control_api.schemas import (
    EMPTY_RESULT,
    REVISION,
    arguments_of,
    described,
    items,
)
from kapiserver.testing.control_api.session import Operation, Session, Tree
from kapiserver.testing.durations import Duration, parse_seconds
from kapiserver.testing.history.objects import Objects

MAX_WAIT_SECONDS = 3600.0

_NAMESPACE = "Its namespace; ignored for kinds without namespaces."
_KIND = "As kubectl takes it: `deployment`, `deploy`, `deployments.apps`."


def _history(session: Session, arguments: Tree) -> Tree:
    return {
        "items": [revision.to_dict() for revision in session.server.objects.history(**arguments)]
    }


async def _wait(session: Session, arguments: Tree) -> Tree:
    _check_wait(arguments.get("timeout", 0))
    return {"object": await session.server.objects.wait_for_async(**arguments)}


async def _assert_converges(session: Session, arguments: Tree) -> Tree:
    _check_wait(arguments.get("within", 0))
    await session.server.objects.assert_converges_async(**arguments)
    return {}


def _check_wait(duration: Duration) -> None:
    if parse_seconds(duration) > MAX_WAIT_SECONDS:
        raise ValueError(f"{duration!r} is too long; a request waits an hour at most")


OBJECT_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="readHistory",
        method="GET",
        path="/objects/{kind}/{name}/history",
        summary="Return the revisions of an object, the oldest first, each with its changes.",
        run=_history,
        result=items(REVISION),
        arguments=arguments_of(
            Objects.history,
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
        path="/objects/wait-for",
        summary="Respond when an object meets a condition; with 417 if it does not in time: the "
        "message has the object, its last revisions and its Events.",
        run=_wait,
        waits=True,
        result=described(
            {"object": ({"type": ["object", "null"]}, "The object; null for `delete`.")}
        ),
        arguments=arguments_of(
            Objects.wait_for,
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
        path="/objects/assert-converges",
        summary="Respond when no object was written for a time, Events and Leases left out; with "
        "417 if writes go on: the message has the objects that still change.",
        run=_assert_converges,
        waits=True,
        result=EMPTY_RESULT,
        arguments=arguments_of(
            Objects.assert_converges,
            {
                "within": "Real time to wait at most: `10s` or seconds; `1h` at most.",
                "quiet": "Real time without writes.",
            },
        ),
    ),
)
