"""Made-up lives of DaemonSets: whatever happens to nodes and pods, updates keep their limits."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from kapiserver.controllers.workloads.daemon_set.plan import plan_daemon_set
from tests.controllers.workloads.test_daemon_sets import NOW, a_node, daemon_set, rolling, taint

BLOCKED = taint("x", "NoSchedule")
HASH = "controller-revision-hash"


class Life:
    """A DaemonSet with its nodes and pods, whose kubelets a test plays.

    Pods that are being deleted are gone when the test says so. `plans` counts the actions."""

    def __init__(self, unavailable, surge, nodes):
        self.unavailable, self.surge = unavailable, surge
        self.owner = daemon_set(**rolling(unavailable, surge))
        self.nodes = {f"n{index}": a_node(f"n{index}") for index in range(nodes)}
        self.pods, self.revision = [], 1
        self._names = map("pod-{}".format, itertools.count())

    def reconcile(self):
        """Carry out a plan, and check what it does. Return whether it does anything."""
        before = self.without_available_pod()
        plan = plan_daemon_set(
            self.owner, list(self.nodes.values()), self.pods, str(self.revision), {}, NOW
        )
        assert len(set(plan.create)) == len(plan.create)
        for node in plan.create:
            self.pods.append(self._new_pod(node))
        for pod in plan.delete:
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        self._check(before)
        return bool(plan.create or plan.delete)

    def _check(self, before):
        live = {node: self.live(node) for node in self.nodes}
        assert all(len(pods) <= 1 + bool(self.surge) for pods in live.values())
        surging = [pods for pods in live.values() if len(pods) == 2 and any(map(is_ready, pods))]
        assert len(surging) <= self.surge
        allowed = 0 if self.surge else self.unavailable
        assert len(self.without_available_pod()) <= max(len(before), allowed)

    def _new_pod(self, node):
        metadata = {"name": next(self._names), "namespace": "shop", "labels": {}}
        metadata["labels"][HASH] = str(self.revision)
        return {
            "metadata": metadata,
            "spec": {"nodeName": node},
            "status": {"phase": "Pending", "conditions": []},
        }

    def live(self, node):
        return [
            pod
            for pod in self.pods
            if pod["spec"]["nodeName"] == node
            and "deletionTimestamp" not in pod["metadata"]
            and pod["status"]["phase"] != "Failed"
        ]

    def without_available_pod(self):
        return {node for node in self.eligible() if not any(map(is_ready, self.live(node)))}

    def eligible(self):
        return [name for name, node in self.nodes.items() if not node["spec"]["taints"]]

    # What may happen.

    def get_ready(self, pod):
        pod["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}

    def get_unready(self, pod):
        pod["status"]["conditions"] = []

    def fail(self, pod):
        pod["status"] = {"phase": "Failed", "conditions": []}

    def let_go(self, pod):
        if "deletionTimestamp" in pod["metadata"]:
            self.pods.remove(pod)

    def taint(self, node):
        spec = self.nodes[node]["spec"]
        spec["taints"] = [] if spec["taints"] else [BLOCKED]

    def settle(self):
        """Let all pods get ready or go, and reconcile, until nothing changes any more."""
        for _ in range(50):
            for pod in list(self.pods):
                self.let_go(pod)
            for pod in self.pods:
                if pod["status"]["phase"] != "Failed":
                    self.get_ready(pod)
            if not self.reconcile():
                return
        raise AssertionError("the update does not end")


def is_ready(pod):
    return bool(pod["status"]["conditions"])


LIMITS = st.sampled_from([(1, 0), (2, 0), (3, 0), (0, 1), (0, 2)])


@given(st.data(), LIMITS, st.integers(1, 6))
def test_made_up_lives(data, limits, nodes):
    """An update never takes more available pods than maxUnavailable allows, and never runs more
    second pods than maxSurge allows; at the end each eligible node has one pod, a new one."""
    life = Life(*limits, nodes)
    life.settle()
    for _ in range(data.draw(st.integers(0, 25), label="events")):
        event = data.draw(
            st.sampled_from(["reconcile", "update", "taint", "ready", "unready", "fail", "gone"])
        )
        if event == "reconcile":
            life.reconcile()
        elif event == "update":
            life.revision += 1
        elif event == "taint":
            life.taint(data.draw(st.sampled_from(sorted(life.nodes))))
        elif life.pods:
            pod = data.draw(st.sampled_from(life.pods))
            names = {"ready": life.get_ready, "unready": life.get_unready, "fail": life.fail}
            names.get(event, life.let_go)(pod)
    life.settle()
    for node in life.eligible():
        (pod,) = (each for each in life.pods if each["spec"]["nodeName"] == node)
        assert pod["metadata"]["labels"][HASH] == str(life.revision)
        assert is_ready(pod)
