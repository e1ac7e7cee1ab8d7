"""The operations of the control API that inject faults: one for each method of `Faults`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kapiserver.testing.control_api.schemas import (
    EMPTY_RESULT,
    FAULT,
    MATCHING,
    arguments_of,
    items,
)
from kapiserver.testing.control_api.session import Operation, Session, Tree
from kapiserver.testing.faults.faults import Fault, Faults

_MATCHING: Mapping[str, str] = {
    **MATCHING,
    "times": "The number of requests after which the fault is used up. Without it, the fault stays "
    "until it is removed.",
    "probability": "The probability that the fault affects a request, 0 to 1. Without it, 1.",
    "seed": "Makes the random choice of requests the same in each run.",
}
_AFTER = "Real time to wait first: `250ms`, `2s` or a number of seconds."


def _inject(
    name: str, method: Callable[..., Fault], summary: str, descriptions: Mapping[str, str]
) -> Operation:
    """Return the operation that calls a method of `Faults`."""
    return Operation(
        name=name,
        method="POST",
        path=f"/faults/{method.__name__.replace('_', '-')}",
        summary=summary,
        run=lambda session, arguments: method(session.server.faults, **arguments).to_dict(),
        result=FAULT,
        arguments=arguments_of(method, {**descriptions, **_MATCHING}),
    )


def _faults(session: Session, _: Tree) -> Tree:
    return {"items": [fault.to_dict() for fault in session.server.faults]}


def _remove_fault(session: Session, arguments: Tree) -> Tree:
    session.server.faults.remove(arguments["number"])
    return {}


def _clear_faults(session: Session, _: Tree) -> Tree:
    session.server.faults.clear()
    return {}


FAULT_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="listFaults",
        method="GET",
        path="/faults",
        summary="Return the faults that are injected, in the order in which they were added.",
        run=_faults,
        result=items(FAULT),
    ),
    _inject(
        "injectErrors",
        Faults.respond,
        "Respond to matching requests with an error.",
        {
            "status": "The HTTP status to respond with, 400 to 599.",
            "message": "The message of the Status. Without it, the message of kube-apiserver.",
            "retry_after": "The header Retry-After of 429 and 503, in seconds.",
            "after_write": "Respond after the write.",
        },
    ),
    _inject(
        "injectDelays",
        Faults.delay,
        "Let matching requests wait.",
        {
            "duration": "Real time: `250ms`, `2s` or a number of seconds.",
            "after_write": "Wait after the write, before the response.",
        },
    ),
    _inject(
        "dropConnections",
        Faults.drop,
        "Close the connections of matching requests without a response.",
        {"after_write": "Close them after the write."},
    ),
    _inject(
        "injectPartition",
        Faults.partition,
        "Give matching requests no response and matching watches no events until the fault is "
        "removed.",
        {},
    ),
    _inject(
        "injectStaleReads",
        Faults.read_stale,
        "Let get and list show the state of the moment when the fault was added.",
        {},
    ),
    _inject(
        "endWatches",
        Faults.end_watches,
        "End matching watches, those that are open at once.",
        {"after": _AFTER, "abort": "Break the stream off, without its end."},
    ),
    _inject(
        "expireWatches",
        Faults.expire_watches,
        "End matching watches with an ERROR event, 410 Expired.",
        {"after": _AFTER},
    ),
    Operation(
        name="removeFault",
        method="DELETE",
        path="/faults/{number}",
        summary="Remove one fault; a partition heals.",
        run=_remove_fault,
        result=EMPTY_RESULT,
        arguments=arguments_of(Faults.remove, {"number": "The number of the fault."}),
    ),
    Operation(
        name="clearFaults",
        method="DELETE",
        path="/faults",
        summary="Remove all faults.",
        run=_clear_faults,
        result=EMPTY_RESULT,
    ),
)
