"""ValidatingAdmissionPolicy over HTTP."""

from __future__ import annotations

import pytest

from tests.apiserver.admission.policykit import DEPLOYMENTS, GROUP, VALIDATING, Cluster, deployment


@pytest.fixture
def cluster(api):
    return Cluster(api)


def test_denial(cluster):
    """A write that breaks a policy is refused with kube-apiserver's Status."""
    name = cluster.validate("object.spec.replicas <= 5", resource=DEPLOYMENTS)
    message = (
        f"ValidatingAdmissionPolicy '{name}' with binding '{name}' denied request: failed "
        "expression: object.spec.replicas <= 5"
    )
    response = cluster.api.post(cluster.deployments, deployment("d", 6))
    assert (response.status, response.json) == (
        422,
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": f'deployments.apps "d" is forbidden: {message}',
            "reason": "Invalid",
            "details": {
                "name": "d",
                "group": "apps",
                "kind": "deployments",
                "causes": [{"message": message}],
            },
            "code": 422,
        },
    )
    assert cluster.api.post(cluster.deployments, deployment("d", 5)).status == 201
    assert cluster.api.patch(f"{cluster.deployments}/d", {"spec": {"replicas": 6}}).status == 422


def test_denied_deletions(cluster):
    """The refusal of a deletion names the object of the request; the request to delete a collection
    names none, as in kube-apiserver."""
    path, name = cluster.config_maps, cluster.config_map(data={"a": "x"}).json["metadata"]["name"]
    cluster.validate("false", operations=["DELETE"])
    for target, named in ((f"{path}/{name}", name), (path, "Unknown")):
        response = cluster.api.delete(target)
        assert response.status == 422
        assert response.message.startswith(f'configmaps "{named}" is forbidden: Validating')
        assert response.json["details"]["name"] == named


MESSAGES = [
    ({"message": "a message "}, "a message"),
    ({"messageExpression": "'is ' + object.data.a"}, "is x"),
    ({"messageExpression": "'two\\nlines'", "message": "m"}, "m"),
    ({"messageExpression": "'  '"}, "failed expression: object.data.a == 'b'"),
    ({"messageExpression": "'a' + object.data.nope", "message": "m"}, "m"),
    ({"messageExpression": "object.data.a + 'a'.replace('', 'x' + 'y'.replace('y', 'z'))"}, None),
]


@pytest.mark.parametrize(("fields", "expected"), MESSAGES)
def test_messages(cluster, fields, expected):
    """The message is that of the messageExpression, else the message, else the expression."""
    cluster.validate({"expression": "object.data.a == 'b'", **fields})
    response = cluster.config_map(data={"a": "x"})
    assert response.status == 422
    assert response.message.endswith(f"denied request: {expected or 'xxzaxz'}")


@pytest.mark.parametrize(
    ("reason", "code"),
    [("Forbidden", 403), ("RequestEntityTooLarge", 413), ("Invalid", 422)],
)
def test_reasons(cluster, reason, code):
    """The reason of a validation determines the code of the response."""
    cluster.validate({"expression": "false", "reason": reason})
    response = cluster.config_map()
    assert (response.status, response.json["reason"]) == (code, reason)


def test_warn_and_audit(cluster):
    """Warn and Audit let the write pass."""
    name = cluster.validate({"expression": "false", "message": "no"}, actions=["Warn", "Audit"])
    response = cluster.config_map()
    assert response.status == 201
    assert response.warnings == [
        f"299 - \"Validation failed for ValidatingAdmissionPolicy '{name}' with binding '{name}': "
        'no"'
    ]


def test_variables(cluster):
    """Variables are composed, and evaluated once when they are first read."""
    cluster.validate(
        "variables.sum == 3 && variables.sum > 2",
        variables=[
            {"name": "a", "expression": "int(object.data.a)"},
            {"name": "b", "expression": "int(object.data.b)"},
            {"name": "sum", "expression": "variables.a + variables.b"},
            {"name": "unused", "expression": "1 / 0"},
        ],
    )
    assert cluster.config_map("x", data={"a": "1", "b": "2"}).status == 201
    assert cluster.config_map("y", data={"a": "1", "b": "3"}).status == 422
    response = cluster.config_map("z", data={"a": "x", "b": "3"})
    assert response.status == 422
    assert (
        'resulted in error: composited variable "sum" fails to evaluate: composited variable '
        "\"a\" fails to evaluate: type conversion error from 'string' to 'int'"
    ) in response.message


def test_match_conditions(cluster):
    """A policy whose match conditions are not all true is not evaluated."""
    cluster.validate(
        "false",
        matchConditions=[
            {"name": "create", "expression": "request.operation == 'CREATE'"},
            {"name": "labelled", "expression": "object.metadata.labels['a'] == 'b'"},
        ],
    )
    assert cluster.config_map("a", metadata={"labels": {"a": "c"}}).status == 201
    assert cluster.config_map("b", metadata={"labels": {"a": "b"}}).status == 422
    response = cluster.config_map("c")
    assert response.status == 422
    assert response.message.endswith(
        "expression 'object.metadata.labels['a'] == 'b'' resulted in error: no such key: labels"
    )


@pytest.mark.parametrize(("policy", "status"), [("Fail", 422), ("Ignore", 201)])
def test_failure_policy(cluster, policy, status):
    """An expression that fails refuses the write unless failures are ignored."""
    cluster.validate("object.data.nope == 'x'", failurePolicy=policy)
    response = cluster.config_map()
    assert response.status == status
    if status == 422:
        assert response.message.endswith(
            "expression 'object.data.nope == 'x'' resulted in error: no such key: data"
        )


def test_operations(cluster):
    """On DELETE there is no object, on CREATE no oldObject."""
    cluster.validate(
        "request.operation != 'DELETE' || (object == null && oldObject.metadata.name != 'kept')",
        "request.operation != 'CREATE' || oldObject == null",
        operations=["CREATE", "DELETE"],
    )
    for name, status in (("kept", 422), ("other", 200)):
        assert cluster.config_map(name).status == 201
        assert cluster.api.delete(f"{cluster.config_maps}/{name}").status == status


def test_request(cluster):
    """The request has the resource, the user and the options."""
    cluster.validate(
        "request.kind == request.requestKind && request.kind.kind == 'ConfigMap'",
        "request.resource.resource == 'configmaps' && request.resource.version == 'v1'",
        "!has(request.subResource) && request.name == 'c' && !request.dryRun",
        "request.namespace == namespaceObject.metadata.name",
        "request.userInfo.username == 'system:unsecured'",
        "'system:masters' in request.userInfo.groups",
        "request.options.fieldManager == 'me'",
        "namespaceObject.metadata.labels['test'] == request.namespace",
        "namespaceObject.metadata.creationTimestamp < timestamp('9999-01-01T00:00:00Z')",
        "namespaceObject.status.phase == 'Active'",
        "has(namespaceObject.spec.finalizers)",
    )
    path = f"{cluster.config_maps}?fieldManager=me"
    response = cluster.api.post(path, {"metadata": {"name": "c"}})
    assert response.status == 201, response.message


def test_variables_of_match_conditions(cluster):
    """Match conditions have no namespace, and the resource of the request instead of the equivalent
    one that a rule matches."""
    events = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["events"]}
    cluster.validate(
        "request.resource.group != '' || namespaceObject == null",
        resource=events,
        matchConditions=[
            {
                "name": "other-group",
                "expression": "request.resource == request.requestResource"
                " && request.resource.group == 'events.k8s.io' && namespaceObject == null",
            }
        ],
    )
    event = {
        "metadata": {"name": "e"}, "eventTime": "2026-01-01T00:00:00.000000Z", "type": "Normal",
        "action": "a", "reason": "r", "reportingController": "x.y/z", "reportingInstance": "i",
        "regarding": {"namespace": cluster.namespace},
    }  # fmt: skip
    response = cluster.api.post(cluster.path("events", "events.k8s.io/v1"), event)
    assert response.status == 422
    assert "failed expression: request.resource.group" in response.message


def test_params(cluster):
    """A policy reads the parameter object that its binding names."""
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    limit = cluster.create(
        "/api/v1/namespaces/default/configmaps",
        {"metadata": {"name": cluster.namespace, "labels": {"l": "1"}}, "data": {"max": "3"}},
    )
    reference = {"name": limit["metadata"]["name"], "namespace": "default"}
    cluster.validate(
        "object.spec.replicas <= int(params.data.max)",
        resource=DEPLOYMENTS,
        paramKind=kind,
        binding={"paramRef": {**reference, "parameterNotFoundAction": "Deny"}},
    )
    assert cluster.api.post(cluster.deployments, deployment("a", 3)).status == 201
    assert cluster.api.post(cluster.deployments, deployment("b", 4)).status == 422
    path = f"/api/v1/namespaces/default/configmaps/{cluster.namespace}"
    assert cluster.api.patch(path, {"data": {"max": "4"}}).status == 200
    assert cluster.api.post(cluster.deployments, deployment("b", 4)).status == 201
    assert cluster.api.delete(path).status == 200
    response = cluster.api.post(cluster.deployments, deployment("c", 1))
    assert response.status == 422
    assert response.message.endswith(
        "denied request: failed to configure binding: no params found for policy binding with "
        "`Deny` parameterNotFoundAction"
    )


def test_params_by_selector(cluster):
    """A policy is evaluated for each parameter object that the selector of the binding selects, in
    the namespace of the request."""
    cluster.create(cluster.path("secrets"), {"metadata": {"name": "s", "labels": {"limit": "a"}}})
    cluster.validate(
        {
            "expression": "object.metadata.name != params.metadata.name",
            "messageExpression": "'not as ' + params.metadata.name",
        },
        paramKind={"apiVersion": "v1", "kind": "Secret"},
        binding={
            "paramRef": {
                "selector": {"matchLabels": {"limit": "a"}},
                "parameterNotFoundAction": "Allow",
            }
        },
    )
    assert cluster.config_map("a").status == 201
    assert cluster.config_map("s").message.endswith("denied request: not as s")
    cluster.create(cluster.path("secrets"), {"metadata": {"name": "t", "labels": {"limit": "a"}}})
    assert cluster.config_map("t").message.endswith("denied request: not as t")
    for name in "st":
        assert cluster.api.delete(f"{cluster.path('secrets')}/{name}").status == 200
    assert cluster.config_map("t").status == 201


CONFIGURATION_ERRORS = [
    (
        {"apiVersion": "rules.example.com/v1", "kind": "Limit"},
        {"name": "a", "parameterNotFoundAction": "Deny"},
        "failed to configure policy: failed to find resource referenced by paramKind: "
        "'rules.example.com/v1, Kind=Limit'",
    ),
    (
        {"apiVersion": "v1", "kind": "Node"},
        {"name": "a", "namespace": "default", "parameterNotFoundAction": "Deny"},
        "failed to configure binding: paramRef.namespace must not be provided for a "
        "cluster-scoped `paramKind`",
    ),
]


@pytest.mark.parametrize(("kind", "reference", "message"), CONFIGURATION_ERRORS)
def test_configuration_errors(cluster, kind, reference, message):
    """A policy whose parameters cannot be found refuses writes, unless failures are ignored."""
    binding, match = {"paramRef": reference}, {"namespaceSelector": cluster.selector}
    cluster.validate("true", paramKind=kind, binding=binding, match=match)
    assert cluster.config_map().message.endswith(f"denied request: {message}")
    other = Cluster(cluster.api)
    other.validate("true", paramKind=kind, binding=binding, failurePolicy="Ignore")
    assert other.config_map().status == 201


def test_authorizer(cluster):
    """Expressions ask the authorizer about the user, a service account, and the resource."""
    cluster.validate(
        "authorizer.requestResource.check('create').allowed()",
        "authorizer.group('').resource('pods').namespace('default').check('get').allowed()",
        "!authorizer.serviceAccount('default', 'nobody').group('').resource('secrets')"
        ".check('list').allowed()",
        "authorizer.path('/healthz').check('get').allowed()",
    )
    response = cluster.config_map()
    assert response.status == 201, response.message


def test_cost_limits(cluster):
    """An expression whose cost is above the limit refuses the write, and costs the client a bounded
    time."""
    cluster.validate("lists.range(100000).all(x, lists.range(100000).all(y, true))")
    response = cluster.config_map()
    assert response.status == 422
    assert response.message.endswith(
        "resulted in error: operation cancelled: actual cost limit exceeded"
    )


def test_budget(cluster):
    """The expressions of a policy share a budget: a search in a long text costs 900,000 of it."""
    search = "!object.data.text.contains(object.data.part)"
    cluster.validate(*[f"{search} && {number} > 0" for number in range(1, 20)])
    response = cluster.config_map(data={"text": "a" * 100_000, "part": "b" * 900})
    assert response.status == 422
    assert response.message.endswith(
        "validation failed due to running out of cost budget, no further validation rules will be "
        "run"
    )


def test_live_changes(cluster):
    """Changes of policies and bindings are in force with the next write."""
    name = cluster.validate("false")
    assert cluster.config_map("a").status == 422
    path = f"{GROUP}/{VALIDATING}ies/{name}"
    patch = {"spec": {"validations": [{"expression": "object.metadata.name != 'b'"}]}}
    assert cluster.api.patch(path, patch).status == 200
    assert cluster.config_map("a").status == 201
    assert cluster.config_map("b").status == 422
    assert cluster.api.delete(f"{GROUP}/{VALIDATING}ybindings/{name}").status == 200
    assert cluster.config_map("b").status == 201


def test_matching(cluster):
    """Object selectors, excluded rules, resource names and subresources are respected."""
    cluster.validate(
        "false",
        match={
            "objectSelector": {"matchLabels": {"checked": "yes"}},
            "excludeResourceRules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "resources": ["configmaps"],
                    "operations": ["CREATE"],
                    "resourceNames": ["free"],
                }
            ],
        },
    )
    labels = {"labels": {"checked": "yes"}}
    assert cluster.config_map("a").status == 201
    assert cluster.config_map("b", metadata=labels).status == 422
    assert cluster.config_map("free", metadata=labels).status == 201


def test_versions_of_the_rule(cluster):
    """A policy with matchPolicy Equivalent sees the object in the version of its rule."""
    hpas = {"apiGroups": ["autoscaling"], "apiVersions": ["v1"]}
    cluster.validate(
        "object.apiVersion == 'autoscaling/v1' && !has(object.spec.metrics)",
        "request.kind.version == 'v1' && request.requestKind.version == 'v2'",
        resource={**hpas, "resources": ["horizontalpodautoscalers"]},
    )
    body = {
        "metadata": {"name": "h"},
        "spec": {
            "maxReplicas": 3,
            "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
        },
    }
    path = cluster.path("horizontalpodautoscalers", "autoscaling/v2")
    response = cluster.api.post(path, body)
    assert response.status == 201, response.message


def test_policies_are_exempt(cluster):
    """No policy sees admission configuration, so that a fault in it can be mended."""
    resources = {
        "apiGroups": ["admissionregistration.k8s.io"],
        "apiVersions": ["*"],
        "resources": ["*"],
    }
    name = cluster.validate("false", resource=resources, operations=["*"])
    assert cluster.api.delete(f"{GROUP}/{VALIDATING}ies/{name}").status == 200


def test_reviews_are_exempt(cluster):
    """No policy sees reviews of access, which the cluster itself needs."""
    resources = {
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "resources": ["*"],
        "scope": "Namespaced",  # other tests share the server and its cluster-scoped objects
    }
    cluster.validate("false", resource=resources, operations=["*"])
    review = {
        "metadata": {"namespace": cluster.namespace},
        "spec": {"user": "jane", "resourceAttributes": {"namespace": cluster.namespace}},
    }
    path = cluster.path("localsubjectaccessreviews", "authorization.k8s.io/v1")
    assert cluster.api.post(path, review).status == 201
    assert cluster.config_map("a").status == 422


def test_metrics(cluster):
    """Decisions are counted by policy, binding, error and action."""
    name = cluster.validate("false", "object.data.nope == ''")
    condition = {"name": "a", "expression": "object.data.nope == ''"}
    other = cluster.validate("true", matchConditions=[condition])
    cluster.config_map()
    text = cluster.api.get("/metrics").body.decode()
    metric = "apiserver_admission_match_condition_evaluation_errors"
    lines = [line for line in text.splitlines() if line.startswith(metric)]
    (line,) = (line for line in lines if other in line)
    assert 'kind="policy"' in line
    labels = (
        'enforcement_action="deny",error_type="{}",policy="' + f'{name}",policy_binding="{name}"'
    )
    for error in ("no_error", "invalid_error"):
        line = "apiserver_validating_admission_policy_check_total{" + labels.format(error) + "} 1"
        assert sorted(line) in [sorted(each) for each in text.splitlines()]


def test_absent_object(cluster):
    """The object of a deletion is null, which has no fields, so that a policy can tell."""
    cluster.validate(
        "!has(object.spec) && object.?data.a.orValue('b') == 'b' && has(oldObject.kind)",
        operations=["DELETE"],
    )
    assert cluster.config_map(data={"a": "1"}).status == 201
    assert cluster.api.delete(f"{cluster.config_maps}/c").status == 200
    cluster.validate("object.metadata.name == 'd'", operations=["DELETE"])
    assert cluster.config_map("d").status == 201
    response = cluster.api.delete(f"{cluster.config_maps}/d")
    assert response.status == 422
    assert response.message.endswith("resulted in error: no such key: metadata")
