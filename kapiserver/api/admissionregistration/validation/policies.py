"""Validation of admission policies and their bindings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kapiserver.api import names
from kapiserver.api.accessors import name_of, value_at
from kapiserver.api.admissionregistration.validation.expressions import Expressions, Purpose
from kapiserver.api.admissionregistration.validation.rules import (
    FAILURE_POLICIES,
    validate_match_conditions,
    validate_match_resources,
)
from kapiserver.api.admissionregistration.validation.webhooks import REINVOCATION_POLICIES
from kapiserver.api.core.validation.common import validate_format, validate_required_format
from kapiserver.api.core.validation.conditions import validate_conditions
from kapiserver.api.errors import (
    FieldError,
    Path,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    not_supported_in_order,
    required,
)
from kapiserver.api.label_selectors import validate_label_selector
from kapiserver.api.types import Tree

_SPEC = Path("spec")
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS = ("Audit", "Deny", "Warn")
_NOT_FOUND_ACTIONS = ("Deny", "Allow")
_MUTATING_OPERATIONS = ("*", "CONNECT", "CREATE", "UPDATE")
_ANNOTATIONS_MAX = 20
_EXPRESSION_MAX = 5 * 1024
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_RESERVED = frozenset(
    (
        "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for",
        "function", "if", "import", "let", "loop", "package", "namespace", "return", "var",
        "void", "while",
    )
)  # fmt: skip
_NO_VALIDATION = "validations or auditAnnotations must contain at least one item"


def validate_validating_policy(obj: Tree, old: Tree | None = None) -> Iterator[FieldError]:
    """Validate a new or updated validating admission policy."""
    spec = obj.get("spec") or {}
    expressions = Expressions(
        with_params=spec.get("paramKind") is not None,
        with_variables=bool(spec.get("variables")),
        stored=_stored_expressions(spec, old),
    )
    yield from _validate_policy(spec, old, expressions)
    validations, annotations = spec.get("validations") or (), spec.get("auditAnnotations") or ()
    if not validations and not annotations:
        yield required(_SPEC / "validations", _NO_VALIDATION)
        yield required(_SPEC / "auditAnnotations", _NO_VALIDATION)
    for index, validation in enumerate(validations):
        yield from _validate_validation(validation, expressions, (_SPEC / "validations")[index])
    audit_annotations_path = _SPEC / "auditAnnotations"
    yield from _validate_annotations(name_of(obj), annotations, expressions, audit_annotations_path)


def validate_mutating_policy(obj: Tree, old: Tree | None = None) -> Iterator[FieldError]:
    """Validate a new or updated mutating admission policy."""
    spec = obj.get("spec") or {}
    expressions = Expressions(
        with_params=spec.get("paramKind") is not None,
        with_variables=True,
        stored=_stored_expressions(spec, old),
    )
    yield from _validate_policy(spec, old, expressions, mutating=True)
    mutations, reinvocation = spec.get("mutations") or (), spec.get("reinvocationPolicy") or ""
    if not mutations:
        yield required(_SPEC / "mutations", "mutations must contain at least one item")
    for index, mutation in enumerate(mutations):
        yield from _validate_mutation(mutation, expressions, (_SPEC / "mutations")[index])
    if not reinvocation:
        yield required(_SPEC / "reinvocationPolicy")
    elif reinvocation not in REINVOCATION_POLICIES:
        yield not_supported(_SPEC / "reinvocationPolicy", reinvocation, REINVOCATION_POLICIES)


def _validate_policy(
    spec: Tree, old: Tree | None, expressions: Expressions, *, mutating: bool = False
) -> Iterator[FieldError]:
    """Validate the fields that both kinds of policies have. `mutating` tells which kind it is.
    Unchanged match conditions are not validated again."""
    failure_policy, match = spec.get("failurePolicy"), spec.get("matchConstraints")
    if failure_policy is None:
        yield required(_SPEC / "failurePolicy")
    elif failure_policy not in FAILURE_POLICIES:
        yield not_supported(_SPEC / "failurePolicy", failure_policy, FAILURE_POLICIES)
    if spec.get("paramKind") is not None:
        yield from _validate_param_kind(spec["paramKind"], _SPEC / "paramKind")
    if match is None:
        yield required(_SPEC / "matchConstraints")
    else:
        yield from validate_match_resources(match, _SPEC / "matchConstraints")
        if not match.get("resourceRules"):
            yield required(_SPEC / "matchConstraints" / "resourceRules")
        if mutating:
            yield from _validate_mutating_operations(match, _SPEC / "matchConstraints")
    old_spec = (old or {}).get("spec") or {}
    if old is None or any(
        spec.get(name) != old_spec.get(name) for name in ("paramKind", "matchConditions")
    ):
        conditions, match_conditions_path = spec.get("matchConditions"), _SPEC / "matchConditions"
        condition_expressions = Expressions(with_params=spec.get("paramKind") is not None)
        yield from validate_match_conditions(
            conditions, condition_expressions, match_conditions_path
        )
    for index, variable in enumerate(spec.get("variables") or ()):
        yield from _validate_variable(variable, expressions, (_SPEC / "variables")[index])


_EXPRESSIONS = (
    ("validations", "expression"), ("validations", "messageExpression"),
    ("auditAnnotations", "valueExpression"), ("variables", "expression"),
)  # fmt: skip


def _stored_expressions(spec: Tree, old: Tree | None) -> frozenset[str]:
    """Return the expressions of the old policy, unless its parameters or variables differ. They are
    valid, whatever the server that stored them knew."""
    stored = (old or {}).get("spec") or {}
    if any(spec.get(name) != stored.get(name) for name in ("paramKind", "variables")):
        return frozenset()
    patches = [
        mutation.get(name) or {}
        for mutation in stored.get("mutations") or ()
        for name in _PATCH_TYPES.values()
    ]
    parts = [(part, name) for field, name in _EXPRESSIONS for part in stored.get(field) or ()]
    parts += [(patch, "expression") for patch in patches]
    return frozenset(part.get(name) or "" for part, name in parts)


def _validate_mutating_operations(match: Tree, path: Path) -> Iterator[FieldError]:
    # Deletions cannot be mutated.
    for rule in match.get("resourceRules") or ():
        for operation in rule.get("operations") or ():
            if operation not in _MUTATING_OPERATIONS:
                yield not_supported(
                    path / "resourceRules" / "operations", operation, _MUTATING_OPERATIONS
                )


def _validate_param_kind(kind: Tree, path: Path) -> Iterator[FieldError]:
    text, api_version_path = kind.get("apiVersion") or "", path / "apiVersion"
    group, _, version = text.rpartition("/")
    if not text:
        yield required(api_version_path)
    elif "/" in group:
        yield invalid(api_version_path, text, f"unexpected GroupVersion string: {text}")
    else:
        if group and (messages := names.dns1123_subdomain(group)):
            yield invalid(api_version_path, group, ",".join(messages))
        if not version:
            yield invalid(api_version_path, text, "version must be specified")
        elif messages := names.dns1035_label(version):
            yield invalid(api_version_path, version, ",".join(messages))
    name = kind.get("kind") or ""
    if not name:
        yield required(path / "kind")
    elif messages := names.dns1035_label(name.lower()):
        detail = f"may have mixed case, but should otherwise match: {','.join(messages)}"
        yield invalid(path / "kind", name, detail)


def _validate_variable(
    variable: Tree, expressions: Expressions, path: Path
) -> Iterator[FieldError]:
    name = variable.get("name") or ""
    if not name.strip():
        yield required(path / "name", "name is not specified")
    elif not _IDENTIFIER.fullmatch(name) or name in _RESERVED:
        yield invalid(path / "name", name, "must be a valid CEL identifier")
    expression = variable.get("expression") or ""
    if expression.strip():
        yield from expressions.declare(name, expression, path / "expression")
    else:
        yield required(path / "expression", "expression is not specified")


def _validate_validation(
    validation: Tree, expressions: Expressions, path: Path
) -> Iterator[FieldError]:
    expression = validation.get("expression") or ""
    if expression.strip():
        yield from expressions.validate(expression, path / "expression")
    else:
        yield required(path / "expression", "expression is not specified")
    message_expression = validation.get("messageExpression") or ""
    message = validation.get("message") or ""
    if message_expression and not message_expression.strip():
        yield invalid(
            path / "messageExpression", message_expression, "must be non-empty if specified"
        )
    elif message_expression:
        yield from expressions.validate(message_expression, path / "messageExpression", "message")
    if message and not message.strip():
        yield invalid(path / "message", message, "must be non-empty if specified")
    elif "\n" in message.strip() or "\r" in message.strip():
        yield invalid(path / "message", message, "must not contain line breaks")
    reason = validation.get("reason")
    if reason is not None and reason not in _REASONS:
        yield not_supported(path / "reason", reason, _REASONS)


def _validate_annotations(
    policy: str, annotations: Sequence[Tree], expressions: Expressions, path: Path
) -> Iterator[FieldError]:
    if len(annotations) > _ANNOTATIONS_MAX:
        detail = f"must not have more than {_ANNOTATIONS_MAX} auditAnnotations"
        yield invalid(path, list(annotations), detail)
    seen: set[str] = set()
    for index, annotation in enumerate(annotations):
        annotation_path, key = path[index], annotation.get("key") or ""
        if policy:
            yield from validate_format(
                names.qualified_name, f"{policy}/{key}", annotation_path / "key"
            )
        else:
            yield invalid(annotation_path / "key", key, "requires metadata.name be non-empty")
        expression = (annotation.get("valueExpression") or "").strip()
        if not expression:
            yield required(annotation_path / "valueExpression", "valueExpression is not specified")
        elif len(expression) > _EXPRESSION_MAX:
            detail = f"must not exceed {_EXPRESSION_MAX} bytes in length"
            yield required(annotation_path / "valueExpression", detail)
        else:
            yield from expressions.validate(
                expression, annotation_path / "valueExpression", "audit annotation"
            )
        if key in seen:
            yield duplicate(annotation_path / "key", key)
        seen.add(key)


_PATCH_TYPES = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}
_PATCH_PURPOSES: dict[str, Purpose] = {
    "ApplyConfiguration": "apply configuration",
    "JSONPatch": "JSON patch",
}


def _validate_mutation(
    mutation: Tree, expressions: Expressions, path: Path
) -> Iterator[FieldError]:
    type_ = mutation.get("patchType") or ""
    if not type_:
        yield required(path / "patchType")
        return
    if type_ not in _PATCH_TYPES:
        yield not_supported(path / "patchType", type_, tuple(_PATCH_TYPES))
        return
    other_types = [patch_type for patch_type in _PATCH_TYPES if patch_type != type_]
    for kind in (type_, *other_types):
        name = _PATCH_TYPES[kind]
        patch = mutation.get(name)
        if kind == type_:
            expression = (patch or {}).get("expression") or ""
            if patch is None:
                yield required(path / name, f"must be specified when patchType is {type_}")
            elif not expression.strip():
                yield required(path / name / "expression")
            else:
                expression_path = path / name / "expression"
                yield from expressions.validate(expression, expression_path, _PATCH_PURPOSES[kind])
        elif patch is not None:
            detail = f"must not be specified when patchType is {type_}"
            yield invalid(path / name, f"{{{name}}}", detail)


def validate_policy_status_update(new: Tree, _: Tree) -> Iterator[FieldError]:
    """Validate the status of a validating admission policy."""
    warnings = value_at(new, "status", "typeChecking", "expressionWarnings") or ()
    path = Path("status") / "typeChecking" / "expressionWarnings"
    for index, warning in enumerate(warnings):
        if not warning.get("warning"):
            yield required(path[index] / "warning")
        if not (warning.get("fieldRef") or "").strip():
            yield required(path[index] / "fieldRef")
    yield from validate_conditions(
        value_at(new, "status", "conditions"), Path("status") / "conditions"
    )


# Bindings.


def validate_validating_binding(obj: Tree) -> Iterator[FieldError]:
    """Validate the binding of a validating policy."""
    yield from _validate_binding(obj)
    actions = value_at(obj, "spec", "validationActions") or []
    validation_actions_path = _SPEC / "validationActions"
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            yield not_supported(validation_actions_path[index], action, _ACTIONS)
        if action in actions[:index]:
            yield duplicate(validation_actions_path[index], action)
    if {"Deny", "Warn"} <= set(actions):
        detail = (
            "must not contain both Deny and Warn (repeating the same validation failure "
            "information in the API response and headers serves no purpose)"
        )
        yield invalid(validation_actions_path, actions, detail)
    if not actions:
        yield required(validation_actions_path, "at least one validation action is required")


def validate_mutating_binding(obj: Tree) -> Iterator[FieldError]:
    """Validate the binding of a mutating policy."""
    yield from _validate_binding(obj)
    yield from _validate_mutating_operations(
        value_at(obj, "spec", "matchResources") or {}, _SPEC / "matchResources"
    )


def _validate_binding(obj: Tree) -> Iterator[FieldError]:
    """Validate the policy name, the parameters and the match resources of a binding."""
    spec = obj.get("spec") or {}
    yield from validate_required_format(
        names.dns1123_subdomain, spec.get("policyName"), _SPEC / "policyName"
    )
    if spec.get("paramRef") is not None:
        yield from _validate_param_ref(spec["paramRef"], _SPEC / "paramRef")
    yield from validate_match_resources(spec.get("matchResources"), _SPEC / "matchResources")


def _validate_param_ref(reference: Tree, path: Path) -> Iterator[FieldError]:
    name, selector = reference.get("name") or "", reference.get("selector")
    exclusive = "name and selector are mutually exclusive"
    if name:
        yield from validate_format(names.path_segment, name, path / "name")
        if selector is not None:
            yield forbidden(path / "name", exclusive)
    if selector is not None:
        yield from validate_label_selector(selector, path / "selector")
        if name:
            yield forbidden(path / "selector", exclusive)
    if not name and selector is None:
        yield required(path, "one of name or selector must be specified")
    action = reference.get("parameterNotFoundAction")
    if not action:
        yield required(path / "parameterNotFoundAction")
    elif action not in _NOT_FOUND_ACTIONS:
        yield not_supported_in_order(path / "parameterNotFoundAction", action, _NOT_FOUND_ACTIONS)
