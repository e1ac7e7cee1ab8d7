"""The node authorizer: a node reads only its own objects, and those that its pods name.

The cases are those of node_authorizer_test.go of Kubernetes.
"""

from __future__ import annotations

import pytest

from kapiserver.apiserver.authorizer import Verdict
from kapiserver.apiserver.request_info import parse_request_info
from kapiserver.apiserver.user import User
from tests.api.test_pod_certificates import POD
from tests.apiserver.authorization.nodekit import NODE_A, NODE_B, Cluster, run, volume

pytestmark = pytest.mark.usefixtures("no_errors")
CORE = "/api/v1/namespaces/default"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"
ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
CERTIFICATES = "/apis/certificates.k8s.io/v1beta1/namespaces/default/podcertificaterequests"
RELATED = "no relationship found between node 'a' and this object"
NAMED = "No Object name found"
ALLOWED = [
    *(f"GET {CORE}/secrets/{name}"
      for name in ("volume", "projected", "inline", "from", "key", "init", "pull")),
    *(f"GET {CORE}/configmaps/{name}" for name in ("volume", "projected", "from", "key")),
    f"GET {CORE}/secrets?fieldSelector=metadata.name=key",
    f"GET {CORE}/secrets?watch=1&fieldSelector=metadata.name=key",
    "GET /api/v1/namespaces/kube-system/secrets/stage",
    f"GET {CORE}/persistentvolumeclaims/claim",
    f"GET {CORE}/persistentvolumeclaims/p-v3",
    f"PATCH {CORE}/persistentvolumeclaims/claim/status",
    "GET /api/v1/persistentvolumes/pv",
    f"GET {CORE}/serviceaccounts/robot",
    f"POST {CORE}/serviceaccounts/robot/token",
    f"GET {CLAIMS}/device",
    f"GET {ATTACHMENTS}/at-a",
    f"GET {SLICES}/slice-a", f"DELETE {SLICES}/slice-a", f"PATCH {SLICES}/slice-a",
    f"POST {SLICES}",
    f"GET {SLICES}?fieldSelector=spec.nodeName=a",
    f"DELETE {SLICES}?fieldSelector=spec.nodeName==a",
    f"POST {LEASES}", f"GET {LEASES}/a", f"PUT {LEASES}/a", f"DELETE {LEASES}/a",
    f"POST {CSI_NODES}", f"GET {CSI_NODES}/a", f"PATCH {CSI_NODES}/a",
    "GET /api/v1/nodes/a", "GET /api/v1/nodes?fieldSelector=metadata.name=a",
    "POST /api/v1/nodes", "PUT /api/v1/nodes/a", "PATCH /api/v1/nodes/a/status",
    f"GET {CORE}/pods/p", f"GET {CORE}/pods?fieldSelector=metadata.name=p",
    "GET /api/v1/pods?fieldSelector=spec.nodeName=a",
    "GET /api/v1/pods?watch=1&fieldSelector=spec.nodeName=a,status.phase!=Failed",
    f"POST {CORE}/pods", f"DELETE {CORE}/pods/p", f"PATCH {CORE}/pods/p/status",
    f"POST {CORE}/pods/p/eviction",
    f"POST {CERTIFICATES}", f"GET {CERTIFICATES}/cert-a",
    f"GET {CERTIFICATES}?fieldSelector=spec.nodeName=a",
    "GET /api/v1/services", "POST /apis/authentication.k8s.io/v1/tokenreviews",
    f"POST {CORE}/events", "GET /apis/node.k8s.io/v1/runtimeclasses/r",
]  # fmt: skip
REFUSED = [
    (f"GET {CORE}/secrets/other", RELATED),
    (f"GET {CORE}/secrets", NAMED),
    (f"PUT {CORE}/secrets/key", "can only read resources of this type"),
    (f"GET {CORE}/secrets/key/status", "cannot read subresource"),
    ("GET /api/v1/secrets?fieldSelector=metadata.name=key",
     "can only read namespaced object of this type"),
    ("GET /api/v1/namespaces/other/secrets/key", RELATED),
    ("GET /api/v1/namespaces/kube-system/secrets/controller", RELATED),
    (f"GET {CORE}/configmaps/init", RELATED),
    (f"GET {CORE}/persistentvolumeclaims", "can only get individual resources of this type"),
    (f"GET {CORE}/persistentvolumeclaims/claim/status",
     "can only get/update/patch this type"),
    (f"PUT {CORE}/persistentvolumeclaims/other/status", RELATED),
    ("GET /api/v1/persistentvolumes/other", RELATED),
    ("GET /api/v1/persistentvolumes/pv/status", "cannot get subresource"),
    (f"GET {CORE}/serviceaccounts/default", RELATED),
    (f"POST {CORE}/serviceaccounts", "can only create tokens for individual service accounts"),
    (f"POST {CORE}/serviceaccounts/robot/x",
     "can only create token subresource of serviceaccount"),
    (f"POST {CORE}/serviceaccounts/default/token", RELATED),
    (f"GET {CORE}/serviceaccounts/robot/token",
     "can only create tokens for individual service accounts"),
    (f"PUT {CORE}/serviceaccounts/robot/token",
     "can only create tokens for individual service accounts"),
    (f"GET {CLAIMS}/other", RELATED),
    (f"GET {ATTACHMENTS}/at-b", RELATED),
    (f"GET {SLICES}/slice-b", RELATED),
    (f"GET {SLICES}/slice-a/status", "cannot authorize ResourceSlice subresources"),
    (f"GET {SLICES}", "can only list/watch/deletecollection resourceslices with nodeName field "
     "selector"),
    (f"GET {SLICES}?fieldSelector=spec.nodeName=b",
     "can only list/watch/deletecollection resourceslices with nodeName field selector"),
    (f"GET {SLICES}?fieldSelector=spec.nodeName!=a",
     "can only list/watch/deletecollection resourceslices with nodeName field selector"),
    (f"HEAD {SLICES}/slice-b", RELATED),
    (f"OPTIONS {SLICES}", "only the following verbs are allowed for a ResourceSlice: get, watch, "
     "list, create, update, patch, delete, deletecollection"),
    (f"GET {LEASES}", "can only get, create, update, patch, or delete a node lease"),
    (f"GET {LEASES}/b",
     "can only access node lease with the same name as the requesting node"),
    ("GET /apis/coordination.k8s.io/v1/namespaces/default/leases/a",
     'can only access leases in the "kube-node-lease" system namespace'),
    (f"GET {CSI_NODES}", "can only get, create, update, patch, or delete a CSINode"),
    (f"GET {CSI_NODES}/b",
     "can only access CSINode with the same name as the requesting node"),
    (f"GET {CSI_NODES}/a/status", "cannot authorize CSINode subresources"),
    ("GET /api/v1/nodes", "node 'a' cannot read all nodes, only its own Node object"),
    ("GET /api/v1/nodes/b", "node 'a' cannot read 'b', only its own Node object"),
    ("DELETE /api/v1/nodes/a", ""), ("GET /api/v1/nodes/a/status", ""),
    ("GET /api/v1/nodes/a/proxy", ""),
    (f"GET {CORE}/pods/q", RELATED),
    (f"GET {CORE}/pods/p/log", ""), (f"PUT {CORE}/pods/p", ""),
    (f"POST {CORE}/pods/p/status", ""), (f"POST {CORE}/pods/p/binding", ""),
    (f"GET {CORE}/pods", "can only list/watch pods with spec.nodeName field selector"),
    ("GET /api/v1/pods?fieldSelector=spec.nodeName=b",
     "can only list/watch pods with spec.nodeName field selector"),
    (f"GET {CORE}/pods?fieldSelector=metadata.name=q", RELATED),
    (f"GET {CERTIFICATES}/cert-b", RELATED),
    (f"GET {CERTIFICATES}",
     "can only list/watch podcertificaterequests with nodeName field selector"),
    (f"GET {CERTIFICATES}/cert-a/status",
     "nodes may not access the subresources of a PodCertificateRequest"),
    (f"DELETE {CERTIFICATES}/cert-a",
     "can only create, get, list and watch podcertificaterequests"),
    ("GET /api/v1/namespaces/default/endpoints", ""),
    ("GET /metrics", ""),
]  # fmt: skip


async def decide(cluster: Cluster, user: User, request_line: str) -> tuple[bool, str]:
    method, _, path = request_line.partition(" ")
    path, _, query = path.partition("?")
    pairs = (pair.partition("=") for pair in query.split("&") if pair)
    info = parse_request_info(method, path, {name: [value] for name, _, value in pairs})
    decision = await cluster.server.authorizer.authorize(user, info)
    assert decision.verdict is not Verdict.DENY
    return decision.allowed, decision.reason


async def add_objects_of_nodes(cluster: Cluster) -> None:
    """An attachment, a slice and a certificate request of each node."""
    for node in "ab":
        source = {"persistentVolumeName": "pv"}
        attachment = {"attacher": "d.example.com", "nodeName": node, "source": source}
        await cluster.create(
            "volumeattachments",
            {"metadata": {"name": f"at-{node}"}, "spec": attachment},
            "storage.k8s.io/v1",
            namespace="",
        )
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        slice_ = {"driver": "d.example.com", "nodeName": node, "pool": pool, "devices": []}
        await cluster.create(
            "resourceslices",
            {"metadata": {"name": f"slice-{node}"}, "spec": slice_},
            "resource.k8s.io/v1",
            namespace="",
        )
        spec = {**POD["spec"], "nodeName": node}
        await cluster.create(
            "podcertificaterequests",
            {"metadata": {"name": f"cert-{node}"}, "spec": spec},
            "certificates.k8s.io/v1beta1",
        )


def test_decisions() -> None:
    """A node gets what concerns it, and nothing that concerns another node only."""

    async def test(cluster: Cluster) -> None:
        await add_objects_of_nodes(cluster)
        for request_line in ALLOWED:
            assert await decide(cluster, NODE_A, request_line) == (True, ""), request_line
        for request_line, reason in REFUSED:
            decision = await decide(cluster, NODE_A, request_line)
            assert decision == (False, reason), request_line
        for request_line in ALLOWED:
            if request_line.startswith(f"GET {CORE}/") and "spec.nodeName" not in request_line:
                allowed, _ = await decide(cluster, NODE_B, request_line)
                assert not allowed, request_line

    run(test)


OTHERS = [
    (User(name="a", groups=("system:nodes",)), ""),
    (User(name="system:node:a", groups=("system:authenticated",)), ""),
    (User(name="system:node:", groups=("system:nodes",)), 'unknown node for user "system:node:"'),
]


@pytest.mark.parametrize(("user", "reason"), OTHERS)
def test_other_users(user: User, reason: str) -> None:
    """The authorizer has no opinion on users that are no nodes."""

    async def test(cluster: Cluster) -> None:
        assert await decide(cluster, user, f"GET {CORE}/secrets/key") == (False, reason)
        rules = await cluster.server.authorizer.rules_for(user, "default")
        assert rules.incomplete is bool(reason)
        if reason:
            assert rules.error == "node authorizer does not support user rule resolution"

    run(test)


def test_changes() -> None:
    """A relationship ends with the pod or the volume, and follows their changes."""

    async def test(cluster: Cluster) -> None:
        secret = f"GET {CORE}/secrets/key"
        stage = "GET /api/v1/namespaces/kube-system/secrets/stage"
        second = {
            "nodeName": "a",
            "containers": [{"name": "c", "image": "i"}],
            "imagePullSecrets": [{"name": "key"}],
        }
        await cluster.create("pods", {"metadata": {"name": "second"}, "spec": second})
        pods = cluster.resource("pods")
        volumes = cluster.resource("persistentvolumes", namespace="")
        await pods.delete("second", {"gracePeriodSeconds": 0})
        assert (await decide(cluster, NODE_A, secret))[0]
        other = {"claimRef": {"namespace": "default", "name": "other"}}
        await volumes.patch("pv", {"spec": other})
        assert not (await decide(cluster, NODE_A, stage))[0]
        assert not (await decide(cluster, NODE_A, "GET /api/v1/persistentvolumes/pv"))[0]
        unbound = volume("unbound", csi={"driver": "d.example.com", "volumeHandle": "u"})
        unbound["spec"].pop("claimRef")
        await cluster.create("persistentvolumes", unbound, namespace="")
        azure = volume("azure", azureFile={"secretName": "azure", "shareName": "s"})
        await cluster.create("persistentvolumes", azure, namespace="")
        assert (await decide(cluster, NODE_A, f"GET {CORE}/secrets/azure"))[0]
        await volumes.patch("azure", {"metadata": {"finalizers": None}})
        await volumes.delete("azure")
        assert not (await decide(cluster, NODE_A, f"GET {CORE}/secrets/azure"))[0]
        assert (await decide(cluster, NODE_A, "GET /api/v1/persistentvolumes/azure"))[0] is False
        await pods.delete("p", {"gracePeriodSeconds": 0})
        for request_line in (secret, f"GET {CORE}/pods/p", f"GET {CORE}/configmaps/key"):
            assert await decide(cluster, NODE_A, request_line) == (False, RELATED)

    run(test)


def test_volumes_with_one_secret() -> None:
    """A secret belongs to a node as long as one of its volumes names it; a volume of the name of a
    deleted one gives its own secrets only."""

    async def test(cluster: Cluster) -> None:
        volumes = cluster.resource("persistentvolumes", namespace="")

        async def make(name: str, secret: str) -> None:
            source = {"secretName": secret, "shareName": "s"}
            await volumes.create(volume(name, azureFile=source))

        async def remove(name: str) -> None:
            await volumes.patch(name, {"metadata": {"finalizers": None}})
            await volumes.delete(name)

        async def reads(secret: str) -> bool:
            return (await decide(cluster, NODE_A, f"GET {CORE}/secrets/{secret}"))[0]

        await make("one", "shared")
        await make("two", "shared")
        await remove("one")
        assert await reads("shared")
        await remove("two")
        await make("two", "other")
        assert await reads("other")
        assert not await reads("shared")

    run(test)


def test_mirror_pod() -> None:
    """A mirror pod gives its node nothing but itself; an unbound pod gives nothing to any."""

    async def test(cluster: Cluster) -> None:
        spec = {
            "containers": [{"name": "c", "image": "i"}],
            "imagePullSecrets": [{"name": "mirror"}],
        }
        annotations = {"kubernetes.io/config.mirror": "x"}
        body = {
            "metadata": {"name": "m", "annotations": annotations},
            "spec": {**spec, "nodeName": "b"},
        }
        await cluster.create("pods", body)
        await cluster.create("pods", {"metadata": {"name": "u"}, "spec": spec})
        assert (await decide(cluster, NODE_B, f"GET {CORE}/pods/m"))[0]
        assert not (await decide(cluster, NODE_B, f"GET {CORE}/secrets/mirror"))[0]
        unnamed = User(name="system:node:", groups=("system:nodes",))
        for user in (NODE_A, NODE_B, unnamed):
            assert not (await decide(cluster, user, f"GET {CORE}/pods/u"))[0]

    run(test)
