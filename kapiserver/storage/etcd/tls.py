"""The TLS context of connections to etcd."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kapiserver.storage.etcd.config import EtcdConfig


def tls_context(config: EtcdConfig) -> ssl.SSLContext | None:
    """Return a context that verifies servers and has the client's certificate, None if no endpoint
    uses TLS. Raises OSError for files that cannot be read."""
    if not any(endpoint.startswith("https:") for endpoint in config.endpoints):
        return None
    with _with_file_name(config.cafile):
        context = ssl.create_default_context(cafile=config.cafile)
    # As Go: each certificate in the file is trusted, even if it is not a root.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # Python 3.13 sets it
    if config.certfile is not None:
        with _with_file_name(config.certfile), _with_file_name(config.keyfile):
            context.load_cert_chain(config.certfile, config.keyfile)
    return context


@contextmanager
def _with_file_name(file: Path | None) -> Iterator[None]:
    """Add the file name to ssl's errors."""
    if file is not None:
        file.open("rb").close()
    try:
        yield
    except ssl.SSLError as error:
        raise OSError(f"{file}: {error}") from error
