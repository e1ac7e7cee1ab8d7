"""What the server says to manifests, with its places."""

from __future__ import annotations

import pytest

import kapiserver
from kapiserver.checking.finding import RULES
from tests.checking.checks import check_text, places, rules

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
      containers:
      - name: web
        image: nginx
"""
DEFINITION = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: widgets.example.com
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: integer, maximum: 10}
              color: {type: string}
            x-kubernetes-validations:
            - rule: "!has(self.color) || self.size > 1"
              message: colors need a size above 1
"""
POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: limits}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}
  validations:
  - expression: object.spec.replicas <= int(params.data.max)
    message: too many replicas
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: limits}
spec:
  policyName: limits
  validationActions: [Deny]
  paramRef: {name: limits, namespace: default, parameterNotFoundAction: Deny}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: limits, namespace: default}
data: {max: "2"}
"""
NAMESPACE = """\
apiVersion: v1
kind: Namespace
metadata:
  name: shop
  labels: {pod-security.kubernetes.io/enforce: baseline}
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: shop}
spec:
  containers:
  - name: a
    image: b
"""


def _join(*documents: str) -> str:
    return "---\n".join(documents)


def test_valid_manifests() -> None:
    """Valid manifests have no findings, whatever the order of their documents."""
    widget = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nspec: {size: 3}\n"
    assert check_text(_join(widget, POD, DEPLOYMENT, NAMESPACE, DEFINITION)) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (DEPLOYMENT + "  replica: 1\n", (15, 3, "unknown-field")),
        (DEPLOYMENT + "  replicas: many\n", (15, 3, "wrong-type")),
        (DEPLOYMENT + "  replicas: -1\n", (15, 3, "invalid-value")),
        (DEPLOYMENT + "  strategy: [\n", (15, 1, "not-yaml")),
        (DEPLOYMENT.replace("nginx", "nginx\n        image: b"), (15, 9, "duplicate-field")),
        (DEPLOYMENT.replace("nginx", '""'), (14, 9, "invalid-value")),
        (DEPLOYMENT.replace("app: web}\n  t", "app: x}\n  t"), (10, 7, "invalid-value")),
        (DEPLOYMENT.replace("apps/v1", "apps/v1beta1"), (1, 1, "removed-version")),
        (DEPLOYMENT.replace("apps/v1", "apps/v3"), (1, 1, "unknown-kind")),
        (DEPLOYMENT.replace("apps/v1", "a/b/c"), (1, 1, "unknown-kind")),
        (DEPLOYMENT.replace("kind", "kinds"), (1, 1, "not-an-object")),
        (DEPLOYMENT.replace("name: web\ns", "labels: {}\ns"), (3, 1, "no-name")),
        (POD, (3, 21, "namespace-not-found")),
    ],
)  # fmt: skip
def test_one_finding(text: str, expected: tuple[int, int, str]) -> None:
    """A single fault is found at its field."""
    line, column, rule = expected
    (finding,) = check_text(text)
    assert places([finding]) == [(line, column, rule)]
    assert (finding.severity, finding.file) == ("error", "f.yaml")


def test_all_faults_of_an_object() -> None:
    """Each cause of a Status is a finding of its own, with the words of the server."""
    text = DEPLOYMENT + "  replicas: -1\n  minReadySeconds: -2\n"
    assert [finding.message for finding in check_text(text)] == [
        "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
        "spec.minReadySeconds: Invalid value: -2: must be greater than or equal to 0",
    ]


def test_lines_of_later_documents_and_lists() -> None:
    """Lines count from the beginning of the file, in documents, lists and sequences."""
    item = "{apiVersion: v1, kind: ConfigMap, metadata: {name: A}}"
    text = _join("\n\n", f"kind: List\napiVersion: v1\nitems:\n- {item}\n", f"# x\n- {item}\n")
    findings = check_text(text)
    assert places(findings)[0] == (7, 48, "invalid-value")
    assert places(findings)[-1] == (10, 48, "invalid-value")


def test_custom_resources() -> None:
    """Custom objects are checked against the schemas and rules of definitions in the files."""
    widget = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: %s}\nspec: %s\n"
    text = _join(
        widget % ("a", "{size: 11}"),
        widget % ("b", "{size: 1, color: red}"),
        widget % ("c", "{size: 1, colour: red}"),
        DEFINITION,
    )
    assert places(check_text(text)) == [
        (4, 8, "invalid-value"),
        (9, 1, "invalid-value"),
        (14, 17, "unknown-field"),
    ]


def test_policies_and_their_parameters() -> None:
    """A policy judges objects that come before it in the files; its parameters are there."""
    text = _join(DEPLOYMENT + "  replicas: 3\n", POLICY)
    (finding,) = check_text(text)
    assert finding.rule == "policy"
    assert "too many replicas" in finding.message
    assert check_text(_join(DEPLOYMENT + "  replicas: 2\n", POLICY)) == []


def test_pod_security() -> None:
    """A pod that violates the standard of its namespace is an error."""
    privileged = POD + "    securityContext: {privileged: true}\n"
    assert rules(check_text(_join(privileged, NAMESPACE))) == ["pod-security"]


LIMITS = """\
apiVersion: v1
kind: LimitRange
metadata: {name: l}
spec: {limits: [{type: Container, max: {cpu: 1}}]}
"""
CRON_JOB = """\
apiVersion: batch/v1
kind: CronJob
metadata: {name: web, namespace: shop}
spec:
  schedule: "@daily"
  jobTemplate:
    spec:
      template:
        spec: {hostNetwork: true, restartPolicy: Never, containers: [{name: a, image: b}]}
"""


def test_pods_of_controllers() -> None:
    """A controller is accepted although its pods are refused: a warning at its template."""
    large = DEPLOYMENT + "        resources: {limits: {cpu: 2}}\n"
    (finding,) = check_text(_join(large, LIMITS))
    assert places([finding]) == [(8, 3, "limit-range")]
    assert finding.severity == "warning"
    assert finding.message == (
        'its pods are refused: pods "web-xxxxx" is forbidden: maximum cpu usage per Container is 1,'
        " but limit is 2"
    )
    assert check_text(_join(DEPLOYMENT + "        resources: {limits: {cpu: 1}}\n", LIMITS)) == []


def test_pod_security_of_controllers() -> None:
    """The server's own warning stands for the pods; without one, the check tries a pod."""
    assert places(check_text(_join(CRON_JOB, NAMESPACE))) == [(1, 1, "pod-security")]
    silent = NAMESPACE.replace("{pod", "{pod-security.kubernetes.io/warn: privileged, pod")
    assert places(check_text(_join(CRON_JOB, silent))) == [(8, 7, "pod-security")]


def test_quota_and_limit_range() -> None:
    """Quotas count the objects of the files, and limit ranges apply to their pods."""
    quota = (
        "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q, namespace: shop}\n"
        "spec: {hard: {pods: 1}}\n"
    )
    limits = (
        "apiVersion: v1\nkind: LimitRange\nmetadata: {name: l, namespace: shop}\n"
        "spec: {limits: [{type: Container, max: {cpu: 1}}]}\n"
    )
    second = POD.replace("name: p", "name: second")
    large = POD + "    resources: {limits: {cpu: 2}}\n"
    assert rules(check_text(_join(POD, second, quota, NAMESPACE))) == ["quota"]
    assert rules(check_text(_join(large, limits, NAMESPACE))) == ["limit-range"]


def test_warnings() -> None:
    """What the server warns of is a warning: deprecated versions, and its other warnings."""
    endpoints = "apiVersion: v1\nkind: Endpoints\nmetadata: {name: e}\n"
    text = _join(endpoints, NAMESPACE.replace("enforce", "warn"), POD + "  hostNetwork: true\n")
    findings = check_text(text)
    assert rules(findings) == ["deprecated-version", "pod-security"]
    assert {finding.severity for finding in findings} == {"warning"}


def test_webhooks_are_not_called() -> None:
    """Webhook configurations are validated; the server calls no other program."""
    webhook = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: w}
webhooks:
- name: w.example.com
  sideEffects: None
  admissionReviewVersions: [v1]
  clientConfig: {service: {name: a, namespace: b}}
  rules: [{apiGroups: [apps], apiVersions: [v1], operations: ["*"], resources: ["*"]}]
"""
    assert check_text(_join(webhook, DEPLOYMENT)) == []
    refused = check_text(webhook.replace("sideEffects: None", "sideEffects: Some"))
    assert places(refused) == [(6, 3, "invalid-value")]


def test_duplicate_objects() -> None:
    """The same object twice is a warning at its second place."""
    assert places(check_text(_join(DEPLOYMENT, DEPLOYMENT))) == [(19, 3, "duplicate-object")]


def test_python_api() -> None:
    """`kapiserver.check` takes objects; its findings have no file."""
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "dat": {}}
    (finding,) = kapiserver.check([config_map])
    assert (finding.rule, finding.object, finding.file) == ("unknown-field", "ConfigMap a", "")
    with pytest.raises(ValueError, match="not between"):
        kapiserver.check([config_map], release="1.99")
    with pytest.raises(TypeError, match="an object must be a mapping, not 'apiVersion'"):
        kapiserver.check(config_map)  # type: ignore[arg-type]


def test_generated_names() -> None:
    """An object whose name the server generates is created."""
    assert check_text(POD.replace("name: p, namespace: shop", "generateName: p-")) == []


def test_every_rule_has_a_meaning() -> None:
    """The table of rules has a sentence for each name."""
    assert all(meaning.endswith(".") for meaning in RULES.values())
