"""RBAC's bootstrap policy, and the aggregation of cluster roles."""

from __future__ import annotations

import json

import pytest

from kapiserver.apiserver.authorization.policy_rules import rule
from kapiserver.apiserver.config import FeatureSettings
from kapiserver.apiserver.runtime_config import make_scheme
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.codecs.media_types import MEDIA_TYPES
from kapiserver.controllers.defaults.bootstrap import canonical_tree
from kapiserver.controllers.rbac.bootstrap import completed
from kapiserver.controllers.rbac.policy import bootstrap_policy
from kapiserver.controllers.registry import REGISTRY
from tests.controllers.bootstrap_policy import TABLE as BOOTSTRAP_TABLE
from tests.controllers.bootstrap_policy import lines as bootstrap_lines
from tests.controllers.waiting import wait_until

RBAC = "/apis/rbac.authorization.k8s.io/v1"
AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"


def test_policy(make_server, tmp_path):
    """A second start restores missing rules and subjects, and keeps added ones and roles whose
    annotation forbids updates."""
    storage = f"sqlite:{tmp_path}/store.db"
    server = make_server(storage=storage, controllers=("-*",))
    api = server.api
    for desired in bootstrap_policy():
        metadata = desired.tree["metadata"]
        namespace = metadata.get("namespace")
        below = f"namespaces/{namespace}/" if namespace else ""
        present = api.get(f"{RBAC}/{below}{desired.resource}/{metadata['name']}").json
        for field in ("rules", "aggregationRule", "roleRef", "subjects"):
            assert present.get(field) == desired.tree.get(field), (metadata["name"], field)
        assert present["metadata"]["annotations"] == {AUTOUPDATE: "true"}
    added = rule("get", "example.com", "widgets")
    view = api.get(f"{RBAC}/clusterroles/system:aggregate-to-view").json
    api.put(f"{RBAC}/clusterroles/system:aggregate-to-view", view | {"rules": [added]})
    marked = {"metadata": {"annotations": {AUTOUPDATE: "false"}}, "rules": []}
    api.patch(f"{RBAC}/clusterroles/system:kube-dns", marked)
    api.delete(f"{RBAC}/clusterrolebindings/system:discovery")
    server.end()
    api = make_server(storage=storage, controllers=("-*",)).api
    rules = api.get(f"{RBAC}/clusterroles/system:aggregate-to-view").json["rules"]
    assert rules[0] == added
    assert rule("get", "", "").items() <= {**rules[1], "apiGroups": [], "resources": []}.items()
    assert api.get(f"{RBAC}/clusterroles/system:kube-dns").json["rules"] is None
    assert api.get(f"{RBAC}/clusterrolebindings/system:discovery").status == 200


def test_policy_of_kubernetes():
    """The roles and bindings are those of Kubernetes 1.37."""
    lines = bootstrap_lines(each.tree for each in bootstrap_policy())
    assert lines == BOOTSTRAP_TABLE.read_text().splitlines()


def test_managed_fields(make_server):
    """Objects of the policy have the managedFields that a create by kube-apiserver would give."""
    api = make_server(controllers=("-*",)).api
    for desired in bootstrap_policy():
        metadata = desired.tree["metadata"]
        namespace = metadata.get("namespace")
        below = f"namespaces/{namespace}/" if namespace else ""
        path = f"{RBAC}/{below}{desired.resource}"
        (entry,) = api.get(f"{path}/{metadata['name']}").json["metadata"]["managedFields"]
        second_copy = desired.tree | {"metadata": metadata | {"name": "again"}}
        created = api.post(f"{path}?dryRun=All&fieldManager=kube-apiserver", second_copy)
        (expected,) = created.json["metadata"]["managedFields"]
        assert entry | {"time": ""} == expected | {"time": ""}, metadata["name"]
        assert json.dumps(entry["fieldsV1"]) == json.dumps(expected["fieldsV1"])


def test_completed_twice():
    """A complete object stays as it is."""
    for desired in bootstrap_policy():
        assert completed(desired.tree, desired.tree) == desired.tree


def test_policy_is_canonical():
    """The server stores the objects of the policy without decoding them first."""
    codecs = CodecFactory(make_scheme(FeatureSettings()), MEDIA_TYPES)
    for desired in bootstrap_policy():
        assert json.dumps(canonical_tree(codecs, desired.tree)) == json.dumps(desired.tree)


def test_controllers_have_roles():
    """Each service account that a controller writes as has a role in the policy, in all namespaces
    or in its own."""
    accounts = {
        descriptor.user.name.rpartition(":")[2]
        for descriptor in REGISTRY
        if descriptor.user.name.startswith("system:serviceaccount:kube-system:")
    }
    bound = {
        subject["name"]
        for desired in bootstrap_policy()
        for subject in desired.tree.get("subjects") or ()
        if subject["kind"] == "ServiceAccount"
    }
    assert accounts <= bound


def aggregated(name, label):
    selector = {"matchLabels": {label: "yes"}}
    return {"metadata": {"name": name}, "aggregationRule": {"clusterRoleSelectors": [selector]}}


def test_aggregation(api):
    """The rules of an aggregated role are those of the roles that it selects, without duplicates;
    they follow changes of these roles."""
    roles = f"{RBAC}/clusterroles"
    pods, nodes = rule("get", "core", "pods"), rule("list", "core", "nodes")
    for name, rules in (("agg-a", [pods]), ("agg-b", [nodes, pods])):
        metadata = {"name": name, "labels": {"aggregate-here": "yes"}}
        assert api.post(roles, {"metadata": metadata, "rules": rules}).status == 201
    assert api.post(roles, aggregated("agg-sum", "aggregate-here")).status == 201
    wait_until(api, roles, "agg-sum", lambda obj: obj and obj["rules"] == [pods, nodes])
    assert api.delete(f"{roles}/agg-b").status == 200
    wait_until(api, roles, "agg-sum", lambda obj: obj["rules"] == [pods])
    secrets = rule("get", "core", "secrets")
    api.patch(f"{roles}/agg-a", {"rules": [secrets]})
    role = wait_until(api, roles, "agg-sum", lambda obj: obj["rules"] == [secrets])
    managers = {entry.get("manager") for entry in role["metadata"]["managedFields"]}
    assert "clusterrole-aggregation-controller" in managers


@pytest.mark.parametrize("name", ["admin", "edit", "view"])
def test_aggregated_roles_of_the_policy(api, name):
    """The server creates them as the controller would complete them: with the same rules, and the
    same managers."""
    roles = f"{RBAC}/clusterroles"
    role = api.get(f"{roles}/{name}").json
    copy = {"metadata": {"name": f"{name}-copy"}, "aggregationRule": role["aggregationRule"]}
    assert api.post(roles, copy).status == 201
    completed = wait_until(api, roles, f"{name}-copy", lambda obj: obj and obj["rules"])
    assert len(role["rules"]) > 10
    assert role["rules"] == completed["rules"]
    applied, created = role["metadata"]["managedFields"]
    by_controller = completed["metadata"]["managedFields"][0]
    assert applied | {"time": by_controller["time"]} == by_controller
    assert (created["manager"], created["operation"]) == ("kube-apiserver", "Update")
