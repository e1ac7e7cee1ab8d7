"""A few hundred random requests: no 500, no trace in the log."""

from __future__ import annotations

import itertools
import logging
import socket

import pytest

from tests.apiserver.conftest import Server
from tests.fuzz.fuzz_server import Client, fault_of
from tests.fuzz.requests import RUNTIME_CONFIG, Requests

_SEED = 1
_REQUESTS = 300


def test_requests(caplog: pytest.LogCaptureFixture) -> None:
    """The requests of a fixed seed get a response, and the server logs no trace."""
    caplog.set_level(logging.WARNING)
    server = Server(runtime_config=RUNTIME_CONFIG)
    client = Client(lambda: socket.create_connection(("127.0.0.1", server.api.port), 60))
    requests = Requests(_SEED, "token")
    try:
        for request in itertools.chain(
            requests.preparation(), itertools.islice(requests, _REQUESTS)
        ):
            answer = client.send(request)
            assert not fault_of(request, answer), (request.data, answer)
            traces = [record.getMessage() for record in caplog.records if record.exc_info]
            assert not traces, (request.data, traces)
    finally:
        client.close()
        server.end()


def test_a_seed_repeats_the_requests() -> None:
    """Two runs of a seed send the same requests."""
    first, second = (
        [request.data for request in itertools.islice(Requests(7, "token"), 100)] for _ in range(2)
    )
    assert first == second
