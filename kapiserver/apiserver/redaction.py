"""Takes secrets out of texts that people read: pages of debugging, and logs."""

from __future__ import annotations

import re

_USER_INFO = re.compile(r"(?<=://)[^/?#@\s\"',]*@")

_PASSWORD = re.compile(r"(?<=password=)[^&\s\"',;]+")
"""The value of a parameter of a URL, such as `password` or `sslpassword` of PostgreSQL."""
_CREDENTIALS = re.compile(r"\b(Bearer|Basic) [A-Za-z0-9+/=._~:-]{8,}")
"""The value of a header Authorization."""


def without_passwords(text: str) -> str:
    """Return a text whose URLs have `CLASSIFIED` in place of users and passwords; the word is that
    of kube-apiserver's /flagz."""
    return _PASSWORD.sub("CLASSIFIED", _USER_INFO.sub("CLASSIFIED@", text))


def without_credentials(text: str) -> str:
    """Return a text without the passwords in URLs and the values of headers Authorization."""
    if "://" in text and ("@" in text or "password=" in text):
        text = without_passwords(text)
    if "Bearer " in text or "Basic " in text:
        text = _CREDENTIALS.sub(r"\1 CLASSIFIED", text)
    return text
