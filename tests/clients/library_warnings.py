"""Warnings of client libraries, which must not fail the tests."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def ignore_warnings() -> Iterator[None]:
    """Ignore warnings during the block."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
