"""Sends requests to a server and returns its answers without what differs between any two runs.

`questions.jsonl` has wrong and odd requests, one in a line, and `objects.jsonl` the requests that
make the objects which they are about. No question changes anything.
"""

from __future__ import annotations

import http.client
import json
import re
import ssl
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

FOLDER = Path(__file__).parent
QUESTIONS, OBJECTS, RECORDED = (
    FOLDER / f"{name}.jsonl" for name in ("questions", "objects", "recorded")
)
Request: TypeAlias = dict[str, Any]
Answer: TypeAlias = dict[str, Any]

_HEADERS = (
    "Content-Type", "Warning", "Retry-After", "Allow", "Location", "X-Content-Type-Options",
    "WWW-Authenticate",
)  # fmt: skip
_VARIABLE = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UID"),
    (re.compile(r"2\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
    (re.compile(r'(resource_?[vV]ersion\\?":\s*\\?")\d+'), r"\1VERSION"),
    (re.compile(r"\(\d+\)"), "(VERSION)"),
    (re.compile(r'in scheme \\"[^"\\]+\\"'), "in SCHEME"),
)
"""What is made anew for each object. The name of a scheme depends on how Go built the program."""


def read(file: Path) -> list[Any]:
    """Return the values in the lines of a file."""
    return [json.loads(line) for line in file.read_text().splitlines()]


class Respondent:
    """A server, and a token of an administrator."""

    def __init__(self, url: str, token: str) -> None:
        context = ssl._create_unverified_context()  # the requests are to this machine
        address = urlsplit(url).netloc
        self._connection = http.client.HTTPSConnection(address, context=context, timeout=60)
        self._credentials = {"Authorization": f"Bearer {token}"}

    def answer(self, request: Request) -> Answer:
        """Return the status, the headers and the body of the response."""
        headers = self._credentials | request.get("headers", {})
        if not headers["Authorization"]:
            del headers["Authorization"]
        body = request.get("body", "").encode() or None
        self._connection.request(request["method"], request["path"], body, headers)
        response = self._connection.getresponse()
        text = response.read().decode()
        for pattern, replacement in _VARIABLE:
            text = pattern.sub(replacement, text)
        answer: Answer = {"status": response.status}
        named = {name: response.headers.get_all(name) for name in _HEADERS}
        answer["headers"] = {name: values for name, values in named.items() if values}
        return answer | {"body": text}

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def make_objects(self) -> None:
        """Make the objects of `objects.jsonl`. Raises RuntimeError if the server refuses one for a
        minute."""
        self.make(read(OBJECTS))

    def make(self, requests: Iterable[Request]) -> None:
        """Send requests. Raises RuntimeError if the server refuses one for a minute."""
        for request in requests:
            for _ in range(300):
                answer = self.answer(request)
                if answer["status"] in (200, 201, 409):
                    break
                time.sleep(0.2)  # a definition is not served at once
            else:
                raise RuntimeError(f"{request['path']}: {answer['body']}")
