"""The rules of a schema (`x-kubernetes-validations`): may they be there, does an object break them.

Loads the language, `kapiserver.api.cel`, at the first schema that has rules. Mirrors
k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel.
"""

from __future__ import annotations

from kapiserver.api.apiextensions.structural import Structural, has_rules
from kapiserver.api.errors import FieldError, Path
from kapiserver.api.types import Tree


def check_rules(structural: Structural, path: Path) -> list[FieldError]:
    """What is wrong with the rules of a schema: they do not compile, or cost too much.

    path  where the schema is: `spec.versions[0].schema.openAPIV3Schema`
    """
    if not has_rules(structural):
        return []
    from kapiserver.api.apiextensions import cel_rules

    return cel_rules.check(structural, path)


def validate(
    obj: Tree,
    old: Tree | None,
    structural: Structural,
    path: Path | None = None,
    *,
    steps: int | None = None,
) -> list[FieldError]:
    """The rules that an object breaks. What is unchanged breaks none, but for its change.

    steps  how many there is time for, of 0.1 to 0.3 us; None for as many as rules may take

    Raises cel_evaluation.OutOfTime.
    """
    if not has_rules(structural):
        return []
    from kapiserver.api.apiextensions import cel_evaluation

    return cel_evaluation.validate(obj, old, structural, path, steps)
