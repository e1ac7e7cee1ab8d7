"""Turns what the server says, a Status or a warning, into problems of an object.

A Status may have several causes, each of a field: each becomes a problem. Messages stay the
server's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kapiserver.api.types import Tree
from kapiserver.checking.field_paths import resolve
from kapiserver.checking.finding import ERROR, WARNING, Problem, Steps

_CONFLICT = "FieldManagerConflict"
_TYPED = re.compile(r"^(failed to create typed \w+ object \(.*?\): )(errors:\n)?(.*)$", re.S)
_NEXT_FIELD = re.compile(r"\n(?= *\.)")
_TYPED_FIELD = re.compile(r"^\s*(\.\S.*?|<nil>): ")
_FIELD_IN_TEXT = (
    re.compile(r'(?:unknown|duplicate) field "([^"]+)"'),
    re.compile(r"Go struct field \w+\.([\w.]+)"),
    re.compile(r"^(?:[\w/]+ )?((?:spec|metadata|data)\b[\w.\[\]-]*): "),
)
_RULES_OF_TEXTS = (
    ("policy", re.compile(r"ValidatingAdmissionPolicy|MutatingAdmissionPolicy")),
    ("pod-security", re.compile(r"violates? PodSecurity")),
    ("quota", re.compile(r"(exceeded|failed|insufficient) quota")),
    (
        "limit-range",
        re.compile(r"(minimum|maximum|max|min) .*(usage per|limit to request ratio|storage)"),
    ),
    ("namespace-not-found", re.compile(r'^namespaces "[^"]*" not found$')),
    ("unknown-kind", re.compile(r"^the server could not find the requested resource$")),
    ("unknown-field", re.compile(r'unknown field "|field not declared in schema')),
    ("duplicate-field", re.compile(r'duplicate field "|already set in map|duplicate entries')),
    ("wrong-type", re.compile(r"cannot unmarshal|expected \w+.*, got |failed to create typed")),
    ("stored-version", re.compile(r"was previously a storage version")),
    (
        "immutable-field",
        re.compile(
            r"immutable|updates to (statefulset|persistentvolumeclaim|pod) spec|may not be changed"
            r"|may not change|pod updates may not|cannot be changed|is forbidden after creation"
        ),
    ),
    ("deprecated-version", re.compile(r"^\S+ \S+ is deprecated in v")),
)
"""The rule of a message: the first one whose pattern is found in it."""
_FIELDS_OF_RULES: dict[str, Steps] = {
    "namespace-not-found": ("metadata", "namespace"),
    "deprecated-version": ("apiVersion",),
    "unknown-kind": ("apiVersion",),
}
"""The field that messages of a rule are about without naming it."""


def problems_of_status(status: Tree, tree: Tree) -> Iterator[Problem]:
    """Yield the problems of a refused object."""
    details = status.get("details") or {}
    causes = [cause for cause in details.get("causes") or () if _is_of_field(cause)]
    if causes:
        for cause in causes:
            yield from _cause_problems(cause, tree)
    else:
        default = "invalid-value" if status.get("reason") == "Invalid" else "refused"
        yield from _message_problems(str(status.get("message")), tree, default)


def _is_of_field(cause: Tree) -> bool:
    reason = str(cause.get("reason"))
    return bool(cause.get("field")) and (reason.startswith("FieldValue") or reason == _CONFLICT)


def _cause_problems(cause: Tree, tree: Tree) -> Iterator[Problem]:
    field, message = cause["field"], f"{cause['field']}: {cause['message']}"
    default = "apply-conflict" if cause["reason"] == _CONFLICT else "invalid-value"
    yield Problem(
        steps=resolve(tree, field),
        severity=ERROR,
        message=message,
        rule=rule_of(message, default),
    )


def _message_problems(message: str, tree: Tree, default: str) -> Iterator[Problem]:
    """Yield the problem of a message, or one for each line of a message about the fields of an
    applied configuration."""
    typed = _TYPED.match(message)
    lines = _NEXT_FIELD.split(typed[3]) if typed and typed[2] else [typed[3] if typed else message]
    for line in lines:
        text = f"{typed[1]}{line.strip()}" if typed else line
        match = _TYPED_FIELD.match(line) if typed else None
        rule = rule_of(text, default)
        steps = resolve(tree, match[1]) if match else _steps_in_text(text, tree, rule)
        yield Problem(steps=steps, severity=ERROR, message=text, rule=rule)


def _steps_in_text(text: str, tree: Tree, rule: str) -> Steps:
    for pattern in _FIELD_IN_TEXT:
        match = pattern.search(text)
        if match is not None:
            return resolve(tree, match[1])
    return _FIELDS_OF_RULES.get(rule, ())


def problem_of_warning(text: str, tree: Tree) -> Problem:
    """Return the problem of a warning."""
    rule = rule_of(text, "server-warning")
    steps = _steps_in_text(text, tree, rule)
    return Problem(steps=steps, severity=WARNING, message=text, rule=rule)


def rule_of(message: str, default: str) -> str:
    """Return the name of the rule that a message belongs to."""
    for rule, pattern in _RULES_OF_TEXTS:
        if pattern.search(message):
            return rule
    return default
