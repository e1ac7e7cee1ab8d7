"""The expressions that both kinds of policies have: variables and match conditions.

Mirrors CompositedCompiler of pkg/admission/plugin/cel in k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.expressions import (
    Activation,
    Expression,
    ExpressionFailed,
    MatchConditions,
    OutOfBudget,
    compile_expression,
)
from kapiserver.apiserver.metrics import MatchConditionLabels

if TYPE_CHECKING:
    from kapiserver.api.cel.cel_types import CelType


class Composition:
    """The compiled variables and match conditions of a policy, and the environment of its other
    expressions."""

    def __init__(self, spec: Tree) -> None:
        from kapiserver.api.admissionregistration import expression_types as e
        from kapiserver.api.cel.cel_types import DYN

        self._params = spec.get("paramKind") is not None
        self.match_conditions = MatchConditions(spec.get("matchConditions"), params=self._params)
        self.variables: dict[str, Expression] = {}
        """The variables by name, in the order of declaration."""
        self._fields: dict[str, CelType] = {}
        for variable in spec.get("variables") or ():
            expression = self.compile(variable["expression"], e.ANY)
            self.variables[variable["name"]] = expression
            program = expression.program
            self._fields[variable["name"]] = DYN if program is None else program.cel_type
        self._free = self.match_conditions.free | _free(self.variables.values())

    def compile(
        self,
        text: str,
        allowed: tuple[CelType, ...],
        *,
        authorizer: bool = True,
        mutation: bool = False,
    ) -> Expression:
        """Compile an expression of the policy, which may use the variables."""
        from kapiserver.api.admissionregistration import expression_types as e

        types = dict(e.variable_types(params=self._params, authorizer=authorizer))
        types["variables"] = e.composition_type(self._fields)
        return compile_expression(text, types, allowed, mutation=mutation)

    async def matches(
        self, activation: Activation, params: Tree | None, labels: MatchConditionLabels
    ) -> bool:
        """Return whether the match conditions are true, and count failures under the labels. Raises
        ExpressionFailed and OutOfBudget."""
        if not self.match_conditions.expressions:
            return True
        try:
            return await self.match_conditions.match(activation.with_params(params))
        except (ExpressionFailed, OutOfBudget):
            activation.server.metrics.match_conditions.errors.add(labels)
            raise

    def names(self, expressions: Iterable[Expression]) -> frozenset[str]:
        """Return the names of the variables that the match conditions, the composed variables and
        these expressions use."""
        return self._free | _free(expressions)


def _free(expressions: Iterable[Expression]) -> frozenset[str]:
    return frozenset[str]().union(*(expression.free for expression in expressions))
