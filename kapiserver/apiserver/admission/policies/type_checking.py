"""Type checking of the validations of a policy against the schemas of the kinds that it matches.

It finds mistakes that dynamic expressions hide: misspelled fields, comparisons of unlike types. It
does not change what the policy does. Mirrors typechecking.go of
pkg/admission/plugin/policy/validating in k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kapiserver.api.admissionregistration import expression_types as e
from kapiserver.api.cel.cel_types import DYN, CelType
from kapiserver.api.cel.program import CompileError, check_expression
from kapiserver.api.errors import NotRegistered
from kapiserver.api.group import GroupVersion, GroupVersionKind
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.policies.object_types import object_type

_KINDS_MAX = 10
"""The maximum number of kinds of one rule."""


def expression_warnings(scheme: Scheme, spec: Tree) -> list[Tree]:
    """Return the ExpressionWarnings of a policy; empty if its validations have no type error."""
    checks = [
        (str(kind), _Check(spec, cel_type, _params_type(scheme, spec)))
        for kind in kinds_to_check(scheme, spec)
        if (cel_type := object_type(scheme, kind)) is not None
    ]
    warnings = []
    for index, validation in enumerate(spec.get("validations") or ()):
        for name in ("expression", "messageExpression"):
            text = validation.get(name) or ""
            messages = [
                f"{kind}: {error}\n" for kind, check in checks if (error := check.error(text))
            ]
            if text and messages:
                reference = f"spec.validations[{index}].{name}"
                warnings.append({"fieldRef": reference, "warning": "\n".join(messages)})
    return warnings


def kinds_to_check(scheme: Scheme, spec: Tree) -> Sequence[GroupVersionKind]:
    """Return the kinds that the rules of a policy name, sorted; rules with wildcards name none."""
    kinds: set[GroupVersionKind] = set()
    for rule in (spec.get("matchConstraints") or {}).get("resourceRules") or ():
        for count, kind in enumerate(_kinds_of_rule(scheme, rule), 1):
            kinds.add(kind)
            if count == _KINDS_MAX:
                return sorted(kinds)
    return sorted(kinds)


def _kinds_of_rule(scheme: Scheme, rule: Tree) -> Iterator[GroupVersionKind]:
    groups, versions = rule.get("apiGroups") or (), rule.get("apiVersions") or ()
    if any("*" in text for text in (*groups, *versions)):
        return
    resources = [
        resource for resource in rule.get("resources") or () if not set("*/") & set(resource)
    ]
    for group in sorted(groups):
        for version in sorted(versions):
            for resource in sorted(resources):
                group_version = GroupVersion(group, version)
                try:
                    kind = scheme.resource(group_version, resource).kind
                except NotRegistered:
                    continue
                yield group_version.with_kind(kind)


def _params_type(scheme: Scheme, spec: Tree) -> CelType | None:
    param_kind = spec.get("paramKind")
    if param_kind is None:
        return None
    try:
        version = GroupVersion.parse(param_kind.get("apiVersion") or "")
    except ValueError:
        return None
    return object_type(scheme, version.with_kind(param_kind.get("kind") or ""))


class _Check:
    """Checks expressions of a policy for one kind."""

    def __init__(self, spec: Tree, object_: CelType, params: CelType | None) -> None:
        types = dict(e.variable_types(params=params is not None, authorizer=True))
        types |= {"object": object_, "oldObject": object_}
        if params is not None:
            types["params"] = params
        self._types: Mapping[str, CelType] = types
        fields: dict[str, CelType] = {}
        types["variables"] = e.composition_type(fields)
        for variable in spec.get("variables") or ():
            try:
                fields[variable["name"]] = check_expression(variable["expression"], types)
            except CompileError:
                fields[variable["name"]] = DYN
            types["variables"] = e.composition_type(fields)

    def error(self, text: str) -> str:
        """Return the compile error of an expression; "" if there is none."""
        try:
            check_expression(text, self._types)
        except CompileError as error:
            return str(error)
        return ""
