"""Deleting objects: preconditions, finalizers, grace periods, collections."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kapiserver.api.errors import InvalidObject
from kapiserver.api.group import GroupVersion
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.cache.query import DeleteQuery, ListQuery, Preconditions, Write
from kapiserver.storage.errors import NotFound, ObjectConflict
from kapiserver.storage.kv.contract import Revision
from kapiserver.storage.wrappers.wrapped_store import WrappedStore
from tests.storage.objectkit import (
    StorageHarness,
    config_map,
    deployment,
    finalizers,
    key,
    named,
    open_harness,
    pod,
    put,
    run,
    setting,
)

APPS = GroupVersion("apps", "v1")


def test_delete_removes() -> None:
    """Delete returns the last state with the revision of the deletion; a later read is NotFound."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        await store.create(config_map("a", data={"k": "v"}))
        deletion = await store.delete(key("a"), DeleteQuery())
        assert deletion.outcome == "deleted"
        assert deletion.entry.tree()["data"] == {"k": "v"}
        assert deletion.entry.revision == await harness.kv.current_revision()
        with pytest.raises(NotFound):
            await store.get(key("a"))
        with pytest.raises(NotFound, match=r'^configmaps "a" not found$'):
            await store.delete(key("a"), DeleteQuery())

    run(test)


def test_delete_preconditions() -> None:
    """A delete whose uid or resourceVersion precondition fails is a conflict."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        meta = (await store.create(config_map("a"))).entry.tree()["metadata"]
        cases = (
            (
                Preconditions(uid="x"),
                f"the UID in the precondition (x) does not match the UID in record "
                f"({meta['uid']}). The object might have been deleted and then recreated",
            ),
            (
                Preconditions(resource_version="1"),
                "the ResourceVersion in the precondition (1) does not match the ResourceVersion "
                f"in record ({meta['resourceVersion']}). The object might have been modified",
            ),
        )
        for preconditions, message in cases:
            with pytest.raises(ObjectConflict) as caught:
                await store.delete(key("a"), DeleteQuery(preconditions=preconditions))
            expected = f'Operation cannot be fulfilled on ConfigMap "a": {message}'
            assert str(caught.value) == expected
        right = Preconditions(uid=meta["uid"], resource_version=meta["resourceVersion"])
        deletion = await store.delete(key("a"), DeleteQuery(preconditions=right))
        assert deletion.outcome == "deleted"

    run(test)


def test_finalizers_hold_until_removed() -> None:
    """Deleting an object with finalizers sets its deletionTimestamp and increments its generation;
    removing the last finalizer deletes it."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("deployments", APPS)
        await store.create(deployment("a", **finalizers("x.io/one", "x.io/two")))
        marked = await store.delete(key("a"), DeleteQuery())
        assert marked.outcome == "terminating"
        meta = marked.entry.tree()["metadata"]
        assert meta["deletionTimestamp"] == "2023-11-14T22:13:20Z"
        assert meta["deletionGracePeriodSeconds"] == 0
        assert meta["generation"] == 2
        second_deletion = await store.delete(key("a"), DeleteQuery())
        assert second_deletion.outcome == "terminating"
        assert second_deletion.entry.revision == marked.entry.revision
        with pytest.raises(InvalidObject, match="no new finalizers can be added"):
            await put(store, "a", "metadata", "finalizers", to=["x.io/one", "x.io/new"])
        first_update = await put(store, "a", "metadata", "finalizers", to=["x.io/one"])
        assert first_update.outcome == "updated"
        deletion = await put(store, "a", "metadata", "finalizers", to=[])
        assert deletion.outcome == "deleted"
        assert deletion.entry.revision == await harness.kv.current_revision()
        with pytest.raises(NotFound):
            await store.get(key("a"))

    run(test)


@pytest.mark.parametrize(
    ("policy", "initial", "after"),
    [
        ("Orphan", [], ["orphan"]),
        ("Foreground", ["x.io/y"], ["x.io/y", "foregroundDeletion"]),
        ("Foreground", ["orphan"], ["foregroundDeletion"]),
        (None, ["orphan"], ["orphan"]),
        ("Background", ["x.io/y", "orphan"], ["x.io/y"]),
    ],
)
def test_propagation_policy_is_recorded(policy: Any, initial: list[str], after: list[str]) -> None:
    """The policies Orphan and Foreground add their finalizer for the garbage collector."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        await store.create(config_map("a", **finalizers(*initial)))
        marked = await store.delete(key("a"), DeleteQuery(propagation_policy=policy))
        assert marked.outcome == "terminating"
        assert marked.entry.tree()["metadata"]["finalizers"] == after

    run(test)


def test_background_takes_the_orphan_finalizer_away() -> None:
    """A delete with policy Background removes the finalizer `orphan`, and the object if it has no
    other."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        await store.create(config_map("a", **finalizers("orphan")))
        query = DeleteQuery(propagation_policy="Background")
        assert (await store.delete(key("a"), query)).outcome == "deleted"

    run(test)


class Kubelet(WrappedStore):
    """Removes each object that is updated at once, as a kubelet removes a pod that has ended."""

    async def update(self, key: str, value: bytes, **options: Any) -> Revision:
        revision = await super().update(key, value, **options)
        return await super().delete(key, expected=revision)


async def test_kubelet_removes_a_pod_first() -> None:
    """A deletion without a grace period succeeds if a kubelet removes the pod that it has marked
    as terminating."""
    async with open_harness() as inner:
        harness = StorageHarness(Kubelet(inner.kv))
        store = harness.of("pods")
        await store.create(pod("a", node="n"))
        deletion = await store.delete(key("a"), DeleteQuery(grace_period_seconds=0))
        assert deletion.outcome == "deleted"
        assert deletion.entry.tree()["metadata"]["deletionGracePeriodSeconds"] == 0
        with pytest.raises(NotFound):
            await store.delete(key("a"), DeleteQuery(grace_period_seconds=0))
        harness.stores.stop()


def test_grace_period_of_pods() -> None:
    """A scheduled pod gets its grace period; a later delete can only shorten it, and zero deletes
    the pod."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("pods")
        await store.create(pod("a", node="n"))

        async def delete(seconds: int | None) -> tuple[str, str, int]:
            deletion = await store.delete(key("a"), DeleteQuery(grace_period_seconds=seconds))
            meta = deletion.entry.tree()["metadata"]
            deletion_time = meta["deletionTimestamp"]
            return deletion.outcome, deletion_time, meta["deletionGracePeriodSeconds"]

        assert await delete(None) == ("terminating", "2023-11-14T22:13:50Z", 30)
        harness.clock.advance(5)
        assert await delete(40) == ("terminating", "2023-11-14T22:13:50Z", 30)
        assert await delete(None) == ("terminating", "2023-11-14T22:13:50Z", 30)
        assert await delete(10) == ("terminating", "2023-11-14T22:13:30Z", 10)
        assert await delete(-1) == ("terminating", "2023-11-14T22:13:21Z", 1)
        assert (await delete(0))[0] == "deleted"
        with pytest.raises(NotFound):
            await store.get(key("a"))

    run(test)


def test_unscheduled_pods() -> None:
    """An unscheduled pod is deleted immediately."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("pods")
        await store.create(pod("a"))
        assert (await store.delete(key("a"), DeleteQuery())).outcome == "deleted"

    run(test)


def test_namespaces_wait_for_their_own_finalizers() -> None:
    """A namespace stays in phase Terminating until `finalize` empties the finalizers of its
    spec."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("namespaces")
        namespace_key = ObjectKey("", "a")
        body = {
            "kind": "Namespace",
            "apiVersion": "v1",
            "metadata": {"name": "a"},
            "spec": {},
            "status": {},
        }
        await store.create(body)
        marked = await store.delete(namespace_key, DeleteQuery())
        assert marked.outcome == "terminating"
        assert marked.entry.tree()["status"]["phase"] == "Terminating"
        assert "deletionGracePeriodSeconds" not in marked.entry.tree()["metadata"]
        updated = await store.update(namespace_key, setting("spec", "finalizers", to=[]))
        assert updated.entry.tree()["spec"]["finalizers"] == ["kubernetes"]
        deletion = await store.update(
            namespace_key, setting("spec", "finalizers", to=[]), Write(subresource="finalize")
        )
        assert deletion.outcome == "deleted"

    run(test)


def test_delete_collection() -> None:
    """deletecollection deletes 1,200 selected objects in pages, and none in other namespaces."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        await asyncio.gather(
            *(store.create(config_map(f"c{number:04d}")) for number in range(1200)),
            store.create(config_map("other", "elsewhere")),
        )
        deletions = await store.delete_collection(ListQuery(namespace="default"), DeleteQuery())
        assert len(deletions) == 1200
        assert {first_update.outcome for first_update in deletions} == {"deleted"}
        assert named((await store.list(ListQuery())).entries) == ["other"]

    run(test)
