"""The control API of `kapiserver testing-server`: HTTP, JSON, a token of its own.

For tests in other languages. Listens with the same HTTP server as the Kubernetes API, on a port of
its own, so that injected faults do not affect it.
"""

from __future__ import annotations

import asyncio
import hmac
import inspect
import logging
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from kapiserver import __version__
from kapiserver.api.resource_client import StatusError
from kapiserver.apiserver.errors import ServerError, status_of
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import Response
from kapiserver.apiserver.serving.connection_limits import ConnectionLimits
from kapiserver.apiserver.serving.server import HttpServer, url_host
from kapiserver.codecs import json
from kapiserver.codecs.errors import CodecError
from kapiserver.testing.control_api.operations import OPERATIONS
from kapiserver.testing.control_api.schemas import Schema
from kapiserver.testing.control_api.session import Operation, Session, Tree
from kapiserver.testing.server import TestServer

T = TypeVar("T")

OPENAPI_PATH = "/openapi.json"
BODY_LIMIT = 8 << 20
CONNECTION_CHECK_SECONDS = 0.5
"""How often an operation that waits checks whether its client still waits, too."""

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (),
}
_ERROR: Schema = {
    "type": "object",
    "required": ["message"],
    "properties": {"message": {"type": "string", "description": "What is wrong."}},
}

_log = logging.getLogger(__name__)


class ControlApi:
    """The control API of one test server.

    token   what clients must send in the header `Authorization: Bearer TOKEN`
    url     where it listens; "" before `listen`
    """

    def __init__(self, server: TestServer) -> None:
        self.token = secrets.token_hex(16)
        self.url = ""
        self._session = Session(server)
        self._routes = [(_pattern(operation.path), operation) for operation in OPERATIONS]

    @asynccontextmanager
    async def listen(self, address: str, port: int) -> AsyncIterator[None]:
        """Serve on a port, which the system chooses for 0, until the block ends. Raises OSError."""
        http = HttpServer(self._handle, _never_handled, ConnectionLimits(), reuse_port=False)
        port = await http.listen_plain(address, port)
        self.url = f"http://{url_host(address)}:{port}"
        try:
            yield
        finally:
            await http.drain(0)

    async def _handle(self, request: Request) -> Response:
        try:
            return await self._respond(request)
        except ServerError as error:  # a body that is too large
            return _never_handled(request, error)
        except StatusError as error:  # of the Kubernetes API
            return _error(error.code, str(error))
        except (CodecError, OSError, ValueError) as error:
            return _error(400, str(error))
        except KeyError as error:
            return _error(404, str(error.args[0]) if error.args else "not found")
        except AssertionError as error:
            return _error(417, str(error))
        except RuntimeError as error:
            return _error(409, str(error))
        except Exception:
            _log.exception("%s %s failed", request.method, request.path)
            return _error(500, "the operation failed; the server's log has the error")

    async def _respond(self, request: Request) -> Response:
        if request.path == OPENAPI_PATH and request.method == "GET":
            return _json(openapi(self.url))
        scheme, _, token = request.header("Authorization").partition(" ")
        if scheme != "Bearer" or not hmac.compare_digest(token.encode(), self.token.encode()):
            return _error(401, "the header Authorization must be Bearer and the control token")
        matches = [
            (match.groupdict(), operation)
            for pattern, operation in self._routes
            if (match := pattern.fullmatch(request.path))
        ]
        for path_arguments, operation in matches:
            if operation.method == request.method:
                arguments = await _arguments(request, operation, path_arguments)
                result = operation.run(self._session, arguments)
                if operation.waits:
                    result = _while_connected(request, result)
                return _json(await result if inspect.isawaitable(result) else result)
        if matches:
            return _error(405, f"{request.path} has no method {request.method}")
        return _error(404, f"there is no {request.path}; see {OPENAPI_PATH}")


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path))


def _never_handled(request: Request, error: Exception) -> Response:
    """Return the response to a request whose headers or body break a limit."""
    status = status_of(error, request.info) or {}
    return _error(status.get("code", 500), status.get("message", "the request cannot be served"))


def _json(value: Any, status: int = 200) -> Response:
    return Response(status=status, body=json.encode_value(value) + b"\n")


def _error(status: int, message: str) -> Response:
    return _json({"message": message}, status)


async def _while_connected(request: Request, result: Awaitable[T]) -> T:
    """Return the result of an operation that waits. Cancels it and raises ConnectionResetError when
    its client has gone."""
    task = asyncio.ensure_future(result)
    try:
        while not task.done():
            if request.has_gone():
                raise ConnectionResetError("the client has gone")
            await asyncio.wait({task}, timeout=CONNECTION_CHECK_SECONDS)
    finally:
        task.cancel()
    return await task


async def _arguments(request: Request, operation: Operation, in_path: dict[str, str]) -> Tree:
    """Return the arguments of a request. Raises ValueError if they do not fit their schemas."""
    values: Tree = {**in_path, **{name: texts[0] for name, texts in request.query.items()}}
    values = {name: _parsed(text, operation, name) for name, text in values.items()}
    body = await request.read_body(BODY_LIMIT)
    if body:
        members = json.decode_value(body)
        if not isinstance(members, dict):
            raise ValueError("the body must be a JSON object")
        values |= members
    for name, value in values.items():
        if name not in operation.arguments:
            argument_names = ", ".join(operation.arguments) or "none"
            raise ValueError(f"{operation.name} has no argument {name}; it has: {argument_names}")
        if not conforms(value, operation.arguments[name].schema):
            raise ValueError(f"{name} must be {_words(operation.arguments[name].schema)}")
    for name, argument in operation.arguments.items():
        if argument.required and name not in values:
            raise ValueError(f"{operation.name} needs the argument {name}")
    return values


def _parsed(text: str, operation: Operation, name: str) -> Any:
    """Return the value of a text in the path or the query."""
    argument = operation.arguments.get(name)
    if argument is None or argument.schema.get("type") in (None, "string"):
        return text
    return json.decode_value(text.encode())


def conforms(value: Any, schema: Schema) -> bool:
    """Report whether a JSON value has a type of the schema."""
    if "anyOf" in schema:
        return any(conforms(value, alternative) for alternative in schema["anyOf"])
    kind = schema["type"]
    if isinstance(value, bool) and kind != "boolean":
        return False
    if kind == "array" and isinstance(value, list):
        return all(conforms(item, schema["items"]) for item in value)
    return isinstance(value, _TYPES[kind])


def _words(schema: Schema) -> str:
    if "anyOf" in schema:
        return " or ".join(map(_words, schema["anyOf"]))
    if schema["type"] == "array":
        return f"an array of which each item is {_words(schema['items'])}"
    article = "an" if schema["type"][0] in "aio" else "a"
    return f"{article} {schema['type']}"


def openapi(url: str = "/") -> Tree:
    """Return the OpenAPI 3.1 document of the control API that listens on a URL."""
    paths: dict[str, Tree] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _documented(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "kapiserver testing-server",
            "version": __version__,
            "description": "Controls of a test server: its time, its faults, its state.",
        },
        "servers": [{"url": url or "/"}],
        "security": [{"token": []}],
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Error": _ERROR},
        },
        "paths": paths,
    }


def _documented(operation: Operation) -> Tree:
    """Return the Operation Object of OpenAPI."""
    in_path = re.findall(r"\{(\w+)\}", operation.path)
    in_body = [name for name in operation.arguments if name not in in_path]
    parameters: Sequence[str] = in_path
    documented: Tree = {"operationId": operation.name, "summary": operation.summary}
    if operation.method != "POST":
        parameters, in_body = list(operation.arguments), []
    if parameters:
        documented["parameters"] = [
            {
                "name": name,
                "in": "path" if name in in_path else "query",
                "required": name in in_path or operation.arguments[name].required,
                "description": operation.arguments[name].description,
                "schema": operation.arguments[name].schema,
            }
            for name in parameters
        ]
    if in_body:
        documented["requestBody"] = _body_of(operation, in_body)
    documented["responses"] = {
        "200": _content("The result.", operation.result),
        "default": _content("An error.", {"$ref": "#/components/schemas/Error"}),
    }
    return documented


def _body_of(operation: Operation, names: Sequence[str]) -> Tree:
    arguments = {name: operation.arguments[name] for name in names}
    required = [name for name, argument in arguments.items() if argument.required]
    schema: Tree = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            name: {**argument.schema, "description": argument.description}
            for name, argument in arguments.items()
        },
    }
    if required:
        schema["required"] = required
    return {"required": bool(required), "content": {"application/json": {"schema": schema}}}


def _content(description: str, schema: Schema) -> Tree:
    return {"description": description, "content": {"application/json": {"schema": schema}}}
