"""What the supervisor of workers loads before it forks them."""

import subprocess
import sys

PROGRAM = """
import sys, threading
from kapiserver.warm_up import warm_up
warm_up("etcd:http://127.0.0.1:2379")
loaded = set(sys.modules)
assert threading.enumerate() == [threading.main_thread()]
assert {
    "kapiserver.app",
    "kapiserver.storage.etcd.grpc",
    "kapiserver.apiserver.endpoints.handlers.create",
    "kapiserver.apiserver.admission.plugins.namespace_lifecycle",
    "kapiserver.api.core.v1",
} <= loaded, loaded
warm_up("postgresql://user@host/database")
"""


def test_warm_up() -> None:
    """Afterwards the code of requests and of the store is loaded, and no thread runs. A store whose
    package is missing is no error."""
    process = subprocess.run(
        [sys.executable, "-c", "import sys; sys.modules['asyncpg'] = None" + PROGRAM],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
