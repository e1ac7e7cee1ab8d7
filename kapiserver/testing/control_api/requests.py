"""The operations of the control API about the requests that the server received."""

from __future__ import annotations

from kapiserver.testing.control_api.schemas import (
    EMPTY_RESULT,
    MATCHING,
    REQUEST,
    arguments_of,
    items,
)
from kapiserver.testing.control_api.session import Operation, Session, Tree
from kapiserver.testing.history.requests import Requests


def _requests(session: Session, arguments: Tree) -> Tree:
    return {"items": [record.to_dict() for record in session.server.requests.select(**arguments)]}


def _clear_requests(session: Session, _: Tree) -> Tree:
    session.server.requests.clear()
    return {}


def _assert_no_hot_loop(session: Session, arguments: Tree) -> Tree:
    session.server.requests.assert_no_hot_loop(**arguments)
    return {}


REQUEST_OPERATIONS: tuple[Operation, ...] = (
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
        name="assertNoHotLoop",
        method="POST",
        path="/requests/assert-no-hot-loop",
        summary="Respond with 417 if one client sent more than so many requests with the same verb "
        "for the same object within a time; the message compares the last two.",
        run=_assert_no_hot_loop,
        result=EMPTY_RESULT,
        arguments=arguments_of(
            Requests.assert_no_hot_loop,
            {
                **MATCHING,
                "verb": "As in injectErrors; without it the verbs that write.",
                "requests": "How many requests are allowed.",
                "within": "Time of the server's clock: `10s` or seconds.",
            },
        ),
    ),
)
