"""NodeRestriction: what nodes may write. The cases are those of admission_test.go of Kubernetes."""

from __future__ import annotations

import base64
from collections.abc import Awaitable
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kapiserver.api.resource_client import StatusError
from kapiserver.apiserver.user import User
from tests.apiserver.authorization.nodekit import NODE_A, Cluster, run

MIRROR = {"kubernetes.io/config.mirror": "x"}


async def refusal(action: Awaitable[Any]) -> str:
    """The message of the error that a write is refused with, without the object."""
    with pytest.raises(StatusError) as caught:
        await action
    message: str = caught.value.status["message"]
    return message.partition(" is forbidden: ")[2] or message


async def mirror(cluster: Cluster, *, owner: Any = None, metadata: Any = None, **spec: Any) -> Any:
    """A mirror pod of node a with changes."""
    node = await cluster.resource("nodes", namespace="").get("a")
    reference = {
        "apiVersion": "v1", "kind": "Node", "name": "a", "uid": node["metadata"]["uid"],
        "controller": True, **(owner or {}),
    }  # fmt: skip
    base = {"name": "m", "annotations": MIRROR, "ownerReferences": [reference]}
    container = {"name": "c", "image": "i"}
    return {
        "metadata": {**base, **(metadata or {})},
        "spec": {"nodeName": "a", "containers": [container], **spec},
    }


def with_volume(**source: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "v", **source}]}


BUNDLE = {"clusterTrustBundle": {"name": "b", "path": "p"}}
OWN = 'node "a" can only create pods with '
MIRRORS = [
    ({"metadata": {"annotations": {}}},
     'pod does not have "kubernetes.io/config.mirror" annotation, node "a" can only create mirror '
     "pods"),
    ({"nodeName": "b"}, f"{OWN}spec.nodeName set to itself"),
    ({"metadata": {"ownerReferences": []}}, f"{OWN}an owner reference set to itself"),
    ({"owner": {"name": "b"}}, f"{OWN}an owner reference set to itself"),
    ({"owner": {"kind": "Pod"}}, f"{OWN}an owner reference set to itself"),
    ({"owner": {"apiVersion": "x/v1"}}, f"{OWN}an owner reference set to itself"),
    ({"owner": {"controller": False}}, f"{OWN}a controller owner reference set to itself"),
    ({"owner": {"blockOwnerDeletion": True}},
     'node "a" must not set blockOwnerDeletion on an owner reference'),
    ({"owner": {"uid": "x"}}, "node a UID mismatch: expected x got "),
    ({"serviceAccountName": "robot"},
     'node "a" can not create pods that reference a service account'),
    ({"imagePullSecrets": [{"name": "s"}]}, 'node "a" can not create pods that reference secrets'),
    (with_volume(configMap={"name": "c"}),
     'node "a" can not create pods that reference configmaps'),
    (with_volume(projected={"sources": [BUNDLE]}),
     'node "a" can not create pods that reference clustertrustbundles'),
    (with_volume(persistentVolumeClaim={"claimName": "c"}),
     'node "a" can not create pods that reference persistentvolumeclaims'),
]  # fmt: skip


def test_mirror_pods() -> None:
    """A node creates mirror pods of itself that name no other object, and deletes its own pods."""

    async def test(cluster: Cluster) -> None:
        pods = cluster.resource("pods", user=NODE_A)
        for changes, words in MIRRORS:
            body = await mirror(cluster, **changes)
            message = await refusal(pods.create(body))
            assert message.startswith(words), changes
        two = await mirror(cluster)
        two["metadata"]["ownerReferences"] *= 2
        two["metadata"]["ownerReferences"][1] = {
            **two["metadata"]["ownerReferences"][0], "uid": "y", "controller": False,
        }  # fmt: skip
        assert await refusal(pods.create(two)) == (f"{OWN}a single owner reference set to itself")
        await pods.create(await mirror(cluster))
        await pods.delete("m", {"gracePeriodSeconds": 0})
        await pods.delete("p", {"gracePeriodSeconds": 0})
        assert await refusal(pods.delete("q")) == (
            'node "a" can only delete pods with spec.nodeName set to itself'
        )

    run(test)


def test_pod_status() -> None:
    """A node writes the status of its pods, but not their labels and claims."""

    async def test(cluster: Cluster) -> None:
        pods = cluster.resource("pods", user=NODE_A)
        await pods.patch("p", {"status": {"phase": "Running"}}, subresource="status")
        own = {"status": {"phase": "Running"}}
        assert await refusal(pods.patch("q", own, subresource="status")) == (
            'node "a" can only update pod status for pods with spec.nodeName set to itself'
        )
        labels = {"metadata": {"labels": {"a": "b"}}}
        assert await refusal(pods.patch("p", labels, subresource="status")) == (
            'node "a" cannot update labels through pod status'
        )
        claims = {"status": {"resourceClaimStatuses": [{"name": "r", "resourceClaimName": "x"}]}}
        assert await refusal(pods.patch("p", claims, subresource="status")) == (
            'node "a" cannot update resource claim statuses'
        )

        def evict(name: str) -> Awaitable[Any]:
            body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
            result: Awaitable[Any] = pods.create(body, name=name, subresource="eviction")
            return result

        assert await refusal(evict("q")) == (
            "node a can only evict pods with spec.nodeName set to itself"
        )
        await evict("p")

    run(test)


OWN_LABELS = ("example.com/a", "kubernetes.io/arch", "kubelet.kubernetes.io/x", "plain",
              "x.node.kubernetes.io/y", "topology.kubernetes.io/zone")  # fmt: skip
FOREIGN_LABELS = (
    "node-restriction.kubernetes.io/a",
    "x.node-restriction.kubernetes.io/a",
    "kubernetes.io/role",
    "x.k8s.io/a",
    "node-role.kubernetes.io/control-plane",
)


def test_own_node() -> None:
    """A node writes its own Node, without taints, and only labels of kubelets."""

    async def test(cluster: Cluster) -> None:
        nodes = cluster.resource("nodes", namespace="", user=NODE_A)
        assert await refusal(nodes.patch("b", {"metadata": {"labels": {"a": "b"}}})) == (
            'node "a" is not allowed to modify node "b"'
        )
        assert "is not allowed to modify node" in await refusal(
            nodes.patch("b", {"status": {}}, subresource="status")
        )
        for label in OWN_LABELS:
            await nodes.patch("a", {"metadata": {"labels": {label: "x"}}})
        for label in FOREIGN_LABELS:
            change = {"metadata": {"labels": {label: "x"}}}
            words = f"is not allowed to modify labels: {label}"
            assert await refusal(nodes.patch("a", change)) == words
            administrator = cluster.resource("nodes", namespace="")
            await administrator.patch("a", change)
            removal = {"metadata": {"labels": {label: None}}}
            assert await refusal(nodes.patch("a", removal)) == words
        taints = {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}
        assert await refusal(nodes.patch("a", taints)) == (
            'node "a" is not allowed to modify taints'
        )
        config = {"configMap": {"name": "c", "namespace": "n", "kubeletConfigKey": "k"}}
        assert await refusal(nodes.patch("a", {"spec": {"configSource": config}})) == (
            'node "a" is not allowed to update configSource to a new non-nil configSource'
        )

    run(test)


def test_new_node() -> None:
    """A node registers itself with labels of kubelets, and with taints."""

    async def test(cluster: Cluster) -> None:
        new = User(name="system:node:c", groups=NODE_A.groups)
        nodes = cluster.resource("nodes", namespace="", user=new)
        assert await refusal(nodes.create({"metadata": {"name": "d"}})) == (
            'node "c" is not allowed to modify node "d"'
        )
        bad = dict.fromkeys(FOREIGN_LABELS, "x")
        assert await refusal(nodes.create({"metadata": {"name": "c", "labels": bad}})) == (
            f'node "c" is not allowed to set the following labels: {", ".join(sorted(bad))}'
        )
        good = dict.fromkeys(OWN_LABELS, "x")
        spec = {"taints": [{"key": "k", "effect": "NoSchedule"}]}
        await nodes.create({"metadata": {"name": "c", "labels": good}, "spec": spec})

    run(test)


def test_objects_of_nodes() -> None:
    """Leases, CSINodes and resource slices carry the name of their node."""

    async def test(cluster: Cluster) -> None:
        async def create(
            resource: str, version: str, name: str, spec: Any, namespace: str = ""
        ) -> Any:
            client = cluster.resource(resource, version, user=NODE_A, namespace=namespace)
            return await client.create({"metadata": {"name": name}, "spec": spec})

        lease = ("leases", "coordination.k8s.io/v1")
        await create(*lease, "a", {}, "kube-node-lease")
        assert await refusal(create(*lease, "b", {}, "kube-node-lease")) == (
            "can only access node lease with the same name as the requesting node"
        )
        csi = ("csinodes", "storage.k8s.io/v1")
        await create(*csi, "a", {"drivers": []})
        assert await refusal(create(*csi, "b", {"drivers": []})) == (
            "can only access CSINode with the same name as the requesting node"
        )
        slices = ("resourceslices", "resource.k8s.io/v1")

        def slice_of(node: str) -> Any:
            pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
            return {"driver": "d.example.com", "nodeName": node, "pool": pool, "devices": []}

        await create(*slices, "s-a", slice_of("a"))
        assert await refusal(create(*slices, "s-b", slice_of("b"))) == (
            "can only create ResourceSlice with the same NodeName as the requesting node"
        )

    run(test)


def test_claim_status() -> None:
    """A node reports the size of a claim, and changes nothing else of it."""

    async def test(cluster: Cluster) -> None:
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        await cluster.create(
            "persistentvolumeclaims", {"metadata": {"name": "claim"}, "spec": spec}
        )
        claims = cluster.resource("persistentvolumeclaims", user=NODE_A)
        size = {"status": {"capacity": {"storage": "2Gi"}}}
        await claims.patch("claim", size, subresource="status")
        words = 'node "a" is not allowed to update fields other than status.quantity and status.con'
        for change in ({"metadata": {"labels": {"a": "b"}}}, {"status": {"phase": "Lost"}}):
            message = await refusal(claims.patch("claim", change, subresource="status"))
            assert message.startswith(words)

    run(test)


def test_tokens() -> None:
    """A node requests tokens bound to its pods, for audiences that their volumes need."""

    async def test(cluster: Cluster) -> None:
        pods = cluster.resource("pods")
        uids = {name: (await pods.get(name))["metadata"]["uid"] for name in "pq"}
        accounts = cluster.resource("serviceaccounts", user=NODE_A)

        async def request(reference: Any, *audiences: str) -> Any:
            spec = {"audiences": list(audiences), "boundObjectRef": reference}
            body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
            return await accounts.create(body, name="robot", subresource="token")

        def bound(name: str, **more: str) -> dict[str, str]:
            return {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uids[name], **more}

        await request(bound("p"), "vault")
        cases: list[tuple[Any, tuple[str, ...], str]] = [
            (None, ("vault",), "node requested token not bound to a pod"),
            (bound("p", kind="Secret"), ("vault",), "node requested token not bound to a pod"),
            (bound("p", uid=""), ("vault",),
             "node requested token with a pod binding without a uid"),
            (bound("p", uid="x"), ("vault",),
             "the UID in the bound object reference (x) does not match the UID in record."),
            (bound("q"), ("vault",),
             "node requested token bound to a pod scheduled on a different node"),
            (bound("p"), ("vault", "x"), "node may only request 0 or 1 audiences"),
            (bound("p"), ("other",), 'audience "other" not found in pod spec volume, '
             "system:node:a is not authorized to request tokens for this audience"),
            (bound("p"), (), 'audience "" not found in pod spec volume, '),
        ]  # fmt: skip
        for reference, audiences, words in cases:
            message = await refusal(request(reference, *audiences))
            assert message.startswith(words), (reference, audiences)
        driver = {"tokenRequests": [{"audience": "other"}, {"audience": ""}]}
        await cluster.create(
            "csidrivers",
            {"metadata": {"name": "inline.example.com"}, "spec": driver},
            "storage.k8s.io/v1",
            namespace="",
        )
        await request(bound("p"), "other")
        issued = await request(bound("p"))  # for the server's own audience
        assert issued["spec"]["audiences"]

    run(test)


def signing_request(name: str, signer: str) -> Any:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
            x509.NameAttribute(NameOID.COMMON_NAME, name),
        ]
    )
    request = x509.CertificateSigningRequestBuilder().subject_name(subject)
    data = request.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    spec = {
        "request": base64.b64encode(data).decode(),
        "signerName": signer,
        "usages": ["client auth", "digital signature"],
    }
    return {"metadata": {"generateName": "csr-"}, "spec": spec}


def test_signing_requests() -> None:
    """A node requests certificates of kubelets for itself alone."""

    async def test(cluster: Cluster) -> None:
        requests = cluster.resource(
            "certificatesigningrequests", "certificates.k8s.io/v1", namespace="", user=NODE_A
        )
        signer = "kubernetes.io/kube-apiserver-client-kubelet"
        await requests.create(signing_request("system:node:a", signer))
        assert await refusal(requests.create(signing_request("system:node:b", signer))) == (
            "can only create a node CSR with CN=system:node:a"
        )
        await requests.create(signing_request("system:node:b", "example.com/signer"))

    run(test)


def test_other_users() -> None:
    """Users that are no nodes are not limited; a node without a name may write nothing."""

    async def test(cluster: Cluster) -> None:
        masters = User(name="root", groups=("system:masters",))
        nodes = cluster.resource("nodes", namespace="", user=masters)
        await nodes.patch("a", {"metadata": {"labels": {"kubernetes.io/role": "x"}}})
        unnamed = User(name="system:node:", groups=("system:nodes", "system:masters"))
        nodes = cluster.resource("nodes", namespace="", user=unnamed)
        assert await refusal(nodes.patch("a", {"metadata": {"labels": {"a": "b"}}})) == (
            'could not determine node from user "system:node:"'
        )

    run(test)
