"""Parsing of etcd's responses: errors of its versions, and malformed ones."""

from __future__ import annotations

import pytest

from kapiserver.storage import etcd
from kapiserver.storage.errors import Corrupt, StorageError, Unavailable
from kapiserver.storage.etcd_responses import ResponseParser


@pytest.mark.parametrize(
    ("status", "body", "kind", "message"),
    [
        (400, b'{"error":"boo","code":11,"message":"boo"}', etcd.EtcdError, "boo"),  # 3.5
        (400, b'{"code":11,"message":"boo","details":[]}', etcd.EtcdError, "boo"),  # 3.6
        (400, b'{"error":"boo","code":3}', etcd.EtcdError, "boo"),  # 3.4
        (503, b'{"error":"no","code":14,"message":"no"}', Unavailable, "no"),
        (503, b'{"error":{"grpc_code":14,"message":"closing"}}', Unavailable, "closing"),
        (500, b"<html>", Unavailable, "500"),
        (500, b"[]", Unavailable, "500"),
        (500, b'"x"', Unavailable, "500"),
        (500, b'{"code":"many"}', Unavailable, "500"),
    ],
)
def test_errors(status: int, body: bytes, kind: type[StorageError], message: str) -> None:
    """Errors are parsed in the forms of all etcd versions; anything else is Unavailable."""
    error = etcd._refusal(status, body)
    assert type(error) is kind
    assert message in str(error)


@pytest.mark.parametrize(
    "response",
    [{}, {"header": {"revision": "x"}}, {"header": {"revision": "1"}, "kvs": [{}]}, {"kvs": 3}],
)
def test_malformed_responses(response: dict[str, object]) -> None:
    """A malformed response is Corrupt."""
    with pytest.raises(Corrupt):
        ResponseParser("").range_response(response)
