"""The state that closures of a program share: an evaluation's frame, cost limit and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from kapiserver.api.cel.values import CostExceeded, EvaluationError

Frame: TypeAlias = list[Any]
"""The remaining limit, then the variables."""
Run: TypeAlias = Callable[[Frame], Any]
EVALUATION_ERRORS = (EvaluationError, TypeError, AttributeError, ValueError, OverflowError)
"""The errors of functions. All but EvaluationError occur only for values that do not match their
type, such as an object that was stored before its schema forbade it."""


def failure(error: Exception) -> EvaluationError:
    """Return the evaluation error that an error of EVALUATION_ERRORS stands for."""
    return error if isinstance(error, EvaluationError) else EvaluationError("no such overload")


def spend(frame: Frame, cost: int) -> None:
    """Charge a cost. Raises CostExceeded."""
    frame[0] -= cost
    if frame[0] < 0:
        raise CostExceeded


def as_bool(value: Any) -> bool:
    """Return a value that must be a bool. Raises EvaluationError."""
    if value is True or value is False:
        return bool(value)
    raise EvaluationError("no such overload")


def decide(frame: Frame, runs: Iterable[Run], *, decisive: bool) -> bool:
    """Return `decisive` if one of the runs has that value, even if others fail, and otherwise its
    opposite. Raises the first EvaluationError if none has it."""
    errors: list[EvaluationError] = []
    for run in runs:
        try:
            if as_bool(run(frame)) is decisive:
                return decisive
        except EVALUATION_ERRORS as error:
            if not errors:
                errors.append(failure(error))
    if errors:
        raise errors.pop()  # an error that this frame kept would be in a cycle with it
    return not decisive
