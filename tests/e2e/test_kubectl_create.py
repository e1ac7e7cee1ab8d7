"""A real kubectl creates objects from its arguments, and requests tokens and certificates."""

import base64
import json
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.e2e.manifests import CONFIG_MAP
from tests.e2e.programs import Kubectl, Server

GENERATORS = (
    "configmap c --from-literal=a=1 --from-file={folder}/ca.pem",
    "cronjob j --image=busybox --schedule=@hourly -- date",
    "deployment d --image=nginx",
    "ingress i --class=x --rule=a.example/path*=web:8080,tls=t",
    "job j --image=busybox -- date",
    "job k --from=cronjob/j",
    "poddisruptionbudget p --selector=a=b --min-available=1",
    "quota q --hard=configmaps=100,services.nodeports=9",
    "role r --verb=get,list --resource=pods,deployments.apps",
    "rolebinding r --role=r --serviceaccount=x:default",
    "secret generic g --from-literal=a=1",
    "secret docker-registry d --docker-server=x --docker-username=u --docker-password=p",
    "secret tls t --cert={folder}/client.pem --key={folder}/client.key",
    "service clusterip c --tcp=80:8080",
    "service nodeport n --tcp=80",
    "service loadbalancer l --tcp=80",
    "service externalname e --external-name=a.example",
    "serviceaccount s",
)
CLUSTER_SCOPED = (
    "clusterrole {name} --verb=get --resource=pods",
    "clusterrolebinding {name} --clusterrole={name} --user=me",
    "priorityclass {name} --value=1000",
    "namespace {name}-x",
)


# kubectl 1.20 creates cron jobs and budgets in API versions that were removed.
LATER = ("cronjob", "job k", "poddisruptionbudget")


def is_newest(kubectl: Kubectl) -> bool:
    """Whether this kubectl knows the current API versions."""
    return "--subresource" in kubectl("patch", "--help")


@pytest.mark.slow
def test_generators(server: Server, kubectl: Kubectl, namespace: str) -> None:
    """create works for every kind that kubectl has a generator for."""
    newest = is_newest(kubectl)
    values = {"folder": server.folder, "name": f"{namespace}-{'new' if newest else 'old'}"}
    for line in (*GENERATORS, *CLUSTER_SCOPED):
        if newest or not line.startswith(LATER):
            output = kubectl("create", *line.format_map(values).split())
            assert output.endswith(" created\n"), line
    (ingress,) = json.loads(kubectl("get", "ingresses", "-o", "json"))["items"]
    assert ingress["spec"]["rules"][0]["http"]["paths"][0]["pathType"] == "Prefix"
    types = kubectl("get", "services", "-o", "jsonpath={.items[*].spec.type}")
    assert types.split() == ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]
    types = kubectl("get", "secrets", "-o", "jsonpath={.items[*].type}").split()
    assert types == ["kubernetes.io/dockerconfigjson", "Opaque", "kubernetes.io/tls"]


def test_run(kubectl: Kubectl) -> None:
    """run creates a pod; admission adds a token, a priority and tolerations."""
    kubectl("run", "one", "--image=nginx", "--labels=a=b", "--env=A=1", "--", "sleep", "1")
    pod = json.loads(kubectl("get", "pod", "one", "-o", "json"))
    (container,) = pod["spec"]["containers"]
    assert container["args"] == ["sleep", "1"]
    assert container["env"] == [{"name": "A", "value": "1"}]
    assert container["volumeMounts"][0]["mountPath"].endswith("/serviceaccount")
    assert pod["metadata"]["labels"] == {"a": "b"}
    assert pod["spec"]["priority"] == 0
    assert len(pod["spec"]["tolerations"]) == 2


def test_tokens(newest: Kubectl) -> None:
    """A token of a service account can be created, and identifies it."""
    newest("create", "serviceaccount", "clerk")
    token = newest("create", "token", "clerk", "--duration=10m", "--audience=shop")
    payload = token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    assert claims["aud"] == ["shop"]
    assert claims["sub"].endswith(":clerk")
    assert claims["exp"] - claims["iat"] == 600
    assert "not found" in newest("create", "token", "nobody", fails=True)


@pytest.fixture
def request_of_jane() -> str:
    """A certificate signing request, as base64 of PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "jane")])
    request = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    return base64.b64encode(request.public_bytes(serialization.Encoding.PEM)).decode()


@pytest.mark.slow
def test_certificates(kubectl: Kubectl, namespace: str, request_of_jane: str) -> None:
    """A CertificateSigningRequest is approved, and cannot be denied after that."""
    manifest = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": namespace},
        "spec": {
            "request": request_of_jane,
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth"],
        },
    }
    kubectl("create", "-f", "-", stdin=json.dumps(manifest))
    assert "Pending" in kubectl("get", "csr", namespace)
    kubectl("certificate", "approve", namespace)
    assert "Approved" in kubectl("get", "csr", namespace)
    condition = "jsonpath={.status.conditions[0].reason}"
    assert kubectl("get", "csr", namespace, "-o", condition) == "KubectlApprove"
    kubectl("certificate", "deny", namespace, fails=True)
    kubectl("delete", "csr", namespace)


def test_raw(kubectl: Kubectl, namespace: str) -> None:
    """create, replace, get and delete with --raw send requests to a path."""
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    manifest = json.dumps({"metadata": {"name": "raw"}})
    created = json.loads(kubectl("create", "--raw", path, "-f", "-", stdin=manifest))
    assert created["metadata"]["name"] == "raw"
    kubectl("replace", "--raw", f"{path}/raw", "-f", "-", stdin=json.dumps(created))
    assert json.loads(kubectl("get", "--raw", f"{path}/raw"))["metadata"]["uid"]
    kubectl("delete", "--raw", f"{path}/raw")
    assert "not found" in kubectl("get", "configmap", "raw", fails=True)


def test_save_config(kubectl: Kubectl, tmp_path: Path) -> None:
    """An object created with --save-config can be applied later without a warning."""
    kubectl("create", "--save-config", "-f", "-", stdin=CONFIG_MAP)
    assert kubectl("apply", "-f", "-", stdin=CONFIG_MAP) == "configmap/settings unchanged\n"
