"""TestServer: an API server that a test starts and stops in its own process.

`_serve` composes the parts of the harness; no other place connects them.
"""

from __future__ import annotations

import asyncio
import csv
import io
import secrets
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kapiserver.apiserver.private_files import write_private
from kapiserver.apiserver.serving.kubeconfig import kubeconfig
from kapiserver.app import RunningServer
from kapiserver.host import Host
from kapiserver.testing.controls import Controls
from kapiserver.testing.loop_thread import LoopThread
from kapiserver.testing.settings import server_config
from kapiserver.testing.state.prepared import keep_certificates, write_certificates

if TYPE_CHECKING:
    from kapiserver.api.resource_client import Client as InternalClient
    from kapiserver.client import Client

T = TypeVar("T")

MAX_USERS = 1000
"""Users of one server that tests have added."""

_NOT_RUNNING = "the server is not running; use it in `with TestServer() as server`"
_NO_USERS = (
    "this server takes no tokens of added users: it runs without TLS, so that all of its clients "
    "are administrators, or its setting token_auth_file names other tokens"
)
_ON_OWN_LOOP = (
    "this would block the server's own loop: use `await` and the method that ends with _async"
)
_HOST_ON_THREAD = "a host belongs to one event loop: use `async with TestServer(host=host)`"
_NOT_ASYNCIO = (
    "this loop is not asyncio's: call the method without _async in a thread, as in "
    "`await trio.to_thread.run_sync(server.reset)`"
)


class TestServer(Controls):
    """An API server in memory, with TLS and RBAC unless the settings say otherwise.

    `with TestServer() as server:` runs it on a thread of its own, for synchronous clients in the
    same process and for async tests of any kind (asyncio, trio). `async with` runs it on the
    caller's asyncio loop. After the block no thread, task, socket or file is left; the same
    TestServer can be started again and is empty then.

    The settings are those of `testing/settings.py`: `rbac=False`, `tls=False`, `insecure=True`,
    `controllers=["-garbage-collector-controller", "*"]`, `feature_gates={"WatchList": False}`,
    `runtime_config={"api/beta": True}`, `emulated_version="1.34"`,
    `enable_admission_plugins=["NodeRestriction"]`, and every other setting of `Config`.

    With a `seed`, runs that send the same requests one after the other get the same uids, generated
    names, addresses, timestamps and resource versions. The clock is frozen at 2025-01-01T00:00:00Z;
    short delays of controllers take no time; each request waits until the server has done the work
    that those before it caused. Certificates and keys differ between processes.

    Test servers on one loop may share a `kapiserver.host.Host`: `async with TestServer(host=host)`.
    """

    __test__ = False  # not a test class of pytest

    def __init__(
        self, *, seed: int | str | None = None, host: Host | None = None, **settings: Any
    ) -> None:
        super().__init__(seed=seed, host=host)
        self._settings = settings
        self._running: RunningServer | None = None
        self._folder = Path()
        self._token = ""
        self._users: dict[str, tuple[str, Sequence[str]]] = {}
        """Name and groups of the users that tests have added, by token."""
        self._thread: LoopThread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._serving: AbstractAsyncContextManager[None] | None = None

    @asynccontextmanager
    async def _serve(self) -> AsyncIterator[None]:
        """Connect the parts of the harness with a server, and run it until the block ends."""
        self._loop = asyncio.get_running_loop()
        with tempfile.TemporaryDirectory(prefix="kapiserver-") as name:
            self._folder = Path(name)
            self._token = secrets.token_hex(16)
            self._users.clear()
            self._write_tokens()
            settings = {"token_auth_file": self._token_file, **self._settings}
            config = server_config(self._folder, settings)
            if config.serving.secure_port is not None:
                write_certificates(self._folder)
            try:
                async with self.serve(config) as self._running:
                    keep_certificates(self._folder)
                    yield
            finally:
                self._running = self._loop = None

    @property
    def _token_file(self) -> Path:
        return self._folder / "tokens.csv"

    def _write_tokens(self) -> None:
        """Write the file with the administrator's token and those of added users."""
        text = io.StringIO(newline="")
        rows = csv.writer(text)
        rows.writerow((self._token, "kubernetes-admin", "admin", "system:masters"))
        for token, (name, groups) in self._users.items():
            rows.writerow((token, name, name, ",".join(groups)))
        write_private(self._token_file, text.getvalue().encode())

    def add_token(self, name: str, groups: Sequence[str] = ()) -> str:
        """Return a new bearer token of a user with this name and these groups, who has no rights
        but those of RBAC. Raises ValueError for a name or a group that a token file cannot hold and
        if there are MAX_USERS, and RuntimeError for a server whose tokens are in a file of the
        test or whose clients are all administrators."""
        if not self.token or self.ca is None:
            raise RuntimeError(_NO_USERS)
        if not name or any(text != text.strip() or "," in text for text in (name, *groups)):
            raise ValueError(
                f"{name!r} with the groups {list(groups)} is not a user of a token file"
            )
        if len(self._users) >= MAX_USERS:
            raise ValueError(f"there are {MAX_USERS} users already")
        token = secrets.token_hex(16)
        self._users[token] = (name, tuple(groups))
        self.call(self._reload_tokens)
        return token

    def remove_token(self, token: str) -> None:
        """Forget a token of `add_token`; nothing happens if the server does not know it."""
        if self._users.pop(token, None) is not None and self.is_running:
            self.call(self._reload_tokens)

    def _reload_tokens(self) -> None:
        self._write_tokens()
        self.running.cluster.authentication.reload()

    def start(self) -> None:
        """Start the server on a thread of its own; return when it is ready. Its thread does
        not keep the interpreter from exiting. Raises TypeError and ValueError for settings,
        RuntimeError if it runs already or has a host."""
        self._check_stopped()
        if self._host is not None:
            raise RuntimeError(_HOST_ON_THREAD)
        thread = LoopThread(self._serve(), name="kapiserver")
        thread.start()
        self._thread = thread

    def stop(self) -> None:
        """Stop the server that `start` has started. Idempotent."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.stop()

    def __enter__(self) -> TestServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def __aenter__(self) -> TestServer:
        self._check_stopped()
        serving = self._serve()
        await serving.__aenter__()
        self._serving = serving
        return self

    async def __aexit__(self, *_: object) -> None:
        serving, self._serving = self._serving, None
        assert serving is not None
        await serving.__aexit__(None, None, None)

    def _check_stopped(self) -> None:
        if self._running is not None:
            raise RuntimeError("the server is running")

    @property
    def is_running(self) -> bool:
        """Whether the server runs."""
        return self._running is not None

    @property
    def running(self) -> RunningServer:
        """The parts of the server, for use on its loop. Raises RuntimeError when it does not
        run."""
        if self._running is None:
            raise RuntimeError(_NOT_RUNNING)
        return self._running

    @property
    def url(self) -> str:
        """The HTTPS URL; the plain one with `tls=False`."""
        return self.running.url

    @property
    def insecure_url(self) -> str:
        """The plain HTTP URL, whose clients are administrators; "" unless `insecure=True` or
        `tls=False`."""
        return self.running.insecure_url

    @property
    def page_url(self) -> str:
        """The link to the page at /ui, which signs an administrator in once; "" unless
        `enable_ui=True`."""
        return self.running.page_url

    @property
    def kubeconfig(self) -> Path:
        """The file of an administrator's kubeconfig; deleted with the server."""
        path = self.running.kubeconfig
        assert path is not None
        return path

    @property
    def kubeconfig_text(self) -> str:
        """The text of the kubeconfig, YAML."""
        return self.kubeconfig.read_text()

    def write_kubeconfig(self, namespace: str, *, token: str = "", url: str = "") -> Path:
        """Write a kubeconfig whose context names the namespace; return its path. It is that of an
        administrator, or of the user with the token; `url` is that of a logical cluster. The file
        is deleted with the server."""
        running = self.running
        credentials = running.credentials
        text = kubeconfig(
            url=url or running.url, credentials=credentials, namespace=namespace, token=token
        )
        user = f"-{secrets.token_hex(4)}" if token else ""
        path = self._folder / f"{namespace}{user}.kubeconfig"
        write_private(path, text.encode())
        return path

    @property
    def token(self) -> str:
        """A bearer token of an administrator; "" if the setting token_auth_file names others."""
        return "" if "token_auth_file" in self._settings else self._token

    @property
    def ca(self) -> Path | None:
        """The file of the CA that signed the server's certificate, PEM; None with `tls=False`."""
        return self.running.ca_file

    @property
    def ca_context(self) -> ssl.SSLContext | None:
        """The same as `ssl_context`, which has no certificate of a user."""
        return self.ssl_context

    @property
    def ssl_context(self) -> ssl.SSLContext | None:
        """The TLS settings of clients, which trust `ca`; None with `tls=False`."""
        return ssl.create_default_context(cafile=self.ca) if self.ca is not None else None

    def client(self) -> Client:
        """Return an administrator's client over HTTP, for `async with` on any asyncio loop."""
        from kapiserver.client import Client  # loads aiohttp

        return Client(self.url, token=self.token, ssl_context=self.ssl_context)

    def internal_client(self) -> InternalClient:
        """Return an administrator's client without HTTP; run its coroutines with `run` or
        `run_async`."""
        from kapiserver.apiserver.user import MASTERS, User, with_authenticated

        groups = with_authenticated("kubernetes-admin", (MASTERS,))
        user = User(name="kubernetes-admin", groups=groups)
        return self.running.cluster.server.client(user, user_agent="kapiserver-testing")

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the server's loop, wait, and return its result. Raises its errors,
        and RuntimeError on the server's own loop; `await` the coroutine there."""
        if self._loop is None or self._is_on_loop():
            coroutine.close()
            raise RuntimeError(_NOT_RUNNING if self._loop is None else _ON_OWN_LOOP)
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def run_async(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the server's loop and return its result, without blocking the
        caller's asyncio loop. Raises its errors, RuntimeError when the server does not run, and
        RuntimeError on a loop that is not asyncio's: there call `run` in a thread."""
        if self._is_on_loop():
            return await coroutine
        if self._loop is None or not _is_asyncio():
            coroutine.close()
            raise RuntimeError(_NOT_RUNNING if self._loop is None else _NOT_ASYNCIO)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, self._loop))

    def call(self, function: Callable[[], T]) -> T:
        """Call a function that does not wait on the server's loop, and return its result; from any
        thread, that of the loop included. Raises its errors."""
        if self._loop is None or self._is_on_loop():
            return function()

        async def call_function() -> T:
            return function()

        return self.run(call_function())

    def _is_on_loop(self) -> bool:
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False


def _is_asyncio() -> bool:
    """Whether the caller runs on a loop of asyncio."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
