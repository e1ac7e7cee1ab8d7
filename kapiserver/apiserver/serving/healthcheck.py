"""A health check for container engines without curl: exit code 0 if a URL returns 200, else 1.

    python -m kapiserver.apiserver.serving.healthcheck https://127.0.0.1:6443/readyz

Accepts any certificate: it calls a server on its own machine and sends no credentials.
"""

from __future__ import annotations

import ssl
import sys
import urllib.request
from urllib.error import URLError

SECONDS = 3.0


def is_healthy(url: str) -> bool:
    """Report whether the URL returns 200 within `SECONDS`."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with urllib.request.urlopen(url, timeout=SECONDS, context=context) as response:
            status: int = response.status
    except (URLError, OSError):
        return False
    return status == 200


if __name__ == "__main__":
    sys.exit(0 if is_healthy(sys.argv[1]) else 1)
