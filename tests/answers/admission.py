"""Questions about admission: webhooks and policies, each of which judges the ConfigMaps with its
name in the label `case`, and objects of the group admissionregistration.k8s.io that are wrong.

All questions are dry runs.
"""

from __future__ import annotations

import base64
import json
from typing import Any

from tests.answers.asking import Request
from tests.apiserver.proxy.https_server import Received, Reply

GROUP = "/apis/admissionregistration.k8s.io/v1"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
NOBODY = "https://127.0.0.1:1"
"""A URL at which nobody listens."""
WARNINGS = ["first", 'second, with "quotes"', "two\nlines", "", "x" * 300, "first"]
Tree = dict[str, Any]


def patch(*operations: Tree, **response: Any) -> Tree:
    """Return the response of a webhook that answers with a JSON patch."""
    text = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": text, **response}


def add(path: str, value: Any) -> Tree:
    return {"op": "add", "path": path, "value": value}


DENIED: dict[str, Tree] = {
    "deny": {},
    "deny-message": {"status": {"message": "no"}},
    "deny-code": {"status": {"message": "a teapot", "code": 418}},
    "deny-code-alone": {"status": {"code": 409}},
    "deny-code-200": {"status": {"message": "odd", "code": 200}},
    "deny-code-600": {"status": {"message": "odd", "code": 600}},
    "deny-reason": {"status": {"reason": "TooManyRequests"}},
    "deny-reason-and-code": {"status": {"reason": "Conflict", "message": "no", "code": 409}},
    "deny-success": {"status": {"status": "Success", "message": "fine", "code": 201}},
    "deny-details": {"status": {
        "message": "no", "reason": "Invalid", "code": 422, "metadata": {"continue": "x"},
        "details": {"name": "n", "group": "g", "kind": "k", "retryAfterSeconds": 3,
                    "causes": [{"reason": "FieldValueInvalid", "message": "m", "field": "f"}]}}},
    "deny-with-warnings": {"status": {"message": "no"}, "warnings": ["mind this"]},
    "deny-with-annotations": {"status": {"message": "no"}, "auditAnnotations": {"why": "because"}},
}  # fmt: skip
"""Responses that deny, without `allowed`."""
ALLOWED: dict[str, Tree] = {
    "allow": {"allowed": True},
    "allow-with-status": {"allowed": True, "status": {"message": "ignored", "code": 500}},
    "warnings": {"allowed": True, "warnings": WARNINGS},
    "many-warnings": {"allowed": True, "warnings": [f"{n}{'y' * 250}" for n in range(20)]},
    "annotations": {"allowed": True, "auditAnnotations": {"good": "yes", "a/b": "slash", "": "x"}},
    "validating-patch": patch(add("/data/b", "1")),
}
PATCHES: dict[str, Tree] = {
    "patch": patch(add("/data/b", "1")),
    "patch-with-warnings": patch(add("/data/b", "1"), warnings=["changed"]),
    "patch-with-annotations": patch(add("/data/b", "1"), auditAnnotations={"changed": "b"}),
    "patch-empty": patch(),
    "patch-no-type": {"allowed": True, "patch": patch(add("/data/b", "1"))["patch"]},
    "patch-other-type": patch(add("/data/b", "1"), patchType="MergePatch"),
    "patch-type-alone": {"allowed": True, "patchType": "JSONPatch"},
    "patch-no-base64": patch(patch="!"),
    "patch-no-json": patch(patch=base64.b64encode(b"{").decode()),
    "patch-no-list": patch(patch=base64.b64encode(b"{}").decode()),
    "patch-no-operation": patch({"op": "jump", "path": "/data"}),
    "patch-missing": patch({"op": "remove", "path": "/data/none"}),
    "patch-test": patch({"op": "test", "path": "/data/a", "value": "other"}),
    "patch-wrong-type": patch(add("/data/b", 1)),
    "patch-name": patch(add("/metadata/name", "other")),
    "patch-namespace": patch(add("/metadata/namespace", "other")),
    "patch-invalid": patch(add("/data/bad key", "1")),
    "patch-denied": {**patch(add("/data/b", "1")), "allowed": False},
}
BROKEN: dict[str, Reply] = {
    "status-500": Reply(b"oops", 500),
    "status-404": Reply(b"no such page", 404),
    "status-204": Reply(b"", 204),
    "body-empty": Reply(b""),
    "body-html": Reply(b"<html>", 200, {"Content-Type": "text/html"}),
    "body-list": Reply([]),
    "body-other-kind": Reply({"kind": "ConfigMap", "apiVersion": "v1"}),
    "body-other-version": Reply({
        "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1beta1",
        "response": {"allowed": True}}),
    "body-no-kind": Reply({"response": {"allowed": True}}),
    "body-no-response": Reply({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}),
}  # fmt: skip
"""Responses that are no reviews."""
REVIEWS: dict[str, Tree] = {
    "review-other-uid": {"uid": "other", "allowed": True},
    "review-no-uid": {"uid": "", "allowed": True},
    "review-wrong-type": {"allowed": "yes"},
    "review-no-verdict": {},
}
CONDITIONS: dict[str, str] = {
    "condition-false": "false",
    "condition-error": "object.data.none == 'x'",
    "condition-authorizer": "authorizer.group('').resource('pods').check('fly').allowed()",
    "condition-user": "request.userInfo.username == 'nobody'",
}
"""Match conditions of webhooks that deny."""

_RULES = [
    {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
     "operations": ["CREATE"]}
]  # fmt: skip


def respond(received: Received) -> Reply:
    """Answer a review: the path begins with the name of the case."""
    name = received.path.partition("?")[0].split("/")[1].removesuffix("-ignored")
    if name in BROKEN:
        return BROKEN[name]
    response = ALLOWED.get(name) or PATCHES.get(name) or REVIEWS.get(name)
    if response is None:
        response = {"allowed": False, **DENIED.get(name, {"status": {"message": "called"}})}
    uid = received.json["request"]["uid"]
    kind = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    return Reply({**kind, "response": {"uid": uid, **response}})


def _webhook(name: str, url: str, ca: str, **fields: Any) -> Tree:
    return {
        "name": f"{name}.example.com",
        "clientConfig": {"url": f"{url}/{name}", "caBundle": ca},
        "rules": _RULES,
        "objectSelector": {"matchLabels": {"case": name}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 10,
        **fields,
    }


def _condition(name: str) -> list[Tree]:
    return [{"name": name, "expression": CONDITIONS[name.removesuffix("-ignored")]}]


def webhooks(url: str, ca: str, other_ca: str) -> tuple[list[Tree], list[Tree]]:
    """Return validating and mutating webhooks; a server with the CA answers at the URL."""
    ignored: Tree = {"failurePolicy": "Ignore"}
    validating = [
        *(_webhook(name, url, ca) for name in (*DENIED, *ALLOWED, *BROKEN, *REVIEWS)),
        *(_webhook(name, url, ca, matchConditions=_condition(name)) for name in CONDITIONS),
        _webhook("nobody", NOBODY, ca),
        _webhook("other-ca", url, other_ca),
        _webhook("no-service", url, ca, clientConfig={
            "service": {"namespace": "default", "name": "none", "path": "/x"}, "caBundle": ca}),
        *(_webhook(f"{name}-ignored", url, ca, **ignored) for name in ("status-500", "deny",
                                                                     "body-no-response")),
        _webhook("nobody-ignored", NOBODY, ca, **ignored),
        _webhook("condition-error-ignored", url, ca, **ignored,
                 matchConditions=_condition("condition-error-ignored")),
    ]  # fmt: skip
    mutating = [
        *(_webhook(name, url, ca) for name in PATCHES),
        _webhook("mutating-deny", url, ca),
        _webhook("mutating-status-500", f"{url}/status-500", ca),
        _webhook("mutating-nobody-ignored", NOBODY, ca, **ignored),
    ]
    return validating, mutating


def _validation(expression: str, **fields: Any) -> Tree:
    return {"validations": [{"expression": expression, **fields}]}


_FALSE = "object.data.a == '1'"
_ERROR = "object.data.none == 'x'"
POLICIES: dict[str, Tree] = {
    "policy-plain": _validation(_FALSE),
    "policy-lines": _validation("object.data.a\n == '1'"),
    "policy-message": _validation(_FALSE, message="a must be 1"),
    "policy-message-expression": _validation(
        _FALSE, message="unused", messageExpression="'a is ' + object.data.a"),
    "policy-message-error": _validation(_FALSE, message="used", messageExpression=(
        "'a is ' + object.data.none")),
    "policy-message-error-alone": _validation(_FALSE, messageExpression="string(object.data.none)"),
    "policy-message-empty": _validation(_FALSE, messageExpression="''"),
    "policy-message-spaces": _validation(_FALSE, messageExpression="'  '"),
    "policy-message-lines": _validation(_FALSE, messageExpression="'two\\nlines'"),
    "policy-message-long": _validation(_FALSE, messageExpression=(
        f"'{'x' * 1000}' + '{'y' * 9000}'")),
    "policy-forbidden": _validation(_FALSE, reason="Forbidden"),
    "policy-invalid": _validation(_FALSE, reason="Invalid"),
    "policy-too-large": _validation(_FALSE, reason="RequestEntityTooLarge", message="too much"),
    "policy-two": {"validations": [
        {"expression": "true", "message": "never"},
        {"expression": _FALSE, "message": "one", "reason": "Forbidden"},
        {"expression": "false", "message": "two", "reason": "RequestEntityTooLarge"}]},
    "policy-error": _validation(_ERROR),
    "policy-error-ignored": {**_validation(_ERROR), "failurePolicy": "Ignore"},
    "policy-error-and-denial": {"validations": [{"expression": _ERROR}, {"expression": "false"}]},
    "policy-index": _validation("[1, 2][size(object.data.a) + 5] == 1"),
    "policy-division": _validation("1 / int(size(object.data.a) - 1) == 1"),
    "policy-conversion": _validation("int(object.data.a + 'x') == 1"),
    "policy-time": _validation("timestamp(object.data.a).getFullYear() == 1"),
    "policy-duration": _validation("duration(object.data.a).getHours() == 1"),
    "policy-overflow": _validation("9223372036854775807 + int(object.data.a) > 0"),
    "policy-regex": _validation("object.data.a.matches('[' + object.data.a)"),
    "policy-variables": {
        "variables": [{"name": "a", "expression": "object.data.a"},
                      {"name": "b", "expression": "variables.a + '!'"}],
        **_validation("variables.b == '1!'", messageExpression="'b is ' + variables.b")},
    "policy-variable-error": {
        "variables": [{"name": "a", "expression": "object.data.none"}],
        **_validation("variables.a == '1'")},
    "policy-condition-false": {
        "matchConditions": [{"name": "never", "expression": "false"}], **_validation("false")},
    "policy-condition-error": {
        "matchConditions": [{"name": "broken", "expression": _ERROR}], **_validation("false")},
    "policy-condition-error-ignored": {
        "matchConditions": [{"name": "broken", "expression": _ERROR}], **_validation("false"),
        "failurePolicy": "Ignore"},
    "policy-condition-error-and-false": {
        "matchConditions": [{"name": "broken", "expression": _ERROR},
                            {"name": "never", "expression": "false"}], **_validation("false")},
    "policy-request": _validation("false", messageExpression=(
        "request.operation + ' ' + request.kind.kind + ' ' + request.resource.resource + ' ' + "
        "string('system:masters' in request.userInfo.groups) + string(request.dryRun) + "
        "request.namespace")),
    "policy-namespace": _validation("false", messageExpression=(
        "namespaceObject.metadata.name + string(has(namespaceObject.metadata.labels))")),
    "policy-authorizer": _validation(
        "authorizer.group('').resource('pods').namespace('x').check('get').reason() == 'none'"),
    "policy-audit": {
        "auditAnnotations": [{"key": "value-of-a", "valueExpression": "'a is ' + object.data.a"},
                             {"key": "nothing", "valueExpression": "null"},
                             {"key": "empty", "valueExpression": "'  '"}]},
    "policy-audit-error": {
        "auditAnnotations": [{"key": "broken", "valueExpression": "string(object.data.none)"}]},
    "policy-audit-error-ignored": {
        "auditAnnotations": [{"key": "broken", "valueExpression": "string(object.data.none)"}],
        "failurePolicy": "Ignore"},
    "policy-no-param": {
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, **_validation("false")},
    "policy-no-param-allowed": {
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, **_validation("false")},
    "policy-no-param-ignored": {
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, **_validation("false"),
        "failurePolicy": "Ignore"},
    "policy-no-kind": {
        "paramKind": {"apiVersion": "none.example.com/v1", "kind": "None"}, **_validation("false")},
    "policy-param": {
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        **_validation("object.data.a == params.data.a", messageExpression=(
            "'a must be ' + params.data.a + ' of ' + params.metadata.name"))},
    "policy-warn": _validation(_FALSE, message="mind a"),
    "policy-warn-error": _validation(_ERROR),
    "policy-audited": _validation(_FALSE, message="noted"),
    "policy-warn-and-audited": _validation(_FALSE, message="noted"),
    "policy-denied-and-audited": _validation(_FALSE, message="no"),
}  # fmt: skip
"""The specs of policies, without constraints."""
_ACTIONS = {
    "policy-warn": ["Warn"], "policy-warn-error": ["Warn"], "policy-audited": ["Audit"],
    "policy-warn-and-audited": ["Warn", "Audit"], "policy-denied-and-audited": ["Deny", "Audit"],
}  # fmt: skip
_PARAMS: dict[str, Tree] = {
    "policy-no-param": {"name": "none", "namespace": "default", "parameterNotFoundAction": "Deny"},
    "policy-no-param-allowed": {"name": "none", "namespace": "default",
                                "parameterNotFoundAction": "Allow"},
    "policy-no-param-ignored": {"name": "none", "namespace": "default",
                                "parameterNotFoundAction": "Deny"},
    "policy-no-kind": {"name": "none", "namespace": "default", "parameterNotFoundAction": "Deny"},
    "policy-param": {"selector": {"matchLabels": {"params": "yes"}}, "namespace": "default",
                     "parameterNotFoundAction": "Deny"},
}  # fmt: skip


def _apply(expression: str) -> Tree:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def _json(expression: str) -> Tree:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


MUTATIONS: dict[str, list[Tree]] = {
    "mutation-apply": [_apply("Object{data: {'b': '1'}}")],
    "mutation-json": [_json("[JSONPatch{op: 'add', path: '/data/b', value: '1'}]")],
    "mutation-two": [_apply("Object{data: {'b': '1'}}"),
                     _json("[JSONPatch{op: 'copy', from: '/data/b', path: '/data/c'}]")],
    "mutation-error": [_apply("Object{data: {'b': object.data.none}}")],
    "mutation-json-error": [_json("[JSONPatch{op: 'add', path: '/data/b', value: object.data.z}]")],
    "mutation-json-missing": [_json("[JSONPatch{op: 'remove', path: '/data/none'}]")],
    "mutation-json-test": [_json("[JSONPatch{op: 'test', path: '/data/a', value: 'other'}]")],
    "mutation-json-op": [_json("[JSONPatch{op: 'jump', path: '/data/b', value: '1'}]")],
    "mutation-name": [_json("[JSONPatch{op: 'add', path: '/metadata/name', value: 'other'}]")],
    "mutation-apply-name": [_apply("Object{metadata: Object.metadata{name: 'other'}}")],
    "mutation-invalid": [_apply("Object{data: {'bad key': '1'}}")],
}  # fmt: skip


def _constraints(name: str) -> Tree:
    return {"resourceRules": _RULES, "objectSelector": {"matchLabels": {"case": name}}}


def _bound(kind: str, name: str, spec: Tree, binding: Tree) -> list[Request]:
    """Return the requests that create a policy and its binding."""
    plural = f"{kind.lower()[:-1]}ies"
    policy = {"matchConstraints": _constraints(name), **spec}
    binding = {"policyName": f"{name}.example.com", **binding}
    return [
        _create(plural, f"{name}.example.com", policy),
        _create(f"{kind.lower()}bindings", f"{name}-binding.example.com", binding),
    ]


def _create(plural: str, name: str, spec: Any, field: str = "spec") -> Request:
    body = json.dumps({"metadata": {"name": name}, field: spec})
    headers = {"Content-Type": "application/json"}
    return {"method": "POST", "path": f"{GROUP}/{plural}", "headers": headers, "body": body}


def objects(url: str, ca: str, other_ca: str) -> list[Request]:
    """Return the requests that make webhooks and policies. The last of each kind denies."""
    requests = [_config_map("params", {"params": "yes"}, {"a": "1"})]
    for name, spec in POLICIES.items():
        binding: Tree = {"validationActions": _ACTIONS.get(name, ["Deny"])}
        if name in _PARAMS:
            binding["paramRef"] = _PARAMS[name]
        requests += _bound("ValidatingAdmissionPolicy", name, spec, binding)
    for name, mutations in MUTATIONS.items():
        spec = {"mutations": mutations, "reinvocationPolicy": "Never"}
        requests += _bound("MutatingAdmissionPolicy", name, spec, {})
    last = {"validationActions": ["Deny"]}
    requests += _bound("ValidatingAdmissionPolicy", "last-policy", _validation("false"), last)
    spec = {"mutations": [_apply("Object{data: {'b': object.data.none}}")],
            "reinvocationPolicy": "Never"}  # fmt: skip
    requests += _bound("MutatingAdmissionPolicy", "last-mutation", spec, {})
    validating, mutating = webhooks(url, ca, other_ca)
    hooks = [*validating, _webhook("last-validating", url, ca)]
    requests.append(_create("validatingwebhookconfigurations", "all", hooks, "webhooks"))
    hooks = [*mutating, _webhook("last-mutating", url, ca)]
    requests.append(_create("mutatingwebhookconfigurations", "all", hooks, "webhooks"))
    return requests


LAST = ("last-policy", "last-mutation", "last-validating", "last-mutating")
"""Cases that are denied when all webhooks and policies are in force."""


def _config_map(name: str, labels: Tree, data: Tree) -> Request:
    body = json.dumps({"metadata": {"name": name, "labels": labels}, "data": data})
    headers = {"Content-Type": "application/json"}
    return {"method": "POST", "path": CONFIG_MAPS, "headers": headers, "body": body}


def question(name: str) -> Request:
    """Return the creation of a ConfigMap that the webhook or policy of a case judges."""
    return _dry_run(name, _config_map("asked", {"case": name}, {"a": "2"}))


def _dry_run(name: str, request: Request) -> Request:
    """Return a request as a dry run; its audit event has the name as user agent."""
    path = f"{request['path']}?dryRun=All&fieldManager=asking"
    return {**request, "path": path, "headers": {**request["headers"], "User-Agent": name}}


def questions() -> list[Request]:
    """Return all questions; each has another user agent."""
    validating, mutating = webhooks("https://127.0.0.1:1", "", "")
    names = [hook["name"].partition(".")[0] for hook in (*validating, *mutating)]
    cases = [question(name) for name in (*names, *POLICIES, *MUTATIONS)]
    return cases + [_dry_run(f"wrong-{number}", wrong) for number, wrong in enumerate(_wrong())]


_BAD_SYNTAX = (
    "object.+1", "object.(", "object.'a'", "object.1a", "object{a", "object{a:", "object{1", "[",
    "[1,", "[1", "{", "{1", "{1:", "(", "(1", "true ?", "true ? true", "true ? true :", "object[",
    "object[1", "size(", "size(1", "size(1,", "1 1", "1 1 1", "true true", "true &&", "true || ",
    "1 in", "a.b.", ".", ".a.", ".1", "object.all(x,", "has(object)", "has(object.a.b())",
    "has(1 + 2)", "object..a", "`a`", "if", "var", "object.if", "1u2", "0xg", "1.", "object[]",
    "object{", "[,]", "{,}",
)  # fmt: skip
"""Expressions that do not parse, and some that do."""


_CONSTRAINTS: Tree = {"matchConstraints": {"resourceRules": _RULES}}
_GOOD: Tree = {**_CONSTRAINTS, **_validation("true")}
_BAD_POLICIES: tuple[Tree, ...] = (
    {},
    _CONSTRAINTS,
    {**_CONSTRAINTS, **_validation("")},
    {**_CONSTRAINTS, **_validation("object.data.")},
    {**_CONSTRAINTS, **_validation("1 +")},
    {**_CONSTRAINTS, **_validation("'text'")},
    {**_CONSTRAINTS, **_validation("unknown == 1")},
    {**_CONSTRAINTS, **_validation("'a'.matches('^[0-')")},
    {**_CONSTRAINTS, **_validation("object.nope(1)")},
    {**_CONSTRAINTS, **_validation("size(1) == 1")},
    {**_CONSTRAINTS, **_validation("1 == '1'")},
    {**_CONSTRAINTS, **_validation("params.data.a == 'x'")},
    {**_CONSTRAINTS, **_validation("variables.a == 'x'")},
    {**_CONSTRAINTS, **_validation("true", reason="Unauthorized")},
    {**_CONSTRAINTS, **_validation("true", message="two\nlines")},
    {**_CONSTRAINTS, **_validation("true", message="  ")},
    {**_CONSTRAINTS, **_validation("true", messageExpression="1")},
    {**_CONSTRAINTS, **_validation("true", messageExpression="object.")},
    {**_GOOD, "failurePolicy": "Odd"},
    {**_GOOD, "matchConditions": [{"name": "", "expression": ""}]},
    {**_GOOD, "matchConditions": [{"name": "a b", "expression": "1"},
                                 {"name": "a b", "expression": "object."}]},
    {**_GOOD, "variables": [{"name": "1a", "expression": "1"}, {"name": "b", "expression": ""},
                           {"name": "b", "expression": "variables.c"}]},
    {**_CONSTRAINTS, "auditAnnotations": [{"key": "a b", "valueExpression": "1"},
                                         {"key": "k", "valueExpression": ""},
                                         {"key": "k", "valueExpression": "'x'"}]},
    {**_GOOD, "paramKind": {"apiVersion": "a/b/c", "kind": "Bad Kind"}},
    {**_GOOD, "paramKind": {}},
    {**_validation("true"), "matchConstraints": {"resourceRules": []}},
    {**_validation("true"), "matchConstraints": {
        "matchPolicy": "Odd", "resourceRules": [{**_RULES[0], "operations": ["JUMP"],
                                                 "resources": ["a/b/c", "*"], "scope": "Odd"}],
        "objectSelector": {"matchLabels": {"a b": "c d"}}}},
    *({**_CONSTRAINTS, **_validation(text)} for text in _BAD_SYNTAX),
)  # fmt: skip
_BAD_MUTATIONS: tuple[Tree, ...] = (
    {},
    {"mutations": [], "reinvocationPolicy": "Never"},
    {"mutations": [{}], "reinvocationPolicy": "Odd"},
    {"mutations": [{"patchType": "Odd"}], "reinvocationPolicy": "Never"},
    {"mutations": [_apply("")], "reinvocationPolicy": "Never"},
    {"mutations": [_apply("1")], "reinvocationPolicy": "Never"},
    {"mutations": [_apply("Object{")], "reinvocationPolicy": "Never"},
    {"mutations": [_apply("Other{data: {}}")], "reinvocationPolicy": "Never"},
    {"mutations": [_json("[1]")], "reinvocationPolicy": "Never"},
    {"mutations": [{**_json("[]"), "applyConfiguration": {"expression": "Object{}"}}],
     "reinvocationPolicy": "Never"},
)  # fmt: skip
"""Parts of mutating policies."""
_BAD_BINDINGS: tuple[Tree, ...] = (
    {},
    {"policyName": "a b", "validationActions": []},
    {"policyName": "a", "validationActions": ["Deny", "Warn"]},
    {"policyName": "a", "validationActions": ["Deny", "Deny", "Odd"]},
    {"policyName": "a", "validationActions": ["Deny"], "paramRef": {}},
    {"policyName": "a", "validationActions": ["Deny"], "paramRef": {
        "name": "a", "selector": {}, "parameterNotFoundAction": "Odd"}},
)  # fmt: skip
_BAD_WEBHOOKS: tuple[Tree, ...] = (
    {"name": "short"},
    {"name": ""},
    {"sideEffects": "Some"},
    {"sideEffects": None},
    {"admissionReviewVersions": []},
    {"admissionReviewVersions": ["v2"]},
    {"admissionReviewVersions": ["v1", "v1", "1 2"]},
    {"timeoutSeconds": 31},
    {"timeoutSeconds": 0},
    {"failurePolicy": "Odd", "matchPolicy": "Odd"},
    {"clientConfig": {}},
    {"clientConfig": {"url": "http://example.com"}},
    {"clientConfig": {"url": "https://me:secret@example.com/?a=b#c"}},
    {"clientConfig": {"url": "%zz"}},
    {"clientConfig": {"url": "https://example.com", "service": {"name": "a"}}},
    {"clientConfig": {"service": {"name": "", "namespace": "", "path": "x", "port": 0}}},
    {"clientConfig": {"service": {"name": "a", "namespace": "b", "path": "/a//b/c d"}}},
    {"clientConfig": {"url": "https://example.com", "caBundle": "eA=="}},
    {"rules": [{"operations": [], "apiGroups": [], "apiVersions": [], "resources": []}]},
    {"rules": [{**_RULES[0], "operations": ["*", "CREATE"], "apiGroups": ["*", "a"],
                "apiVersions": [""], "resources": ["*/*", "pods", "a/b"]}]},
    {"objectSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
    {"matchConditions": [{"name": "a", "expression": "object."},
                         {"name": "a", "expression": "1"}]},
    {"matchConditions": [{"name": "a", "expression": "variables.x"}]},
)  # fmt: skip
"""Parts of webhooks."""


def _wrong() -> list[Request]:
    """Return creations of wrong objects."""
    name, hook = "wrong.example.com", _webhook("wrong", "https://example.com", "")
    mutating = [{**hook, "reinvocationPolicy": "Odd"}, hook]
    return [
        *(_create("validatingadmissionpolicies", name, spec) for spec in _BAD_POLICIES),
        *(
            _create("mutatingadmissionpolicies", name, {**_CONSTRAINTS, **spec})
            for spec in _BAD_MUTATIONS
        ),
        *(_create("validatingadmissionpolicybindings", name, spec) for spec in _BAD_BINDINGS),
        *(
            _create("validatingwebhookconfigurations", "wrong", [{**hook, **fields}], "webhooks")
            for fields in _BAD_WEBHOOKS
        ),
        _create("mutatingwebhookconfigurations", "wrong", mutating, "webhooks"),
    ]
