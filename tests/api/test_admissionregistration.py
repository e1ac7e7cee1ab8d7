"""The admissionregistration group: webhooks, policies and bindings."""

import pytest

from tests.api.test_columns import cells
from tests.objects import GONE, changed, defaulted, strategy, write_errors

RULE = {
    "operations": ["CREATE"],
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "resources": ["pods"],
}
WEBHOOK = {
    "name": "a.example.com",
    "clientConfig": {"service": {"namespace": "n", "name": "s", "path": "/p"}},
    "rules": [RULE],
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}


def _object(kind, **fields):
    version = "admissionregistration.k8s.io/v1"
    return defaulted({"kind": kind, "apiVersion": version, "metadata": {"name": "x"}, **fields})


VALIDATING = _object("ValidatingWebhookConfiguration", webhooks=[WEBHOOK])
MUTATING = _object("MutatingWebhookConfiguration", webhooks=[WEBHOOK])
POLICY = _object(
    "ValidatingAdmissionPolicy",
    spec={
        "matchConstraints": {"resourceRules": [RULE]},
        "validations": [{"expression": "true"}],
    },
    status={},
)
PATCH = "[JSONPatch{op: 'remove', path: '/spec'}]"
CHANGING = _object(
    "MutatingAdmissionPolicy",
    spec={
        "matchConstraints": {"resourceRules": [RULE]},
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": PATCH}}],
        "reinvocationPolicy": "Never",
    },
)
BINDING = _object(
    "ValidatingAdmissionPolicyBinding",
    spec={"policyName": "p", "validationActions": ["Deny"]},
)
EVERY_DELETION = {
    "matchPolicy": "Exact",
    "namespaceSelector": {},
    "objectSelector": {},
    "resourceRules": [{**RULE, "operations": ["DELETE"]}],
}
V, P, B, M = (
    "validatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "mutatingadmissionpolicies",
)

NEW = [
    (V, VALIDATING, "", GONE, []),
    ("mutatingwebhookconfigurations", MUTATING, "", GONE, []),
    (V, VALIDATING, "webhooks", VALIDATING["webhooks"] * 2, [
        'webhooks[1].name: Duplicate value: "a.example.com"'
    ]),
    (V, VALIDATING, "webhooks/0/name", "a.b", [
        'webhooks[0].name: Invalid value: "a.b": should be a domain with at least three segments '
        "separated by dots"
    ]),
    (V, VALIDATING, "webhooks/0/sideEffects", None, [
        "webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun"
    ]),
    (V, VALIDATING, "webhooks/0/sideEffects", "Some", [
        'webhooks[0].sideEffects: Unsupported value: "Some": supported values: "None", '
        '"NoneOnDryRun"'
    ]),
    (V, VALIDATING, "webhooks/0/timeoutSeconds", 31, [
        "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and "
        "30 seconds"
    ]),
    (V, VALIDATING, "webhooks/0/admissionReviewVersions", ["v2"], [
        'webhooks[0].admissionReviewVersions: Invalid value: ["v2"]: must include at least one '
        "of v1, v1beta1"
    ]),
    (V, VALIDATING, "webhooks/0/clientConfig", {}, [
        "webhooks[0].clientConfig: Required value: exactly one of url or service is required"
    ]),
    (V, VALIDATING, "webhooks/0/clientConfig", {"url": "http://u@h/p?q#f"}, [
        "webhooks[0].clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL "
        "scheme; desired format: https://host[/path]",
        'webhooks[0].clientConfig.url: Invalid value: "u": user information is not permitted in '
        "the URL",
        'webhooks[0].clientConfig.url: Invalid value: "f": fragments are not permitted in the URL',
        'webhooks[0].clientConfig.url: Invalid value: "q": query parameters are not permitted in '
        "the URL",
    ]),
    (V, VALIDATING, "webhooks/0/rules/0/operations", ["*", "CREATE"], [
        'webhooks[0].rules[0].operations: Invalid value: ["*","CREATE"]: if \'*\' is present, '
        "must not specify other operations"
    ]),
    (V, VALIDATING, "webhooks/0/rules/0/resources", ["*", "pods", "*/status", "pods/status"], [
        "webhooks[0].rules[0].resources[3]: Invalid value: \"pods/status\": if '*/status' is "
        "present, must not specify pods/status",
        'webhooks[0].rules[0].resources: Invalid value: ["*","pods","*/status","pods/status"]: '
        "if '*' is present, must not specify other resources without subresources",
    ]),
    (V, VALIDATING, "webhooks/0/matchConditions", [{"name": "", "expression": ""}], [
        "webhooks[0].matchConditions[0].expression: Required value",
        "webhooks[0].matchConditions[0].name: Required value",
    ]),
    (P, POLICY, "", GONE, []),
    (P, POLICY, "spec/validations", [], [
        "spec.validations: Required value: validations or auditAnnotations must contain at least "
        "one item",
        "spec.auditAnnotations: Required value: validations or auditAnnotations must contain at "
        "least one item",
    ]),
    (P, POLICY, "spec/matchConstraints", GONE, ["spec.matchConstraints: Required value"]),
    (P, POLICY, "spec/matchConstraints/resourceRules", [], [
        "spec.matchConstraints.resourceRules: Required value"
    ]),
    (P, POLICY, "spec/validations/0/expression", " ", [
        "spec.validations[0].expression: Required value: expression is not specified"
    ]),
    (P, POLICY, "spec/paramKind", {"apiVersion": "a/b/c", "kind": "K"}, [
        'spec.paramKind.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c'
    ]),
    (P, POLICY, "spec/variables", [{"name": "in", "expression": "1"}], [
        'spec.variables[0].name: Invalid value: "in": must be a valid CEL identifier'
    ]),
    ("mutatingadmissionpolicies", CHANGING, "", GONE, []),
    ("mutatingadmissionpolicies", CHANGING, "spec/mutations", [], [
        "spec.mutations: Required value: mutations must contain at least one item"
    ]),
    ("mutatingadmissionpolicies", CHANGING, "spec/matchConstraints/resourceRules/0/operations", [
        "CREATE", "DELETE"
    ], [
        'spec.matchConstraints.resourceRules.operations: Unsupported value: "DELETE": supported '
        'values: "*", "CONNECT", "CREATE", "UPDATE"'
    ]),
    ("mutatingadmissionpolicies", CHANGING, "spec/mutations/0/applyConfiguration", {
        "expression": "Object{}"
    }, [
        'spec.mutations[0].applyConfiguration: Invalid value: "{applyConfiguration}": must not be '
        "specified when patchType is JSONPatch"
    ]),
    ("mutatingadmissionpolicies", CHANGING, "spec/mutations/0/jsonPatch", {"expression": ""}, [
        "spec.mutations[0].jsonPatch.expression: Required value"
    ]),
    ("mutatingadmissionpolicybindings", BINDING, "spec/matchResources", EVERY_DELETION, [
        'spec.matchResources.resourceRules.operations: Unsupported value: "DELETE": supported '
        'values: "*", "CONNECT", "CREATE", "UPDATE"'
    ]),
    (P, POLICY, "spec/validations/0/message", " ", [
        'spec.validations[0].message: Invalid value: " ": must be non-empty if specified'
    ]),
    (P, POLICY, "spec/validations/0/message", "a\nb", [
        'spec.validations[0].message: Invalid value: "a\\nb": must not contain line breaks'
    ]),
    (V, VALIDATING, "webhooks/0/matchConditions", [{"name": "a", "expression": "1"}], [
        'webhooks[0].matchConditions[0].expression: Invalid value: "1": must evaluate to bool but '
        "got int"
    ]),
    (V, VALIDATING, "webhooks/0/matchConditions", [
        {"name": "a", "expression": "params.x == 1"},
        {"name": "b", "expression": "request.operation == 'CREATE' && has(object.metadata)"},
        {"name": "c", "expression": "authorizer.group('').resource('pods').check('x').allowed()"},
    ], [
        'webhooks[0].matchConditions[0].expression: Invalid value: "params.x == 1": compilation '
        "failed: ERROR: <input>:1:1: undeclared reference to 'params' (in container '')\n | "
        "params.x == 1\n | ^"
    ]),
    (P, POLICY, "spec/validations/0/expression", "object.spec.replicas <= ", [
        'spec.validations[0].expression: Invalid value: "object.spec.replicas <= ": compilation '
        "failed: ERROR: <input>:1:25: Syntax error: mismatched input '<EOF>' expecting {'[', '{', "
        "'(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, "
        "IDENTIFIER}\n | object.spec.replicas <= \n | ........................^"
    ]),
    (P, POLICY, "spec/validations/0/messageExpression", "1 == 2", [
        'spec.validations[0].messageExpression: Invalid value: "1 == 2": must evaluate to string '
        "but got bool"
    ]),
    (P, POLICY, "spec/variables", [
        {"name": "a", "expression": "object.spec.x"},
        {"name": "b", "expression": "size(variables.a) + variables.c"},
    ], [
        'spec.variables[1].expression: Invalid value: "size(variables.a) + variables.c": '
        "compilation failed: ERROR: <input>:1:30: undefined field 'c'\n | size(variables.a) + "
        "variables.c\n | .............................^"
    ]),
    (P, POLICY, "spec/auditAnnotations", [{"key": "k", "valueExpression": "1"}], [
        'spec.auditAnnotations[0].valueExpression: Invalid value: "1": must evaluate to one of '
        "[string null_type] but got int"
    ]),
    (P, POLICY, "spec/validations/0/expression", "object.spec.paused", [
        'spec.validations[0].expression: Invalid value: "object.spec.paused": must evaluate to '
        "bool but got dyn"
    ]),
    (P, POLICY, "spec/validations/0/expression", "request.nope == 1", [
        'spec.validations[0].expression: Invalid value: "request.nope == 1": compilation failed: '
        "ERROR: <input>:1:8: undefined field 'nope'\n | request.nope == 1\n | .......^"
    ]),
    (P, POLICY, "spec/validations/0", {
        "expression": "authorizer.requestResource.check('x').allowed()",
        "messageExpression": "authorizer.path('/').check('get').reason()",
    }, [
        "spec.validations[0].messageExpression: Invalid value: \"authorizer.path('/').check('get')."
        "reason()\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'authorizer' "
        "(in container '')\n | authorizer.path('/').check('get').reason()\n | ^"
    ]),
    (P, POLICY, "spec/validations/0/expression", "Object{} == Object{}", [
        'spec.validations[0].expression: Invalid value: "Object{} == Object{}": compilation failed:'
        " ERROR: <input>:1:7: undeclared reference to 'Object' (in container '')\n | Object{} == "
        "Object{}\n | ......^\nERROR: <input>:1:19: undeclared reference to 'Object' (in container "
        "'')\n | Object{} == Object{}\n | ..................^"
    ]),
    (M, CHANGING, "spec/mutations", [
        {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}
        for expression in ("Object{}", "object.a ? Object{} : Object{spec: Object.spec{}}")
    ], []),
    (M, CHANGING, "spec/mutations/0/jsonPatch", {
        "expression": "has(object.spec) ? [] : [JSONPatch{op: 'add', path: '/a', value: 1}]"
    }, []),
    (M, CHANGING, "spec/mutations/0/jsonPatch", {"expression": "Object{}"}, [
        'spec.mutations[0].jsonPatch.expression: Invalid value: "Object{}": must evaluate to '
        "list(JSONPatch) but got Object"
    ]),
    (M, CHANGING, "spec/mutations", [
        {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "{'a': 1}"}}
    ], [
        "spec.mutations[0].applyConfiguration.expression: Invalid value: \"{'a': 1}\": must "
        "evaluate to Object but got map(string, int)"
    ]),
    (V, VALIDATING, "webhooks/0/rules/0/resources", ["pods", "*"], []),
    (B, BINDING, "spec/matchResources", EVERY_DELETION, []),
    (B, BINDING, "spec/paramRef", {"name": "a", "parameterNotFoundAction": "Odd"}, [
        'spec.paramRef.parameterNotFoundAction: Unsupported value: "Odd": supported values: '
        '"Deny", "Allow"'
    ]),
    (B, BINDING, "", GONE, []),
    (B, BINDING, "spec/validationActions", [], [
        "spec.validationActions: Required value"
    ]),
    (B, BINDING, "spec/validationActions", ["Deny", "Warn"], [
        'spec.validationActions: Invalid value: ["Deny","Warn"]: must not contain both Deny and '
        "Warn (repeating the same validation failure information in the API response and headers "
        "serves no purpose)"
    ]),
    (B, BINDING, "spec/paramRef", {"parameterNotFoundAction": "Deny"}, [
        "spec.paramRef: Required value: one of name or selector must be specified"
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "base", "path", "value", "messages"), NEW)
def test_new(name, base, path, value, messages):
    """New webhook configurations, policies and bindings are validated."""
    assert write_errors(name, changed(base, path, value)) == messages


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("webhooks/0/sideEffects", "Some"),
        ("webhooks/0/admissionReviewVersions", ["v2"]),
        ("webhooks/0/matchConditions", [{"name": "", "expression": ""}]),
        ("webhooks", VALIDATING["webhooks"] * 2),
    ],
)
def test_old_errors_are_tolerated(path, value):
    """An update may keep webhooks that are invalid under newer rules."""
    old = changed(VALIDATING, path, value)
    assert strategy(V).validate_update(changed(old, "webhooks/0/timeoutSeconds", 5), old) == []
    assert strategy(V).validate_update(changed(old), VALIDATING)


def test_unchanged_match_conditions():
    """Unchanged match conditions are not compiled again."""
    conditions = [{"name": "a", "expression": "nothing"}]
    old = changed(POLICY, "spec/matchConditions", conditions)
    new = changed(old, "spec/failurePolicy", "Ignore")
    assert strategy(P).validate_update(new, old) == []
    assert len(strategy(P).validate_update(new, POLICY)) == 1


def test_stored_expressions():
    """An update may keep expressions that do not compile, unless variables or parameters change."""
    for name, base, path in (
        (P, POLICY, "spec/validations/0/expression"),
        (M, CHANGING, "spec/mutations/0/jsonPatch/expression"),
    ):
        old = changed(base, path, "nothing")
        new = changed(old, "spec/failurePolicy", "Ignore")
        assert strategy(name).validate_update(new, old) == []
        variable = changed(new, "spec/variables", [{"name": "a", "expression": "1"}])
        assert len(strategy(name).validate_update(variable, old)) == 1


def test_defaults():
    """Webhooks get defaults, in declared order."""
    (webhook,) = MUTATING["webhooks"]
    assert webhook["rules"] == [{**RULE, "scope": "*"}]
    assert webhook["clientConfig"]["service"]["port"] == 443
    assert list(webhook) == [
        "name", "clientConfig", "rules", "failurePolicy", "matchPolicy", "namespaceSelector",
        "objectSelector", "sideEffects", "timeoutSeconds", "admissionReviewVersions",
        "reinvocationPolicy",
    ]  # fmt: skip
    assert POLICY["spec"]["matchConstraints"]["matchPolicy"] == "Equivalent"


def test_generations():
    """Changes of webhooks increment the generation, changes of metadata do not."""
    old = changed(VALIDATING)
    strategy(V).prepare_for_create(old)
    for path, value, generation in (
        ("metadata/labels", {"a": "b"}, 1),
        ("webhooks/0/timeoutSeconds", 5, 2),
    ):
        new = changed(old, path, value)
        strategy(V).prepare_for_update(new, old)
        assert new["metadata"]["generation"] == generation


def test_cells():
    """Columns show the number of webhooks, the parameter kind and the parameter reference."""
    assert cells(V, VALIDATING)["Webhooks"] == 1
    assert (cells(P, POLICY)["Validations"], cells(P, POLICY)["ParamKind"]) == (1, "<unset>")
    for reference, expected in (
        ({"name": "a"}, "*/a"),
        ({"name": "a", "namespace": "n"}, "n/a"),
        ({"selector": {"matchLabels": {"a": "b"}}}, "a=b"),
    ):
        assert cells(B, changed(BINDING, "spec/paramRef", reference))["ParamRef"] == expected
