"""The operations of the control API of `kapiserver testing-server`, as one table.

`testing/control_api/server.py` derives from it the routes, the checks of arguments and the OpenAPI
document. Each subject of the controls has a module with its operations; this one adds those that
concern the server as a whole.
"""

from __future__ import annotations

from kapiserver.testing.control_api.clock import CLOCK_OPERATIONS
from kapiserver.testing.control_api.clusters import CLUSTER_OPERATIONS
from kapiserver.testing.control_api.faults import FAULT_OPERATIONS
from kapiserver.testing.control_api.images import IMAGE_OPERATIONS
from kapiserver.testing.control_api.metrics import METRICS_OPERATIONS
from kapiserver.testing.control_api.nodes import NODE_OPERATIONS
from kapiserver.testing.control_api.objects import OBJECT_OPERATIONS
from kapiserver.testing.control_api.pods import POD_OPERATIONS
from kapiserver.testing.control_api.requests import REQUEST_OPERATIONS
from kapiserver.testing.control_api.schemas import EMPTY_RESULT, arguments_of
from kapiserver.testing.control_api.session import Operation, Session, Tree
from kapiserver.testing.control_api.state import STATE_OPERATIONS
from kapiserver.testing.control_api.users import USER_OPERATIONS
from kapiserver.testing.server import TestServer


async def _settle(session: Session, _: Tree) -> Tree:
    await session.server.settle_async()
    return {}


async def _reset(session: Session, _: Tree) -> Tree:
    await session.forget()
    await session.server.reset_async()
    return {}


def _record(session: Session, arguments: Tree) -> Tree:
    session.server.record(**arguments)
    return {}


OPERATIONS: tuple[Operation, ...] = (
    *CLOCK_OPERATIONS,
    *FAULT_OPERATIONS,
    *REQUEST_OPERATIONS,
    *OBJECT_OPERATIONS,
    *POD_OPERATIONS,
    *NODE_OPERATIONS,
    *METRICS_OPERATIONS,
    *IMAGE_OPERATIONS,
    *STATE_OPERATIONS,
    *USER_OPERATIONS,
    *CLUSTER_OPERATIONS,
    Operation(
        name="settle",
        method="POST",
        path="/settle",
        summary="Respond when the server has done the work that is due: its controllers have "
        "reacted to all writes.",
        run=_settle,
        result=EMPTY_RESULT,
    ),
    Operation(
        name="reset",
        method="POST",
        path="/reset",
        summary="Bring all objects back to the state after the start, remove all faults, "
        "users and clusters, and forget requests and history. The clock goes on.",
        run=_reset,
        result=EMPTY_RESULT,
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
)
