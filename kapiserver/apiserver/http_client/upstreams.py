"""The guarded client of pods and kubelets, made when a request first needs it, and TLS contexts.

Mirrors CreateProxyTransport of kube-apiserver, and MakeTransport of pkg/kubelet/client.
"""

from __future__ import annotations

import functools
import ssl
from typing import TYPE_CHECKING

from kapiserver.apiserver.config import KubeletSettings
from kapiserver.apiserver.http_client.addresses import is_global_unicast
from kapiserver.storage.cache.offload import Offloader

if TYPE_CHECKING:
    from kapiserver.apiserver.http_client.session import StreamingClient


class Upstreams:
    """How the server reaches what runs in the cluster: one client, closed with the server."""

    def __init__(self, settings: KubeletSettings, offloader: Offloader) -> None:
        """Raises ValueError for an unusable file."""
        self._settings = settings
        self._offloader = offloader
        self._client: StreamingClient | None = None
        if settings.kubelet_certificate_authority or settings.kubelet_client_certificate:
            _ = self.kubelet

    @functools.cached_property
    def insecure(self) -> ssl.SSLContext:
        """The TLS context for pods and services, whose certificates name no address."""
        return _insecure_context()

    @functools.cached_property
    def kubelet(self) -> ssl.SSLContext:
        """The TLS context for kubelets, which are verified if there is a CA for them."""
        context = self._with_own_certificate()
        authority = self._settings.kubelet_certificate_authority
        if authority is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.check_hostname = True
            try:
                context.load_verify_locations(authority)
            except OSError as error:  # ssl.SSLError is one; neither names the file
                raise ValueError(f"cannot use {authority} as CA of kubelets: {error}") from error
        return context

    @functools.cached_property
    def unverified_kubelet(self) -> ssl.SSLContext:
        """The TLS context for kubelets that a client asks not to verify."""
        return self._with_own_certificate()

    def _with_own_certificate(self) -> ssl.SSLContext:
        """Return a context that verifies nothing, and shows the certificate for kubelets."""
        context, settings = _insecure_context(), self._settings
        certificate, key = settings.kubelet_client_certificate, settings.kubelet_client_key
        if certificate is not None:
            if key is None:
                raise ValueError("--kubelet-client-certificate needs --kubelet-client-key")
            try:
                context.load_cert_chain(certificate, key)
            except OSError as error:
                raise ValueError(f"cannot use {certificate} with key {key}: {error}") from error
        return context

    @property
    def client(self) -> StreamingClient:
        """The client."""
        if self._client is None:
            from kapiserver.apiserver.http_client.session import StreamingClient  # most need none

            self._client = StreamingClient(guard=is_global_unicast, keep_alive=False)
        return self._client

    def close(self) -> None:
        """Close all connections. Idempotent."""
        if self._client is not None:
            self._client.close()


def _insecure_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
