"""Validation plans: the steps that validate values of a schema node, and their findings.

A plan has, for each Python type, the few steps that can find an error in a value of it, mostly
none. Findings have paths relative to their value, so that a valid object costs no paths. Knows no
keyword of a schema.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec import Struct

from kapiserver.api.apiextensions.schema.ratcheting import ABSENT, is_unchanged
from kapiserver.api.apiextensions.schema.structural import Structural
from kapiserver.api.types import Value


class Finding(Struct):
    """An error of a value, while its path is incomplete.

    form   the kind of error: a key of `object_validation.FORMS`
    words  the message without the path
    name   the path relative to the current value: `.spec.list[0]`
    """

    form: str
    words: str
    value: Value = ""
    name: str = ""


Step: TypeAlias = Callable[[Any, Any], list[Finding] | None]
"""Takes the value and the old value (or ABSENT); the caller owns the returned list."""


class Plan(Struct, frozen=True, eq=False):
    """The steps for a node's values, by their Python type. The node has its plan, so a plan and its
    steps have no reference to the node: with cycles, definitions that were replaced would stay in
    memory."""

    node: weakref.ref[Structural]
    steps: dict[type, tuple[Step, ...]]

    def check(self, value: Value, old: Value) -> list[Finding] | None:
        """Return the findings of a value; None if it is unchanged."""
        findings = self.check_all(value, old)
        if findings and old is not ABSENT and is_unchanged(old, value, self.node()):
            return None
        return findings

    def check_all(self, value: Value, old: Value) -> list[Finding] | None:
        """Return the findings of a value even if it is unchanged; unchanged parts of it have
        none."""
        findings: list[Finding] | None = None
        for step in self.steps.get(type(value), ()):
            step_findings = step(value, old)
            if step_findings:
                findings = step_findings if findings is None else findings + step_findings
        return findings


PlanOf: TypeAlias = Callable[[Structural], Plan]
