"""Policies with hostile expressions, their audit annotations, and access to their parameters."""

from __future__ import annotations

import asyncio
import gc
import json
import weakref

import pytest

from kapiserver.api.resource_client import StatusError
from kapiserver.api.strategy import ValidationTakesLong
from kapiserver.apiserver.admission.expressions import Activation
from kapiserver.apiserver.admission.policies.composition import Composition
from kapiserver.apiserver.admission.policies.source import PolicySource
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.caller import AuditNotes, Warnings
from kapiserver.apiserver.request_info import parse_request_info
from kapiserver.apiserver.target import target_of
from kapiserver.apiserver.user import User
from tests.apiserver.admission.pluginkit import JANE, run
from tests.apiserver.admission.policykit import CONFIG_MAPS, GROUP, VALIDATING, Cluster, rule
from tests.objects import strategy

VERSION = "admissionregistration.k8s.io/v1"
POLICIES, BINDINGS = "validatingadmissionpolicies", "validatingadmissionpolicybindings"


@pytest.fixture
def cluster(api):
    return Cluster(api)


def spec(*validations, **fields):
    return {
        "matchConstraints": {"resourceRules": [rule(CONFIG_MAPS)]},
        "validations": [{"expression": each} for each in validations],
        **fields,
    }


REFUSED = [
    "(" * 5000 + "true" + ")" * 5000,
    "[1].all(x, " * 100 + "true" + ")" * 100,
    "!" * 50_001 + "1",
    "object.a" + ".a" * 5000 + " == 1",
    "'" + "a" * 50_000,
    "Object{" * 300 + "}" * 300 + " == 1",
    "'\\ud800' == 'a'",
    "true /* */ && \x00",
]


@pytest.mark.parametrize("expression", REFUSED, ids=range(len(REFUSED)))
def test_hostile_policies(cluster, expression):
    """A policy whose expression is hostile is refused as invalid."""
    body = {"metadata": {"name": "hostile"}, "spec": spec(expression)}
    response = cluster.api.post(f"{GROUP}/{VALIDATING}ies", body)
    assert (response.status, response.json["reason"]) == (422, "Invalid")


HOSTILE = {
    "object.data.a.matches('(a+)+$' + object.data.b)": {"a": "a" * 50_000 + "b", "b": "(x*)*"},
    "object.data.a.matches(object.data.b)": {"a": "a", "b": "(" * 1000},
    "object.data.a.matches(object.data.b + '')": {"a": "a", "b": "x{1000}{1000}"},
    "object.data.a.replace('', object.data.a).size() < 0": {"a": "a" * 50_000},
    "int(object.data.a) == 1": {"a": "9" * 10_000},
    "timestamp(object.data.a).getHours(object.data.a) == 1": {"a": "0000-00-00T00:00:00Z"},
    "quantity(object.data.a).isInteger() && false": {"a": "9e999999999"},
    "semver(object.data.a).major() == 1": {"a": "9" * 5000 + ".0.0"},
    "'%s'.format([object]).size() == 1 && object == oldObject": {"a": "1"},
    "[object, object] == [object] || object.data[object.data.a] == 1": {"a": "a"},
    "variables == params": {"a": "1"},
    "request.options.nope.nope == 1": {},
    "object.metadata.managedFields[99999999999].x == 1": {},
    "authorizer == authorizer && [1, 2].exists(x, authorizer.path('/' + string(x)).check('get')"
    ".allowed() && false) || false": {},
}


@pytest.mark.parametrize("expression", HOSTILE)
def test_hostile_evaluations(cluster, expression):
    """An evaluation of any cost and outcome refuses the write with a reason, never a 500."""
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    cluster.validate(expression, paramKind=kind, variables=[{"name": "v", "expression": "object"}])
    response = cluster.config_map(data=HOSTILE[expression])
    assert response.status == 422, response.message


def test_long_policies(cluster):
    """Many characters of expressions are compiled in a thread, when the policy is written and when
    a write first matches it."""
    terms = " && ".join(f"object.metadata.name != 'name-{number}'" for number in range(150))
    body = {"metadata": {"name": "long"}, "spec": spec(*[terms] * 8)}
    with pytest.raises(ValidationTakesLong) as caught:
        strategy(POLICIES).validate(body)
    complete = {**body["spec"], "failurePolicy": "Fail"}
    complete["matchConstraints"] |= {
        "matchPolicy": "Exact", "namespaceSelector": {}, "objectSelector": {},
    }  # fmt: skip
    assert caught.value.slow_strategy.validate({**body, "spec": complete}) == []
    cluster.validate(*[terms] * 8)
    assert cluster.config_map("name-149").status == 422
    assert cluster.config_map("other").status == 201


def test_many_parameters(cluster):
    """A policy is evaluated for hundreds of parameter objects, most of them in a thread."""
    labels = {"limit": "yes"}
    for number in range(300):
        metadata = {"name": f"limit-{number:03}", "labels": labels}
        cluster.create(cluster.path("secrets"), {"metadata": metadata})
    reference = {"selector": {"matchLabels": labels}, "parameterNotFoundAction": "Deny"}
    cluster.validate(
        {
            "expression": "object.metadata.name != params.metadata.name",
            "messageExpression": "'not as ' + params.metadata.name",
        },
        paramKind={"apiVersion": "v1", "kind": "Secret"},
        binding={"paramRef": reference},
    )
    assert cluster.config_map("other").status == 201
    assert cluster.config_map("limit-299").message.endswith("not as limit-299")


def test_changes_while_policies_are_indexed():
    """Writes see each policy that was created before them, however many are created meanwhile."""

    async def test(server):
        client = server.client(JANE, authorize=False)
        policies, bindings = (client.resource(VERSION, each) for each in (POLICIES, BINDINGS))
        config_maps = client.resource("v1", "configmaps", namespace="default")

        async def create(number):
            name = f"p{number}"
            policy = spec(f"object.metadata.name != 'c{number}'")
            await policies.create({"metadata": {"name": name}, "spec": policy})
            binding = {"policyName": name, "validationActions": ["Deny"]}
            await bindings.create({"metadata": {"name": name}, "spec": binding})
            with pytest.raises(StatusError):
                await config_maps.create({"metadata": {"name": f"c{number}"}})

        await asyncio.gather(*map(create, range(40)))

    run(test)


def test_variables_are_freed_at_once():
    """The variables of a write are in no cycle, which only the garbage collector would free."""
    variables = [
        {"name": "first", "expression": "object.k"},
        {"name": "second", "expression": "variables.first + 1"},
    ]
    composition = Composition({"variables": variables})
    activation = Activation(None, {"object": {"k": 1}})
    gc.disable()
    try:
        composed = activation.with_params(None, composition.variables)
        composed.variables.begin(1000)
        assert composed.values["variables"]["second"] == 2
        freed = weakref.ref(composed.variables)
        del composed
        assert freed() is None
    finally:
        gc.enable()


def test_index_is_kept_when_only_the_status_changes():
    """The status that the type checker writes changes no rule, so policies stay indexed."""

    async def test(server):
        client = server.client(JANE, authorize=False)
        policies, bindings = (client.resource(VERSION, each) for each in (POLICIES, BINDINGS))
        policy = await policies.create({"metadata": {"name": "p"}, "spec": spec("true")})
        binding = {"policyName": "p", "validationActions": ["Deny"]}
        await bindings.create({"metadata": {"name": "b"}, "spec": binding})
        source = PolicySource(server, POLICIES, BINDINGS, lambda spec: spec)
        source.start()
        attributes = attributes_of_create(server, "secrets")
        assert await source.candidates(attributes) == ()
        policy["status"] = {"typeChecking": {}, "observedGeneration": 1}
        policy = await policies.update(policy, subresource="status")
        assert source.is_idle(attributes)
        policy["spec"]["matchConstraints"]["resourceRules"][0]["resources"] = ["secrets"]
        await policies.update(policy)
        assert not source.is_idle(attributes)
        (candidate,) = await source.candidates(attributes)
        assert candidate.item.name == "p"
        source.stop()

    run(test)


def attributes_of_create(server, resource):
    """Return the attributes of the creation of an object in the default namespace."""
    info = parse_request_info("POST", f"/api/v1/namespaces/default/{resource}", {})
    target = target_of(server.scheme.kind_info(info.version, resource), server.stores, info)
    return Attributes(
        operation="CREATE",
        target=target,
        user=JANE,
        warnings=Warnings(),
        audit=AuditNotes(),
        name="x",
    )


def test_audit_annotations():
    """Annotations and failures are in the audit event; several values are joined."""
    limits = [{"metadata": {"name": name}, "data": {"max": name}} for name in ("1", "2")]

    async def test(server):
        client = server.client(JANE, authorize=False)
        for limit in limits:
            limit["metadata"]["labels"] = {"limit": "yes"}
            await client.resource("v1", "configmaps", namespace="default").create(limit)
        policy = spec(
            "object.metadata.name < 'a'",
            paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
            auditAnnotations=[
                {"key": "max", "valueExpression": "'at most ' + params.data.max"},
                {"key": "same", "valueExpression": "request.operation"},
                {"key": "null", "valueExpression": "null"},
                {"key": "empty", "valueExpression": "'  '"},
            ],
        )
        policy["validations"][0]["message"] = "<too late>"
        policies, bindings = (client.resource(VERSION, each) for each in (POLICIES, BINDINGS))
        await policies.create({"metadata": {"name": "p"}, "spec": policy})
        reference = {"selector": {"matchLabels": {"limit": "yes"}}, "namespace": "default"}
        binding = {
            "policyName": "p", "validationActions": ["Audit"],
            "paramRef": {**reference, "parameterNotFoundAction": "Deny"},
        }  # fmt: skip
        await bindings.create({"metadata": {"name": "b"}, "spec": binding})
        attributes = attributes_of_create(server, "configmaps")
        (validate,) = (
            step.hook
            for step in (await server.plugin_chain("configmaps", "CREATE")).validate
            if step.labels.name == "ValidatingAdmissionPolicy"
        )
        new = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
        await validate(server, attributes, new, None)
        failure = attributes.audit.annotations.pop(
            "validation.policy.admission.k8s.io/validation_failure"
        )
        assert "\\u003ctoo late\\u003e" in failure
        assert json.loads(failure) == [
            {
                "message": "<too late>", "policy": "p", "binding": "b", "expressionIndex": 0,
                "validationActions": ["Audit"],
            }
        ]  # fmt: skip
        assert attributes.audit.annotations == {"p/max": "at most 1, at most 2", "p/same": "CREATE"}

    run(test)


def test_failed_audit_annotations(cluster):
    """An audit annotation that fails refuses the write, unless failures are ignored."""
    annotations = [{"key": "k", "valueExpression": "object.data.nope + 'a'"}]
    cluster.validate("true", auditAnnotations=annotations)
    response = cluster.config_map()
    assert response.status == 422
    assert response.message.endswith("resulted in error: no such key: data")
    other = Cluster(cluster.api)
    other.validate("true", auditAnnotations=annotations, failurePolicy="Ignore")
    assert other.config_map().status == 201


def test_access_to_parameters():
    """A user needs the right to read the parameters of a policy or binding that they write, even
    if no admission plugin is enabled."""
    kim = User(name="kim", groups=("dev",))
    role = {
        "metadata": {"name": "reader"},
        "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]}],
    }
    binding = {
        "metadata": {"name": "reader"},
        "roleRef": {
            "kind": "ClusterRole", "name": "reader", "apiGroup": "rbac.authorization.k8s.io",
        },
        "subjects": [
            {"kind": "User", "name": "kim", "apiGroup": "rbac.authorization.k8s.io"}
        ],
    }  # fmt: skip

    async def test(server):
        jane, own = (server.client(user, authorize=False) for user in (JANE, kim))
        policy = {
            "metadata": {"name": "p"},
            "spec": spec("true", paramKind={"apiVersion": "v1", "kind": "ConfigMap"}),
        }
        bound = {
            "metadata": {"name": "b"},
            "spec": {
                "policyName": "p", "validationActions": ["Deny"],
                "paramRef": {"name": "c", "parameterNotFoundAction": "Deny"},
            },
        }  # fmt: skip
        policies, bindings = (own.resource(VERSION, each) for each in (POLICIES, BINDINGS))
        with pytest.raises(StatusError) as caught:
            await policies.create(policy)
        assert caught.value.code == 422
        assert str(caught.value).endswith(
            'spec.paramKind: Forbidden: user &{kim  [dev] map[]} must have "get" permission on all '
            "objects of the referenced paramKind (kind=ConfigMap, apiVersion=v1)"
        )
        await jane.resource(VERSION, POLICIES).create(policy)
        with pytest.raises(StatusError) as caught:
            await bindings.create(bound)
        assert str(caught.value).endswith(
            'spec.paramRef: Forbidden: user &{kim  [dev] map[]} does not have "get" permission on '
            "the object referenced by paramRef"
        )
        patch = {"metadata": {"labels": {"a": "b"}}}
        await policies.patch("p", patch)  # the paramKind stays
        rbac = "rbac.authorization.k8s.io/v1"
        await jane.resource(rbac, "clusterroles").create(role)
        await jane.resource(rbac, "clusterrolebindings").create(binding)
        await bindings.create(bound)
        await policies.create({**policy, "metadata": {"name": "q"}})

    run(test)
    run(test, plugins=())
