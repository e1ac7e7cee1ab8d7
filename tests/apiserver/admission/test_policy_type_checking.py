"""Type checking of validating admission policies against the schemas of the kinds they match."""

from __future__ import annotations

import pytest

from kapiserver.apiserver.admission.policies.type_checking import (
    expression_warnings,
    kinds_to_check,
)
from tests.apiserver.admission.policykit import DEPLOYMENTS, PODS
from tests.objects import SCHEME


def policy(*expressions, rules=(DEPLOYMENTS,), **spec):
    validations = [{"expression": expression} for expression in expressions]
    constraints = {"resourceRules": list(rules)}
    return {"matchConstraints": constraints, "validations": validations, **spec}


CORRECT = """
object.spec.replicas > 1
oldObject == null || object.metadata.creationTimestamp >= oldObject.metadata.creationTimestamp
object.metadata.labels['a'] == 'b' && !has(object.metadata.deletionTimestamp)
object.spec.template.spec.containers.all(c, c.image.startsWith('example.com/'))
object.spec.template.spec.containers.all(c, quantity(c.resources.limits['cpu']).isLessThan(quantity('1')))
object.spec.strategy.rollingUpdate.maxSurge == 1 || object.spec.strategy.rollingUpdate.maxSurge == '1%'
object.spec.selector.matchExpressions.exists(e, e.key in ['a'])
object.metadata.__namespace__ == request.__namespace__
authorizer.requestResource.check('x').allowed() && authorizer.path('/').check('get').allowed()
variables.image == 'x' && variables.count + 1 > 0
"""  # noqa: E501


@pytest.mark.parametrize("expression", CORRECT.strip().splitlines())
def test_correct_types(expression):
    """An expression that fits the schema has no warning."""
    variables = [
        {"name": "image", "expression": "object.spec.template.spec.containers[0].image"},
        {"name": "count", "expression": "size(object.spec.template.spec.containers)"},
    ]
    expression = expression.replace("request.__namespace__", "request.namespace")
    assert expression_warnings(SCHEME, policy(expression, variables=variables)) == []


WRONG = {
    "object.spec.replicas > '1'": (
        "1:22: found no matching overload for '_>_' applied to '(int, string)'"
    ),
    "object.spec.nope == 1": "1:12: undefined field 'nope'",
    "params.data.x == 'a'": "1:1: undeclared reference to 'params' (in container '')",
    "variables.count == 'a'": (
        "1:17: found no matching overload for '_==_' applied to '(int, string)'"
    ),
    "object.metadata.creationTimestamp == 'x'": (
        "1:35: found no matching overload for '_==_' applied to '(timestamp, string)'"
    ),
}


@pytest.mark.parametrize("expression", WRONG)
def test_wrong_types(expression):
    """An expression that does not fit the schema has a warning with the kind and the position."""
    variables = [{"name": "count", "expression": "size(object.spec.template.spec.containers)"}]
    (warning,) = expression_warnings(SCHEME, policy("true", expression, variables=variables))
    assert warning["fieldRef"] == "spec.validations[1].expression"
    lines = warning["warning"].splitlines()
    assert lines[0] == f"apps/v1, Kind=Deployment: ERROR: <input>:{WRONG[expression]}"


def test_warnings_of_several_kinds():
    """A warning has a message for each kind that an expression does not fit."""
    spec = policy("object.spec.replicas > 1 && object.spec.nope", rules=(PODS, DEPLOYMENTS))
    (warning,) = expression_warnings(SCHEME, spec)
    assert warning["warning"].startswith("/v1, Kind=Pod: ERROR: <input>:1:12: undefined field")
    assert (
        "\n\napps/v1, Kind=Deployment: ERROR: <input>:1:40: undefined field" in warning["warning"]
    )


def test_message_expressions_and_params():
    """Message expressions are checked, and parameters have the type of their kind."""
    spec = policy("params.data['a'] == 1", paramKind={"apiVersion": "v1", "kind": "ConfigMap"})
    spec["validations"][0]["messageExpression"] = "'got ' + object.spec.replicas"
    references = [each["fieldRef"] for each in expression_warnings(SCHEME, spec)]
    assert references == ["spec.validations[0].expression", "spec.validations[0].messageExpression"]


def test_kinds():
    """Rules with wildcards name no kind; subresources and unknown resources are skipped."""

    def rule(*resources, group="apps", version="v1"):
        return {"apiGroups": [group], "apiVersions": [version], "resources": list(resources)}

    rules = [
        rule("*"), rule("deployments", group="*"), rule("deployments", version="*"),
        rule("statefulsets", "deployments/scale", "nope"), rule("pods", group="", version="v1"),
    ]  # fmt: skip
    kinds = [str(kind) for kind in kinds_to_check(SCHEME, policy(rules=rules))]
    assert kinds == ["/v1, Kind=Pod", "apps/v1, Kind=StatefulSet"]


def test_recursive_types():
    """The schema of a schema is recursive."""
    rule = {
        "apiGroups": ["apiextensions.k8s.io"], "apiVersions": ["v1"],
        "resources": ["customresourcedefinitions"],
    }  # fmt: skip
    path = "object.spec.versions[0].schema.openAPIV3Schema.properties['a'].properties['b']"
    assert expression_warnings(SCHEME, policy(f"{path}.type == 'x'", rules=(rule,))) == []
    assert expression_warnings(SCHEME, policy(f"{path}.nope == 'x'", rules=(rule,)))
