"""Creating and updating objects: the rules for all kinds."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from kapiserver.api.errors import BadObject, InvalidObject
from kapiserver.api.group import GroupVersion
from kapiserver.api.types import Tree
from kapiserver.storage.cache.query import ADMITTED, Admission, DeleteQuery, Preconditions, Write
from kapiserver.storage.errors import AlreadyExists, NotFound, ObjectConflict, ResourceVersionSet
from tests.storage.objectkit import (
    StorageHarness,
    config_map,
    deployment,
    finalizers,
    key,
    put,
    run,
)

MODIFIED = (
    'Operation cannot be fulfilled on configmaps "a": the object has been modified; please apply '
    "your changes to the latest version and try again"
)
APPS = GroupVersion("apps", "v1")


# Creating.


def test_create_sets_server_fields() -> None:
    """A created object has a uid, a creationTimestamp and the resourceVersion of its write, in Go's
    key order."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        create_result = await store.create(config_map("a", labels={"x": "y"}, data={"k": "v"}))
        revision = await harness.kv.current_revision()
        assert create_result.outcome == "created"
        assert create_result.entry.revision == revision
        assert json.dumps(create_result.entry.tree()) == json.dumps(
            {
                "kind": "ConfigMap",
                "apiVersion": "v1",
                "metadata": {
                    "name": "a",
                    "namespace": "default",
                    "uid": "00000000-0000-4000-8000-000000000001",
                    "resourceVersion": str(revision),
                    "creationTimestamp": "2023-11-14T22:13:20Z",
                    "labels": {"x": "y"},
                },
                "data": {"k": "v"},
            }
        )
        assert await store.get(key("a")) is create_result.entry

    run(test)


def test_create_ignores_server_fields() -> None:
    """Create ignores deletion fields and selfLink, and replaces uid and creationTimestamp."""

    async def test(harness: StorageHarness) -> None:
        body = config_map(
            "a",
            selfLink="/x",
            uid="mine",
            creationTimestamp="2001-01-01T00:00:00Z",
            deletionTimestamp="2001-01-01T00:00:00Z",
            deletionGracePeriodSeconds=5,
        )
        meta = (await harness.of("configmaps").create(body)).entry.tree()["metadata"]
        assert set(meta) == {"name", "namespace", "uid", "resourceVersion", "creationTimestamp"}
        assert meta["uid"].startswith("00000000")
        assert meta["creationTimestamp"].startswith("2023")

    run(test)


@pytest.mark.parametrize("version", ["1", "007", str(2**64 - 1)])
def test_create_with_a_resource_version_is_refused(version: str) -> None:
    """A create with a resourceVersion is an error, as in etcd3's store of kube-apiserver."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        with pytest.raises(ResourceVersionSet):
            await store.create(config_map("a", resourceVersion=version))
        await store.create(config_map("a", resourceVersion=version), Write(dry_run=True))

    run(test)


@pytest.mark.parametrize("version", ["", "0", "0" * 5000, "-1", "x", "1.5", "9" * 5000, "٣"])
def test_create_clears_resource_versions_that_are_none(version: str) -> None:
    """A new object may have resourceVersion 0, or a text that is not a number."""

    async def test(harness: StorageHarness) -> None:
        obj = config_map("a", resourceVersion=version)
        entry = (await harness.of("configmaps").create(obj)).entry
        assert entry.tree()["metadata"]["resourceVersion"] == str(entry.revision)

    run(test)


def test_create_twice_says_already_exists() -> None:
    """A second create of a name is AlreadyExists, also while the first object is terminating."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        await store.create(config_map("a", **finalizers("x.io/y")))
        with pytest.raises(AlreadyExists) as caught:
            await store.create(config_map("a"))
        assert str(caught.value) == 'configmaps "a" already exists'
        await store.delete(key("a"), DeleteQuery())
        with pytest.raises(AlreadyExists) as caught:
            await store.create(config_map("a"))
        assert str(caught.value) == 'object is being deleted: configmaps "a" already exists'
        assert caught.value.group == ""
        await harness.of("deployments", APPS).create(deployment("a"))
        with pytest.raises(AlreadyExists, match=r'^deployments.apps "a" already exists$'):
            await harness.of("deployments", APPS).create(deployment("a"))

    run(test)


def test_generate_name() -> None:
    """generateName is cut to 58 characters and completed with five; a given name takes
    precedence."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        harness.names.suffixes = iter(["aaaaa", "bbbbb"])
        first = await store.create(config_map(generateName="web-"))
        assert first.entry.key.name == "web-aaaaa"
        second = await store.create(config_map(generateName="x" * 80))
        assert second.entry.key.name == "x" * 58 + "bbbbb"
        third = await store.create(config_map("given", generateName="web-"))
        assert third.entry.key.name == "given"

    run(test)


def test_generate_name_tries_eight_times() -> None:
    """A generated name that exists is generated again; after eight attempts the error has a
    Retry-After."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        await store.create(config_map("web-aaaaa"))
        harness.names.suffixes = iter(["aaaaa"] * 7 + ["bbbbb"])
        create_result = await store.create(config_map(generateName="web-"))
        assert create_result.entry.key.name == "web-bbbbb"
        harness.names.suffixes = iter(["aaaaa"] * 9)
        with pytest.raises(AlreadyExists) as caught:
            await store.create(config_map(generateName="web-"))
        assert str(caught.value) == (
            'configmaps "web-aaaaa" already exists, '
            "the server was not able to generate a unique name for the object"
        )
        assert caught.value.retry_after == 1
        assert next(harness.names.suffixes) == "aaaaa"

    run(test)


def test_namespace_is_the_requests() -> None:
    """An object without a namespace gets the request's; a different namespace is refused."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        body = config_map("a")
        del body["metadata"]["namespace"]
        assert (await store.create(body, namespace="other")).entry.key == ("other", "a")
        with pytest.raises(BadObject) as caught:
            await store.create(config_map("b"), namespace="other")
        assert str(caught.value) == (
            "the namespace of the provided object does not match the namespace sent on the request"
        )

    run(test)


@pytest.mark.parametrize("name", ["", "UPPER", "a/b", "..", "x" * 254])
def test_bad_names_are_invalid(name: str) -> None:
    """A missing name, or one that breaks the kind's rule, is Invalid."""

    async def test(harness: StorageHarness) -> None:
        with pytest.raises(InvalidObject) as caught:
            await harness.of("configmaps").create(config_map(name))
        assert caught.value.kind == "ConfigMap"
        assert all(str(error.path) == "metadata.name" for error in caught.value.errors)

    run(test)


def test_dry_run_writes_nothing() -> None:
    """A dry run returns the result of the write and does not change the store."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        await store.create(config_map("there"))
        revision = await harness.kv.current_revision()
        create_result = await store.create(config_map("a"), Write(dry_run=True))
        assert create_result.outcome == "created"
        assert "resourceVersion" not in create_result.entry.tree()["metadata"]
        with pytest.raises(AlreadyExists):
            await store.create(config_map("there"), Write(dry_run=True))
        changed = await put(store, "there", "data", to={"k": "v"}, dry_run=True)
        assert changed.entry.tree()["data"] == {"k": "v"}
        deletion = await store.delete(key("there"), DeleteQuery(dry_run=True))
        assert deletion.outcome == "deleted"
        assert await harness.kv.current_revision() == revision
        assert "data" not in (await store.get(key("there"))).tree()

    run(test)


# Changing.


def test_update_writes_a_new_version() -> None:
    """An update keeps uid and creationTimestamp, and changes the resourceVersion."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        old = (await store.create(config_map("a"))).entry.tree()
        harness.clock.advance(100)

        def change(current: Tree) -> Tree:
            current["metadata"] |= {"creationTimestamp": None, "uid": ""}
            return current | {"data": {"k": "v"}}

        create_result = await store.update(key("a"), change)
        new = create_result.entry.tree()
        assert create_result.outcome == "updated"
        assert new["data"] == {"k": "v"}
        for name in ("uid", "creationTimestamp"):
            assert new["metadata"][name] == old["metadata"][name]
        assert int(new["metadata"]["resourceVersion"]) > int(old["metadata"]["resourceVersion"])

    run(test)


def test_update_that_only_reads() -> None:
    """An update function that only reads gets the current object itself; others get a copy."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        current = (await store.create(config_map("a"))).entry.tree()
        received: list[Tree] = []

        def change(tree: Tree) -> Tree:
            received.append(tree)
            return config_map("a")

        await store.update(key("a"), change, Write(reads_only=True, dry_run=True))
        await store.update(key("a"), change, Write(dry_run=True))
        assert received[0] is current
        assert received[1] == current
        assert received[1] is not current

    run(test)


def test_update_of_an_old_version_conflicts() -> None:
    """An update with an old resourceVersion is a conflict."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        old = (await store.create(config_map("a"))).entry.tree()
        await put(store, "a", "data", to={"k": "1"})
        with pytest.raises(ObjectConflict) as caught:
            await store.update(key("a"), lambda _: old | {"data": {"k": "2"}})
        assert str(caught.value) == MODIFIED

    run(test)


def test_unconditional_update() -> None:
    """An update without a resourceVersion replaces the current object, or is Invalid for kinds that
    require one."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        await store.create(config_map("a"))
        await put(store, "a", "data", to={"k": "1"})
        create_result = await store.update(key("a"), lambda _: config_map("a", data={"k": "2"}))
        assert create_result.entry.tree()["data"] == {"k": "2"}
        leases = harness.of("leases", GroupVersion("coordination.k8s.io", "v1"))
        lease = {
            "kind": "Lease",
            "apiVersion": "coordination.k8s.io/v1",
            "metadata": {"name": "a", "namespace": "default"},
            "spec": {},
        }
        await leases.create(json.loads(json.dumps(lease)))
        with pytest.raises(InvalidObject) as caught:
            await leases.update(key("a"), lambda _: json.loads(json.dumps(lease)))
        assert str(caught.value) == (
            'leases.coordination.k8s.io "a" is invalid: metadata.resourceVersion: '
            "Invalid value: 0: must be specified for an update"
        )

    run(test)


def test_identical_update_writes_nothing() -> None:
    """An update that changes nothing keeps the resourceVersion."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        first = await store.create(config_map("a", data={"k": "v"}))
        revision = await harness.kv.current_revision()
        create_result = await put(store, "a", "data", to={"k": "v"})
        assert create_result.outcome == "unchanged"
        assert create_result.entry is first.entry
        assert await harness.kv.current_revision() == revision

    run(test)


def test_update_with_another_uid_conflicts() -> None:
    """The uid of a PUT is a precondition, with kube-apiserver's message."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        await store.create(config_map("a"))
        more = {"preconditions": Preconditions(uid="other"), "may_create": True}
        cases = (("a", "00000000-0000-4000-8000-000000000001"), ("absent", ""))
        for name, uid in cases:
            with pytest.raises(ObjectConflict) as caught:
                await put(store, name, "data", to={}, **more)
            assert str(caught.value) == (
                f'Operation cannot be fulfilled on configmaps "{name}": StorageError: invalid '
                f"object, Code: 4, Key: /configmaps/default/{name}, ResourceVersion: 0, "
                "AdditionalErrorMsg: Precondition failed: UID in precondition: other, UID in "
                f"object meta: {uid}"
            )

    run(test)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("name", "b"),
        ("uid", "other"),
        ("deletionTimestamp", "2030-01-01T00:00:00Z"),
        ("deletionGracePeriodSeconds", 3),
    ],
)
def test_identity_is_immutable(name: str, value: Any) -> None:
    """An update can change neither name nor uid, and cannot set deletionTimestamp."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        await store.create(config_map("a"))
        with pytest.raises(InvalidObject) as caught:
            await put(store, "a", "metadata", name, to=value)
        (error,) = caught.value.errors
        assert str(error.path) == f"metadata.{name}"
        assert error.detail == "field is immutable"

    run(test)


def test_deletion_marks_cannot_be_removed() -> None:
    """An update of a terminating object keeps its deletionTimestamp and grace period."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        await store.create(config_map("a", **finalizers("x.io/y")))
        await store.delete(key("a"), DeleteQuery())

        def change(current: Tree) -> Tree:
            del current["metadata"]["deletionTimestamp"]
            del current["metadata"]["deletionGracePeriodSeconds"]
            return current | {"data": {"k": "v"}}

        meta = (await store.update(key("a"), change)).entry.tree()["metadata"]
        assert meta["deletionTimestamp"] == "2023-11-14T22:13:20Z"
        assert meta["deletionGracePeriodSeconds"] == 0

    run(test)


def test_update_of_an_absent_object() -> None:
    """An update of an absent object creates it if the kind allows that, or else is NotFound."""

    async def test(harness: StorageHarness) -> None:
        with pytest.raises(NotFound, match=r'^configmaps "a" not found$'):
            await put(harness.of("configmaps"), "a", "data", to={})
        event = {
            "kind": "Event",
            "apiVersion": "v1",
            "metadata": {"name": "a", "namespace": "default"},
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
            "source": {},
            "firstTimestamp": None,
            "lastTimestamp": None,
            "eventTime": None,
            "reportingComponent": "",
            "reportingInstance": "",
        }
        create_result = await harness.of("events").update(
            key("a"), lambda _: event, Write(may_create=True)
        )
        assert create_result.outcome == "created"
        assert create_result.entry.tree()["metadata"]["uid"]
        applied = await harness.of("configmaps").update(
            key("b"), lambda _: config_map("b"), Write(may_create=True)
        )
        assert applied.outcome == "created"

    run(test)


def test_generation_counts_changes_of_the_spec() -> None:
    """metadata.generation increases with changes of the spec, not with changes of labels or of
    generation itself."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("deployments", APPS)
        await store.create(deployment("a", generation=7))

        async def generation(*path: str, to: Any, subresource: str = "") -> int:
            update_result = await put(store, "a", *path, to=to, subresource=subresource)
            return int(update_result.entry.tree()["metadata"]["generation"])

        assert await generation("metadata", "labels", to={"x": "y"}) == 1
        assert await generation("spec", "replicas", to=2) == 2
        assert await generation("metadata", "generation", to=9) == 2
        assert await generation("status", "replicas", to=5, subresource="status") == 2
        entry = await store.get(key("a"))
        assert entry.tree()["status"]["replicas"] == 5
        assert await generation("status", to={}) == 2
        assert (await store.get(key("a"))).tree()["status"]["replicas"] == 5

    run(test)


def test_racing_updates_all_happen() -> None:
    """Fifty concurrent updates without a resourceVersion are all applied."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        await store.create(config_map("a", data={"n": "0"}))

        def increment(current: Tree) -> Tree:
            current["data"]["n"] = str(int(current["data"]["n"]) + 1)
            return current

        await asyncio.gather(*(store.update(key("a"), increment) for _ in range(50)))
        assert (await store.get(key("a"))).tree()["data"]["n"] == "50"

    run(test)


def test_admission() -> None:
    """Admission is called before each write with the new and the old object, and may change or
    refuse the new one."""

    async def test(harness: StorageHarness) -> None:
        store = harness.of("configmaps")
        calls: list[tuple[bool, bool]] = []

        async def admit(new: Tree | None, old: Tree | None) -> Admission:
            calls.append((new is not None, old is not None))
            if new is not None:
                new["data"] = {"by": "admission"}
            return ADMITTED

        async def refuse(new: Tree | None, old: Tree | None) -> Admission:
            raise BadObject("no")

        create_result = await store.create(config_map("a"), Write(admit=admit))
        assert create_result.entry.tree()["data"] == {"by": "admission"}
        await put(store, "a", "metadata", "labels", to={"x": "y"}, admit=admit)
        with pytest.raises(BadObject, match="no"):
            await store.delete(key("a"), DeleteQuery(), admit=refuse)
        await store.delete(key("a"), DeleteQuery(), admit=admit)
        assert calls == [(True, False), (True, True), (False, True)]

    run(test)
