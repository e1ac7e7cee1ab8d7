"""Reloads the certificates of a listening socket when their files change, without a restart.

Mirrors pkg/server/dynamiccertificates of k8s.io/apiserver, which watches the files; here each new
connection checks them. Open connections keep the certificates they began with; the authenticator of
client certificates checks their CAs for each request.
"""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import Any, TypeAlias

from kapiserver.apiserver.serving.tls.credentials import Credentials

_log = logging.getLogger(__name__)

_FileState: TypeAlias = tuple[int, int, int] | None
"""Modification time, size and inode of a file; None if it is missing."""


class ReloadingContext(ssl.SSLContext):
    """A TLS context whose new connections use the serving certificates and the client CAs as the
    files are at that time.

    If the new files are unusable, for example because the key is not yet that of the certificate,
    an error is logged and connections use the previous ones until the files change again. A TLS
    session from before a change cannot be resumed, so a client whose CA was removed cannot return.

    credentials the files
    """

    def __new__(cls, credentials: Credentials, *, http2: bool = False) -> ReloadingContext:  # noqa: ARG004 - of __init__
        """Make a server's context; SSLContext takes the protocol here and not in __init__."""
        return super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)

    def __init__(self, credentials: Credentials, *, http2: bool = False) -> None:
        """Load the files. `http2` offers HTTP/2 to clients. Raises ValueError for an unusable
        file."""
        self.credentials = credentials
        self._http2 = http2
        self._added = ""
        self._states = self._file_states()
        self._current = self._new_context()

    def _new_context(self) -> ssl.SSLContext:
        return self.credentials.server_context(added=self._added, http2=self._http2)

    def trust(self, pem: str) -> None:
        """Accept client certificates of the CAs in a PEM text, too. The authenticator decides for
        whom they count. Raises ValueError for an unusable text."""
        self._added = pem
        try:
            self._current = self._new_context()
        except ValueError:
            self._added = ""
            raise

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        """Return the TLS layer of a new connection; asyncio and uvloop call this for each."""
        if self._file_states() != self._states:
            self.reload()
        return self._current.wrap_bio(*args, **kwargs)

    def reload(self) -> None:
        """Load the files again, even if they look unchanged. Logs an unusable file."""
        self._states = self._file_states()
        try:
            self._current = self._new_context()
        except ValueError as error:
            _log.error("the changed certificates are not used: %s", error)
        else:
            _log.info("loaded %s and the client CAs again", self.credentials.serving.certificate)

    def _file_states(self) -> tuple[_FileState, ...]:
        return tuple(map(_state, self.credentials.files()))


def _state(path: Path) -> _FileState:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
