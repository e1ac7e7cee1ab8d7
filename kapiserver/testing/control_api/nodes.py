"""The operations of the control API that stop and start kubelets, or make nodes unhealthy."""

from __future__ import annotations

from kapiserver.testing.control_api.schemas import EMPTY_RESULT, arguments_of
from kapiserver.testing.control_api.session import Operation, Session, Tree
from kapiserver.testing.simulated.nodes import Nodes

_NODE = {"name": "The name of the node."}


async def _stop(session: Session, arguments: Tree) -> Tree:
    await session.server.nodes.stop_async(**arguments)
    return {}


async def _start(session: Session, arguments: Tree) -> Tree:
    await session.server.nodes.start_async(**arguments)
    return {}


async def _set_healthy(session: Session, arguments: Tree) -> Tree:
    await session.server.nodes.set_healthy_async(**arguments)
    return {}


NODE_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="stopNode",
        method="POST",
        path="/nodes/stop",
        summary="Stop the kubelet of a simulated node: it reports nothing any more.",
        run=_stop,
        result=EMPTY_RESULT,
        arguments=arguments_of(Nodes.stop, _NODE),
    ),
    Operation(
        name="startNode",
        method="POST",
        path="/nodes/start",
        summary="Start the kubelet of a simulated node again.",
        run=_start,
        result=EMPTY_RESULT,
        arguments=arguments_of(Nodes.start, _NODE),
    ),
    Operation(
        name="setNodeHealthy",
        method="POST",
        path="/nodes/set-healthy",
        summary="Let the kubelet of a simulated node report a condition as healthy or not.",
        run=_set_healthy,
        result=EMPTY_RESULT,
        arguments=arguments_of(
            Nodes.set_healthy,
            {
                **_NODE,
                "healthy": "Whether the condition is healthy.",
                "condition": "The type of the condition. Without it, `Ready`.",
            },
        ),
    ),
)
