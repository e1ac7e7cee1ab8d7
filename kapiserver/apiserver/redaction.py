"""Takes secrets out of texts that people read: pages of debugging, and logs."""

from __future__ import annotations

import re

_USER_INFO = re.compile(r"(?<=://)[^/?#@\s\"',]*@")


def without_passwords(text: str) -> str:
    """Return a text whose URLs have `CLASSIFIED` in place of users and passwords; the word is that
    of kube-apiserver's /flagz."""
    return _USER_INFO.sub("CLASSIFIED@", text)
