"""`python -m tests.bench.scheduling`: how many pods the simulated scheduler assigns in a second.

Prints the pods of a second of CPU time, for the decisions alone and with a server in memory, which
writes each binding and its event. The pods belong to 100 ReplicaSets; the nodes are in three zones.
"""

from __future__ import annotations

import argparse
import asyncio
import time

from kapiserver.api.resource_client import Client
from kapiserver.api.types import Tree
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.user import APISERVER
from kapiserver.cluster import open_cluster
from kapiserver.controllers.manager import apiserver_context
from kapiserver.simulation.scheduler.controller import Scheduler
from kapiserver.simulation.scheduler.pod_info import PodInfo
from kapiserver.simulation.scheduler.schedule import Placement, schedule
from kapiserver.simulation.scheduler.snapshot import Snapshot

OWNERS = 100
ZONES = ("a", "b", "c")
NAMESPACE = "default"


def _node(index: int) -> Tree:
    name = f"node-{index:05}"
    zone = {"topology.kubernetes.io/zone": ZONES[index % len(ZONES)]}
    allocatable = {"cpu": "32", "memory": "256Gi", "pods": "110"}
    labels = zone | {"kubernetes.io/hostname": name}
    return {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": allocatable}}


def _pod(index: int) -> Tree:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": True}
    owner |= {"name": f"web-{index % OWNERS}", "uid": f"uid-{index % OWNERS}"}
    requests = {"cpu": "100m", "memory": "128Mi"}
    container = {"name": "app", "image": "nginx", "resources": {"requests": requests}}
    metadata = {"name": f"web-{index}", "namespace": NAMESPACE, "uid": f"uid-{index}"}
    return {
        "metadata": metadata | {"ownerReferences": [owner]},
        "spec": {"containers": [container]},
    }


def measure_decisions(nodes: int, pods: int) -> float:
    """Return the CPU seconds of the decisions about all pods."""
    snapshot = Snapshot()
    for index in range(nodes):
        snapshot.set_node(_node(index))
    trees = [_pod(index) for index in range(pods)]
    started = time.process_time()
    for tree in trees:
        decision = schedule(PodInfo(tree), snapshot)
        assert isinstance(decision, Placement), decision
        snapshot.add_pod(PodInfo(tree, decision.node))
    return time.process_time() - started


async def measure_server(nodes: int, pods: int) -> float:
    """Return the CPU seconds of a server from the start of the scheduler until all pods have a
    node."""
    config = Config.of(disable_admission_plugins=("ServiceAccount", "TaintNodesByCondition"))
    async with open_cluster(config) as cluster:
        client = cluster.server.client(APISERVER, authorize=False)
        await client.resource("v1", "namespaces").create({"metadata": {"name": NAMESPACE}})
        await _create_all(client, nodes, pods)
        scheduler = Scheduler(apiserver_context(cluster.server, "kube-scheduler"))
        started = time.process_time()
        scheduler.start()
        await scheduler.wait_settled()
        seconds = time.process_time() - started
        found = await client.resource("v1", "pods", namespace=NAMESPACE).list()
        assert all(pod["spec"].get("nodeName") for pod in found["items"])
        await scheduler.stop()
    return seconds


async def _create_all(client: Client, nodes: int, pods: int) -> None:
    for index in range(nodes):
        await client.resource("v1", "nodes").create(_node(index))
    for index in range(pods):
        await client.resource("v1", "pods", namespace=NAMESPACE).create(_pod(index))


def main() -> None:
    """Measure and print a row for each number of nodes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="*", default=[100, 1000, 5000])
    parser.add_argument("--pods", type=int, default=10_000)
    options = parser.parse_args()
    for nodes in options.nodes:
        decisions = options.pods / measure_decisions(nodes, options.pods)
        server = options.pods / asyncio.run(measure_server(nodes, options.pods))
        print(f"| {nodes:,} | {decisions:,.0f} | {server:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
