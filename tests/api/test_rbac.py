"""The rbac group: roles and role bindings."""

import pytest

from tests.api.test_columns import cells
from tests.objects import GONE, changed, defaulted, strategy, write_errors

GROUP = "rbac.authorization.k8s.io"
RULE = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
ROLE = {
    "kind": "Role",
    "apiVersion": f"{GROUP}/v1",
    "metadata": {"name": "system:r", "namespace": "n"},
    "rules": [RULE],
}
CLUSTER_ROLE = {**ROLE, "kind": "ClusterRole", "metadata": {"name": "r"}}
BINDING = defaulted(
    {
        "kind": "RoleBinding",
        "apiVersion": f"{GROUP}/v1",
        "metadata": {"name": "b", "namespace": "n"},
        "subjects": [
            {"kind": "User", "name": "u"},
            {"kind": "Group", "name": "g"},
            {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
        ],
        "roleRef": {"kind": "Role", "name": "r"},
    }
)
CLUSTER_BINDING = {
    **changed(BINDING, "roleRef/kind", "ClusterRole"),
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "b"},
}

NEW = [
    ("roles", ROLE, "", GONE, []),
    ("roles", ROLE, "rules/0/verbs", [], ["rules[0].verbs: Required value"]),
    ("clusterroles", CLUSTER_ROLE, "rules", [{"resources": ["pods"]}], [
        "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
        "rules[0].verbs: Required value",
    ]),
    ("roles", ROLE, "rules/0", {"verbs": ["get"]}, [
        "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
        "rules[0].resources: Required value: resource rules must supply at least one resource",
    ]),
    ("roles", ROLE, "rules/0", {"verbs": ["get"], "nonResourceURLs": ["/a"]}, [
        'rules[0].nonResourceURLs: Invalid value: ["/a"]: namespaced rules cannot apply to '
        "non-resource URLs"
    ]),
    ("clusterroles", CLUSTER_ROLE, "rules/0", {"verbs": ["get"], "nonResourceURLs": ["/a"]}, []),
    ("clusterroles", CLUSTER_ROLE, "rules/0", {**RULE, "nonResourceURLs": ["/a"]}, [
        'rules[0].nonResourceURLs: Invalid value: ["/a"]: rules cannot apply to both regular '
        "resources and non-resource URLs"
    ]),
    ("clusterroles", CLUSTER_ROLE, "rules/0",
     {**RULE, "resources": ["pods", "nodes"], "resourceNames": ["x"]}, [
        "rules[0].resourceNames: Required value: resource names cannot apply to multiple resources"
    ]),
    ("clusterroles", CLUSTER_ROLE, "aggregationRule", {}, [
        "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector "
        "required if aggregationRule is non-nil"
    ]),
    ("rolebindings", BINDING, "", GONE, []),
    ("rolebindings", BINDING, "roleRef/name", "", ["roleRef.name: Required value"]),
    ("rolebindings", BINDING, "roleRef/name", "a/b", [
        "roleRef.name: Invalid value: \"a/b\": may not contain '/'"
    ]),
    ("rolebindings", BINDING, "roleRef/kind", "Odd", [
        'roleRef.kind: Unsupported value: "Odd": supported values: "Role", "ClusterRole"'
    ]),
    ("rolebindings", BINDING, "subjects/0/name", "", [
        "subjects[0].name: Required value",
    ]),
    ("rolebindings", BINDING, "subjects/0/kind", "Odd", [
        'subjects[0].kind: Unsupported value: "Odd": supported values: '
        '"ServiceAccount", "User", "Group"'
    ]),
    ("rolebindings", BINDING, "subjects/2/apiGroup", GROUP, [
        f'subjects[2].apiGroup: Unsupported value: "{GROUP}": supported values: ""'
    ]),
    ("clusterrolebindings", CLUSTER_BINDING, "", GONE, []),
    ("clusterrolebindings", CLUSTER_BINDING, "roleRef/kind", "Role", [
        'roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"'
    ]),
    ("clusterrolebindings", CLUSTER_BINDING, "subjects/2/namespace", GONE, [
        "subjects[2].namespace: Required value"
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "base", "path", "value", "messages"), NEW)
def test_new(name, base, path, value, messages):
    """New roles and bindings are validated."""
    assert write_errors(name, changed(base, path, value)) == messages


@pytest.mark.parametrize("name", ["rolebindings", "clusterrolebindings"])
def test_immutable_role_ref(name):
    """The role of a binding is immutable."""
    base = BINDING if name == "rolebindings" else CLUSTER_BINDING
    kind = base["roleRef"]["kind"]
    new = changed(base, "roleRef/name", "other")
    new["subjects"] = [{"kind": "ServiceAccount", "namespace": "n"}]
    assert write_errors(name, new, base) == [
        f'roleRef: Invalid value: {{"APIGroup":"{GROUP}","Kind":"{kind}","Name":"other"}}: '
        "field is immutable",
        "subjects[0].name: Required value",
    ]


def test_names():
    """Any path segment is a valid name."""
    for name, messages in (("system:node", []), ("A b", []), ("a/b", ["may not contain '/'"])):
        assert strategy("clusterroles").check_name(name) == messages


def test_default_api_groups():
    """Roles, users and groups get the API group of rbac, service accounts do not."""
    assert BINDING["roleRef"]["apiGroup"] == GROUP
    assert [subject.get("apiGroup") for subject in BINDING["subjects"]] == [GROUP, GROUP, None]


def test_cells():
    """Columns show the role and its subjects."""
    row = cells("rolebindings", BINDING)
    del row["Age"]
    assert list(row.values()) == ["b", "Role/r", "u", "g", "n/s"]
