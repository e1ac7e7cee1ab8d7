"""Sign approved CertificateSigningRequests for Kubernetes' own signers.

A request that breaks the rules of its signer gets the condition Failed. Mirrors
pkg/controller/certificates/signer.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from kapiserver.api.accessors import has_condition, uid_of, value_at
from kapiserver.api.certificates.signer_rules import (
    KUBE_APISERVER_CLIENT,
    KUBE_APISERVER_CLIENT_KUBELET,
    KUBELET_SERVING,
    LEGACY_UNKNOWN,
    SIGNERS,
    InvalidRequest,
    check_request,
    read_request,
)
from kapiserver.api.group import GroupVersion
from kapiserver.api.types import Tree
from kapiserver.apiserver.config import ControllerManagerSettings
from kapiserver.apiserver.serving.tls.settings import Pair
from kapiserver.controllers.certificates.certificate_authority import (
    FileAuthority,
    load_authority,
)
from kapiserver.controllers.loop.context import ControllerContext, SigningAuthority
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.event_handlers import for_object
from kapiserver.controllers.loop.writing import update_object
from kapiserver.storage.cache.entry import ObjectKey

CERTIFICATES = GroupVersion("certificates.k8s.io", "v1")
REQUESTS = "certificatesigningrequests"
MIN_DURATION = timedelta(minutes=10)


class CSRSigningController(Controller[ObjectKey]):
    """The control loop; its queue holds keys of requests."""

    workers = 5

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        settings = context.server.config.controller_manager
        self._authorities = _signing_authorities(settings, context.signing_ca)
        self._max_duration = timedelta(seconds=settings.cluster_signing_duration)

    def set_up(self) -> None:
        """Watch requests, if there is a certificate authority."""
        if self._authorities:
            self._requests = self.watch(CERTIFICATES, REQUESTS, for_object)

    async def reconcile(self, key: ObjectKey) -> None:
        """Sign an approved request, or mark it as failed."""
        entry = self._requests.lister.get(key)
        if entry is None or not _awaits_certificate(entry.tree()):
            return
        request = entry.tree()
        authority = self._authorities.get(value_at(request, "spec", "signerName"))
        if authority is None:
            return
        now = datetime.fromtimestamp(self.clock.now(), UTC)
        duration = self._duration(value_at(request, "spec", "expirationSeconds"))
        try:
            certificate = await asyncio.to_thread(
                sign_request, authority, request["spec"], duration, now
            )
        except InvalidRequest as error:
            message = str(error)
            await self._update(
                key.name, uid_of(request), lambda current: _with_failure(current, message)
            )
        else:
            encoded = base64.b64encode(certificate).decode()
            await self._update(
                key.name, uid_of(request), lambda current: _with_certificate(current, encoded)
            )

    def _duration(self, expiration_seconds: int | None) -> timedelta:
        if expiration_seconds is None:
            return self._max_duration
        requested = max(timedelta(seconds=expiration_seconds), MIN_DURATION)
        return min(requested, self._max_duration)

    async def _update(self, name: str, uid: str, change: Callable[[Tree], Tree]) -> None:
        """Change the status of a request that still awaits a certificate."""
        requests = self.context.resource(str(CERTIFICATES), REQUESTS)

        def change_awaiting(current: Tree) -> Tree:
            return change(current) if _awaits_certificate(current) else current

        await update_object(requests, name, change_awaiting, subresource="status", uid=uid)


def sign_request(
    authority: SigningAuthority, spec: Tree, duration: timedelta, now: datetime
) -> bytes:
    """Return a certificate for the spec of a request, as PEM. Raises InvalidRequest if the signer
    refuses the request, and ValueError for an unusable CA."""
    request = read_request(spec)
    check_request(spec["signerName"], request)
    return authority.sign(request, duration, now)


def _awaits_certificate(request: Tree) -> bool:
    return (
        has_condition(request, "Approved")
        and not has_condition(request, "Denied")
        and not has_condition(request, "Failed")
        and not value_at(request, "status", "certificate")
    )


def _with_certificate(request: Tree, certificate: str) -> Tree:
    return request | {"status": {**request["status"], "certificate": certificate}}


def _with_failure(request: Tree, message: str) -> Tree:
    status = request["status"]
    condition = {
        "type": "Failed",
        "status": "True",
        "reason": "SignerValidationFailure",
        "message": message,
    }
    return request | {"status": {**status, "conditions": [*status["conditions"], condition]}}


# The CA of each signer.


def _signing_authorities(
    settings: ControllerManagerSettings, own: SigningAuthority | None
) -> Mapping[str, SigningAuthority]:
    """Return the CA of each signer: those that flags name, else the own one."""
    files = _signing_files(settings)
    if not files and own is not None:
        return dict.fromkeys(own.signers, own)
    return {signer: FileAuthority(pair) for signer, pair in files.items()}


def _signing_files(settings: ControllerManagerSettings) -> Mapping[str, Pair]:
    """Return the files of each signer that flags name. If they name those of a signer, only signers
    with such flags have some; else all have those of --cluster-signing-cert-file."""
    specific = {
        signer: Pair(certificate=certificate, key=key)
        for signer, (certificate, key) in _specific_files(settings).items()
        if certificate is not None and key is not None
    }
    if specific:
        return specific
    certificate, key = settings.cluster_signing_cert_file, settings.cluster_signing_key_file
    if certificate is None or key is None:
        return {}
    return dict.fromkeys(SIGNERS, Pair(certificate=certificate, key=key))


def _specific_files(
    settings: ControllerManagerSettings,
) -> Mapping[str, tuple[Path | None, Path | None]]:
    return {
        KUBELET_SERVING: (
            settings.cluster_signing_kubelet_serving_cert_file,
            settings.cluster_signing_kubelet_serving_key_file,
        ),
        KUBE_APISERVER_CLIENT_KUBELET: (
            settings.cluster_signing_kubelet_client_cert_file,
            settings.cluster_signing_kubelet_client_key_file,
        ),
        KUBE_APISERVER_CLIENT: (
            settings.cluster_signing_kube_apiserver_client_cert_file,
            settings.cluster_signing_kube_apiserver_client_key_file,
        ),
        LEGACY_UNKNOWN: (
            settings.cluster_signing_legacy_unknown_cert_file,
            settings.cluster_signing_legacy_unknown_key_file,
        ),
    }


def check_signing_files(settings: ControllerManagerSettings) -> None:
    """Read the CA files that flags name. Raises ValueError for an unusable one, and if flags name
    a CA for all signers and one for a single signer."""
    specific = any(map(all, _specific_files(settings).values()))
    if specific and settings.cluster_signing_cert_file is not None:
        raise ValueError("cannot specify default and per controller certs at the same time")
    for signer, files in _signing_files(settings).items():
        try:
            load_authority(files)
        except ValueError as error:
            raise ValueError(f"failed to start {signer} certificate controller: {error}") from None
