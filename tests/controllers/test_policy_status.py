"""The status of validating admission policies: warnings of the type checker."""

from __future__ import annotations

from tests.apiserver.admission.policykit import DEPLOYMENTS, GROUP, VALIDATING, Cluster, rule
from tests.apiserver.customresources.customkit import establish
from tests.controllers.waiting import wait_until

POLICIES = f"{GROUP}/{VALIDATING}ies"


def checked(api, name, generation):
    def is_done(policy):
        status = (policy or {}).get("status") or {}
        return status.get("observedGeneration") == generation

    return wait_until(api, POLICIES, name, is_done)["status"]


def test_warnings(api):
    """A policy is checked when it is written, and again when its spec changes."""
    validation = {"expression": "object.spec.replicas > '1'"}
    spec = {"matchConstraints": {"resourceRules": [rule(DEPLOYMENTS)]}, "validations": [validation]}
    assert api.post(POLICIES, {"metadata": {"name": "checked"}, "spec": spec}).status == 201
    (warning,) = checked(api, "checked", 1)["typeChecking"]["expressionWarnings"]
    assert warning["fieldRef"] == "spec.validations[0].expression"
    assert "no matching overload for '_>_' applied to '(int, string)'" in warning["warning"]
    spec["validations"] = [{"expression": "object.spec.replicas > 1"}]
    assert api.patch(f"{POLICIES}/checked", {"spec": spec}).status == 200
    assert checked(api, "checked", 2) == {"observedGeneration": 2}
    api.delete(f"{POLICIES}/checked")


def test_custom_resources(api):
    """Policies for custom resources are checked against the schema of the definition."""
    cluster = Cluster(api)
    group = f"{cluster.namespace}.example.com"
    properties = {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": properties}}
    establish(
        api,
        {
            "metadata": {"name": f"things.{group}"},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"plural": "things", "kind": "Thing"},
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
            },
        },
    )
    things = {"apiGroups": [group], "apiVersions": ["v1"], "resources": ["things"]}
    name = cluster.validate(
        "object.spec.size > 1 && object.metadata.labels['a'] == 'b'",
        "object.spec.colour == 'red'",
        resource=things,
    )
    (warning,) = checked(api, name, 1)["typeChecking"]["expressionWarnings"]
    assert warning["fieldRef"] == "spec.validations[1].expression"
    assert f"{group}/v1, Kind=Thing: ERROR: <input>:1:12: undefined field" in warning["warning"]
