"""An HTTP request as filters and handlers see it, and the results that they record in it.

`serving/exchange.py` has it made, and completes it when the response or the stream has ended. Knows
no HTTP library.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias
from urllib.parse import unquote, unquote_plus

from msgspec import Struct, field

from kapiserver.apiserver.authorizer import Decision
from kapiserver.apiserver.caller import AuditNotes, Caller, Warnings
from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.apiserver.user import ANONYMOUS, User
from kapiserver.spans import Trace
from kapiserver.storage.cache.query import WatchSink

_log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from kapiserver.apiserver.target import Target

_MAX_CACHED_PATH = 512
_unquote_cached = functools.lru_cache(maxsize=1024)(unquote)

Query: TypeAlias = Mapping[str, Sequence[str]]
"""Query parameters; each has a list of values."""

Reader: TypeAlias = Callable[[int], Awaitable[bytes]]
"""Reads the body, which has a maximum size; call it once. Raises errors.BodyTooLarge."""


class Certificate(Struct, frozen=True, kw_only=True):
    """A verified client certificate.

    uids        values of the subject's attribute for uids, 1.3.6.1.4.1.57683.2
    sha256      the hash of the DER form in hexadecimal
    not_after   when it, or a CA of its chain, expires, in seconds since the epoch
    chain       the hashes of the certificates from this one to the root; empty if it is not known
                with which handshake a resumed TLS session began
    """

    common_name: str
    organizations: tuple[str, ...] = ()
    uids: tuple[str, ...] = ()
    sha256: str = ""
    not_after: float = math.inf
    chain: frozenset[str] = frozenset()


class Impersonator(Struct, frozen=True):
    """The user who makes a request as another user.

    constraint  the verb of constrained impersonation that allowed it, or ""
    """

    user: User
    constraint: str = ""


class Outcome(Struct, frozen=True, kw_only=True):
    """How a response ended.

    status      the status of the response that was sent
    bytes_sent  the bytes of the body, or of a stream's frames
    finished    False if the client went away or the connection was aborted
    """

    status: int
    bytes_sent: int
    finished: bool


def _ignore() -> None:
    pass


def ignore_end() -> None:
    """Do nothing when the client goes."""


def _ignore_callback(callback: Callable[[], object]) -> None:
    pass


async def _no_pieces() -> AsyncIterator[bytes]:
    pieces: tuple[bytes, ...] = ()
    for piece in pieces:
        yield piece


def no_stream() -> WatchSink:
    """Raise RuntimeError, for requests that no client waits for."""
    raise RuntimeError("this request was not read from a connection: it takes no stream")


class Ticket(Protocol):
    """The place of a request at its priority level (`flowcontrol/queue_set.py`).

    headers     those of the response that name the level and the FlowSchema
    has_waited  whether the request was in a queue
    """

    headers: tuple[tuple[str, str], ...]
    has_waited: bool

    def log_fields(self, now: float) -> dict[str, object]:
        """Return the fields of the access log."""


class Request(Struct, kw_only=True, eq=False):
    """One request.

    What the client sent, never assigned again:

    method, path, query     the query includes empty values
    headers     looked up case-insensitively
    info        what method, path and query ask for
    remote      the client's address
    uri         path and query as the client sent them
    certificate the client's TLS certificate, or None
    tls_host    the host that the client named in the TLS handshake (SNI), in lower case, or ""
    is_of_page  whether it came by /ui/proxy, so that the cookie of the page counts; `ui/page.py`
                sets it, and drops the prefix from path and uri

    The client's connection, which the front that reads the request gives:

    read_body   reads the body
    stream_body yields the body as it arrives, in place of `read_body`, without a maximum size
    open_sink   opens a stream to the client, for handlers that return a StreamResponse
    has_gone    whether the client has closed the connection
    on_gone     sets what to call when the client closes the connection during this request
    on_authenticated    called when the client has shown valid credentials

    Access, decided by the filters of authentication, impersonation and authorization:

    user        who is asking
    impersonator  the user who makes the request as `user`, or None
    decision    the decision of the authorizer
    ticket      its place at its priority level; None if flow control has not seen it

    The results of routes, handlers and operations, which outer filters read when the response
    exists, or in a callback of `on_complete`:

    target      the resource that the path names, once it is resolved
    audit       notes for the audit event, and the id that the log and the response show
    warnings    warnings for the client
    trace       when the request was received, and what its time was spent on
    outcome     None until the response or the stream has ended
    """

    method: str
    path: str
    query: Query
    headers: Mapping[str, str]
    info: RequestInfo
    remote: str = ""
    uri: str = ""
    certificate: Certificate | None = None
    tls_host: str = ""
    is_of_page: bool = False

    read_body: Reader
    stream_body: Callable[[], AsyncIterator[bytes]] = _no_pieces
    open_sink: Callable[[], WatchSink] = no_stream
    has_gone: Callable[[], bool] = lambda: False
    on_gone: Callable[[Callable[[], object]], None] = _ignore_callback
    on_authenticated: Callable[[], None] = _ignore

    user: User = ANONYMOUS
    impersonator: Impersonator | None = None
    decision: Decision | None = None
    ticket: Ticket | None = None

    target: Target | None = None
    audit: AuditNotes = field(default_factory=AuditNotes)
    warnings: Warnings = field(default_factory=Warnings)
    trace: Trace = field(default_factory=Trace)
    outcome: Outcome | None = None
    _callbacks: list[CompletionCallback] = field(default_factory=list)

    def parameter(self, name: str) -> str:
        """The first value of a query parameter, or ""."""
        values = self.query.get(name)
        return values[0] if values else ""

    def header(self, name: str) -> str:
        """The first value of a header, or ""."""
        return self.headers.get(name) or ""

    def caller(self) -> Caller:
        """Return the user and the records that an operation needs to know."""
        return Caller(
            user=self.user,
            verb=self.info.verb,
            user_agent=self.header("User-Agent"),
            warnings=self.warnings,
            audit=self.audit,
        )

    def cancel_when_gone(self) -> None:
        """Cancel the present task, which responds to this request, when the client has gone."""
        task = asyncio.current_task()
        assert task is not None
        self.on_gone(task.cancel)

    def on_complete(self, callback: CompletionCallback) -> None:
        """Call `callback` once, when the response is written, the stream has ended or the
        connection is lost. The last callback added is called first. It must not block."""
        self._callbacks.append(callback)

    def complete(self, outcome: Outcome) -> None:
        """Run the callbacks; an error in one is logged and stops no other."""
        self.outcome = outcome
        while self._callbacks:
            try:
                self._callbacks.pop()(self)
            except Exception:
                _log.exception("a completion callback of %s %s failed", self.method, self.path)


CompletionCallback: TypeAlias = Callable[[Request], None]
"""Called with a request whose `outcome` is known."""


MAX_PARAMETERS = 10_000
"""Parameters of a query string, as in Go's url.ParseQuery."""


class RequestTarget(Struct, frozen=True):
    """The path, unquoted, and the query of a request's target."""

    path: str
    query: Query


def parse_target(target: str) -> RequestTarget:
    """Parse the target of a request line."""
    if not target.startswith("/"):  # absolute form, as sent to proxies
        target = "/" + target.partition("://")[2].partition("/")[2]
    quoted_path, _, query_text = target.partition("?")
    return RequestTarget(unquote_path(quoted_path), parse_query(query_text))


def parse_query(text: str) -> dict[str, list[str]]:
    """Parse a query string as Go's url.ParseQuery does; pairs with a semicolon are dropped, and a
    query of more than MAX_PARAMETERS is empty."""
    query: dict[str, list[str]] = {}
    if not text or text.count("&") >= MAX_PARAMETERS:
        return query
    for pair in text.split("&"):
        if not pair or ";" in pair:
            continue
        name, _, value = pair.partition("=")
        query.setdefault(unquote_plus(name), []).append(unquote_plus(value))
    return query


def unquote_path(text: str) -> str:
    """Return a path with its percent-encoding decoded."""
    if "%" not in text:
        return text
    return _unquote_cached(text) if len(text) <= _MAX_CACHED_PATH else unquote(text)
