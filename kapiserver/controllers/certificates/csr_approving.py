"""Approve CertificateSigningRequests of kubelets for their client certificates.

A request is approved if its user may create `certificatesigningrequests/selfnodeclient` (for the
node that the user is) or `certificatesigningrequests/nodeclient` (for any node). Mirrors
pkg/controller/certificates/approver.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kapiserver.api.accessors import has_condition, uid_of, value_at
from kapiserver.api.certificates.signer_rules import (
    KUBE_APISERVER_CLIENT_KUBELET,
    InvalidRequest,
    RequestContent,
    check_request,
    read_request,
)
from kapiserver.api.types import Tree
from kapiserver.controllers.certificates.csr_signing import CERTIFICATES, REQUESTS
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.event_handlers import for_object
from kapiserver.controllers.loop.writing import update_object
from kapiserver.storage.cache.entry import ObjectKey


class _Recognizer(NamedTuple):
    """A kind of request that is approved if its user may create a subresource."""

    subresource: str
    recognizes: Callable[[Tree, RequestContent], bool]
    message: str


def _is_of_own_node(spec: Tree, content: RequestContent) -> bool:
    return bool(spec.get("username") == content.common_name)


_RECOGNIZERS = (
    _Recognizer(
        "selfnodeclient",
        _is_of_own_node,
        "Auto approving self kubelet client certificate after SubjectAccessReview.",
    ),
    _Recognizer(
        "nodeclient",
        lambda _spec, _content: True,
        "Auto approving kubelet client certificate after SubjectAccessReview.",
    ),
)


class NotAuthorized(Exception):
    """The user of a recognized request may not create it; this may change."""


class CSRApprovingController(Controller[ObjectKey]):
    """The control loop; its queue holds keys of requests."""

    workers = 5

    def set_up(self) -> None:
        """Watch requests."""
        self._requests = self.watch(CERTIFICATES, REQUESTS, for_object)

    async def reconcile(self, key: ObjectKey) -> None:
        """Approve a request that a recognizer knows. Raises NotAuthorized, which is tried again."""
        entry = self._requests.lister.get(key)
        if entry is None or not _is_pending(entry.tree()):
            return
        spec = entry.tree()["spec"]
        if spec.get("signerName") != KUBE_APISERVER_CLIENT_KUBELET:
            return
        try:
            content = read_request(spec)
            check_request(KUBE_APISERVER_CLIENT_KUBELET, content)
        except InvalidRequest:
            return
        subresources = []
        for recognizer in _RECOGNIZERS:
            if not recognizer.recognizes(spec, content):
                continue
            subresources.append(recognizer.subresource)
            if await self._is_allowed(spec, recognizer.subresource):
                await self._approve(key.name, uid_of(entry.tree()), recognizer.message)
                return
        raise NotAuthorized(
            f'recognized csr "{key.name}" as [{" ".join(subresources)}] but subject access review '
            "approved"
        )

    async def _is_allowed(self, spec: Tree, subresource: str) -> bool:
        attributes = {
            "group": CERTIFICATES.group,
            "resource": REQUESTS,
            "subresource": subresource,
            "verb": "create",
        }
        review_spec: Tree = {
            "user": spec.get("username") or "",
            "uid": spec.get("uid") or "",
            "groups": spec.get("groups") or [],
            "extra": spec.get("extra") or {},
            "resourceAttributes": attributes,
        }
        reviews = self.context.resource("authorization.k8s.io/v1", "subjectaccessreviews")
        review = await reviews.create({"metadata": {}, "spec": review_spec})
        return bool(review["status"]["allowed"])

    async def _approve(self, name: str, uid: str, message: str) -> None:
        condition = {
            "type": "Approved",
            "status": "True",
            "reason": "AutoApproved",
            "message": message,
        }

        def change(current: Tree) -> Tree:
            if not _is_pending(current):
                return current
            status = current.get("status") or {}
            conditions = [*(status.get("conditions") or ()), condition]
            return current | {"status": {**status, "conditions": conditions}}

        requests = self.context.resource(str(CERTIFICATES), REQUESTS)
        await update_object(requests, name, change, subresource="approval", uid=uid)


def _is_pending(request: Tree) -> bool:
    return not (
        value_at(request, "status", "certificate")
        or has_condition(request, "Approved")
        or has_condition(request, "Denied")
    )
