"""The operations of the control API that move the time."""

from __future__ import annotations

from kapiserver.testing.control_api.schemas import CLOCK, arguments_of
from kapiserver.testing.control_api.session import Operation, Session, Tree
from kapiserver.testing.determinism.clock import TestClock


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


CLOCK_OPERATIONS: tuple[Operation, ...] = (
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
)
