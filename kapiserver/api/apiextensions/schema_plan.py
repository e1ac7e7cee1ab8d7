"""What a schema's node checks of a value, step by step, and what the steps find.

A plan has, for each Python type, the few steps that can find something wrong with a value of it,
mostly none. Findings have paths relative to their value: a right object pays nothing for paths.
Knows no keyword of a schema.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from kapiserver.api.apiextensions.ratcheting import ABSENT, is_unchanged
from kapiserver.api.apiextensions.structural import Structural
from kapiserver.api.types import Value


@dataclass(slots=True)
class Finding:
    """What is wrong with a value, as long as its path is not complete.

    form   which kind of error: a key of `schema_validation.FORMS`
    words  what the message says beside the path
    name   the path below the value at hand: `.spec.list[0]`
    """

    form: str
    words: str
    value: Value = ""
    name: str = ""


Step: TypeAlias = Callable[[Any, Any], list[Finding] | None]
"""Takes the value and the old one (or ABSENT); what it returns is the caller's."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The steps for a node's values, by their Python type."""

    node: Structural
    steps: dict[type, tuple[Step, ...]]

    def check(self, value: Value, old: Value) -> list[Finding] | None:
        """What is wrong with a value; nothing where it is as it was."""
        found = self.check_all(value, old)
        if found and old is not ABSENT and is_unchanged(old, value, self.node):
            return None
        return found

    def check_all(self, value: Value, old: Value) -> list[Finding] | None:
        """What is wrong with a value, be it as it was or not; its parts may be as they were."""
        found: list[Finding] | None = None
        for step in self.steps.get(type(value), ()):
            more = step(value, old)
            if more:
                found = more if found is None else found + more
        return found


PlanOf: TypeAlias = Callable[[Structural], Plan]
