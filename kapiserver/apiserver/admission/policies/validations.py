"""Evaluation of one validating policy for one write and one parameter object.

Knows no binding. Mirrors validator.go of pkg/admission/plugin/policy/validating in
k8s.io/apiserver.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from msgspec import Struct

from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.expressions import (
    Activation,
    Budget,
    Expression,
    ExpressionFailed,
    OutOfBudget,
)
from kapiserver.apiserver.admission.policies.composition import Composition
from kapiserver.apiserver.admission.policies.denials import ErrorType, error_type
from kapiserver.apiserver.metrics import MatchConditionLabels

MAX_MESSAGE_BYTES = 5 * 1024
"""The maximum length of a message from a messageExpression."""


class Decision(Struct, frozen=True, kw_only=True):
    """The decision on one validation.

    index        the index of the validation
    is_denied    false if it passed, or if its error is ignored
    reason       the reason of the Status; empty after an error
    error_type   `no_error` unless the evaluation failed
    seconds      how many seconds the evaluation took
    """

    index: int
    is_denied: bool
    message: str = ""
    reason: str = ""
    error_type: ErrorType = "no_error"
    seconds: float = 0.0


class AuditAnnotation(Struct, frozen=True, kw_only=True):
    """The value of an audit annotation, or the error of its expression."""

    key: str
    value: str = ""
    error: str = ""
    error_type: ErrorType = "no_error"


class _Validation(Struct, frozen=True):
    expression: Expression
    message_expression: Expression | None
    message: str
    reason: str


class ValidatingEvaluator:
    """The compiled expressions of a validating policy."""

    def __init__(self, spec: Tree) -> None:
        from kapiserver.api.admissionregistration import expression_types as e

        self._ignores_failures = spec.get("failurePolicy") == "Ignore"
        self._composition = composition = Composition(spec)
        self._validations = tuple(
            _Validation(
                composition.compile(validation["expression"], (e.BOOL,)),
                composition.compile(validation["messageExpression"], (e.STRING,), authorizer=False)
                if validation.get("messageExpression")
                else None,
                validation.get("message") or "",
                validation.get("reason") or "Invalid",
            )
            for validation in spec.get("validations") or ()
        )
        self._annotations = tuple(
            (
                audit_annotation["key"],
                composition.compile(audit_annotation["valueExpression"].strip(), e.STRING_OR_NULL),
            )
            for audit_annotation in spec.get("auditAnnotations") or ()
        )
        self.names = composition.names(self._expressions())
        """The variables that the expressions use."""

    def _expressions(self) -> Iterator[Expression]:
        for validation in self._validations:
            yield validation.expression
            if validation.message_expression is not None:
                yield validation.message_expression
        for _, expression in self._annotations:
            yield expression

    async def evaluate(
        self, activation: Activation, params: Tree | None, labels: MatchConditionLabels
    ) -> tuple[Sequence[Decision], Sequence[AuditAnnotation]]:
        """Return the decisions on all validations, and the audit annotations. `labels` are those of
        failing match conditions in metrics."""
        try:
            if not await self._composition.matches(activation, params, labels):
                return (), ()
            composed = activation.with_params(params, self._composition.variables)
            budget = Budget()
            decisions = [
                await self._decide(index, validation, composed, budget)
                for index, validation in enumerate(self._validations)
            ]
            budget = Budget()
            annotations = [
                await self._annotate(key, expression, composed, budget)
                for key, expression in self._annotations
            ]
        except (ExpressionFailed, OutOfBudget) as error:
            return (self._failure_decision(0, error, 0.0),), ()
        return decisions, annotations

    def _failure_decision(self, index: int, error: Exception, seconds: float) -> Decision:
        return Decision(
            index=index,
            is_denied=not self._ignores_failures,
            message=str(error),
            error_type=error_type(error),
            seconds=seconds,
        )

    async def _decide(
        self, index: int, validation: _Validation, activation: Activation, budget: Budget
    ) -> Decision:
        started = time.perf_counter()
        try:
            value = await activation.evaluate(validation.expression, budget)
        except ExpressionFailed as error:
            return self._failure_decision(index, error, time.perf_counter() - started)
        if value is True:
            return Decision(index=index, is_denied=False)
        seconds = time.perf_counter() - started
        try:
            message = await _message(validation, activation, budget)
        except OutOfBudget as error:
            failure = OutOfBudget(f"failed messageExpression: {error}")
            return self._failure_decision(index, failure, seconds)
        return Decision(
            index=index,
            is_denied=True,
            message=message,
            reason=validation.reason,
            seconds=seconds,
        )

    async def _annotate(
        self, key: str, expression: Expression, activation: Activation, budget: Budget
    ) -> AuditAnnotation:
        try:
            value = await activation.evaluate(expression, budget, authorizer=False)
        except ExpressionFailed as error:
            if self._ignores_failures:
                return AuditAnnotation(key=key)
            return AuditAnnotation(key=key, error=str(error), error_type=error_type(error))
        return AuditAnnotation(key=key, value=value.strip() if isinstance(value, str) else "")


async def _message(validation: _Validation, activation: Activation, budget: Budget) -> str:
    """Return the message of a validation that failed. Raises OutOfBudget."""
    message = ""
    if validation.message_expression is not None:
        try:
            value = await activation.evaluate(validation.message_expression, budget)
        except ExpressionFailed:
            value = ""  # use the message instead
        message = value.strip() if isinstance(value, str) else ""
        if "\n" in message or len(message.encode("utf-8", "replace")) > MAX_MESSAGE_BYTES:
            message = ""
    return (
        message
        or validation.message.strip()
        or f"failed expression: {validation.expression.text.strip()}"
    )
