"""Work on the event loop stops before it imports a module or compiles a function."""

import sys
import threading

import pytest

from kapiserver.api.lazy_loading import NotLoaded, before_loading, run_if_loaded

UNUSED = "this"
"""A module of the standard library that nothing imports."""


def import_unused() -> int:
    import this  # noqa: F401 - any module not imported yet

    return threading.get_ident()


@pytest.fixture(autouse=True)
def _unload(capsys: pytest.CaptureFixture[str]) -> None:
    """The module is not loaded yet. It prints a poem."""
    sys.modules.pop(UNUSED, None)


def test_import_is_refused() -> None:
    """An import of a module that is not loaded raises; one of a loaded module does not."""
    with pytest.raises(NotLoaded):
        run_if_loaded(import_unused)
    assert UNUSED not in sys.modules
    import_unused()
    assert run_if_loaded(import_unused) == threading.get_ident()


def test_compilation_is_refused() -> None:
    """`before_loading` raises within `run_if_loaded` only."""
    with pytest.raises(NotLoaded):
        run_if_loaded(before_loading)
    before_loading()


def test_other_threads_load() -> None:
    """Another thread imports while the work runs."""
    imported = []

    def import_in_thread() -> None:
        thread = threading.Thread(target=lambda: imported.append(import_unused()))
        thread.start()
        thread.join()

    run_if_loaded(import_in_thread)
    assert imported


def test_errors_are_raised() -> None:
    """Arguments, results and errors pass unchanged, and loading is allowed after an error."""
    assert run_if_loaded(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        run_if_loaded(divmod, 1, 0)
    before_loading()
