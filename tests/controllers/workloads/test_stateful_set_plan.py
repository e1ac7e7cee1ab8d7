"""The core of StatefulSets: tables of single plans, and whole lives made up by hypothesis."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kapiserver.controllers.workloads.revisions import (
    REVISION_HASH,
    new_revision,
    newest_equal,
    surplus_revisions,
)
from kapiserver.controllers.workloads.stateful_set.identity import is_member
from kapiserver.controllers.workloads.stateful_set.plan import max_unavailable, plan_stateful_set
from kapiserver.controllers.workloads.stateful_set.status import Revisions
from kapiserver.controllers.workloads.stateful_set.volume_claims import is_stale, with_owners

NOW = 1_735_689_600.0
CLAIM = {"metadata": {"name": "data"}, "spec": {}}


def a_set(replicas: int = 3, image: str = "db:1", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db", "namespace": "shop", "uid": "s", "generation": 1},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "db"}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "template": {
                "metadata": {"labels": {"app": "db"}},
                "spec": {"containers": [{"name": "db", "image": image}]},
            },
            **spec,
        },
    }


def rolling(partition: int = 0, unavailable: int | str = 1) -> dict[str, Any]:
    rolling_update = {"partition": partition, "maxUnavailable": unavailable}
    return {"type": "RollingUpdate", "rollingUpdate": rolling_update}


def a_pod(ordinal: int, revision: str, state: str = "ready") -> dict[str, Any]:
    """A pod in the state ready, pending, failed or terminating."""
    name = f"db-{ordinal}"
    labels = {"statefulset.kubernetes.io/pod-name": name, REVISION_HASH: revision}
    metadata: dict[str, Any] = {"name": name, "uid": f"uid-{name}", "labels": labels}
    phases = {"pending": "Pending", "failed": "Failed"}
    status: dict[str, Any] = {"phase": phases.get(state, "Running")}
    if state in ("ready", "terminating"):
        status["conditions"] = [{"type": "Ready", "status": "True"}]
    if state == "terminating":
        metadata["deletionTimestamp"] = "2025-01-01T00:00:00Z"
    return {"metadata": metadata, "spec": {}, "status": status}


OLD = new_revision(a_set(image="db:1"), "hash", 1, 0)
NEW = new_revision(a_set(image="db:2"), "hash", 2, 0)
LETTERS = {"r": "ready", "p": "pending", "f": "failed", "t": "terminating"}


def pods_of(text: str) -> list[dict[str, Any]]:
    """The pods of ordinals 0, 1, ...: the state in lower case for the old revision, in upper case
    for the new one, "." for none."""
    return [
        a_pod(ordinal, (NEW if letter.isupper() else OLD)["metadata"]["name"], state)
        for ordinal, letter in enumerate(text)
        if (state := LETTERS.get(letter.lower()))
    ]


def steps_of(owner, text, claims=()):
    plan = plan_stateful_set(
        owner,
        pods_of(text),
        {each["metadata"]["name"]: each for each in claims},
        Revisions(OLD, NEW),
        NOW,
    )
    return [(step.verb, step.pod["metadata"]["name"]) for step in plan.steps]


PARALLEL = {"podManagementPolicy": "Parallel"}
ON_DELETE = {"updateStrategy": {"type": "OnDelete"}}


@pytest.mark.parametrize(
    ("replicas", "spec", "pods", "steps"),
    [
        # Pods are created in order, each after the one before is ready.
        (3, {}, "...", ["create db-0"]),
        (3, {}, "R..", ["create db-1"]),
        (3, {}, "P..", []),
        (3, {}, "R.R", ["create db-1"]),
        (3, {}, "RT.", []),
        (3, PARALLEL, "P..", ["create db-1", "create db-2"]),
        (0, {}, "", []),
        # A pod that has ended is deleted.
        (3, {}, "RFR", ["delete db-1"]),
        (3, PARALLEL, "FFR", ["delete db-0", "delete db-1"]),
        # Condemned pods are deleted one by one from the highest ordinal.
        (1, {}, "RRR", ["delete db-2"]),
        (1, {}, "RRT", []),
        (1, {}, "RRP", ["delete db-2"]),
        (1, {}, "RPP", []),
        (1, {}, "RPR", ["delete db-2"]),
        (1, {}, "PRR", []),
        (1, PARALLEL, "PRP", ["delete db-2", "delete db-1"]),
        # A change of the template replaces pods, down to the partition.
        (3, {}, "rrr", ["delete db-2"]),
        (3, {}, "rrR", ["delete db-1"]),
        (3, {}, "rrP", []),
        (3, {}, "rrt", []),
        (3, {"updateStrategy": rolling(2)}, "rrR", []),
        (3, {"updateStrategy": rolling(9)}, "rrr", []),
        (4, {"updateStrategy": rolling(0, 2)}, "rrrr", ["delete db-3", "delete db-2"]),
        (4, {"updateStrategy": rolling(0, "50%")}, "rrrR", ["delete db-2", "delete db-1"]),
        (3, ON_DELETE, "rrr", []),
        # Parallel: a broken pod is replaced although it uses up what may be unavailable.
        (3, PARALLEL, "prr", ["delete db-0"]),
        (3, PARALLEL, "ppr", ["delete db-1", "delete db-0"]),
        (3, PARALLEL, "rrP", []),
        (3, PARALLEL | {"updateStrategy": rolling(1, 2)}, "prr", ["delete db-2"]),
    ],
)
def test_steps(replicas, spec, pods, steps):
    found = steps_of(a_set(replicas, "db:2", **spec), pods)
    assert [f"{verb} {name}" for verb, name in found] == steps


def test_deleted_set_makes_no_steps():
    owner = a_set(3)
    owner["metadata"]["deletionTimestamp"] = "2025-01-01T00:00:00Z"
    assert steps_of(owner, "r..") == []


@pytest.mark.parametrize(
    ("value", "replicas", "number"),
    [(None, 3, 1), (2, 3, 2), ("10%", 3, 1), ("50%", 5, 2), ("100%", 5, 5)],
)
def test_max_unavailable(value, replicas, number):
    assert max_unavailable(a_set(replicas, updateStrategy=rolling(0, value))) == number


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("db-0", True),
        ("db-12", True),
        ("db", False),
        ("db-x", False),
        ("other-0", False),
        ("db-a-0", False),
        ("db-99999999999", False),
    ],
)
def test_members(name, is_one):
    assert is_member(a_set(), {"metadata": {"name": name}}) is is_one


SET_OWNER = ("StatefulSet", "db", "s")
POD_OWNER = ("Pod", "db-0", "uid-db-0")
OTHER = ("Job", "other", "o")
FORMER_POD = ("Pod", "db-0", "former")


def a_claim(*owners):
    references = [
        {
            "apiVersion": "v1" if kind == "Pod" else "apps/v1",
            "kind": kind,
            "name": name,
            "uid": uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
        for kind, name, uid in owners
    ]
    return {"metadata": {"name": "data-db-0", "ownerReferences": references}}


@pytest.mark.parametrize(
    ("scaled", "deleted", "in_use", "before", "after"),
    [
        ("Retain", "Retain", True, [SET_OWNER, POD_OWNER], []),
        ("Retain", "Retain", True, [OTHER], [OTHER]),
        ("Retain", "Delete", True, [], [SET_OWNER]),
        ("Retain", "Delete", False, [], [SET_OWNER]),
        ("Delete", "Retain", True, [POD_OWNER], []),
        ("Delete", "Retain", False, [], [POD_OWNER]),
        ("Delete", "Delete", True, [POD_OWNER], [SET_OWNER]),
        ("Delete", "Delete", False, [SET_OWNER], [POD_OWNER]),
        # What another object controls, or a former pod, is left alone.
        ("Delete", "Delete", True, [OTHER], [OTHER]),
        ("Delete", "Delete", True, [OTHER, SET_OWNER], [OTHER]),
        ("Delete", "Delete", True, [FORMER_POD], [FORMER_POD]),
    ],
)
def test_owners_of_claims(scaled, deleted, in_use, before, after):
    policy = {"whenScaled": scaled, "whenDeleted": deleted}
    owner = a_set(persistentVolumeClaimRetentionPolicy=policy)
    changed = with_owners(a_claim(*before), owner, a_pod(0, "x"), in_use=in_use)
    assert changed["metadata"]["ownerReferences"] == a_claim(*after)["metadata"]["ownerReferences"]


@pytest.mark.parametrize(
    ("scaled", "owners", "stale"),
    [("Delete", [FORMER_POD], True), ("Retain", [FORMER_POD], False), ("Delete", [], False)],
)
def test_stale_claims(scaled, owners, stale):
    policy = {"whenScaled": scaled, "whenDeleted": "Retain"}
    owner = a_set(persistentVolumeClaimRetentionPolicy=policy, volumeClaimTemplates=[CLAIM])
    claims = {"data-db-0": a_claim(*owners)}
    assert is_stale(owner, "db-0", claims, 0) is stale
    creates = steps_of(owner, "", claims.values())
    assert bool(creates) is not stale


def test_claim_that_is_being_deleted():
    claim = a_claim()
    claim["metadata"]["deletionTimestamp"] = "2025-01-01T00:00:00Z"
    owner = a_set(volumeClaimTemplates=[CLAIM])
    (step,) = plan_stateful_set(owner, [], {"data-db-0": claim}, Revisions(OLD, NEW), NOW).steps
    assert step.leaving_claims == ["data-db-0"]


def test_revisions():
    """A revision is found by its template; the history keeps the newest and those in use."""
    history = [new_revision(a_set(image=f"db:{n}"), "hash", n, 0) for n in range(1, 7)]
    assert newest_equal(a_set(image="db:3"), history) is history[2]
    assert newest_equal(a_set(image="db:9"), history) is None
    names = [each["metadata"]["name"] for each in history]
    limited = a_set(revisionHistoryLimit=2)
    surplus = surplus_revisions(limited, history, {names[0], names[5]})
    assert surplus == history[1:3]
    assert surplus_revisions(a_set(revisionHistoryLimit=6), history, set()) == []
    other = new_revision(a_set(image="db:1"), "hash", 1, 1)
    assert other["metadata"]["name"] != names[0]


# Whole lives.


class World:
    """A StatefulSet and its pods, to which plans are applied as the controller does."""

    def __init__(self, owner: dict[str, Any]) -> None:
        self.owner = owner
        self.pods: dict[str, dict[str, Any]] = {}
        self.history = [OLD]
        self.current, self.update = OLD, OLD
        self.is_ordered = owner["spec"].get("podManagementPolicy") != "Parallel"

    @property
    def partition(self) -> int:
        partition: int = self.owner["spec"]["updateStrategy"]["rollingUpdate"]["partition"]
        return partition

    def is_working(self, name: str) -> bool:
        pod = self.pods.get(name)
        return bool(pod and pod["status"].get("conditions")) and not is_leaving(pod)

    def reconcile(self) -> bool:
        """Check a plan, apply it, and return whether it had steps."""
        plan = plan_stateful_set(
            self.owner, list(self.pods.values()), {}, Revisions(self.current, self.update), NOW
        )
        self.check_update(plan.steps)
        for step in plan.steps:
            name = step.pod["metadata"]["name"]
            if step.verb == "create":
                self.create(name, step.pod)
            elif step.verb == "delete":
                self.delete(name)
        self.owner["status"] = plan.status
        by_name = {each["metadata"]["name"]: each for each in self.history}
        self.current = by_name[plan.status["currentRevision"]]
        assert plan.status.get("currentReplicas", 0) >= 0
        return bool(plan.steps)

    def create(self, name: str, pod: dict[str, Any]) -> None:
        assert name not in self.pods, "two pods of one ordinal"
        ordinal = int(name.removeprefix("db-"))
        assert ordinal < self.owner["spec"]["replicas"]
        if self.is_ordered:
            assert all(self.is_working(f"db-{before}") for before in range(ordinal))
        below = ordinal < self.partition
        revision = self.current if below else self.update
        assert pod["metadata"]["labels"][REVISION_HASH] == revision["metadata"]["name"]
        pod["metadata"]["uid"] = f"{name}-{len(self.pods)}"
        pod["status"] = {"phase": "Pending"}
        self.pods[name] = pod

    def delete(self, name: str) -> None:
        pod = self.pods[name]
        assert not is_leaving(pod)
        pod["metadata"]["deletionTimestamp"] = "2025-01-01T00:00:00Z"

    def check_update(self, steps: Any) -> None:
        """Working pods that are still wanted are deleted only at or above the partition, and only
        as many as may be unavailable."""
        replicas = self.owner["spec"]["replicas"]
        names = [f"db-{ordinal}" for ordinal in range(replicas)]
        deleted = {step.pod["metadata"]["name"] for step in steps if step.verb == "delete"}
        working = {name for name in names if self.is_working(name)}
        for name in deleted & working:
            assert int(name.removeprefix("db-")) >= self.partition
            outdated = self.pods[name]["metadata"]["labels"][REVISION_HASH]
            assert outdated != self.update["metadata"]["name"]
        if deleted & working:
            assert replicas - len(working - deleted) <= max_unavailable(self.owner)
        condemned = deleted - set(names)
        if self.is_ordered and condemned:
            assert condemned == {max(self.pods, key=lambda name: int(name[3:]))}
            assert len(deleted) == 1

    def set_image(self, image: str) -> None:
        container = {"name": "db", "image": image}
        self.owner["spec"]["template"]["spec"]["containers"] = [container]
        revision = newest_equal(self.owner, self.history)
        if revision is None:
            revision = new_revision(self.owner, "hash", len(self.history) + 1, 0)
            self.history.append(revision)
        self.update = revision

    def settle(self) -> None:
        """Reconcile and let all pods live until nothing is left to do."""
        for _ in range(60):
            self.reconcile()
            for name in list(self.pods):
                self.let_live(name)

    def let_live(self, name: str) -> None:
        """End a pod that is being deleted; make a pending one ready."""
        pod = self.pods[name]
        if is_leaving(pod):
            del self.pods[name]
        elif pod["status"]["phase"] == "Pending":
            ready = {"type": "Ready", "status": "True"}
            pod["status"] = {"phase": "Running", "conditions": [ready]}


def is_leaving(pod: dict[str, Any]) -> bool:
    return "deletionTimestamp" in pod["metadata"]


ACTIONS = st.one_of(
    st.tuples(st.just("image"), st.integers(1, 3)),
    st.tuples(st.just("replicas"), st.integers(0, 5)),
    st.tuples(st.just("partition"), st.integers(0, 5)),
    st.tuples(st.just("live"), st.integers(0, 5)),
    st.tuples(st.just("fail"), st.integers(0, 5)),
    st.tuples(st.just("delete"), st.integers(0, 5)),
    st.tuples(st.just("settle"), st.just(0)),
)


@settings(max_examples=150, deadline=None)
@given(
    parallel=st.booleans(),
    unavailable=st.integers(1, 3),
    actions=st.lists(ACTIONS, max_size=20),
)
def test_invariants(parallel, unavailable, actions):
    """Whatever happens, the rules of `World` hold; in the end all pods are as wanted."""
    policy = "Parallel" if parallel else "OrderedReady"
    owner = a_set(3, podManagementPolicy=policy, updateStrategy=rolling(0, unavailable))
    world = World(owner)
    world.settle()
    for action, number in actions:
        name = f"db-{number}"
        if action == "image":
            world.set_image(f"db:{number}")
        elif action == "replicas":
            owner["spec"]["replicas"] = number
        elif action == "partition":
            owner["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = number
        elif action == "settle":
            world.settle()
        elif action == "live" and name in world.pods:
            world.let_live(name)
        elif action == "fail" and name in world.pods:
            world.pods[name]["status"] = {"phase": "Failed"}
        elif action == "delete" and name in world.pods and not is_leaving(world.pods[name]):
            world.delete(name)
        world.reconcile()
    owner["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = 0
    world.settle()
    assert not world.reconcile()
    assert set(world.pods) == {f"db-{ordinal}" for ordinal in range(owner["spec"]["replicas"])}
    for name, pod in world.pods.items():
        assert world.is_working(name)
        assert pod["metadata"]["labels"][REVISION_HASH] == world.update["metadata"]["name"]
    assert owner["status"].get("updatedReplicas", 0) == owner["spec"]["replicas"]
