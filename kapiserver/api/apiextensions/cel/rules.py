"""CEL rules of a schema (`x-kubernetes-validations`): validation of the rules and of objects by
them.

Loads `kapiserver.api.cel` at the first schema that has rules. Mirrors
k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel.
"""

from __future__ import annotations

from kapiserver.api.apiextensions.schema.structural import Structural, has_rules
from kapiserver.api.errors import FieldError, Path
from kapiserver.api.types import Tree


def check_rules(structural: Structural, path: Path) -> list[FieldError]:
    """Return the errors of the rules of a schema: they do not compile, or cost too much.

    path  the path of the schema: `spec.versions[0].schema.openAPIV3Schema`
    """
    if not has_rules(structural):
        return []
    from kapiserver.api.apiextensions.cel import rule_validation

    return rule_validation.check(structural, path)


def validate(
    obj: Tree,
    old: Tree | None,
    structural: Structural,
    path: Path | None = None,
    *,
    steps: int | None = None,
) -> list[FieldError]:
    """Return the errors of the rules that an object breaks. Unchanged values break none
    (ratcheting).

    steps  the time limit in steps of 0.1 to 0.3 us; None for the full cost limit

    Raises evaluation.OutOfTime.
    """
    if not has_rules(structural):
        return []
    from kapiserver.api.apiextensions.cel import evaluation

    return evaluation.validate(obj, old, structural, path, steps)
