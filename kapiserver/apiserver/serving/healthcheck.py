"""Asks a server whether it is healthy, for container engines without curl: exit code 0 or 1.

    python -m kapiserver.apiserver.serving.healthcheck https://127.0.0.1:6443/readyz

Believes any certificate: it asks its own machine, and tells nobody anything.
"""

from __future__ import annotations

import ssl
import sys
import urllib.request
from urllib.error import URLError

SECONDS = 3.0


def is_healthy(url: str) -> bool:
    """Whether the URL answers 200 in time."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with urllib.request.urlopen(url, timeout=SECONDS, context=context) as answer:
            found: int = answer.status
    except (URLError, OSError):
        return False
    return found == 200


if __name__ == "__main__":
    sys.exit(0 if is_healthy(sys.argv[1]) else 1)
