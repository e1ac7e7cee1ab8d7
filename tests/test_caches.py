"""Caches keyed by what a client sends keep nothing long."""

import contextlib
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from kapiserver.api.accessors import kind_of
from kapiserver.api.apply.fieldsets import name_step
from kapiserver.api.linear_regex import matches
from kapiserver.api.quantity import Quantity
from kapiserver.api.scalar_types import Duration, Time
from kapiserver.apiserver.request import unquote_path
from kapiserver.storage.objects.metadata_informer import _interned
from tests.traced_memory import trace

LENGTH = 100_000
CALLS = 20


@pytest.mark.own_process
@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda text: unquote_path("/%41" + text), id="path"),
        pytest.param(lambda text: kind_of({"apiVersion": text, "kind": "A"}), id="apiVersion"),
        pytest.param(lambda text: name_step("name", text), id="name of a list item"),
        pytest.param(lambda text: matches("0", text), id="text of a pattern"),
        pytest.param(lambda text: Quantity.canonical(text), id="quantity"),
        pytest.param(lambda text: Duration.canonical("1." + text + "s"), id="duration"),
        pytest.param(lambda text: Time.canonical(f"2026-01-01T00:00:00.{text}Z"), id="time"),
        pytest.param(
            lambda text: _interned([{"uid": text, "n": n} for n in range(100)]), id="owners"
        ),
    ],
)
def test_long_keys_are_not_kept(call: Callable[[str], Any]) -> None:
    """The results of calls with long arguments end with the call."""
    numbers = itertools.count()

    def run() -> None:
        for number in itertools.islice(numbers, CALLS):
            with contextlib.suppress(ValueError):
                call(f"{number:0{LENGTH}}")

    run()
    assert trace(run).retained < LENGTH
