"""Delete old CertificateSigningRequests.

A request is deleted one hour after its certificate was issued, or after it was denied or failed,
24 hours after its creation if nobody decided on it, and when its certificate has expired. Mirrors
pkg/controller/certificates/cleaner.
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

from kapiserver.api.accessors import name_of, uid_of, value_at
from kapiserver.api.columns import parse_time
from kapiserver.api.types import Tree
from kapiserver.controllers.certificate_authority import is_expired
from kapiserver.controllers.context import ControllerContext
from kapiserver.controllers.csr_signing import CERTIFICATES, REQUESTS
from kapiserver.controllers.subscriptions import Subscriptions
from kapiserver.controllers.workqueue import WorkQueue
from kapiserver.controllers.writing import delete_object
from kapiserver.storage.clock import Timer
from kapiserver.storage.informer import ObjectChange
from kapiserver.storage.time_slice import TimeSlice

NAME = "certificatesigningrequest-cleaner-controller"
POLL_SECONDS = 3600.0
DECIDED = timedelta(hours=1)
PENDING = timedelta(hours=24)
_ALL = "all requests"


class CSRCleanerController:
    """The control loop; its queue holds one item, a check of all requests."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._clock = context.server.clock
        self._subscriptions = Subscriptions(context.server)
        self._queue: WorkQueue[str] = context.work_queue(self._reconcile, workers=1, name=NAME)
        self._timer: Timer | None = None

    async def start(self) -> None:
        """Check the requests now and every hour."""
        self._requests = self._subscriptions.add(CERTIFICATES, REQUESTS, _ignore)
        self._check()

    async def stop(self) -> None:
        """End, cancelling a check in progress."""
        if self._timer is not None:
            self._timer.cancel()
        self._subscriptions.cancel()
        await self._queue.stop()

    def _check(self) -> None:
        self._queue.add(_ALL)
        self._timer = self._clock.call_later(POLL_SECONDS, self._check)

    async def _reconcile(self, _item: str) -> None:
        await self._subscriptions.wait_synced()
        now = datetime.fromtimestamp(self._clock.now(), UTC)
        requests = self._context.resource(str(CERTIFICATES), REQUESTS)
        time_slice = TimeSlice()
        for entry in self._requests.lister.list():
            request = entry.tree()
            if is_obsolete(request, now):
                await delete_object(requests, name_of(request), uid=uid_of(request))
            await time_slice.yield_if_expired()


def _ignore(_change: ObjectChange) -> None:
    pass


def is_obsolete(request: Tree, now: datetime) -> bool:
    """Return whether a CertificateSigningRequest is old enough to be deleted."""
    conditions = value_at(request, "status", "conditions") or ()
    if not conditions:
        return _is_older(value_at(request, "metadata", "creationTimestamp"), PENDING, now)
    certificate = value_at(request, "status", "certificate") or ""
    for condition in conditions:
        is_issued = condition.get("type") == "Approved" and certificate
        is_final = is_issued or condition.get("type") in ("Denied", "Failed")
        if is_final and _is_older(condition.get("lastUpdateTime"), DECIDED, now):
            return True
        if is_issued and is_expired(base64.b64decode(certificate).decode("latin-1"), now):
            return True
    return False


def _is_older(time_text: str | None, age: timedelta, now: datetime) -> bool:
    time = parse_time(time_text)
    return time is not None and now - time > age
