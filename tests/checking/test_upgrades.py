"""Releases, what was applied before, other users, and snapshots of clusters."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import kapiserver
from kapiserver.api.releases import NEWEST_MINOR, OLDEST_MINOR
from kapiserver.checking.finding import Finding
from kapiserver.checking.reading.documents import read_documents
from kapiserver.checking.reading.files import SourceFile
from kapiserver.cli import main
from kapiserver.testing import TestServer
from tests.checking.checks import check_text, places, rules

SELECTOR = "  selector: {matchLabels: {app: %s}}\n  template:\n    metadata: {labels: {app: %s}}\n"
POD_SPEC = "    spec: {containers: [{name: a, image: b}], restartPolicy: %s}\n"


def _workload(kind: str, version: str, spec: str, app: str = "web", restart: str = "Always") -> str:
    return (
        f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: web}}\nspec:\n{spec}"
        + SELECTOR % (app, app)
        + POD_SPEC % restart
    )


def _claim(size: str, mode: str) -> str:
    return (
        "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c}\nspec:\n"
        f"  accessModes: [{mode}]\n  resources: {{requests: {{storage: {size}}}}}\n"
    )


def _service(address: str) -> str:
    return (
        "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec:\n"
        f"  clusterIP: {address}\n  ports: [{{port: 80}}]\n"
    )


JOB = (
    "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec:\n"
    "  template: {spec: {restartPolicy: Never, containers: [{name: a, image: %s}]}}\n"
)
SECRET = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nimmutable: true\ndata: {a: %s}\n"


def _against(old: str, new: str) -> list[Finding]:
    reads = list(read_documents(SourceFile("old.yaml", old.encode())))
    return check_text(new, against=reads)


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        (_workload("Deployment", "apps/v1", ""), _workload("Deployment", "apps/v1", "", "x"),
         (5, 3)),
        (_workload("StatefulSet", "apps/v1", "  serviceName: ''\n"),
         _workload("StatefulSet", "apps/v1", "  serviceName: x\n"), (5, 3)),
        (JOB % "a", JOB % "b", (5, 3)),
        (_claim("1Gi", "ReadWriteOnce"), _claim("1Gi", "ReadOnlyMany"), (4, 1)),
        (_service("10.96.0.20"), _service("10.96.0.21"), (4, 1)),
        (SECRET % "YQ==", SECRET % "Yg==", (5, 1)),
    ],
)  # fmt: skip
def test_immutable_fields(old: str, new: str, place: tuple[int, int]) -> None:
    """A changed field that cannot be changed is an error at the field or above it."""
    errors = [finding for finding in _against(old, new) if finding.severity == "error"]
    assert rules(errors) == ["immutable-field"] * len(errors)
    assert places(errors)[0][:2] == place
    for unchanged in (old, new):
        assert set(rules(_against(unchanged, unchanged))) <= {"missing-service"}


DEFINITION = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
"""
VERSION = """\
  - name: %s
    served: true
    storage: %s
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {%s}}}}}
"""
WIDGET = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nspec: {a: 1, b: 2}\n"
A, AB = "a: {type: integer}", "a: {type: integer}, b: {type: integer}"


def test_stored_versions() -> None:
    """A version in which objects are stored cannot be taken away."""
    old = DEFINITION + VERSION % ("v1", "true", AB)
    new = DEFINITION + VERSION % ("v2", "true", AB)
    assert rules(_against(old, new)) == ["stored-version"]
    assert _against(old, new + VERSION % ("v1", "false", AB)) == []


def test_lost_fields() -> None:
    """A field that a new version does not have is lost for the objects that are there."""
    old = f"{DEFINITION}{VERSION % ('v1', 'true', AB)}---\n{WIDGET}"
    new = DEFINITION + VERSION % ("v1", "true", AB) + VERSION % ("v2", "false", A)
    (finding,) = _against(old, new)
    assert places([finding]) == [(13, 5, "lost-field")]
    assert finding.message == "the version v2 loses spec.b of Widget w"


def test_lost_fields_of_a_cluster() -> None:
    """The objects of a cluster lose fields, too; those of other kinds do not count."""
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"b": "x"}}
    old = [*yaml.safe_load_all(f"{DEFINITION}{VERSION % ('v1', 'true', AB)}---\n{WIDGET}"), other]
    new = yaml.safe_load(DEFINITION + VERSION % ("v1", "true", A))
    (finding,) = kapiserver.check([new], cluster=old)
    assert finding.message == "the version v1 loses spec.b of Widget w"


@pytest.mark.parametrize(
    ("text", "release", "expected"),
    [
        ("apiVersion: batch/v1beta1\nkind: CronJob\n", 37,
         "Kubernetes 1.25 removed it; use batch/v1"),
        ("apiVersion: policy/v1beta1\nkind: PodSecurityPolicy\n", 31, "Kubernetes 1.25 removed it"),
        ("apiVersion: flowcontrol.apiserver.k8s.io/v1beta3\nkind: FlowSchema\n", 32,
         "Kubernetes 1.32 removed it; use flowcontrol.apiserver.k8s.io/v1"),
        ("apiVersion: resource.k8s.io/v1\nkind: DeviceClass\n", 33,
         "Kubernetes 1.34 is the first to serve it"),
        ("apiVersion: networking.k8s.io/v1\nkind: ServiceCIDR\n", 32,
         "Kubernetes 1.33 is the first to serve it"),
        ("apiVersion: nobody/v1\nkind: Thing\n", 37, "in version \"nobody/v1\""),
    ],
)  # fmt: skip
def test_releases(text: str, release: int, expected: str) -> None:
    """A version that a release does not serve names the release that removed or added it."""
    (finding,) = check_text(f"{text}metadata: {{name: x}}\n", release=f"1.{release}")
    assert finding.message.startswith("no matches for kind")
    assert finding.message.endswith(expected)
    is_removed = "removed" in expected
    assert finding.rule == ("removed-version" if is_removed else "unknown-kind")


@pytest.mark.parametrize("minor", range(OLDEST_MINOR, NEWEST_MINOR + 1))
def test_every_release(minor: int) -> None:
    """Every release of the table serves a Deployment, and knows no kind twice."""
    assert check_text(_workload("Deployment", "apps/v1", ""), release=f"1.{minor}") == []


ROLES = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: deployer, namespace: default}
rules:
- {apiGroups: [apps], resources: [deployments], verbs: [patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: deployer, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: deployer}
subjects:
- {kind: User, apiGroup: rbac.authorization.k8s.io, name: jane}
- {kind: ServiceAccount, namespace: ci, name: robot}
"""
CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"


@pytest.mark.parametrize("user", ["jane", "system:serviceaccount:ci:robot"])
def test_other_users(user: str) -> None:
    """A user may apply what roles allow; the rest is an error, and is checked too."""
    reads = list(read_documents(SourceFile("roles.yaml", ROLES.encode())))
    text = f"{_workload('Deployment', 'apps/v1', '')}---\n{CONFIG_MAP}dat: {{}}\n"
    findings = check_text(text, user=user, context=reads)
    denied = [finding for finding in findings if finding.rule == "not-allowed"]
    assert "cannot create resource" in denied[0].message
    assert denied[0].object == "Deployment web"
    assert f'User "{user}" cannot patch resource "configmaps"' in denied[1].message
    assert rules(findings) == ["not-allowed", "not-allowed", "unknown-field"]
    allowed = ROLES.replace("[patch]", "[patch, create]")
    reads = list(read_documents(SourceFile("roles.yaml", allowed.encode())))
    assert len(check_text(text, user=user, context=reads)) == 2


def test_snapshot_of_yaml(tmp_path: Path) -> None:
    """Objects of a cluster are there: references lead to them, selectors match their pods, and
    fields of other managers conflict."""
    managed = (
        "  managedFields:\n  - {manager: hpa, operation: Update, apiVersion: apps/v1, fieldsType: "
        "FieldsV1, fieldsV1: {'f:spec': {'f:replicas': {}}}}\n"
    )
    live = _workload("Deployment", "apps/v1", "  replicas: 5\n").replace(
        "metadata: {name: web}\n", f"metadata:\n  name: web\n  uid: a\n{managed}", 1
    )
    (tmp_path / "cluster").mkdir()
    (tmp_path / "cluster/all.yaml").write_text(f"{live}---\n{CONFIG_MAP}data: {{k: v}}\n")
    (tmp_path / "new.yaml").write_text(
        _workload("Deployment", "apps/v1", "  replicas: 2\n")
        + "---\napiVersion: v1\nkind: Service\nmetadata: {name: s}\n"
        + "spec: {ports: [{port: 80}], selector: {app: web}}\n"
    )
    arguments = ["check", str(tmp_path / "new.yaml"), "--cluster", str(tmp_path / "cluster")]
    assert main(arguments) == 1
    findings = kapiserver.check([], cluster=[])
    assert findings == []


def test_conflicts_with_other_managers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message of a conflict names the manager and the field."""
    test_snapshot_of_yaml(tmp_path)
    output = capsys.readouterr().out
    assert output.count("\n") == 1
    assert 'new.yaml:5:3: error: Deployment web: .spec.replicas: conflict with "hpa"' in output


def test_snapshot_of_a_test_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A recording of a test server is a snapshot."""
    with TestServer() as server:
        server.state.load(CONFIG_MAP + "data: {k: v}\n")
        server.record(tmp_path / "recording.json.gz")
    (tmp_path / "pod.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n"
        "  containers: [{name: a, image: b, envFrom: [{configMapRef: {name: a}}]}]\n"
    )
    arguments = ["check", "--strict", str(tmp_path / "pod.yaml")]
    assert main([*arguments, "--cluster", str(tmp_path / "recording.json.gz")]) == 0
    assert main(arguments) == 1
    assert "[missing-config-map]" in capsys.readouterr().out


def test_refused_objects_of_a_snapshot() -> None:
    """An object that the server does not take is a finding; the rest is there."""
    good = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    bad = good | {"metadata": {"name": "A"}}
    unknown = {"apiVersion": "a/v1", "kind": "B", "metadata": {"name": "a"}}
    findings = kapiserver.check([good], cluster=[unknown, bad, good])
    assert [(finding.rule, finding.severity) for finding in findings] == [
        ("not-loaded", "warning"),
        ("not-loaded", "warning"),
    ]


def test_definitions_beside_the_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--crds has definitions of kinds; a bad one is a finding too."""
    (tmp_path / "crds.yaml").write_text(DEFINITION + VERSION % ("v1", "true", A))
    (tmp_path / "w.yaml").write_text(WIDGET)
    arguments = ["check", str(tmp_path / "w.yaml")]
    assert main(arguments) == 1
    assert "[unknown-kind]" in capsys.readouterr().out
    assert main([*arguments, "--crds", str(tmp_path / "crds.yaml")]) == 1
    assert "w.yaml:4:14: error" in capsys.readouterr().out
    (tmp_path / "crds.yaml").write_text(DEFINITION + VERSION % ("v1", "true", AB))
    assert main([*arguments, "--crds", str(tmp_path / "crds.yaml")]) == 0


WEBHOOKS = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: w}
webhooks:
- name: w.example.com
  sideEffects: None
  admissionReviewVersions: [v1]
  clientConfig: {service: {name: a, namespace: b}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [configmaps]}]
---
"""
CONVERSION = (
    "  conversion:\n    strategy: Webhook\n    webhook: {conversionReviewVersions: [v1], "
    "clientConfig: {service: {name: a, namespace: b}}}\n"
)


def _converted(version: str) -> str:
    return (
        DEFINITION.replace("  versions:\n", f"{CONVERSION}  versions:\n")
        + VERSION % ("v1", str(version == "v1").lower(), AB)
        + VERSION % ("v2", str(version == "v2").lower(), AB)
    )


def test_webhooks_of_a_snapshot_are_not_called(tmp_path: Path) -> None:
    """Neither webhooks of admission nor of conversion are called, in YAML and in recordings."""
    state = f"{WEBHOOKS}{_converted('v2')}"
    (tmp_path / "cluster.yaml").write_text(state)
    (tmp_path / "new.yaml").write_text(f"{CONFIG_MAP}---\n{WIDGET}")
    arguments = ["check", "--strict", str(tmp_path / "new.yaml"), "--cluster"]
    assert main([*arguments, str(tmp_path / "cluster.yaml")]) == 0
    with TestServer() as server:
        server.state.load(state)
        server.record(tmp_path / "recording.json.gz")
    assert main([*arguments, str(tmp_path / "recording.json.gz")]) == 0


def test_bad_definitions_beside_the_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the server refuses of --crds is an error."""
    (tmp_path / "crds.yaml").write_text(DEFINITION.replace("Namespaced", "Galactic") + "  - {}\n")
    (tmp_path / "new.yaml").write_text(CONFIG_MAP)
    arguments = ["check", str(tmp_path / "new.yaml"), "--crds", str(tmp_path / "crds.yaml")]
    assert main(arguments) == 1
    assert "crds.yaml:6:3: error: CustomResourceDefinition" in capsys.readouterr().out
