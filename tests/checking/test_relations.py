"""What no server says: references, selectors, ports and names."""

from __future__ import annotations

import pytest

from tests.checking.checks import check_text, places, rules

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: web}}
spec:
  containers:
  - name: a
    image: b
    ports: [{name: http, containerPort: 80}]
"""
DATA = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: data}
data: {color: red}
binaryData: {image: AAAA}
---
apiVersion: v1
kind: Secret
metadata: {name: data}
data: {password: AAAA}
stringData: {user: root}
---
"""
SERVICE = """\
apiVersion: v1
kind: Service
metadata: {name: s}
spec:
  ports:
  - {port: 80, targetPort: %s}
  selector: {app: %s}
"""


@pytest.mark.parametrize(
    ("spec", "rule"),
    [
        ("serviceAccountName: robot", "missing-service-account"),
        ("serviceAccountName: default", ""),
        ("volumes: [{name: v, configMap: {name: other}}]", "missing-config-map"),
        ("volumes: [{name: v, configMap: {name: other, optional: true}}]", ""),
        ("volumes: [{name: v, configMap: {name: kube-root-ca.crt}}]", ""),
        ("volumes: [{name: v, configMap: {name: data, items: [{key: color, path: a}]}}]", ""),
        ("volumes: [{name: v, configMap: {name: data, items: [{key: x, path: a}]}}]",
         "missing-key"),
        ("volumes: [{name: v, secret: {secretName: other}}]", "missing-secret"),
        ("volumes: [{name: v, secret: {secretName: data, items: [{key: user, path: a}]}}]", ""),
        ("volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]", "missing-claim"),
        ("volumes: [{name: v, projected: {sources: [{secret: {name: x}}]}}]", "missing-secret"),
        ("volumes: [{name: v, projected: {sources: [{configMap: {name: data}}]}}]", ""),
        ("imagePullSecrets: [{name: x}]", "missing-secret"),
        ("initContainers: [{name: i, image: b, envFrom: [{configMapRef: {name: x}}]}]",
         "missing-config-map"),
        ("initContainers: [{name: i, image: b, envFrom: [{secretRef: {name: data}}]}]", ""),
        ("initContainers: [{name: i, image: b, env: [{name: A, valueFrom: {configMapKeyRef: "
         "{name: data, key: image}}}]}]", ""),
        ("initContainers: [{name: i, image: b, env: [{name: A, valueFrom: {secretKeyRef: "
         "{name: data, key: x}}}]}]", "missing-key"),
    ],
)  # fmt: skip
def test_references_of_pods(spec: str, rule: str) -> None:
    """A pod refers to accounts, claims, and to data and their keys; optional data may be absent."""
    findings = check_text(f"{DATA}{POD}  {spec}\n")
    if spec.startswith("serviceAccountName: robot"):  # the server refuses such a pod
        assert "refused" in rules(findings)
        findings = [finding for finding in findings if finding.severity == "warning"]
    if "initContainers" in spec or rule:
        findings = [finding for finding in findings if finding.rule != "server-warning"]
    assert rules(findings) == ([rule] if rule else [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c}\nspec:\n"
         "  storageClassName: fast\n  accessModes: [ReadWriteOnce]\n"
         "  resources: {requests: {storage: 1Gi}}\n", (5, 3, "missing-storage-class")),
        ("apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: h}\nspec:\n"
         "  maxReplicas: 2\n  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: x}\n",
         (6, 59, "missing-scale-target")),
        ("apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: i}\nspec:\n"
         "  defaultBackend: {service: {name: x, port: {number: 80}}}\n",
         (5, 30, "missing-service")),
        ("apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: r}\n"
         "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: x}\n",
         (4, 60, "missing-role")),
        ("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: r}\n"
         "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}\n"
         "subjects: [{kind: ServiceAccount, name: x, namespace: default}]\n",
         (5, 35, "missing-service-account")),
        ("apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: b}\nspec:\n"
         "  minAvailable: 1\n  selector: {matchLabels: {app: x}}\n",
         (6, 3, "selector-matches-nothing")),
        ("apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: net}\nspec:\n"
         "  podSelector: {matchExpressions: [{key: app, operator: In, values: [x]}]}\n",
         (5, 3, "selector-matches-nothing")),
        (SERVICE % ("80", "x"), (7, 3, "selector-matches-nothing")),
        (SERVICE % ("metrics", "web"), (6, 16, "undeclared-port")),
    ],
)  # fmt: skip
def test_references_of_other_kinds(text: str, expected: tuple[int, int, str]) -> None:
    """Other kinds refer to objects, pods and ports too."""
    findings = check_text(text + "---\n" + POD)
    assert places(findings) == [expected]
    assert findings[0].severity == "warning"


@pytest.mark.parametrize("port", ["http", "8080", "80"])
def test_ports_that_are_there(port: str) -> None:
    """A declared name is right, and a number need not be declared."""
    assert check_text(SERVICE % (port, "web") + "---\n" + POD) == []


def test_only_the_own_namespace_counts() -> None:
    """References and selectors lead to objects of the same namespace."""
    namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: other}\n---\n"
    moved = POD.replace("name: p,", "name: p, namespace: other,")
    findings = check_text(namespace + moved + "---\n" + SERVICE % ("80", "web"))
    assert rules(findings) == ["selector-matches-nothing"]


def test_refused_objects_exist() -> None:
    """A reference to an object that the server refuses is no second finding."""
    bad = DATA.replace("data: {color", "dat: {color")
    volume = "  volumes: [{name: v, configMap: {name: data}}]\n"
    assert rules(check_text(bad + POD + volume)) == ["unknown-field"]


@pytest.mark.parametrize(
    ("kind", "length", "collides"),
    [("Deployment", 58, True), ("Deployment", 57, False), ("DaemonSet", 60, True)],
)
def test_names_that_collide(kind: str, length: int, collides: bool) -> None:
    """The pods of two controllers whose names have a long common beginning have equal prefixes."""
    workload = (
        "apiVersion: apps/v1\nkind: %s\nmetadata: {name: %s}\nspec:\n  selector: {matchLabels: "
        "{app: x}}\n  template:\n    metadata: {labels: {app: x}}\n"
        "    spec: {containers: [{name: a, image: b}]}\n"
    )
    text = "---\n".join(workload % (kind, "n" * length + end) for end in ("a", "b"))
    assert rules(check_text(text)) == (["name-collision"] if collides else [])


@pytest.mark.parametrize(
    "text",
    [
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: 3}\nspec: [1]\n",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: {a: 1}, volumes: 3}\n",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [1], volumes: [x]}\n",
        "apiVersion: v1\nkind: Service\nmetadata: {name: p}\nspec: {selector: [1], ports: 1}\n",
        "apiVersion: v1\nkind: Service\nmetadata: {name: p}\nspec: {selector: {a: {b: c}}}\n",
        "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: b}\n"
        "spec: {selector: {matchLabels: [], matchExpressions: [{key: 1}]}}\n",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: [], namespace: 5}\ndata: 3\n",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: {}}\ndata: {a: {}}\n",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: 5\n",
        "apiVersion: 5\nkind: ConfigMap\n",
    ],
)
def test_values_of_other_types(text: str) -> None:
    """Values of unexpected types are errors of the server, and of no rule."""
    assert {finding.severity for finding in check_text(text)} == {"error"}
