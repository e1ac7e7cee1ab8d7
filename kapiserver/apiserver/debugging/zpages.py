"""Serves /statusz, /flagz and /configz: what runs, with which flags and settings.

The first two are text, or an object of config.k8s.io if the Accept header names its kind. Mirrors
server/statusz and server/flagz of k8s.io/apiserver (KEP-4827, KEP-4828) and component-base/configz,
whose page kube-apiserver itself does not have.
"""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import msgspec

from kapiserver.api.group import GroupVersionKind
from kapiserver.api.releases import NEWEST_MINOR
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.discovery.server_info import listed_paths
from kapiserver.apiserver.redaction import without_passwords
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse, Response, page_not_found, text_response
from kapiserver.apiserver.version import MAJOR, STARTED, emulated_minor, version_info
from kapiserver.codecs.media_types import CBOR, JSON, YAML, MediaType
from kapiserver.codecs.negotiation import MediaTypeOptions, negotiate_output, wants_pretty

_TEXT = MediaType(name="text/plain", extension="txt", load=JSON.load)
"""Offered in negotiation; no serializer writes it."""
_COMPONENT = "apiserver"
_GROUP = "config.k8s.io"
_DELIMITERS = (":", ": ", "=", " ")
"""A random one of these stands in each text, so that no program relies on it."""
_WARNING = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility "
    "guarantees and is for debugging purposes only."
)
_NOT_LISTED = {"/api", "/apis", "/openapi", "/openid", "/.well-known"}


async def serve_statusz(server: Server, request: Request) -> AnyResponse:
    """Return when the server started, its version and paths. Raises NotAcceptable."""
    if request.path != "/statusz" or "ComponentStatusz" not in server.config.features.feature_gates:
        return page_not_found()
    status = _status(server)
    return _respond(server, request, "Statusz", status, _status_lines(status))


async def serve_flagz(server: Server, request: Request) -> AnyResponse:
    """Return the flags of the command line. Raises NotAcceptable."""
    if request.path != "/flagz" or "ComponentFlagz" not in server.config.features.feature_gates:
        return page_not_found()
    flags = {name: without_passwords(value) for name, value in server.config.debugging.flags}
    tree: Tree = {"flags": flags} if flags else {}
    return _respond(server, request, "Flagz", tree, _flag_lines(flags))


async def serve_configz(server: Server, request: Request) -> AnyResponse:
    """Return the settings that the server uses, as JSON."""
    if request.path != "/configz":
        return page_not_found()
    sections = msgspec.to_builtins(server.config, enc_hook=_builtin, order="deterministic")
    del sections["debugging"]["flags"]
    tree = {_COMPONENT: {"kind": "Config", "apiVersion": "kapiserver/v1"} | sections}
    body = without_passwords(msgspec.json.encode(tree).decode()).encode()
    return Response(body=body, headers=[("X-Content-Type-Options", "nosniff")])


def _builtin(value: Any) -> str:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(type(value))


def _respond(server: Server, request: Request, kind: str, tree: Tree, lines: list[str]) -> Response:
    options = _negotiate(server, request, kind)
    if options.convert is None:
        heading = f"\n{_COMPONENT} {kind.lower()}\n{_WARNING}\n"
        return text_response(heading + "".join(f"{line}\n" for line in lines))
    media = options.media
    version = f"{_GROUP}/{options.convert.version}"
    obj = {"kind": kind, "apiVersion": version, "metadata": {"name": _COMPONENT}} | tree
    user_agent = request.header("User-Agent")
    pretty = options.pretty or wants_pretty(request.parameter("pretty"), user_agent)
    make = server.codecs.pretty_serializer_for if pretty else server.codecs.serializer_for
    parameters = f"g={_GROUP};v={options.convert.version};as={kind}"
    response = Response(media_type=f"{media.name};{parameters}", body=make(media).encode(obj))
    if options.convert.version == "v1alpha1":
        response.headers.append(
            (
                "Warning",
                f'299 - "This version of the {kind.lower()} endpoint is deprecated. Please use a '
                'newer version."',
            )
        )
    return response


def _negotiate(server: Server, request: Request, kind: str) -> MediaTypeOptions:
    """Return the text form, or a media type with the version of the object. Raises
    NotAcceptable."""
    versions = tuple(GroupVersionKind(_GROUP, version, kind) for version in ("v1alpha1", "v1beta1"))

    def allows(media: MediaType, convert: GroupVersionKind | None) -> bool:
        return convert is None if media is _TEXT else convert in versions

    accept = request.header("Accept")
    if not accept.strip():
        return MediaTypeOptions(media=_TEXT)
    offered = [JSON, YAML, _TEXT]
    if CBOR in server.codecs.media_types:
        offered.append(CBOR)
    return negotiate_output(accept, offered, allows=allows)


def _status(server: Server) -> Tree:
    emulated = emulated_minor(server.config.features.emulated_version)
    paths = {f"/{path.split('/')[1]}" for path in listed_paths(server)}
    return {
        "startTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(STARTED)),
        "uptimeSeconds": max(0, int(time.time() - STARTED)),
        "goVersion": version_info()["goVersion"],
        "binaryVersion": f"{MAJOR}.{NEWEST_MINOR}.0",
        "emulationVersion": f"{MAJOR}.{emulated}",
        "paths": sorted(paths - _NOT_LISTED),
    }


def _status_lines(status: Tree) -> list[str]:
    delimiter = random.choice(_DELIMITERS)
    started, seconds = time.gmtime(STARTED), status["uptimeSeconds"]
    values = (
        ("Started", f"{time.asctime(started)[:-4]}UTC {started.tm_year}"),
        ("Up", f"{seconds // 3600} hr {seconds // 60 % 60:02} min {seconds % 60:02} sec"),
        ("Go version", status["goVersion"]),
        ("Binary version", status["binaryVersion"]),
        ("Emulation version", status["emulationVersion"]),
        ("Paths", " ".join(status["paths"])),
    )
    return ["", *(f"{name}{delimiter} {value}" for name, value in values)]


def _flag_lines(flags: dict[str, str]) -> list[str]:
    delimiter = random.choice(_DELIMITERS)
    return [f"{name}{delimiter}{flags[name]}" for name in sorted(flags)]
