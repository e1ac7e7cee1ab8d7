"""A real kubectl applies, compares, edits and replaces manifests in files."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from tests.e2e.manifests import CONFIG_MAP, DEPLOYMENT, POD, SECRET
from tests.e2e.programs import Kubectl

# kubectl 1.20 looks for the dryRun parameter where no server since 1.27 declares it.

UPDATED_DEPLOYMENT = DEPLOYMENT.replace("1.27", "1.28")
IMAGE = "jsonpath={.spec.template.spec.containers[0].image}"
KUSTOMIZATION = """
namePrefix: made-
commonAnnotations: {by: kustomize}
resources: [deployment.yaml]
configMapGenerator:
- name: settings
  literals: [a=1]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two files, one with two documents, and a kustomization."""
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "pod.yaml").write_text(POD)
    (tmp_path / "files" / "both.yaml").write_text(f"{CONFIG_MAP}---{SECRET}")
    (tmp_path / "kustomize").mkdir()
    (tmp_path / "kustomize" / "deployment.yaml").write_text(DEPLOYMENT)
    (tmp_path / "kustomize" / "kustomization.yaml").write_text(KUSTOMIZATION)
    return tmp_path


@pytest.fixture
def editor(tmp_path: Path) -> dict[str, str]:
    """Environment variables with an editor that replaces nginx:1.27 by nginx:1.30."""
    script = tmp_path / "editor.py"
    script.write_text(
        "import pathlib, sys\n"
        "path = pathlib.Path(sys.argv[1])\n"
        "path.write_text(path.read_text().replace('nginx:1.27', 'nginx:1.30'))\n"
    )
    return {"KUBE_EDITOR": shlex.join([sys.executable, str(script)])}


def managers(kubectl: Kubectl, name: str) -> set[tuple[str, str]]:
    """The managers of an object's fields, with their operation."""
    obj = json.loads(kubectl("get", name, "-o", "json", "--show-managed-fields"))
    return {
        (managed_field["manager"], managed_field["operation"])
        for managed_field in obj["metadata"]["managedFields"]
    }


def test_files_and_folders(kubectl: Kubectl, folder: Path) -> None:
    """A folder is applied, applied again without a change, and deleted."""
    files = ("-f", str(folder / "files"))
    names = ("configmap/settings", "secret/keys", "pod/web")
    assert kubectl("apply", *files).splitlines() == [f"{name} created" for name in names]
    assert kubectl("apply", *files).splitlines() == [f"{name} unchanged" for name in names]
    selected = kubectl("get", *files, "-l", "set=one", "-o", "name").splitlines()
    assert set(selected) == {"configmap/settings", "secret/keys"}
    kubectl("delete", *files, "--now")
    assert "not found" in kubectl("get", *files, fails=True)


@pytest.mark.slow
def test_kustomize(kubectl: Kubectl, folder: Path) -> None:
    """A kustomization is applied client-side and server-side, and deleted."""
    output = kubectl("apply", "-k", str(folder / "kustomize"))
    assert "deployment.apps/made-shop created" in output
    kubectl("apply", "-k", str(folder / "kustomize"), "--server-side", "--force-conflicts")
    annotation = "jsonpath={.metadata.annotations.by}"
    assert kubectl("get", "deployment", "made-shop", "-o", annotation) == "kustomize"
    kubectl("delete", "-k", str(folder / "kustomize"))


def test_dry_runs(newest: Kubectl) -> None:
    """Client and server dry runs print the result and store nothing."""
    for side, suffix in (("client", "(dry run)"), ("server", "(server dry run)")):
        created = newest("apply", f"--dry-run={side}", "-f", "-", stdin=DEPLOYMENT)
        assert created == f"deployment.apps/shop created {suffix}\n"
    assert "not found" in newest("get", "deployment", "shop", fails=True)
    image = newest("create", "--dry-run=server", "-f", "-", "-o", IMAGE, stdin=DEPLOYMENT)
    assert image == "nginx:1.27"
    newest("apply", "-f", "-", stdin=DEPLOYMENT)
    newest("apply", "--dry-run=server", "-f", "-", stdin=UPDATED_DEPLOYMENT)
    newest("set", "image", "--dry-run=server", "deployment/shop", "main=nginx:1.29")
    newest("delete", "--dry-run=server", "deployment", "shop")
    assert newest("get", "deployment", "shop", "-o", IMAGE) == "nginx:1.27"


def test_diff(newest: Kubectl) -> None:
    """diff shows what apply would change, client-side and server-side, and nothing if nothing would
    change."""
    assert "+kind: Deployment" in newest("diff", "-f", "-", stdin=DEPLOYMENT, fails=True)
    newest("apply", "-f", "-", stdin=DEPLOYMENT)
    assert newest("diff", "-f", "-", stdin=DEPLOYMENT) == ""
    for side in ((), ("--server-side", "--force-conflicts")):
        changed = newest("diff", *side, "-f", "-", stdin=UPDATED_DEPLOYMENT, fails=True)
        assert "-      - image: nginx:1.27\n+      - image: nginx:1.28\n" in changed
    assert newest("get", "deployment", "shop", "-o", IMAGE) == "nginx:1.27"


def test_server_side(kubectl: Kubectl, newest: Kubectl) -> None:
    """Server-side apply creates and changes an object, conflicts with another manager, and wins
    with force."""
    apply = ("apply", "--server-side", "-f", "-")
    assert kubectl(*apply, stdin=DEPLOYMENT) == "deployment.apps/shop serverside-applied\n"
    kubectl(*apply, stdin=UPDATED_DEPLOYMENT)
    assert kubectl("get", "deployment", "shop", "-o", IMAGE) == "nginx:1.28"
    error = kubectl(*apply, "--field-manager=other", stdin=DEPLOYMENT, fails=True)
    assert 'conflict with "kubectl"' in error
    assert '.spec.template.spec.containers[name="main"].image' in error
    kubectl(*apply, "--field-manager=other", "--force-conflicts", stdin=DEPLOYMENT)
    assert managers(newest, "deployment/shop") == {("kubectl", "Apply"), ("other", "Apply")}
    kubectl("scale", "deployment", "shop", "--replicas=7")
    without_replicas = DEPLOYMENT.replace("  replicas: 2\n", "")
    kubectl(*apply, "--force-conflicts", stdin=without_replicas)
    kubectl(*apply, "--field-manager=other", stdin=without_replicas)
    replicas = "jsonpath={.spec.replicas}"
    assert kubectl("get", "deployment", "shop", "-o", replicas) == "7"


def test_client_side_to_server_side(newest: Kubectl) -> None:
    """Server-side apply takes over an object of client-side apply."""
    newest("apply", "-f", "-", stdin=DEPLOYMENT)
    assert managers(newest, "deployment/shop") == {("kubectl-client-side-apply", "Update")}
    newest("apply", "--server-side", "-f", "-", stdin=UPDATED_DEPLOYMENT)
    assert managers(newest, "deployment/shop") == {
        ("kubectl", "Apply"),
        ("kubectl-last-applied", "Apply"),
    }
    assert newest("get", "deployment", "shop", "-o", IMAGE) == "nginx:1.28"
    output = newest("apply", "view-last-applied", "deployment/shop", "-o", "json")
    assert "nginx:1.28" in output
    newest("apply", "--server-side", "-f", "-", stdin=DEPLOYMENT.replace("  replicas: 2\n", ""))
    assert newest("get", "deployment", "shop", "-o", "jsonpath={.spec.replicas}") == "1"


@pytest.mark.slow
def test_last_applied(kubectl: Kubectl, tmp_path: Path, editor: dict[str, str]) -> None:
    """The annotation of client-side apply is shown, set and edited."""
    kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    (tmp_path / "later.yaml").write_text(UPDATED_DEPLOYMENT)
    kubectl("apply", "set-last-applied", "-f", str(tmp_path / "later.yaml"))
    assert "nginx:1.28" in kubectl("apply", "view-last-applied", "deployment/shop")
    kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    kubectl("apply", "edit-last-applied", "deployment/shop", **editor)
    assert "nginx:1.30" in kubectl("apply", "view-last-applied", "deployment/shop")


def test_prune(kubectl: Kubectl) -> None:
    """apply --prune deletes objects that are no longer in the manifests."""
    second_map = CONFIG_MAP.replace("name: settings", "name: other")
    flag = "--prune-allowlist" if "allowlist" in kubectl("apply", "--help") else "--prune-whitelist"
    prune = ("apply", "-f", "-", "--prune", "-l", "set=one", f"{flag}=core/v1/ConfigMap")
    kubectl(*prune, stdin=f"{CONFIG_MAP}---{second_map}")
    assert "configmap/other pruned" in kubectl(*prune, stdin=CONFIG_MAP)
    assert kubectl("get", "configmaps", "-l", "set=one", "-o", "name") == "configmap/settings\n"


def test_apply_sets(newest: Kubectl) -> None:
    """apply with an ApplySet deletes objects that are no longer in the set."""
    second_map = CONFIG_MAP.replace("name: settings", "name: other")
    apply = ("apply", "--server-side", "-f", "-", "--prune", "--applyset=mine")
    newest(*apply, stdin=f"{CONFIG_MAP}---{second_map}", KUBECTL_APPLYSET="true")
    assert "configmap/other pruned" in newest(*apply, stdin=CONFIG_MAP, KUBECTL_APPLYSET="true")
    assert newest("get", "configmaps", "-l", "set=one", "-o", "name") == "configmap/settings\n"


def test_edit(kubectl: Kubectl, editor: dict[str, str]) -> None:
    """edit stores the editor's change, does nothing without a change, and refuses invalid input."""
    kubectl("create", "-f", "-", stdin=DEPLOYMENT)
    assert kubectl("edit", "deployment", "shop", **editor) == "deployment.apps/shop edited\n"
    assert kubectl("get", "deployment", "shop", "-o", IMAGE) == "nginx:1.30"
    assert kubectl("edit", "deployment", "shop", KUBE_EDITOR="true") == ""
    wrong_editor = {"KUBE_EDITOR": editor["KUBE_EDITOR"].replace("editor.py", "wrong.py")}
    script = Path(shlex.split(editor["KUBE_EDITOR"])[1])
    text = script.read_text().replace("nginx:1.27", "name: main").replace("nginx:1.30", "name: _")
    script.with_name("wrong.py").write_text(text)
    error = kubectl("edit", "deployment", "shop", **wrong_editor, fails=True)
    assert "deployments.apps" in error
    assert "is invalid" in error


@pytest.mark.slow
def test_replace(kubectl: Kubectl, tmp_path: Path) -> None:
    """replace overwrites an object; with --force it deletes it first."""
    kubectl("create", "-f", "-", stdin=DEPLOYMENT)
    uid = "jsonpath={.metadata.uid}"
    first = kubectl("get", "deployment", "shop", "-o", uid)
    kubectl("replace", "-f", "-", stdin=UPDATED_DEPLOYMENT)
    assert kubectl("get", "deployment", "shop", "-o", IMAGE) == "nginx:1.28"
    assert kubectl("get", "deployment", "shop", "-o", uid) == first
    (tmp_path / "deployment.yaml").write_text(DEPLOYMENT)
    kubectl("replace", "--force", "-f", str(tmp_path / "deployment.yaml"))
    assert kubectl("get", "deployment", "shop", "-o", uid) != first
    absent = UPDATED_DEPLOYMENT.replace("name: shop", "name: other")
    assert "not found" in kubectl("replace", "-f", "-", stdin=absent, fails=True)
