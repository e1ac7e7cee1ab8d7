"""An HTTPS server for functions of a test that review admission requests or convert objects.

It listens on the loopback address, and runs on an event loop and a thread of its own, so that a
function may wait, and may call the API server that waits for its answer. Knows no API server.
"""

from __future__ import annotations

import asyncio
import base64
import inspect
import logging
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

from kapiserver.api.accessors import copy_tree
from kapiserver.api.types import Tree
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import Response
from kapiserver.apiserver.serving.connection_limits import UnauthenticatedConnections
from kapiserver.apiserver.serving.server import LOOPBACK, HttpServer
from kapiserver.apiserver.serving.tls import ensure_certificates, pem_base64
from kapiserver.codecs import json
from kapiserver.testing.diffs import json_patch
from kapiserver.testing.prepared import write_certificates

MAX_CALLS = 1000
"""Calls and errors that a webhook remembers."""
BODY_LIMIT = 32 << 20

_RESPONSE_FIELDS = frozenset(
    {"allowed", "auditAnnotations", "patch", "patchType", "status", "uid", "warnings"}
)

Function: TypeAlias = Callable[..., Any]

_log = logging.getLogger(__name__)


class Webhook:
    """A function of a test that is served as a webhook.

    name        the name in messages
    calls       what the function was called with, the last 1,000: requests of admission reviews, or
                objects to convert
    errors      what it raised; at the end of the test they are raised again, unless the test has
                removed them from this list
    """

    def __init__(self, function: Function, name: str) -> None:
        self._function = function
        self.name = name
        self.calls: deque[Tree] = deque(maxlen=MAX_CALLS)
        self.errors: list[BaseException] = []

    async def _respond(self, request: Tree) -> Tree:
        """Return the response to the request of a review. Raises what the function raises."""
        raise NotImplementedError

    async def _call(self, *arguments: Any) -> Any:
        """Call the function, in a thread if it is synchronous, and return its result. Raises what
        the function raises."""
        self.calls.append(copy_tree(arguments[0]))
        if inspect.iscoroutinefunction(self._function):
            return await self._function(*arguments)
        return await asyncio.to_thread(self._function, *arguments)

    def _fail(self, error: BaseException) -> None:
        """Log and remember an error."""
        _log.error("the webhook %s failed", self.name, exc_info=error)
        if len(self.errors) < MAX_CALLS:
            self.errors.append(error)


class ValidatingWebhook(Webhook):
    """Admits or denies requests."""

    async def _respond(self, request: Tree) -> Tree:
        """Return the response of an admission review."""
        return self._response(await self._call(request))

    def _response(self, result: Any) -> Tree:
        """Return the response for the result of a function: None and True admit the request, a text
        and False deny it, a dict has fields of the response. Raises TypeError for other results."""
        if result is None or isinstance(result, bool):
            return {"allowed": result is not False}
        if isinstance(result, str):
            status = {"code": 403, "reason": "Forbidden", "message": result}
            return {"allowed": False, "status": status}
        if isinstance(result, dict) and result.keys() <= _RESPONSE_FIELDS:
            return {"allowed": True, **result}
        raise TypeError(
            f"the webhook {self.name} returned {result!r}; return None to admit a request, a text "
            "to deny it, or a dict with fields of the response"
        )


class MutatingWebhook(ValidatingWebhook):
    """Changes the objects of requests."""

    async def _respond(self, request: Tree) -> Tree:
        """Return the response of an admission review, with a patch of what the function changed."""
        before = copy_tree(request.get("object"))
        result = await self._call(request)
        if isinstance(result, dict) and "metadata" in result:
            request["object"], result = result, None
        response = self._response(result)
        operations = json_patch(before, request.get("object"))
        if response["allowed"] and operations and "patch" not in response:
            text = base64.b64encode(json.encode_value(operations)).decode()
            response |= {"patchType": "JSONPatch", "patch": text}
        return response


class ConversionWebhook(Webhook):
    """Converts custom objects to another version."""

    async def _respond(self, request: Tree) -> Tree:
        """Return the response of a conversion review. An error of the function is its message."""
        version = request["desiredAPIVersion"]
        try:
            objects = [await self._convert(obj, version) for obj in request["objects"]]
        except Exception as error:
            self._fail(error)
            return {"result": {"status": "Failure", "message": str(error)}}
        return {"convertedObjects": objects, "result": {"status": "Success"}}

    async def _convert(self, obj: Tree, version: str) -> Tree:
        result = await self._call(obj, version)
        return {**(obj if result is None else result), "apiVersion": version}


class WebhookServer:
    """Serves webhooks at paths; use it in `async with` by way of `listen`.

    url         `https://127.0.0.1:PORT`, "" before `listen`
    ca_bundle   the CA of its certificate, PEM in base64
    """

    def __init__(self) -> None:
        self.url = ""
        self.ca_bundle = ""
        self._webhooks: dict[str, Webhook] = {}

    @asynccontextmanager
    async def listen(self) -> AsyncIterator[None]:
        """Serve until the block ends."""
        http = HttpServer(self._handle, _refuse, UnauthenticatedConnections(), reuse_port=False)
        with tempfile.TemporaryDirectory(prefix="kapiserver-") as name:
            folder = Path(name)
            write_certificates(folder)
            credentials = ensure_certificates(Config(cert_dir=folder), folder)
            self.ca_bundle = pem_base64(credentials.ca)
            port = await http.listen_secure(LOOPBACK, 0, credentials.server_context())
        self.url = f"https://{LOOPBACK}:{port}"
        try:
            yield
        finally:
            await http.drain(0)

    def add(self, webhook: Webhook) -> Tree:
        """Serve the webhook; return its client configuration, with URL and CA bundle."""
        path = f"/{len(self._webhooks) + 1}"
        self._webhooks[path] = webhook
        return {"url": f"{self.url}{path}", "caBundle": self.ca_bundle}

    @property
    def webhooks(self) -> Sequence[Webhook]:
        """The webhooks that were added."""
        return tuple(self._webhooks.values())

    async def _handle(self, request: Request) -> Response:
        webhook = self._webhooks.get(request.path)
        if webhook is None:
            return _error(404, f"there is no webhook {request.path}")
        review = json.decode_value(await request.read_body(BODY_LIMIT))
        body = review["request"]
        answer = {"apiVersion": review["apiVersion"], "kind": review["kind"]}
        try:
            answer["response"] = {**await webhook._respond(body), "uid": body["uid"]}
            return Response(body=json.encode_value(answer))
        except (asyncio.CancelledError, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # pytest.fail raises no Exception
            webhook._fail(error)
            return _error(500, f"{type(error).__name__}: {error}")


def _refuse(_: Request, error: Exception) -> Response:
    """Return the response to a request whose headers or body break a limit."""
    return _error(400, str(error))


def _error(status: int, message: str) -> Response:
    return Response(status=status, media_type="text/plain", body=message.encode())
