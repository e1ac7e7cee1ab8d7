"""Matching selectors against the stored bytes or the decoded object."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from kapiserver.api.selectors import parse
from kapiserver.storage.cache.entry import Entry
from kapiserver.storage.kv.contract import Revision
from tests.storage.objectkit import StorageHarness, pod, run

LABELS: list[dict[str, str]] = [
    {},
    {"app": "web"},
    {"app": ""},
    {"app": "api", "tier": "web"},
    {"app.io/app": "web"},
    {"tier": "app", "web": "app"},
]
OTHERS: list[dict[str, Any]] = [
    {},
    {"annotations": {"app": "web"}},
    {"annotations": {"note": "app web"}, "generateName": "app-"},
]
NODES = ["", "web"]
BY_LABELS = [
    "app", "!app", "app=web", "app=", "app!=web", "app!=", "app in (web,api)", "app in (web,)",
    "app notin (web)", "app notin (web,api)", "app notin (,web)", "tier=web,app!=web", "!tier,!app",
    "app!=web,!tier",
]  # fmt: skip
BY_FIELDS = [
    "", "spec.nodeName=web", "spec.nodeName!=web", "spec.nodeName=", "spec.nodeName!=",
    "status.phase!=Running", "spec.hostNetwork=false", "spec.hostNetwork!=true",
    "metadata.name!=web,spec.nodeName!=web", "metadata.namespace!=default",
]  # fmt: skip


@pytest.mark.parametrize("labels", ["", *BY_LABELS])
def test_bytes_and_object_agree(labels: str) -> None:
    """Matching stored bytes gives the result of matching the decoded object, also if the selector's
    text occurs elsewhere in the bytes."""

    async def check(harness: StorageHarness) -> None:
        store = harness.of("pods")
        selections = [parse(labels, fields, store.resource) for fields in BY_FIELDS]
        for marks, other_fields, node in product(LABELS, OTHERS, NODES):
            tree = pod("web" if other_fields else "a", node=node, labels=marks, **other_fields)
            value = store._codec.stored_value(tree)
            for selection in selections:
                read, unread = (
                    Entry(store._codec, "/registry/pods/default/x", value, Revision(1))
                    for _ in range(2)
                )
                expected = selection.matches(*read.selectable)
                assert unread.is_selected(selection) is expected, (str(selection), tree)

    run(check)
