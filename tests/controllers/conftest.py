"""The servers and clients of `tests/apiserver/conftest.py`."""

from tests.apiserver.conftest import api, apps, core, make_server, namespace, own_server

__all__ = ["api", "apps", "core", "make_server", "namespace", "own_server"]
