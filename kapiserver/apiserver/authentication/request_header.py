"""Authenticates the users whom a front proxy names in headers.

The proxy shows a client certificate of its own CA, and headers have the user's name, groups, uid
and extra fields. Mirrors pkg/authentication/request/headerrequest of k8s.io/apiserver.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from urllib.parse import unquote

from kapiserver.apiserver.authentication.authenticator import InvalidCredentials
from kapiserver.apiserver.authentication.certificate import check_certificate
from kapiserver.apiserver.authentication.client_authorities import ClientAuthorities
from kapiserver.apiserver.config import AuthenticationSettings
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.user import User, with_authenticated
from kapiserver.storage.concurrency.clock import Clock


class RequestHeaderAuthenticator:
    """Recognizes the requests of front proxies, by the settings `requestheader_*`."""

    def __init__(
        self, settings: AuthenticationSettings, authorities: ClientAuthorities, clock: Clock
    ) -> None:
        self._authorities = authorities
        self._clock = clock
        self._allowed_names = frozenset(settings.requestheader_allowed_names)
        self._username_headers = settings.requestheader_username_headers
        self._uid_headers = settings.requestheader_uid_headers
        self._group_headers = _lower(settings.requestheader_group_headers)
        self._extra_prefixes = _lower(settings.requestheader_extra_headers_prefix)
        # The names of headers are few, and each request has many headers.
        self._keys_of = functools.lru_cache(maxsize=128)(self._find_keys)

    def authenticate(self, request: Request) -> User | None:
        """Return the user whom the headers name, or None without a certificate or a name. Raises
        InvalidCredentials if the certificate is not that of a proxy."""
        certificate = request.certificate
        if certificate is None:
            return None
        check_certificate(certificate, self._authorities, self._clock.now(), accept_unknown=False)
        if self._allowed_names and certificate.common_name not in self._allowed_names:
            raise InvalidCredentials(
                f"x509: subject with cn={certificate.common_name} is not in the allowed list"
            )
        name = _first_value(request, self._username_headers)
        if not name:
            return None
        groups, extra = self._groups_and_extra(request)
        return User(
            name=name,
            uid=_first_value(request, self._uid_headers),
            groups=with_authenticated(name, groups),
            extra=extra,
        )

    def _groups_and_extra(
        self, request: Request
    ) -> tuple[tuple[str, ...], Mapping[str, tuple[str, ...]]]:
        groups: dict[str, list[str]] = {}
        extra: dict[str, tuple[str, ...]] = {}
        for name, value in request.headers.items():
            keys = self._keys_of(name)
            if keys is None:
                continue
            group_header, extra_keys = keys
            if group_header and value:
                groups.setdefault(group_header, []).append(value)
            for key in extra_keys:
                extra[key] = (*extra.get(key, ()), value)
        in_order = [groups.get(name, ()) for name in self._group_headers]
        return tuple(itertools.chain.from_iterable(in_order)), extra

    def _find_keys(self, name: str) -> tuple[str, tuple[str, ...]] | None:
        """Return the name of a header of groups, or "", and the keys of extra fields that a header
        has; None for other headers."""
        lower = name.lower()
        keys = tuple(
            unquote(lower.removeprefix(prefix))
            for prefix in self._extra_prefixes
            if lower.startswith(prefix)
        )
        group_header = lower if lower in self._group_headers else ""
        return (group_header, keys) if group_header or keys else None


def _first_value(request: Request, headers: Sequence[str]) -> str:
    return next(filter(None, map(request.header, headers)), "")


def _lower(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name.lower() for name in names)
