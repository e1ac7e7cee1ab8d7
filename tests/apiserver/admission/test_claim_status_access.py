"""The rights that writers of the status of ResourceClaims need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kapiserver.api.resource_client import StatusError
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.user import APISERVER, User, service_account_user
from tests.apiserver.authorization.rbackit import binding, create, resource_rule, role, run, subject

pytestmark = pytest.mark.usefixtures("no_errors")

GROUP = "resource.k8s.io"
WRITER = User(name="writer", groups=("system:authenticated",))
DRIVER = service_account_user("kube-system", "driver")
NODE_DRIVER = User(
    name=DRIVER.name,
    groups=DRIVER.groups,
    extra={"authentication.kubernetes.io/node-name": ("node-1",)},
)
STATUS = resource_rule("get patch update", GROUP, "resourceclaims resourceclaims/status")
BINDING = resource_rule("patch", GROUP, "resourceclaims/binding")
ARBITRARY = resource_rule("arbitrary-node:patch", GROUP, "resourceclaims/driver", "d.example")
ASSOCIATED = resource_rule("associated-node:patch", GROUP, "resourceclaims/driver", "d.example")
CLAIM = {
    "metadata": {"name": "c", "namespace": "default"},
    "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "g"}}]}},
}
DEVICE = {"driver": "d.example", "pool": "p", "device": "x"}
FIELD = {"key": "metadata.name", "operator": "In", "values": ["node-1"]}
ALLOCATION = {
    "devices": {"results": [{"request": "r", **DEVICE}]},
    "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [FIELD]}]},
}
RESERVED = [{"resource": "pods", "name": "web", "uid": "1"}]
BINDING_REFUSED = (
    'ResourceClaim.resource.k8s.io "c" is invalid: status.allocation: Forbidden: changing '
    "status.allocation or status.reservedFor requires "
    'resource="resourceclaims/binding", verb="patch" permission: resourceclaims.resource.k8s.io '
    'is forbidden: User "writer" cannot patch resource "resourceclaims/binding" in API group '
    '"resource.k8s.io" at the cluster scope'
)


def driver_refused(*verbs: str) -> str:
    return (
        'ResourceClaim.resource.k8s.io "c" is invalid: status.devices: Forbidden: changing '
        'status.devices requires resource="resourceclaims/driver", '
        f'verb="[{" ".join(verbs)}]" permission: resourceclaims.resource.k8s.io "d.example" is '
        f'forbidden: User "{DRIVER.name}" cannot {verbs[0]} resource "resourceclaims/driver" in '
        'API group "resource.k8s.io" in the namespace "default"'
    )


DEVICES = {"devices": [{**DEVICE, "data": {"ready": True}}]}
OTHER = resource_rule("arbitrary-node:patch", GROUP, "resourceclaims/driver", "other.example")
ON_ANY, ON_NODE = "arbitrary-node:patch", "associated-node:patch"
CASES = [
    # user, rules beside those for the status, status, refusal
    (WRITER, [BINDING], {"allocation": ALLOCATION, "reservedFor": RESERVED}, ""),
    (WRITER, [], {"allocation": ALLOCATION}, BINDING_REFUSED),
    (DRIVER, [], {}, ""),
    (DRIVER, [ARBITRARY], DEVICES, ""),
    (DRIVER, [ASSOCIATED], DEVICES, driver_refused(ON_ANY)),
    (NODE_DRIVER, [ASSOCIATED], DEVICES, ""),
    (NODE_DRIVER, [ARBITRARY], DEVICES, ""),
    (NODE_DRIVER, [], DEVICES, driver_refused(ON_NODE, ON_ANY)),
    (DRIVER, [OTHER], DEVICES, driver_refused(ON_ANY)),
]


@pytest.mark.parametrize(("user", "rules", "status", "refusal"), CASES)
def test_rights(user: User, rules: list[Any], status: Mapping[str, Any], refusal: str) -> None:
    """The allocation needs the right to bind, the status of a device that of its driver."""

    async def test(server: Server) -> None:
        await create(server, "clusterroles", role("writer", STATUS, *rules))
        account = subject("ServiceAccount", "driver", "kube-system")
        subjects = (subject("User", "writer"), account)
        body = binding("writer", "ClusterRole", "writer", *subjects)
        await create(server, "clusterrolebindings", body)
        version = "resource.k8s.io/v1"
        claims = server.client(APISERVER).resource(version, "resourceclaims", namespace="default")
        await claims.create(CLAIM)
        if user is not WRITER:
            await claims.patch("c", {"status": {"allocation": ALLOCATION}}, subresource="status")
        mine = server.client(user).resource(version, "resourceclaims", namespace="default")
        write = mine.patch("c", {"status": status}, subresource="status")
        if not refusal:
            await write
            return
        with pytest.raises(StatusError) as raised:
            await write
        assert refusal in str(raised.value)

    run(test)
