"""The operations of the control API that decide which images simulated nodes can pull."""

from __future__ import annotations

from kapiserver.testing.control_api.schemas import EMPTY_RESULT, arguments_of
from kapiserver.testing.control_api.session import Operation, Session, Tree
from kapiserver.testing.simulated.images import Images

_IMAGE = {"image": "The name of the image, as in the containers of pods."}


async def _fail(session: Session, arguments: Tree) -> Tree:
    await session.server.images.fail_async(**arguments)
    return {}


async def _recover(session: Session, arguments: Tree) -> Tree:
    await session.server.images.recover_async(**arguments)
    return {}


IMAGE_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="failImage",
        method="POST",
        path="/images/fail",
        summary="Let no simulated node find an image any more.",
        run=_fail,
        result=EMPTY_RESULT,
        arguments=arguments_of(Images.fail, _IMAGE),
    ),
    Operation(
        name="recoverImage",
        method="POST",
        path="/images/recover",
        summary="Let all simulated nodes find an image again.",
        run=_recover,
        result=EMPTY_RESULT,
        arguments=arguments_of(Images.recover, _IMAGE),
    ),
)
