"""The operations of the control API that decide how simulated pods fare."""

from __future__ import annotations

from kapiserver.testing.control_api.schemas import EMPTY_RESULT, arguments_of
from kapiserver.testing.control_api.session import Operation, Session, Tree
from kapiserver.testing.simulated.pods import Pods

_POD = {
    "name": "The name of the pod.",
    "namespace": "Its namespace. Without it, `default`.",
}
_CONTAINER = {"container": "The name of one container. Without it, all containers are meant."}


async def _fail(session: Session, arguments: Tree) -> Tree:
    await session.server.pods.fail_async(**arguments)
    return {}


async def _set_ready(session: Session, arguments: Tree) -> Tree:
    await session.server.pods.set_ready_async(**arguments)
    return {}


async def _recover(session: Session, arguments: Tree) -> Tree:
    await session.server.pods.recover_async(**arguments)
    return {}


async def _answer(session: Session, arguments: Tree) -> Tree:
    await session.server.pods.answer_async(**arguments)
    return {}


async def _log(session: Session, arguments: Tree) -> Tree:
    await session.server.pods.log_async(**arguments)
    return {}


POD_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="failPod",
        method="POST",
        path="/pods/fail",
        summary="End the containers of a simulated pod, and do so again after each restart.",
        run=_fail,
        result=EMPTY_RESULT,
        arguments=arguments_of(
            Pods.fail,
            {
                **_POD,
                **_CONTAINER,
                "exit_code": "The exit code of the containers. Without it, 1.",
                "oom": "Whether the containers are killed for their memory.",
            },
        ),
    ),
    Operation(
        name="setPodReady",
        method="POST",
        path="/pods/set-ready",
        summary="Let the readiness probes of a simulated pod succeed or fail.",
        run=_set_ready,
        result=EMPTY_RESULT,
        arguments=arguments_of(
            Pods.set_ready,
            {**_POD, **_CONTAINER, "ready": "Whether the probes succeed."},
        ),
    ),
    Operation(
        name="recoverPod",
        method="POST",
        path="/pods/recover",
        summary="Let a simulated pod live as if nothing had been decided about it.",
        run=_recover,
        result=EMPTY_RESULT,
        arguments=arguments_of(Pods.recover, _POD),
    ),
    Operation(
        name="answerExec",
        method="POST",
        path="/pods/answer",
        summary="Decide what a command in a simulated pod writes and returns.",
        run=_answer,
        result=EMPTY_RESULT,
        arguments=arguments_of(
            Pods.answer,
            {
                **_POD,
                **_CONTAINER,
                "command": "The command and its arguments. Without it, the answer is for every "
                "command that has no answer of its own.",
                "stdout": "What the command writes to its standard output.",
                "stderr": "What the command writes to its standard error.",
                "exit_code": "Its exit code. Without it, 0.",
            },
        ),
    ),
    Operation(
        name="logLine",
        method="POST",
        path="/pods/log",
        summary="Let the containers of a simulated pod write a line to their log.",
        run=_log,
        result=EMPTY_RESULT,
        arguments=arguments_of(Pods.log, {**_POD, **_CONTAINER, "line": "The line."}),
    ),
)
