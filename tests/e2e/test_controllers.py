"""Controllers of several servers over one etcd: one server runs them."""

import time
from pathlib import Path
from typing import Any

import pytest

from kapiserver.controllers.loop.leader import LEASE, LEASE_SECONDS
from tests.e2e.cluster import CONFIGMAPS, call, names, serving
from tests.e2e.programs import Server, start
from tests.storage.etcd_server import Member

LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{LEASE.namespace}/leases/{LEASE.name}"


def holder(server: Server) -> str:
    """The process id of the Lease's holder."""
    return call(server, "GET", LEASES)["spec"]["holderIdentity"].split("_")[-2]


def collects(server: Server, *, within: float) -> None:
    """Check that the dependents of a deleted owner are deleted in time."""
    owner = {"metadata": {"name": "owner"}}
    created = call(server, "POST", CONFIGMAPS, owner, status=201)["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": created["uid"]}
    child: dict[str, Any] = {"metadata": {"name": "child", "ownerReferences": [reference]}}
    call(server, "POST", CONFIGMAPS, child, status=201)
    call(server, "DELETE", f"{CONFIGMAPS}/owner")
    deadline = time.monotonic() + within
    while names(call(server, "GET", CONFIGMAPS)):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_leader_ends(tmp_path: Path, etcd: Member) -> None:
    """The first server collects garbage; when it stops, the other one does so within seconds."""
    with serving(tmp_path / "other", etcd, "/ends") as first:
        collects(first, within=60)
        with serving(tmp_path / "one", etcd, "/ends") as second:
            assert holder(second) == str(first.process.pid)
            collects(second, within=60)
            first.process.terminate()
            first.process.wait(60)
            collects(second, within=60)
            assert holder(second) == str(second.process.pid)


@pytest.mark.slow
def test_leader_dies(tmp_path: Path, etcd: Member) -> None:
    """When the first server is killed, the other one collects garbage after the lease has
    expired."""
    first = start(tmp_path, f"--etcd-servers={etcd.url}", "--etcd-prefix=/dies")
    try:
        with serving(tmp_path / "other", etcd, "/dies") as second:
            assert holder(second) == str(first.process.pid)
            first.process.kill()
            collects(second, within=LEASE_SECONDS + 60)
            assert holder(second) == str(second.process.pid)
    finally:
        first.process.kill()
        first.process.wait(60)
