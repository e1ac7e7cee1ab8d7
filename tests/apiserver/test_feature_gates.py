"""--feature-gates: which gates are enabled, and kube-apiserver's messages for invalid values."""

import re

import pytest

from kapiserver.apiserver.feature_gates import (
    DEFAULT_GATES,
    GATES,
    Gate,
    feature_gates_help,
    parse_feature_gates,
)
from kapiserver.cli import parser
from kapiserver.server_config import config_of
from tests.apiserver.conftest import Server

KNOWN = {
    "AllAlpha": Gate(default=False, stage="ALPHA"),
    "AllBeta": Gate(default=False, stage="BETA"),
    "New": Gate(default=False, stage="ALPHA"),
    "Soon": Gate(default=False, stage="BETA"),
    "Now": Gate(default=True, stage="BETA"),
    "Done": Gate(default=True, stage="GA"),
    "Forever": Gate(default=True, stage="GA", locked=True),
}


@pytest.mark.parametrize(
    ("text", "on"),
    [
        ("", "Now Done Forever"),
        (",,", "Now Done Forever"),
        ("New=true", "New Now Done Forever"),
        (" New = T , Now=0", "New Done Forever"),
        ("kube:New=1", "New Now Done Forever"),
        ("New=true,New=false", "Now Done Forever"),
        ("AllAlpha=true", "AllAlpha New Now Done Forever"),
        ("AllAlpha=true,New=false", "AllAlpha Now Done Forever"),
        ("New=false,AllAlpha=true", "AllAlpha Now Done Forever"),
        ("AllBeta=true", "AllBeta Soon Now Done Forever"),
        ("AllBeta=false", "Done Forever"),
        ("AllBeta=false,Now=true", "Now Done Forever"),
        ("Done=false", "Now Forever"),
        ("Forever=true", "Now Done Forever"),
    ],
)
def test_gates(text: str, on: str) -> None:
    """The value of a gate is the one given for it, else the one given for its stage (AllAlpha,
    AllBeta), else its default."""
    assert parse_feature_gates(text, KNOWN) == frozenset(on.split())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Nothing=true", "unrecognized feature gate: Nothing"),
        ("new=true", "unrecognized feature gate: new"),
        ("New", "missing bool value for New"),
        ("New=yes", 'invalid value of New=yes, err: strconv.ParseBool: parsing "yes": invalid '
         "syntax"),
        ("Forever=false", "cannot set feature gate Forever to false, feature is locked to true"),
    ],
)  # fmt: skip
def test_refused(text: str, words: str) -> None:
    """An unknown, malformed or locked gate is an error."""
    with pytest.raises(ValueError, match=f"^{re.escape(words)}$"):
        parse_feature_gates(text, KNOWN)


def test_the_flag() -> None:
    """The flag may be repeated. Its help lists every gate."""
    options = parser().parse_args(
        ["serve", "--feature-gates=WatchList=false", "--feature-gates", "APIListChunking=false"]
    )
    assert config_of(options).features.feature_gates == DEFAULT_GATES - {
        "WatchList",
        "APIListChunking",
    }
    assert config_of(parser().parse_args(["serve"])).features.feature_gates == DEFAULT_GATES
    assert all(f"{name}=true|false" in feature_gates_help() for name in GATES)


def test_watch_lists_turned_off() -> None:
    """With WatchList=false, sendInitialEvents is forbidden; other watches work."""
    server = Server(feature_gates=DEFAULT_GATES - {"WatchList"})
    try:
        response = server.api.get(
            "/api/v1/pods?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
        )
        assert response.status == 422
        assert response.message == (
            'ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: '
            "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
        )
        assert server.api.get("/api/v1/namespaces?watch=1&timeoutSeconds=1").status == 200
    finally:
        server.end()
