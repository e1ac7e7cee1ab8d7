"""Evaluation of admission expressions, within cost limits and without holding the event loop.

An Activation holds the values of the variables for one request. A short evaluation runs on the
event loop; one that takes longer starts again in a thread. An expression that asks the authorizer
is evaluated again with each decision. Mirrors pkg/admission/plugin/cel and
pkg/admission/plugin/webhook/matchconditions of k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from kapiserver.api.go_format import join_errors
from kapiserver.api.group import GroupVersion
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.apiserver.user import (
    SERVICE_ACCOUNT_PREFIX,
    User,
    service_account_groups,
)

if TYPE_CHECKING:
    from kapiserver.api.cel.cel_types import CelType
    from kapiserver.api.cel.libraries.authorization import Check, Decision, Decisions
    from kapiserver.api.cel.program import Program, Result

CALL_LIMIT = 1_000_000
"""The maximum cost of one evaluation."""
BUDGET = 10_000_000
"""The maximum cost of the expressions of one policy for one request and one parameter object."""
MATCH_CONDITIONS_BUDGET = 2_500_000
_LOOP_STEPS = 20_000
"""The steps of evaluations of one request that run on the event loop; 0.1 to 0.3 us each."""
_EVALUATION_STEPS = 100
"""The number of steps that take as long as the work before and after the steps of an evaluation."""
_CHARACTERS_PER_COST = 20
"""The number of characters of an expression that cost one unit of the Offloader to compile."""
_OUT_OF_BUDGET = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)


class ExpressionFailed(Exception):
    """An expression has no value; the message has the expression and the reason."""


class OutOfBudget(Exception):
    """The expressions of a policy, or of match conditions, cost too much together."""

    def __init__(self, message: str = _OUT_OF_BUDGET) -> None:
        super().__init__(message)


class Expression(Struct, frozen=True):
    """A compiled expression; `failure` says why it does not compile."""

    text: str
    program: Program | None
    failure: str = ""

    @property
    def free(self) -> frozenset[str]:
        """The variables that the expression uses."""
        return self.program.free if self.program is not None else frozenset()


def compile_cost(characters: int) -> int:
    """Return the cost of compiling expressions of that length, for the Offloader."""
    return characters // _CHARACTERS_PER_COST


def compile_expression(
    text: str,
    types: Mapping[str, CelType],
    allowed: tuple[CelType, ...],
    *,
    mutation: bool = False,
) -> Expression:
    """Compile an expression whose value has one of the types `allowed`; an expression that does not
    compile fails when it is evaluated."""
    from kapiserver.api.admissionregistration import expression_types

    try:
        program = expression_types.compile_admission_expression(
            text, types, allowed, mutation=mutation
        )
    except ValueError as error:
        return Expression(text, None, str(error))
    return Expression(text, program)


class Budget(Struct):
    """The remaining cost of several expressions."""

    remaining: int = BUDGET


class LoopTime(Struct):
    """The remaining steps of one request on the event loop."""

    steps: int = _LOOP_STEPS


class Variables(dict[str, Any]):
    """The composed variables of a policy, evaluated when an expression first reads them.

    Raises the error of a variable that cannot be evaluated each time that it is read.
    """

    def __init__(self, expressions: Mapping[str, Expression], values: Mapping[str, Any]) -> None:
        """Take the expressions of the variables, and the values of all other variables."""
        super().__init__()
        self._expressions = expressions
        self._values = values
        self._messages: dict[str, str] = {}
        """The messages of the variables that cannot be evaluated. The errors are not kept: an error
        that is raised again would be in a cycle with its frames, which refer to the objects of the
        request."""
        self.limit = 0
        """The maximum cost of the evaluation of one variable."""
        self.cost = 0
        """The cost of the variables that were evaluated since `begin`."""

    def begin(self, limit: int) -> None:
        """Begin an evaluation that may read variables."""
        self.limit, self.cost = limit, 0

    def __contains__(self, name: object) -> bool:
        return name in self._expressions

    def __missing__(self, name: str) -> Any:
        from kapiserver.api.cel.values import EvaluationError

        if name not in self._messages:
            try:
                self[name] = value = self._evaluate(name)
                return value
            except EvaluationError as error:
                self._messages[name] = str(error)
        raise EvaluationError(self._messages[name])

    def _evaluate(self, name: str) -> Any:
        """Return the value of a variable. Raises EvaluationError, CostExceeded."""
        from kapiserver.api.cel.values import CostExceeded, EvaluationError

        program, failure = self._expressions[name].program, self._expressions[name].failure
        if program is None:
            raise EvaluationError(f'composited variable "{name}" fails to compile: {failure}')
        # Not kept in self._values: that would be a reference cycle.
        result = program.evaluate({**self._values, "variables": self}, self.limit)
        self.cost += result.cost
        if result.is_exceeded:
            raise CostExceeded
        if result.failure is not None:
            raise EvaluationError(
                f'composited variable "{name}" fails to evaluate: {result.failure}'
            )
        return result.value


class Authorization(Struct):
    """The user of a request, and the decisions of the authorizer that its expressions needed."""

    user: User
    decisions: Decisions


class Activation(Struct):
    """The values of the variables of expressions for one request.

    values         the values by name, with `params`; a missing variable has no value
    authorization  None if no expression asks the authorizer
    """

    server: Server
    values: dict[str, Any]
    authorization: Authorization | None = None
    loop_time: LoopTime = field(default_factory=LoopTime)
    variables: Variables | None = None

    def with_params(
        self, params: Tree | None, variables: Mapping[str, Expression] | None = None
    ) -> Activation:
        """Return the same activation with a parameter object, and with composed variables that are
        not evaluated yet."""
        if params is None and not variables:
            return self
        values = {**self.values, "params": params}
        composed = None
        if variables:
            composed = Variables(variables, values)
            values = {**values, "variables": composed}
        return Activation(self.server, values, self.authorization, self.loop_time, composed)

    def for_conditions(self) -> Activation:
        """Return the activation that match conditions have: without the namespace, and with the
        resource of the request even if rules match an equivalent one."""
        values = {**self.values, "namespaceObject": None}
        request = values.get("request")
        if request is not None:
            values["request"] = {**request, "resource": request["requestResource"]}
        return Activation(self.server, values, self.authorization, self.loop_time)

    async def evaluate(
        self, expression: Expression, budget: Budget, *, authorizer: bool = True
    ) -> Any:
        """Return the value of an expression. Raises ExpressionFailed and OutOfBudget.

        authorizer  whether the expression may ask the authorizer
        """
        program = expression.program
        if program is None:
            raise ExpressionFailed(f"compilation error: {expression.failure}")
        values = self.values
        if not authorizer and "authorizer" in values:
            values = {
                name: value for name, value in values.items() if not name.startswith("authorizer")
            }
        limit = min(CALL_LIMIT, budget.remaining)
        if self.authorization is None:
            result = await self._evaluate_once(program, values, limit)
        else:
            result = await self._evaluate_with_decisions(self.authorization, program, values, limit)
        cost = result.cost
        if self.authorization is not None:
            cost += self.authorization.decisions.cost
        if self.variables is not None:
            cost += self.variables.cost
        if cost > budget.remaining:
            raise OutOfBudget
        budget.remaining -= cost
        if result.failure is not None:
            raise ExpressionFailed(
                f"expression '{expression.text}' resulted in error: {result.failure}"
            )
        return result.value

    async def _evaluate_with_decisions(
        self,
        authorization: Authorization,
        program: Program,
        values: Mapping[str, Any],
        limit: int,
    ) -> Result:
        """Evaluate an expression that may ask the authorizer, and evaluate it again after each
        decision."""
        from kapiserver.api.cel.libraries.authorization import DecisionRequired

        while True:
            try:
                return await self._evaluate_once(program, values, limit)
            except DecisionRequired as error:
                decision = await _decide(self.server, authorization.user, error.check)
                authorization.decisions.by_check[error.check] = decision

    async def _evaluate_once(
        self, program: Program, values: Mapping[str, Any], limit: int
    ) -> Result:
        """Evaluate on the event loop while the request has time there, else in a thread."""
        time = self.loop_time
        if time.steps > _EVALUATION_STEPS:
            loop_limit = min(limit, time.steps)
            self._begin(loop_limit)
            result = program.evaluate(values, loop_limit)
            time.steps -= result.cost + _EVALUATION_STEPS
            if self.variables is not None:
                time.steps -= self.variables.cost
            if not result.is_exceeded or loop_limit == limit:
                return result
        self._begin(limit)
        return await self.server.offloader.run_in_thread(program.evaluate, values, limit)

    def _begin(self, limit: int) -> None:
        if self.variables is not None:
            self.variables.begin(limit)
        if self.authorization is not None:
            self.authorization.decisions.begin(CALL_LIMIT)


async def _decide(server: Server, user: User, check: Check) -> Decision:
    from kapiserver.api.cel.libraries.authorization import Decision

    if check.account:
        namespace, name = check.account
        user = User(
            name=f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}",
            groups=service_account_groups(namespace),
        )
    if check.path:
        info = RequestInfo(path=check.path, verb=check.verb)
    else:
        info = RequestInfo(
            verb=check.verb,
            version=GroupVersion(check.group, "*"),
            namespace=check.namespace,
            resource=check.resource,
            subresource=check.subresource,
            name=check.name,
            field_selector=check.field_selector,
            label_selector=check.label_selector,
        )
    decision = await server.authorizer.authorize(user, info)
    return Decision(decision.allowed, decision.reason, decision.error)


class MatchConditions:
    """The compiled match conditions of a webhook or of a policy."""

    def __init__(self, conditions: Sequence[Tree] | None, *, params: bool = False) -> None:
        self.expressions: tuple[Expression, ...] = ()
        if conditions:
            from kapiserver.api.admissionregistration import expression_types as e

            types = e.variable_types(params=params, authorizer=True)
            self.expressions = tuple(
                compile_expression(condition["expression"].strip(), types, (e.BOOL,))
                for condition in conditions
            )
        self.free = frozenset[str]().union(*(expression.free for expression in self.expressions))
        """The variables that the conditions use."""

    async def match(self, activation: Activation) -> bool:
        """Return whether all conditions are true. Raises ExpressionFailed if some failed and none
        is false, and OutOfBudget."""
        if not self.expressions:
            return True
        budget, errors = Budget(MATCH_CONDITIONS_BUDGET), []
        activation = activation.for_conditions()
        for expression in self.expressions:
            try:
                if await activation.evaluate(expression, budget) is False:
                    return False
            except ExpressionFailed as error:
                errors.append(str(error))
        if errors:
            raise ExpressionFailed(join_errors(errors))
        return True
