"""An extension API server in Python behind a host, which it asks about users and rights."""

from __future__ import annotations

import base64
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.apiserver.aggregation.aggregationkit import Authority, tls_of
from tests.apiserver.proxy.https_server import HttpsServer, Received, Reply
from tests.docs.blocks import ROOT
from tests.e2e.cluster import open_response
from tests.e2e.extension_programs import register, running_extension, running_host
from tests.e2e.programs import Kubectl, Server, kubectl_of
from tests.storage.etcd_server import free_port

PROGRAM = ROOT / "tests" / "extension" / "databases.py"
PATH = "/apis/example.com/v1/namespaces/default/databases"
DATABASE = """
apiVersion: example.com/v1
kind: Database
metadata: {name: one}
spec: {size: 6}
"""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The CA of front proxies and of the serving certificate of the extension API server."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def port() -> int:
    """The port of the extension API server, which the host must know before."""
    return free_port()


@pytest.fixture(scope="module")
def host(
    authority: Authority, port: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """The host."""
    with running_host(tmp_path_factory.mktemp("host"), authority, databases=port) as server:
        yield server


@pytest.fixture(scope="module")
def extension(
    host: Server, authority: Authority, port: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """The folder of an extension API server, whose APIServices are available."""
    folder = tmp_path_factory.mktemp("extension")
    flags = ("--secure-port", str(port), "--authorization-webhook-cache-unauthorized-ttl", "0s")
    with running_extension(folder, host.kubeconfig, authority, "databases", str(PROGRAM), *flags):
        register(host, authority, "databases", "example.com", "v1", "v1alpha1")
        yield folder


@pytest.fixture
def kubectl(host: Server, extension: Path) -> Kubectl:
    """kubectl with the host's administrator."""
    return kubectl_of(host)


def _direct(extension: Path, port: int, token: str) -> tuple[int, str]:
    """GET the databases from the extension API server itself."""
    context = ssl.create_default_context(cafile=str(extension / "certificates" / "ca.crt"))
    request = urllib.request.Request(f"https://127.0.0.1:{port}{PATH}")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, context=context, timeout=60) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_kubectl_through_the_host(kubectl: Kubectl) -> None:
    """The front proxy of the host names the user, whose rights are those of the host."""
    assert "created" in kubectl("apply", "-f", "-", stdin=DATABASE)
    assert kubectl("get", "db", "--no-headers").split() == ["one", "postgres", "6"]
    refused = kubectl("get", "db", "--as=anna", fails=True)
    assert 'User "anna" cannot list resource "databases" in API group "example.com"' in refused
    kubectl("create", "role", "readers", "--verb=get,list", "--resource=databases.example.com")
    kubectl("create", "rolebinding", "readers", "--role=readers", "--user=anna")
    assert kubectl("get", "db", "--no-headers", "--as=anna").split()[0] == "one"
    refused = kubectl("delete", "db", "one", "--as=anna", fails=True)
    assert 'User "anna" cannot delete resource "databases"' in refused


def test_tokens(kubectl: Kubectl, extension: Path, port: int) -> None:
    """A client that comes directly shows a token, which the host reviews."""
    kubectl("create", "serviceaccount", "robot")
    token = kubectl("create", "token", "robot").strip()
    status, text = _direct(extension, port, token)
    assert status == 403
    assert 'User \\"system:serviceaccount:default:robot\\" cannot list' in text
    role = ("clusterrole", "robots", "--verb=list", "--resource=databases.example.com")
    kubectl("create", *role)
    binding = ("--clusterrole=robots", "--serviceaccount=default:robot")
    kubectl("create", "rolebinding", "robots", *binding)
    status, text = _direct(extension, port, token)
    assert (status, json.loads(text)["kind"]) == (200, "DatabaseList")
    assert _direct(extension, port, "wrong")[0] == 401
    assert _direct(extension, port, "")[0] == 403


POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: small}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [example.com], apiVersions: [v1], resources: [databases], operations: [CREATE]}
  validations: [{expression: "object.spec.size <= 50", message: "no large databases"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: small}
spec: {policyName: small, validationActions: [Deny]}
"""


def test_policy_of_the_host(host: Server, kubectl: Kubectl, extension: Path, port: int) -> None:
    """A policy of the host takes effect for a client that comes directly, and through the
    aggregator."""
    kubectl("apply", "-f", "-", stdin=POLICY)
    context = ssl.create_default_context(cafile=str(extension / "certificates" / "ca.crt"))
    context.load_cert_chain(host.client_cert, host.client_key)
    kind = {"apiVersion": "example.com/v1", "kind": "Database"}
    large = {**kind, "metadata": {"name": "large"}, "spec": {"size": 60}}
    request = urllib.request.Request(
        f"https://127.0.0.1:{port}{PATH}?dryRun=All", data=json.dumps(large).encode(),
        headers={"Content-Type": "application/json"},
    )  # fmt: skip

    def refusal() -> str:
        """Return the refusal of a client that comes directly; "" if there is none yet."""
        try:
            with urllib.request.urlopen(request, context=context, timeout=60):
                return ""
        except urllib.error.HTTPError as error:
            with error:
                return str(json.load(error)["message"])

    denied = (
        "ValidatingAdmissionPolicy 'small' with binding 'small' denied request: no large databases"
    )
    while not refusal():
        pass
    assert refusal() == f'databases.example.com "large" is forbidden: {denied}'
    refused = kubectl("create", "-f", "-", stdin=json.dumps(large), fails=True)
    assert refused == f'The databases "large" is invalid: : {denied}\n'
    kubectl("delete", "-f", "-", stdin=POLICY)


def test_users_of_the_host(host: Server, extension: Path, port: int) -> None:
    """A client that comes directly may show a certificate of the host's CA."""
    context = ssl.create_default_context(cafile=str(extension / "certificates" / "ca.crt"))
    context.load_cert_chain(host.client_cert, host.client_key)
    url = f"https://127.0.0.1:{port}{PATH}"
    with urllib.request.urlopen(url, context=context, timeout=60) as response:
        assert json.load(response)["kind"] == "DatabaseList"


def _database(name: str, **metadata: object) -> str:
    kind = {"apiVersion": "example.com/v1", "kind": "Database", "spec": {"size": 5}}
    return json.dumps({**kind, "metadata": {"name": name, **metadata}})


def _dry_run(host: Server, database: str, namespace: str = "default") -> Any:
    """Return the answer to a POST through the host, which may be a refusal."""
    path = f"/apis/example.com/v1/namespaces/{namespace}/databases?dryRun=All"
    with open_response(host, "POST", path, json.loads(database)) as response:
        return json.load(response)


def _owner(kubectl: Kubectl, kind: str, name: str) -> dict[str, object]:
    """Return a reference to an object that exists."""
    obj = json.loads(kubectl("get", kind, name, "-o", "json"))
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": name,
        "uid": obj["metadata"]["uid"],
        "blockOwnerDeletion": True,
    }


def test_garbage_collection(kubectl: Kubectl) -> None:
    """The garbage collector deletes the dependents of deleted owners, whichever server has them."""
    kubectl("create", "configmap", "settings")
    owner = _owner(kubectl, "configmap", "settings")
    kubectl("create", "-f", "-", stdin=_database("owned", ownerReferences=[owner]))
    kubectl("delete", "configmap", "settings")
    kubectl("wait", "--for=delete", "db/owned", "--timeout=60s")

    kubectl("create", "-f", "-", stdin=_database("owner"))
    owner = _owner(kubectl, "db", "owner")
    metadata = {"name": "dependent", "ownerReferences": [owner]}
    dependent = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    kubectl("create", "-f", "-", stdin=json.dumps(dependent))
    kubectl("create", "-f", "-", stdin=_database("sibling", ownerReferences=[owner]))
    kubectl("delete", "db", "owner", "--cascade=foreground")
    for name in ("configmap/dependent", "db/sibling"):
        kubectl("wait", "--for=delete", name, "--timeout=60s")
    assert "not found" in kubectl("get", "db", "owner", fails=True)


@pytest.mark.slow
def test_orphans(kubectl: Kubectl) -> None:
    """An owner that is deleted with the policy Orphan leaves its dependents, without references."""
    kubectl("create", "-f", "-", stdin=_database("parent"))
    owner = _owner(kubectl, "db", "parent")
    kubectl("create", "-f", "-", stdin=_database("orphan", ownerReferences=[owner]))
    kubectl("delete", "db", "parent", "--cascade=orphan")
    kubectl("wait", "--for=delete", "db/parent", "--timeout=60s")
    assert kubectl("get", "db", "orphan", "-o", "jsonpath={.metadata.ownerReferences}") == ""
    kubectl("delete", "db", "orphan")


@pytest.mark.slow
def test_quota(kubectl: Kubectl) -> None:
    """A quota shows how many objects the extension API server has in the namespace."""
    kubectl("create", "namespace", "counted")
    kubectl("create", "-n", "counted", "-f", "-", stdin=_database("one"))
    kubectl("create", "quota", "q", "-n", "counted", "--hard=count/databases.example.com=5")
    used = r"jsonpath={.status.used.count/databases\.example\.com}=1"
    kubectl("wait", f"--for={used}", "-n", "counted", "quota/q", "--timeout=60s")
    kubectl("delete", "namespace", "counted", "--timeout=60s")


def test_deletion_of_a_namespace(host: Server, kubectl: Kubectl) -> None:
    """A namespace goes when the extension API server has deleted its objects. While it terminates,
    the extension API server refuses new ones, as the host does."""
    kubectl("create", "namespace", "passing")
    finalizer = {"namespace": "passing", "finalizers": ["example.com/wait"]}
    kubectl("create", "-f", "-", stdin=_database("held", **finalizer))
    kubectl("create", "-n", "passing", "-f", "-", stdin=_database("free"))
    kubectl("delete", "namespace", "passing", "--wait=false")
    kubectl("wait", "--for=delete", "-n", "passing", "db/free", "--timeout=60s")
    condition = (
        "--for=jsonpath={.status.conditions[?(@.type=='NamespaceContentRemaining')].message}"
    )
    text = "Some resources are remaining: databases.example.com. has 1 resource instances"
    kubectl("wait", f"{condition}={text}", "namespace/passing", "--timeout=60s")
    # The extension API server's copy of the namespace may be late.
    while (answer := _dry_run(host, _database("late"), "passing"))["kind"] != "Status":
        pass
    assert (answer["code"], answer["message"]) == (
        403,
        'databases.example.com "late" is forbidden: unable to create new content in namespace '
        "passing because it is being terminated",
    )
    assert answer["details"]["causes"] == [
        {
            "reason": "NamespaceTerminating",
            "message": "namespace passing is being terminated",
            "field": "metadata.namespace",
        }
    ]
    patch = '{"metadata": {"finalizers": null}}'
    kubectl("patch", "-n", "passing", "db", "held", "--type=merge", "-p", patch)
    kubectl("wait", "--for=delete", "namespace/passing", "--timeout=60s")


@pytest.mark.slow
def test_namespace_while_an_extension_is_dead(kubectl: Kubectl) -> None:
    """A namespace stays while an extension API server does not answer: it may have objects there.
    All other content is deleted."""
    spec = {
        "group": "dead.example.com",
        "version": "v1",
        "groupPriorityMinimum": 1000,
        "versionPriority": 15,
        "insecureSkipTLSVerify": True,
        "service": {"namespace": "default", "name": "absent"},
    }
    service = {"kind": "APIService", "apiVersion": "apiregistration.k8s.io/v1", "spec": spec}
    metadata = {"name": "v1.dead.example.com"}
    kubectl("create", "-f", "-", stdin=json.dumps({**service, "metadata": metadata}))
    kubectl("create", "namespace", "unsure")
    kubectl("create", "-n", "unsure", "-f", "-", stdin=_database("one"))
    kubectl("delete", "namespace", "unsure", "--wait=false")
    text = (
        "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of "
        "server APIs: dead.example.com/v1: stale GroupVersion discovery: dead.example.com/v1"
    )
    _wait_for_condition(kubectl, "unsure", "NamespaceDeletionDiscoveryFailure", text)
    assert kubectl("get", "db", "-n", "unsure", "-o", "name") == ""
    kubectl("delete", "apiservice", "v1.dead.example.com")
    kubectl("wait", "--for=delete", "namespace/unsure", "--timeout=60s")


def _wait_for_condition(kubectl: Kubectl, namespace: str, type_: str, message: str) -> None:
    path = f"jsonpath={{.status.conditions[?(@.type=='{type_}')].message}}"
    kubectl("wait", f"--for={path}={message}", f"namespace/{namespace}", "--timeout=60s")


MUTATION = """
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: labelled}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [example.com], apiVersions: [v1], resources: [databases], operations: [CREATE]}
  reinvocationPolicy: Never
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: 'Object{metadata: Object.metadata{labels: {"team": request.userInfo.username}}}'
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: labelled}
spec: {policyName: labelled}
"""


def test_mutating_policy_of_the_host(kubectl: Kubectl) -> None:
    """A mutating policy of the host changes what a client sends through the aggregator."""
    kubectl("apply", "-f", "-", stdin=MUTATION)
    team = ("create", "--dry-run=server", "-f", "-", "-o", "jsonpath={.metadata.labels.team}")
    while not (label := kubectl(*team, stdin=_database("labelled"))):
        pass
    assert label == "kubernetes-admin"
    kubectl("delete", "-f", "-", stdin=MUTATION)


class _Pair:
    """The credentials of a webhook."""

    def __init__(self, authority: Authority) -> None:
        self.ca = authority.files.certificate
        self._pair = authority.issue("localhost")

    def server_context(self) -> ssl.SSLContext:
        return tls_of(self._pair)


def _respond(received: Received) -> Reply:
    """Set the size of the object to 7, or refuse an object by its name."""
    request = received.json["request"]
    response = {"uid": request["uid"], "allowed": True}
    if received.path.startswith("/mutate"):
        patch = [{"op": "replace", "path": "/spec/size", "value": 7}]
        encoded = base64.b64encode(json.dumps(patch).encode()).decode()
        response |= {"patchType": "JSONPatch", "patch": encoded}
    elif request["object"]["metadata"]["name"] == "refused":
        response |= {"allowed": False, "status": {"message": f"not {request['operation']}"}}
    return Reply({**received.json, "response": response})


@pytest.mark.slow
def test_webhooks_of_the_host(host: Server, kubectl: Kubectl, authority: Authority) -> None:
    """Webhooks of the host change and refuse what a client sends through the aggregator."""
    pair: Any = _Pair(authority)
    server = HttpsServer(pair, _respond)
    rule = {"apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["databases"],
            "operations": ["CREATE"]}  # fmt: skip
    for kind, name in (("Mutating", "mutate"), ("Validating", "validate")):
        webhook = {
            "name": f"{name}.example.com",
            "clientConfig": {
                "url": f"https://localhost:{server.port}/{name}",
                "caBundle": base64.b64encode(authority.pem.encode()).decode(),
            },
            "rules": [rule],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        configuration = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": f"{kind}WebhookConfiguration",
            "metadata": {"name": "databases"},
            "webhooks": [webhook],
        }
        kubectl("create", "-f", "-", stdin=json.dumps(configuration))
    try:
        while _dry_run(host, _database("changed"))["spec"]["size"] != 7:
            pass
        while (answer := _dry_run(host, _database("refused")))["kind"] != "Status":
            pass
        denied = 'admission webhook "validate.example.com" denied the request: not CREATE'
        assert (answer["code"], answer["message"]) == (400, denied)
    finally:
        for kind in ("mutating", "validating"):
            kubectl("delete", f"{kind}webhookconfiguration", "databases")
        server.end()
