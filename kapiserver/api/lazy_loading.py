"""Tells work on the event loop that it would import a module or compile a function for a type.

Both happen when something is first needed: the first Pod needs 200 ms of them. Work that
`run_if_loaded` runs raises NotLoaded before it imports or compiles. Its caller then runs it again
in a thread, where it loads what it needs. Knows no event loop.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TypeVar

Result = TypeVar("Result")


class NotLoaded(BaseException):
    """Something must be imported or compiled first. No `except Exception` catches it."""


_LOADING_IS_REFUSED: ContextVar[bool] = ContextVar("LOADING_IS_REFUSED", default=False)


def run_if_loaded(work: Callable[..., Result], *args: object) -> Result:
    """Return `work(*args)`. Raises NotLoaded if it needs something that is not loaded yet; the work
    may have changed its arguments by then. It must not start tasks, which would inherit the
    refusal."""
    token = _LOADING_IS_REFUSED.set(True)
    try:
        return work(*args)
    finally:
        _LOADING_IS_REFUSED.reset(token)


def before_loading() -> None:
    """To be called before something is compiled for the first time. Raises NotLoaded in work that
    `run_if_loaded` runs."""
    if _LOADING_IS_REFUSED.get():
        raise NotLoaded


class _ImportHook:
    """Raises NotLoaded when `run_if_loaded` imports a module that is not loaded; finds nothing."""

    @staticmethod
    def find_spec(
        _name: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        before_loading()
        return None


sys.meta_path.insert(0, _ImportHook)
