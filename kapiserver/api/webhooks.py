"""Validation of webhook client configurations: a URL or a service.

Knows no kind: admission and conversion webhooks share it. Mirrors pkg/util/webhook of
k8s.io/apiserver.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from kapiserver.api import names
from kapiserver.api.errors import FieldError, Path, invalid, required
from kapiserver.api.go_format import quote
from kapiserver.api.types import Tree

_FORM = "; desired format: https://host[/path]"
_BAD_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2}).{0,2}", re.DOTALL)


def validate_client_config(config: Tree, path: Path) -> Iterator[FieldError]:
    """Yield the errors of a webhook's client configuration."""
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        yield required(path, "exactly one of url or service is required")
    elif url is not None:
        yield from _url(url, path / "url")
    elif service is not None:
        yield from _service(service, path / "service")


def _url(url: str, path: Path) -> Iterator[FieldError]:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        yield required(path, f"url must be a valid URL: {error}{_FORM}")
        return
    if escape := _BAD_ESCAPE.search(url):
        error_text = f"parse {quote(url)}: invalid URL escape {quote(escape.group())}"
        yield required(path, f"url must be a valid URL: {error_text}{_FORM}")
        return
    if parts.scheme != "https":
        yield invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{_FORM}")
    user, separator, host = parts.netloc.rpartition("@")
    if not host:
        yield invalid(path, host, f"host must be specified{_FORM}")
    if separator:
        yield invalid(path, user, "user information is not permitted in the URL")
    if parts.fragment:
        yield invalid(path, parts.fragment, "fragments are not permitted in the URL")
    if parts.query:
        yield invalid(path, parts.query, "query parameters are not permitted in the URL")


def _service(service: Tree, path: Path) -> Iterator[FieldError]:
    for name in ("name", "namespace"):
        if not service.get(name):
            yield required(path / name)
    port = service.get("port") or 0
    messages = names.port_number(port)
    if messages:
        yield invalid(path / "port", port, f"port is not valid: {', '.join(messages)}")
    url_path, path_path = service.get("path") or "/", path / "path"
    if url_path == "/":
        return
    if url_path == "//":
        yield invalid(path_path, url_path, "segment[0] may not be empty")
        return
    if not url_path.startswith("/"):
        yield invalid(path_path, url_path, "must start with a '/'")
    for index, step in enumerate(url_path[1:].removesuffix("/").split("/")):
        if not step:
            yield invalid(path_path, url_path, f"segment[{index}] may not be empty")
            continue
        for message in names.dns1123_subdomain(step):
            yield invalid(path_path, url_path, f"segment[{index}]: {message}")
