"""Brings clusters to the state that their objects ask for: prepares new ones, deletes the objects
of deleted ones, closes those whose settings have changed, and wakes those whose controllers have
work.

It runs on every server: each one follows the objects, and of writes that several make the first one
counts. A new Cluster gets the finalizer before its status says Ready, so that no cluster has rows
without an object that says so. The keys of a cluster have its uid, so that a server which writes
into a deleted cluster, because it has not heard of the deletion yet, writes nothing into a later
cluster of the same name.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime

from msgspec import Struct
from msgspec.structs import replace

from kapiserver.api.accessors import finalizers_of, metadata_of
from kapiserver.api.conditions import set_condition, without_condition
from kapiserver.api.resource_client import ResourceClient, StatusError
from kapiserver.api.types import Tree
from kapiserver.clusters.client_ca import PemAuthority, is_usable, new_client_ca
from kapiserver.clusters.cluster_kind import (
    CLUSTERS,
    FINALIZER,
    READY,
    RESOURCE,
    TERMINATING,
    USERS,
    ClusterRecord,
    record_of,
)
from kapiserver.clusters.credentials import (
    NAMESPACE,
    Credentials,
    belongs_to,
    credentials_of,
    new_secret,
    with_client_ca,
)
from kapiserver.clusters.end_users import problem_of_issuers
from kapiserver.clusters.open_clusters import OpenClusters
from kapiserver.clusters.settings import account_issuer
from kapiserver.clusters.templates import Templates
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.served_watch import ServedWatch
from kapiserver.controllers.loop.writing import delete_object, suppress_reason, update_object
from kapiserver.storage.concurrency.background_tasks import BackgroundTasks
from kapiserver.storage.concurrency.clock import Timer
from kapiserver.storage.errors import Conflict
from kapiserver.storage.kv.contract import KV
from kapiserver.storage.objects.informer import ObjectChange
from kapiserver.storage.objects.lifecycle import timestamp

PAGE = 100
"""Rows that are read and deleted in one step."""
CLOSED_SECONDS = 5.0
"""The time in which every server of a shared store has closed a deleted cluster."""
WAKE_RETRY_SECONDS = 10.0
"""Pause before a cluster is opened again that has work and could not be opened."""

_log = logging.getLogger(__name__)


class ClusterSpace(Struct, frozen=True, kw_only=True):
    """Where clusters are.

    kv          the store of their rows
    root        the prefix of all their keys; the next segment is the uid of a cluster
    url         the URL of the server
    templates   the templates of the store
    client_root the root of the CAs of client certificates; None if there are none
    """

    kv: KV
    root: str
    url: str
    templates: Templates
    client_root: PemAuthority | None


class ClusterController(Controller[str]):
    """The control loop; its queue holds names of clusters.

    records     what the objects say, by name
    """

    workers = 8

    def __init__(
        self, context: ControllerContext, space: ClusterSpace, open_clusters: OpenClusters
    ) -> None:
        super().__init__(context)
        self._space = space
        self._open_clusters = open_clusters
        self.records: dict[str, ClusterRecord] = {}
        self._waiting: dict[str, asyncio.Event] = {}
        """Events that are set at the next change of a cluster, by name."""
        self._wakes: dict[str, Timer] = {}
        """The timers of closed clusters, by uid."""
        self._tasks = BackgroundTasks[None]()

    def set_up(self) -> None:
        """Watch clusters."""
        self._watch = ServedWatch(self, CLUSTERS, RESOURCE, self._on_change)

    async def stop(self) -> None:
        """Stop, and wake nobody any more."""
        for timer in self._wakes.values():
            timer.cancel()
        await super().stop()

    async def refresh(self) -> None:
        """Return when `records` has every Cluster that any server has written before the call.
        Raises Unavailable."""
        for informer in tuple(self._informers):
            await informer.fresh()

    async def wait_for(self, name: str, condition: Callable[[ClusterRecord | None], bool]) -> None:
        """Return when the record of a cluster meets a condition; None stands for no cluster."""
        while not condition(self.records.get(name)):
            await self._waiting.setdefault(name, asyncio.Event()).wait()

    def _on_change(self, change: ObjectChange) -> Iterable[str]:
        name = change.last.key.name
        if change.new is None:
            record = self.records.pop(name, None)
            if record is not None:
                self._end_wake(record)
        else:
            old = self.records.get(name)
            record = self.records[name] = record_of(change.new.tree())
            self._plan_wake(record)
            if old is not None and old.settings != record.settings:
                self._tasks.start(self._open_clusters.close(record.uid, "changed"))
        waiting = self._waiting.pop(name, None)
        if waiting is not None:
            waiting.set()
        if record is None or not _has_work(record):
            return ()
        return (name,)

    async def reconcile(self, name: str) -> None:
        """Prepare a new cluster, report what is wrong with its issuers, or delete the objects of a
        deleted one."""
        record = self.records.get(name)
        if record is None:
            return
        if record.is_open_to_requests:
            await self._report_users(record)
        elif not record.is_terminating:
            await self._prepare(record)
        elif record.has_finalizer:
            await self._delete(record)

    @property
    def _clusters(self) -> ResourceClient:
        return self.context.resource(str(CLUSTERS), RESOURCE)

    @property
    def _secrets(self) -> ResourceClient:
        return self.context.resource("v1", "secrets", namespace=NAMESPACE)

    # New clusters.

    async def _prepare(self, record: ClusterRecord) -> None:
        name, uid = record.name, record.uid
        if await update_object(self._clusters, name, _with_finalizer, uid=uid) is None:
            return  # it has been deleted
        await self._create_secret(record)
        templates = self._space.templates
        template = await templates.get(templates.current)  # another release cannot make it later
        await templates.copy_rows(template, record.key_root(self._space.root))
        now = timestamp(self.clock.now())

        def ready(tree: Tree) -> Tree:
            old = tree.get("status") or {}
            status = {
                "phase": READY,
                "url": f"{self._space.url}/{RESOURCE}/{name}",
                "template": templates.current,
            }
            status = set_condition({**old, **status}, READY, "True", "Prepared", "", now=now)
            return {**tree, "status": status}

        await update_object(self._clusters, name, ready, subresource="status", uid=uid)

    async def _report_users(self, record: ClusterRecord) -> None:
        """Bring the condition of the users of a cluster up to date."""
        problem = problem_of_issuers(record, account_issuer(self.server.config, record.name))
        value, reason = ("False", "Invalid") if problem else ("True", "Valid")
        now = timestamp(self.clock.now())

        def reported(tree: Tree) -> Tree:
            status = tree.get("status") or {}
            if record.issuers:
                status = set_condition(status, USERS, value, reason, problem, now=now)
            else:
                status = without_condition(status, USERS)
            return {**tree, "status": status}

        await update_object(
            self._clusters, record.name, reported, subresource="status", uid=record.uid
        )

    async def credentials(self, record: ClusterRecord) -> Credentials:
        """Return the credentials of a cluster; new ones if their Secret was deleted, and a new CA
        of client certificates if it is missing or unusable. Raises StatusError, ValueError."""
        try:
            secret = await self._secrets.get(record.name)
        except StatusError as error:
            if error.reason != "NotFound":
                raise
            secret = await self._create_secret(record)
        credentials, root = credentials_of(secret), self._space.client_root
        if root is None:
            return replace(credentials, client_ca=None)
        if is_usable(credentials.client_ca, root, datetime.now(UTC)):
            return credentials
        return await self._renew_client_ca(record, root)

    async def _renew_client_ca(self, record: ClusterRecord, root: PemAuthority) -> Credentials:
        client_ca = new_client_ca(record.uid, root, datetime.now(UTC))

        def renewed(secret: Tree) -> Tree:
            is_done = is_usable(credentials_of(secret).client_ca, root, datetime.now(UTC))
            return secret if is_done else with_client_ca(secret, client_ca)

        await update_object(self._secrets, record.name, renewed)
        return credentials_of(await self._secrets.get(record.name))

    def _new_secret(self, record: ClusterRecord) -> Tree:
        root = self._space.client_root
        client_ca = root and new_client_ca(record.uid, root, datetime.now(UTC))
        return new_secret(record, client_ca)

    async def _create_secret(self, record: ClusterRecord) -> Tree:
        """Create the Secret of a cluster, and return it; one of an earlier cluster of the name is
        deleted first."""
        try:
            return await self._secrets.create(self._new_secret(record))
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise
        secret = await self._secrets.get(record.name)
        if belongs_to(secret, record):
            return secret
        await delete_object(self._secrets, record.name)
        return await self._secrets.create(self._new_secret(record))

    # Deleted clusters.

    async def _delete(self, record: ClusterRecord) -> None:
        name, uid = record.name, record.uid
        await self._open_clusters.close(uid, "deleted")
        now = timestamp(self.clock.now())

        def terminating(tree: Tree) -> Tree:
            status = {**(tree.get("status") or {}), "phase": TERMINATING}
            text = "its objects are deleted"
            status = set_condition(status, READY, "False", "Deleted", text, now=now)
            return {**tree, "status": status}

        if record.phase != TERMINATING:
            await update_object(self._clusters, name, terminating, subresource="status", uid=uid)
            return  # the change of the status queues it again
        if self._space.kv.shared:
            seconds = record.changed_at + CLOSED_SECONDS - self.clock.now()
            if seconds > 0:
                self.queue.add_after(name, seconds)
                return
        await delete_rows(self._space.kv, f"{record.key_root(self._space.root)}/")
        with suppress_reason("NotFound"):
            if belongs_to(await self._secrets.get(name), record):
                await delete_object(self._secrets, name)
        await update_object(self._clusters, name, _without_finalizer, uid=uid)

    # Closed clusters.

    def _plan_wake(self, record: ClusterRecord) -> None:
        """Wake a cluster when its controllers have work, unless it is open."""
        self._end_wake(record)
        if record.wake_time is None or not record.is_open_to_requests:
            return
        with suppress(ValueError):  # somebody has written the status
            due = datetime.fromisoformat(record.wake_time).timestamp()
            self._wake_after(max(0, due - self.clock.now()), record)

    def _wake_after(
        self, seconds: float, record: ClusterRecord, level: int = logging.WARNING
    ) -> None:
        self._wakes[record.uid] = self.clock.call_later(seconds, lambda: self._wake(record, level))

    def _end_wake(self, record: ClusterRecord) -> None:
        timer = self._wakes.pop(record.uid, None)
        if timer is not None:
            timer.cancel()

    def _wake(self, record: ClusterRecord, level: int) -> None:
        del self._wakes[record.uid]
        if record.uid not in self._open_clusters:
            self._tasks.start(self.wake(record, level))

    async def wake(self, record: ClusterRecord, level: int = logging.WARNING) -> None:
        """Open a cluster so that its controllers work, now or when that is possible. `level` is
        that of the message if it is not possible yet."""
        try:
            await self._open_clusters.wake(record)
        except Exception as error:
            text = "cluster %s has work and cannot be opened yet: %s"
            _log.log(level, text, record.name, error)
            self.wake_later(record)

    def wake_later(self, record: ClusterRecord) -> None:
        """Open a cluster after a pause, unless it is deleted."""
        newest = self.records.get(record.name)
        if newest is not None and newest.uid == record.uid:
            self._end_wake(record)
            self._wake_after(WAKE_RETRY_SECONDS, record, logging.DEBUG)

    async def on_rest(self, cluster: ClusterRecord, due: float | None) -> None:
        """Write into the status when the controllers of a cluster that closes have work next."""
        record = self.records.get(cluster.name)
        wake_time = None if due is None else timestamp(due + 1)  # in full seconds, not before
        if record is None or record.uid != cluster.uid or not record.is_open_to_requests:
            return
        if record.wake_time != wake_time:

            def with_time(tree: Tree) -> Tree:
                status = {**tree["status"], "wakeTime": wake_time}
                return {**tree, "status": {k: v for k, v in status.items() if v is not None}}

            await update_object(
                self._clusters, record.name, with_time, subresource="status", uid=record.uid
            )


async def delete_rows(kv: KV, prefix: str) -> None:
    """Delete all rows below a prefix, PAGE at a time. Raises Unavailable."""
    while (page := await kv.range(prefix, limit=PAGE)).items:
        deletions = [kv.delete(item.key, expected=item.revision) for item in page.items]
        for result in await asyncio.gather(*deletions, return_exceptions=True):
            if isinstance(result, BaseException) and not isinstance(result, Conflict):
                raise result


def _with_finalizer(tree: Tree) -> Tree:
    finalizers = finalizers_of(tree)
    if FINALIZER not in finalizers:
        metadata_of(tree)["finalizers"] = [*finalizers, FINALIZER]
    return tree


def _without_finalizer(tree: Tree) -> Tree:
    metadata_of(tree)["finalizers"] = [
        finalizer for finalizer in finalizers_of(tree) if finalizer != FINALIZER
    ]
    return tree


def _has_work(record: ClusterRecord) -> bool:
    has_users = bool(record.issuers) or record.has_user_condition
    return not record.is_open_to_requests or has_users
