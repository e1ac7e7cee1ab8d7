"""The core of Deployments: tables of single syncs, and whole rollouts made up by hypothesis."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kapiserver.controllers.workloads.deployment.plan import Plan, plan_deployment
from kapiserver.controllers.workloads.deployment.replica_sets import has_collided
from kapiserver.controllers.workloads.deployment.strategy import max_surge, max_unavailable

NOW = 1_735_689_600.0
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAXIMUM = "deployment.kubernetes.io/max-replicas"
REVISION = "deployment.kubernetes.io/revision"


def a_deployment(replicas: int = 3, image: str = "web:1", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "uid": "d", "generation": 1},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
            },
            "progressDeadlineSeconds": 600,
            "revisionHistoryLimit": 10,
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": image}]},
            },
            **spec,
        },
    }


def rolling(surge: int | str, unavailable: int | str) -> dict[str, Any]:
    return {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable},
    }


class World:
    """A Deployment and its ReplicaSets, to which plans are applied as the controllers would."""

    def __init__(self, deployment: dict[str, Any]) -> None:
        self.deployment = deployment
        self.replica_sets: list[dict[str, Any]] = []
        self.now = NOW

    def sync(self) -> Plan:
        plan = plan_deployment(self.deployment, copy.deepcopy(self.replica_sets), {}, self.now)
        by_name = {each["metadata"]["name"]: each for each in self.replica_sets}
        for changed in plan.update:
            name = changed["metadata"]["name"]
            by_name[name] = changed | {"status": by_name[name].get("status", {})}
        if plan.create is not None:
            name = plan.create["metadata"]["name"]
            assert name not in by_name
            created = copy.deepcopy(plan.create)
            created["metadata"] |= {
                "uid": name,
                "creationTimestamp": f"2025-01-01T00:{len(by_name):02}:00Z",
            }
            by_name[name] = created
        for gone in plan.delete:
            del by_name[gone["metadata"]["name"]]
        self.replica_sets = list(by_name.values())
        self.deployment["status"] = plan.status
        if plan.revision:
            self.deployment["metadata"].setdefault("annotations", {})[REVISION] = plan.revision
        return plan

    def run_pods(self, replica_set: dict[str, Any], available: int) -> None:
        replicas = replica_set["spec"]["replicas"]
        replica_set["status"] = {
            "replicas": replicas,
            "readyReplicas": available,
            "availableReplicas": available,
            "observedGeneration": replica_set["metadata"].get("generation", 0),
        }

    def all_available(self) -> None:
        for each in self.replica_sets:
            self.run_pods(each, each["spec"]["replicas"])

    def roll_out(self) -> None:
        for _ in range(100):
            plan = self.sync()
            self.all_available()
            if (
                not plan.update
                and plan.create is None
                and self.condition("Progressing")
                == (
                    "True",
                    "NewReplicaSetAvailable",
                )
            ):
                return
        raise AssertionError("the rollout does not end")

    def condition(self, name: str) -> tuple[str, str] | None:
        for each in self.deployment["status"]["conditions"]:
            if each["type"] == name:
                return each["status"], each["reason"]
        return None

    @property
    def sizes(self) -> list[int]:
        return [each["spec"]["replicas"] for each in self.replica_sets]

    def change_image(self, image: str) -> None:
        self.deployment["spec"]["template"]["spec"]["containers"][0]["image"] = image
        self.deployment["metadata"]["generation"] += 1


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "limits"),
    [
        (4, "25%", "25%", (1, 1)),
        (10, "25%", "25%", (3, 2)),
        (1, "25%", "25%", (1, 0)),
        (2, "1%", "1%", (1, 0)),
        (1, 0, "1%", (0, 1)),
        (3, 1, 0, (1, 0)),
        (3, 5, 5, (5, 3)),
        (0, "25%", "25%", (0, 0)),
        (7, "050%", "99%", (4, 6)),
    ],
)
def test_limits_of_a_rolling_update(
    replicas: int, surge: int | str, unavailable: int | str, limits: tuple[int, int]
) -> None:
    deployment = a_deployment(replicas, strategy=rolling(surge, unavailable))
    assert (max_surge(deployment), max_unavailable(deployment)) == limits


def test_first_sync_creates_the_replica_set() -> None:
    world = World(a_deployment())
    world.deployment["metadata"]["annotations"] = {
        "team": "shop",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
    }
    plan = world.sync()
    assert plan.create is not None
    metadata, spec = plan.create["metadata"], plan.create["spec"]
    digest = metadata["labels"]["pod-template-hash"]
    assert metadata["name"] == f"web-{digest}"
    assert metadata["annotations"] == {
        "team": "shop",
        REVISION: "1",
        DESIRED: "3",
        MAXIMUM: "4",
    }
    assert metadata["ownerReferences"][0] == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": "web",
        "uid": "d",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    assert spec["replicas"] == 3
    assert spec["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": digest}
    assert spec["template"]["metadata"]["labels"] == spec["selector"]["matchLabels"]
    assert [each.message for each in plan.events] == [
        f"Scaled up replica set web-{digest} from 0 to 3"
    ]
    assert plan.revision == "1"
    assert world.condition("Progressing") == ("True", "NewReplicaSetCreated")
    assert world.condition("Available") == ("False", "MinimumReplicasUnavailable")
    assert plan.requeue_after == 601


def test_a_finished_rollout_says_so_and_changes_nothing() -> None:
    world = World(a_deployment())
    world.roll_out()
    name = world.replica_sets[0]["metadata"]["name"]
    conditions = {each["type"]: each for each in world.deployment["status"]["conditions"]}
    assert conditions["Progressing"]["message"] == (
        f'ReplicaSet "{name}" has successfully progressed.'
    )
    assert conditions["Available"]["message"] == "Deployment has minimum availability."
    before = copy.deepcopy(world.deployment)
    world.now += 1000
    plan = world.sync()
    assert (plan.create, plan.update, plan.delete, plan.events) == (None, [], [], [])
    assert world.deployment == before
    assert plan.requeue_after is None


def test_rollout_within_surge_and_unavailable() -> None:
    world = World(a_deployment(4, strategy=rolling(1, 1)))
    world.roll_out()
    world.change_image("web:2")
    steps = []
    for _ in range(20):
        world.sync()
        steps.append(tuple(world.sizes))
        world.all_available()
    assert steps[0] == (3, 1)
    assert steps[-1] == (0, 4)
    assert world.deployment["metadata"]["annotations"][REVISION] == "2"


def test_undo_raises_the_revision_and_keeps_history() -> None:
    world = World(a_deployment())
    world.roll_out()
    world.change_image("web:2")
    world.roll_out()
    world.change_image("web:1")
    world.roll_out()
    annotations = world.replica_sets[0]["metadata"]["annotations"]
    assert annotations[REVISION] == "3"
    assert annotations["deployment.kubernetes.io/revision-history"] == "1"
    assert world.sizes == [3, 0]


def test_a_rollout_that_stands_still_times_out_and_recovers() -> None:
    world = World(a_deployment())
    world.roll_out()
    world.change_image("web:broken")
    world.sync()
    world.run_pods(world.replica_sets[1], 0)
    world.sync()
    world.now += 599
    assert world.sync().requeue_after is not None
    assert world.condition("Progressing") == ("True", "ReplicaSetUpdated")
    world.now += 2
    plan = world.sync()
    assert world.condition("Progressing") == ("False", "ProgressDeadlineExceeded")
    assert plan.requeue_after is None
    world.all_available()
    world.roll_out()
    assert world.sizes == [0, 3]


def test_a_paused_deployment_scales_but_does_not_roll() -> None:
    world = World(a_deployment(4))
    world.roll_out()
    world.deployment["spec"]["paused"] = True
    world.change_image("web:2")
    world.deployment["spec"]["replicas"] = 6
    world.sync()
    assert world.sizes == [6]
    assert world.condition("Progressing") == ("Unknown", "DeploymentPaused")
    world.deployment["spec"]["paused"] = False
    world.all_available()
    world.sync()
    assert world.sizes[1:] == [2]
    world.all_available()
    world.roll_out()
    assert world.sizes == [0, 6]


def test_scaling_during_a_rollout_is_proportional() -> None:
    # The example of the Deployment's documentation: 8 old and 5 new pods of 10, scaled to 15.
    world = World(a_deployment(10, strategy=rolling(3, 2)))
    world.roll_out()
    world.change_image("web:2")
    world.sync()
    world.run_pods(world.replica_sets[1], 0)
    world.sync()
    assert world.sizes == [8, 5]
    world.run_pods(world.replica_sets[0], 8)
    world.run_pods(world.replica_sets[1], 0)
    world.deployment["spec"]["replicas"] = 15
    world.deployment["metadata"]["generation"] += 1
    world.sync()
    assert world.sizes == [11, 7]
    assert {each["metadata"]["annotations"][DESIRED] for each in world.replica_sets} == {"15"}


def test_recreate_waits_for_old_pods() -> None:
    world = World(a_deployment(strategy={"type": "Recreate"}))
    world.roll_out()
    world.change_image("web:2")
    world.sync()
    assert world.sizes == [0]
    world.sync()
    assert world.sizes == [0]  # its status still counts three pods
    world.run_pods(world.replica_sets[0], 0)
    running = {"web": [{"status": {"phase": "Running"}}]}
    plan = plan_deployment(world.deployment, world.replica_sets, running, NOW)
    assert plan.create is None
    world.sync()
    assert world.sizes == [0, 3]


@pytest.mark.parametrize(("limit", "left"), [(0, 1), (1, 2), (2, 3), (10, 4)])
def test_history_limit(limit: int, left: int) -> None:
    world = World(a_deployment(revisionHistoryLimit=limit))
    for number in range(4):
        world.change_image(f"web:{number}")
        world.roll_out()
    world.sync()
    assert len(world.replica_sets) == left
    revisions = [each["metadata"]["annotations"][REVISION] for each in world.replica_sets]
    assert revisions == [str(each) for each in range(5 - left, 5)]


def test_failures_of_replica_sets_are_shown() -> None:
    world = World(a_deployment())
    world.sync()
    failure = {
        "type": "ReplicaFailure",
        "status": "True",
        "reason": "FailedCreate",
        "message": "exceeded quota",
        "lastTransitionTime": "2025-01-01T00:00:00Z",
    }
    world.replica_sets[0]["status"] = {"conditions": [failure], "replicas": 0}
    world.sync()
    assert world.condition("ReplicaFailure") == ("True", "FailedCreate")
    world.all_available()
    world.sync()
    assert world.condition("ReplicaFailure") is None


def test_collision() -> None:
    world = World(a_deployment())
    plan = world.sync()
    assert plan.create is not None
    own = plan.create
    foreign = own | {"metadata": own["metadata"] | {"ownerReferences": []}}
    assert not has_collided(world.deployment, own)
    assert has_collided(world.deployment, foreign)
    world.deployment["status"]["collisionCount"] = 1
    again = plan_deployment(world.deployment, [], {}, NOW)
    assert again.create is not None
    assert again.create["metadata"]["name"] != own["metadata"]["name"]


limits = st.one_of(st.integers(0, 4), st.integers(0, 100).map("{}%".format))


@settings(deadline=None, max_examples=150)
@given(st.data(), st.integers(1, 12), limits, limits)
def test_rollouts_stay_within_their_limits_and_end(
    data: st.DataObject, replicas: int, surge: int | str, unavailable: int | str
) -> None:
    """Pods become available one by one in any order, and images change in the middle: there are
    never more pods than maxSurge allows, nor fewer available ones than maxUnavailable allows."""
    world = World(a_deployment(replicas, strategy=rolling(surge, unavailable)))
    world.roll_out()
    most = replicas + max_surge(world.deployment)
    fewest = replicas - max_unavailable(world.deployment)
    world.change_image("web:2")
    for number in range(data.draw(st.integers(1, 15))):
        world.sync()
        assert sum(world.sizes) <= most
        for each in world.replica_sets:
            size = each["spec"]["replicas"]
            before = min(each.get("status", {}).get("availableReplicas", 0), size)
            world.run_pods(each, data.draw(st.integers(before, size)))
        available = sum(each["status"]["availableReplicas"] for each in world.replica_sets)
        assert available >= fewest
        if number == 5 and data.draw(st.booleans()):
            world.change_image("web:3")
    world.roll_out()
    assert sorted(world.sizes)[-1] == replicas == sum(world.sizes)
