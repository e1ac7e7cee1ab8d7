"""Delete old CertificateSigningRequests and PodCertificateRequests.

A CertificateSigningRequest is deleted one hour after its certificate was issued, or after it was
denied or failed, 24 hours after its creation if nobody decided on it, and when its certificate has
expired; a PodCertificateRequest 15 minutes after its creation. Mirrors
pkg/controller/certificates/cleaner.
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

from kapiserver.api.accessors import name_of, namespace_of, uid_of, value_at
from kapiserver.api.columns import parse_time
from kapiserver.api.types import Tree
from kapiserver.controllers.certificates.certificate_authority import is_expired
from kapiserver.controllers.certificates.csr_signing import CERTIFICATES, REQUESTS
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.writing import delete_object
from kapiserver.storage.concurrency.time_slice import TimeSlice

DECIDED = timedelta(hours=1)
PENDING = timedelta(hours=24)
POD_REQUEST = timedelta(minutes=15)
"""The ages at which requests are deleted."""
_ALL = "all requests"


class _CleanerController(Controller[str]):
    """Deletes the obsolete objects of a resource; its queue holds `_ALL`."""

    resource: str
    poll_seconds: float

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._resource = context.server.scheme.declared_resource(CERTIFICATES, self.resource)

    def is_obsolete(self, request: Tree, now: datetime) -> bool:
        """Return whether an object is old enough to be deleted."""
        raise NotImplementedError

    def set_up(self) -> None:
        """Check the objects now and then periodically, if they are served."""
        if self.context.served_resource(self._resource) is not None:
            self._requests = self.watch(CERTIFICATES, self.resource)
            self.resync(self.poll_seconds, lambda: [_ALL])

    async def reconcile(self, _all: str) -> None:
        """Delete the obsolete objects."""
        now = datetime.fromtimestamp(self.clock.now(), UTC)
        time_slice = TimeSlice()
        for entry in self._requests.lister.list():
            request = entry.tree()
            if self.is_obsolete(request, now):
                namespace = namespace_of(request)
                requests = self.context.served_resource(self._resource, namespace=namespace)
                if requests is not None:
                    await delete_object(requests, name_of(request), uid=uid_of(request))
            await time_slice.yield_if_expired()


class CSRCleanerController(_CleanerController):
    """Deletes CertificateSigningRequests."""

    resource = REQUESTS
    poll_seconds = 3600.0

    def is_obsolete(self, request: Tree, now: datetime) -> bool:
        return is_obsolete(request, now)


class PodCertificateRequestCleaner(_CleanerController):
    """Deletes PodCertificateRequests."""

    resource = "podcertificaterequests"
    poll_seconds = 300.0

    def is_obsolete(self, request: Tree, now: datetime) -> bool:
        created = parse_time(value_at(request, "metadata", "creationTimestamp"))
        return created is not None and now - created >= POD_REQUEST


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
