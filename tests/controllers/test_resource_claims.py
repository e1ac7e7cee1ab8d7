"""ResourceClaims on a server in memory: made for pods, reserved, freed and deleted."""

from __future__ import annotations

import pytest

from kapiserver.controllers.resource_claims.pod_claims import (
    FINALIZER,
    ClaimProblem,
    check_owner,
    claim_name,
    claim_names,
    generated_claim,
)
from tests.controllers.workloads.workloads import on_server

V1 = "resource.k8s.io/v1"
REQUEST = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
SPEC = {"devices": {"requests": [REQUEST]}}
RESULT = {"request": "gpu", "driver": "x.io", "pool": "a", "device": "gpu-0"}


class Claims:
    """The claims, templates and pods of a server."""

    def __init__(self, workloads):
        self._workloads = workloads
        self.settle = workloads.settle
        self.pods = workloads.pods
        self.claims = workloads.objects("resourceclaims", V1)
        self.templates = workloads.objects("resourceclaimtemplates", V1)

    async def add_template(self, name="gpu"):
        spec = {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": SPEC}
        await self.templates.create({"metadata": {"name": name}, "spec": spec})
        await self.settle()

    async def add_pod(self, name="web", template="gpu", **reference):
        reference = {"name": "first"} | (reference or {"resourceClaimTemplateName": template})
        container = {"name": "a", "image": "a", "resources": {"claims": [{"name": "first"}]}}
        spec = {"containers": [container], "resourceClaims": [reference]}
        await self.pods.create({"metadata": {"name": name}, "spec": spec})
        await self.settle()

    async def add_claim(self, name="shared"):
        await self.claims.create({"metadata": {"name": name}, "spec": SPEC})
        await self.settle()

    async def allocate(self, name, *pods):
        """Allocate a claim and reserve it for pods, as the scheduler does."""
        claim = await self.claims.get(name)
        claim["metadata"]["finalizers"] = [FINALIZER]
        claim = await self.claims.update(claim)
        claim["status"] = {
            "allocation": {"devices": {"results": [RESULT]}},
            "reservedFor": [
                {
                    "resource": "pods",
                    "name": pod,
                    "uid": (await self.pods.get(pod))["metadata"]["uid"],
                }
                for pod in pods
            ],
        }
        await self.claims.update(claim, subresource="status")
        await self.settle()

    async def claim_of(self, pod):
        (status,) = (await self.pods.get(pod))["status"]["resourceClaimStatuses"]
        return status["resourceClaimName"]

    async def names(self):
        return [each["metadata"]["name"] for each in (await self.claims.list())["items"]]

    async def end(self, pod):
        await self.pods.patch(pod, {"status": {"phase": "Succeeded"}}, subresource="status")
        await self.settle()

    async def events(self):
        return [
            (each["reason"], each["message"])
            for each in await self._workloads.items("events", "v1")
        ]


on_claims = on_server(Claims, "resourceclaim-controller")


@on_claims
async def test_claims_of_templates(it):
    """A pod gets a claim of its own from a template, whose name its status has."""
    await it.add_template()
    await it.add_pod()
    claim = await it.claims.get(await it.claim_of("web"))
    metadata = claim["metadata"]
    assert metadata["name"].startswith("web-first-")
    assert metadata["labels"] == {"a": "b"}
    assert metadata["annotations"] == {
        "c": "d",
        "resource.kubernetes.io/pod-claim-name": "first",
    }
    (owner,) = metadata["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Pod", "web", True)
    assert claim["spec"]["devices"]["requests"][0]["name"] == "gpu"
    assert len(await it.names()) == 1


@on_claims
async def test_missing_template(it):
    """A pod whose template is missing gets an event, and its claim when the template is there."""
    await it.add_pod(template="late")
    message = (
        'PodResourceClaim first: resource claim template "late": '
        'resourceclaimtemplate.resource.k8s.io "late" not found'
    )
    assert await it.events() == [("FailedResourceClaimCreation", message)]
    assert await it.names() == []
    await it.add_template("late")
    assert await it.names() == [await it.claim_of("web")]


@on_claims
async def test_deleted_claims_are_made_again(it):
    """A generated claim that somebody deletes is made again, with a new name."""
    await it.add_template()
    await it.add_pod()
    first = await it.claim_of("web")
    await it.claims.delete(first)
    await it.settle()
    second = await it.claim_of("web")
    assert first != second
    assert await it.names() == [second]


@on_claims
async def test_generated_claims_end_with_their_pod(it):
    """When a pod has ended, its claim is freed and deleted, while the pod is still there."""
    await it.add_template()
    await it.add_pod()
    await it.allocate(await it.claim_of("web"), "web")
    assert await it.names() != []
    await it.end("web")
    assert await it.names() == []
    assert (await it.pods.get("web"))["status"]["phase"] == "Succeeded"


@on_claims
async def test_shared_claims_are_freed(it):
    """A claim that pods share keeps its devices until the last of them has ended; then allocation
    and finalizer go, and the claim stays."""
    await it.add_claim()
    for pod in ("one", "two"):
        await it.add_pod(pod, resourceClaimName="shared")
    await it.allocate("shared", "one", "two")
    await it.end("one")
    claim = await it.claims.get("shared")
    assert [each["name"] for each in claim["status"]["reservedFor"]] == ["two"]
    assert claim["status"]["allocation"]
    await it.pods.delete("two", {"gracePeriodSeconds": 0})
    await it.settle()
    claim = await it.claims.get("shared")
    assert not claim.get("status")
    assert "finalizers" not in claim["metadata"]


@on_claims
async def test_deleted_claims_wait_for_their_pods(it):
    """An allocated claim that is deleted goes when no pod uses it any more."""
    await it.add_claim()
    await it.add_pod(resourceClaimName="shared")
    await it.allocate("shared", "web")
    await it.claims.delete("shared")
    await it.settle()
    assert await it.names() == ["shared"]
    await it.end("web")
    assert await it.names() == []


@on_claims
async def test_pods_bound_by_others(it):
    """An allocated claim is reserved for a pod that has a node already."""
    await it.add_claim()
    await it.add_pod(resourceClaimName="shared")
    await it.allocate("shared")
    binding = {"metadata": {"name": "web"}, "target": {"kind": "Node", "name": "one"}}
    await it.pods.create(binding, name="web", subresource="binding")
    await it.settle()
    claim = await it.claims.get("shared")
    assert [each["name"] for each in claim["status"]["reservedFor"]] == ["web"]


@on_claims
async def test_unknown_consumers_stay(it):
    """A consumer that is not a pod keeps its reservation."""
    await it.add_claim()
    await it.allocate("shared")
    other = {"apiGroup": "x.io", "resource": "things", "name": "thing", "uid": "1"}
    claim = await it.claims.get("shared")
    claim["status"]["reservedFor"] = [other]
    await it.claims.update(claim, subresource="status")
    await it.settle()
    assert (await it.claims.get("shared"))["status"]["reservedFor"] == [other]


def pod(statuses=(), **reference):
    return {
        "metadata": {"name": "web", "namespace": "shop", "uid": "1"},
        "spec": {"resourceClaims": [{"name": "first"} | reference]},
        "status": {"resourceClaimStatuses": list(statuses)},
    }


MADE = {"name": "first", "resourceClaimName": "web-first-abcde"}
UNNEEDED = {"name": "first"}
TEMPLATE = {"resourceClaimTemplateName": "gpu"}


@pytest.mark.parametrize(
    ("pod", "name"),
    [
        (pod(resourceClaimName="mine"), "mine"),
        (pod([MADE], **TEMPLATE), "web-first-abcde"),
        (pod([UNNEEDED], **TEMPLATE), ""),
    ],
)
def test_claim_name(pod, name):
    """The name of a claim is that of the reference, or that in the pod's status."""
    (reference,) = pod["spec"]["resourceClaims"]
    assert claim_name(pod, reference) == name
    assert list(claim_names(pod)) == ([name] if name else [])


def test_claim_that_is_not_made():
    """A claim that is not made from its template yet has no name."""
    waiting = pod(**TEMPLATE)
    with pytest.raises(ClaimProblem) as problem:
        claim_name(waiting, waiting["spec"]["resourceClaims"][0])
    assert str(problem.value) == 'pod "shop/web": ResourceClaim not created yet'
    assert list(claim_names(waiting)) == []


def test_check_owner():
    """A claim of a template must be owned by the pod; a claim that the pod names need not."""
    claim = {"metadata": {"name": "c", "namespace": "shop"}}
    check_owner(pod(), {"resourceClaimName": "c"}, claim)
    with pytest.raises(ClaimProblem) as problem:
        check_owner(pod(), TEMPLATE, claim)
    assert str(problem.value) == (
        "ResourceClaim shop/c was not created for Pod shop/web (Pod is not owner)"
    )


@pytest.mark.parametrize(
    ("name", "prefix"),
    [("web", "web-first-"), ("w" * 63, "w" * 51 + "-" + "firs")],
)
def test_generated_names(name, prefix):
    """Long names of pods and references are cut in proportion."""
    owner = {"metadata": {"name": name, "uid": "1"}}
    claim = generated_claim(owner, {"name": "first"}, {"spec": {}})
    assert claim["metadata"]["generateName"] == prefix
