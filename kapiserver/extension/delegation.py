"""The settings of delegation: which cluster an extension API server asks about users and rights."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from kapiserver.apiserver.webhooks.in_cluster import url_in_pod

ALWAYS_ALLOWED_PATHS = ("/healthz", "/readyz", "/livez")


class Delegation(Struct, frozen=True, kw_only=True):
    """How an extension API server asks its host cluster. The names are those of the flags of Go's
    extension API servers.

    kubeconfig          file that describes the host; None: the files of a pod, if the server runs
                        in one, or else no host, and the server stands alone
    authentication_*    file in place of `kubeconfig` for TokenReviews and the lookup of CAs;
                        whether CAs are looked up; whether the server starts though the lookup fails
    authorization_*     file in place of `kubeconfig` for SubjectAccessReviews; paths that everybody
                        may read, an asterisk at the end means all that begin so
    *_ttl               seconds for which a decision of the host is used
    """

    kubeconfig: Path | None = None
    authentication_kubeconfig: Path | None = None
    authentication_skip_lookup: bool = False
    authentication_tolerate_lookup_failure: bool = False
    authentication_token_webhook_cache_ttl: float = 10.0
    authorization_kubeconfig: Path | None = None
    authorization_always_allow_paths: tuple[str, ...] = ALWAYS_ALLOWED_PATHS
    authorization_webhook_cache_authorized_ttl: float = 10.0
    authorization_webhook_cache_unauthorized_ttl: float = 10.0

    @property
    def has_host(self) -> bool:
        """Whether there is a cluster to ask."""
        files = (self.kubeconfig, self.authentication_kubeconfig, self.authorization_kubeconfig)
        return any(file is not None for file in files) or bool(url_in_pod())


STANDS_ALONE = Delegation()
