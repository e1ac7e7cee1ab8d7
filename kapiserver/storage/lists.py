"""What a list or watch asks for, checked and resolved: versions, scopes, pages.

Reads from the cache, or from the store where a past state is not in the cache any more. Mirrors
ValidateListOptions of k8s.io/apimachinery and of k8s.io/apiserver's storage, and GetList of its
cacher and of its etcd3 store.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from kapiserver.api.errors import (
    FieldError,
    InvalidObject,
    Path,
    forbidden,
    invalid,
    not_supported,
)
from kapiserver.api.selectors import Selection
from kapiserver.storage.continue_token import BadToken, ContinueToken, ContinueTokenCodec
from kapiserver.storage.entry import Entry, ObjectKey
from kapiserver.storage.errors import (
    BadQuery,
    Compacted,
    Expired,
    FutureRevision,
    ResourceVersionTooLarge,
    Undecryptable,
)
from kapiserver.storage.kv import KV, KeyValue, Revision
from kapiserver.storage.object_codec import ObjectCodec
from kapiserver.storage.query import ListQuery, ListResult, WatchQuery
from kapiserver.storage.time_slice import TimeSlice
from kapiserver.storage.watch_cache import WatchCache

LoadContinueTokenCodec: TypeAlias = Callable[[], Awaitable[ContinueTokenCodec]]
"""The tokens of the store; its secret is read when the first list is paged."""

LATEST = Revision(-1)
"""In a continue token: go on at whatever is newest, inconsistently."""
STORED_PAGE = 1000
"""Keys read from the store at once."""

_LIST_TOO_OLD = "The resourceVersion for the provided list is too old."
_CONTINUE_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can "
    "start a new list without the continue parameter, or use the continue token in this response "
    "to retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)
_MATCH = Path("resourceVersionMatch")


def check_list(query: ListQuery) -> None:
    """Options that exclude each other. Raises InvalidObject."""
    match, found = query.match, []
    if match:
        if not query.resource_version:
            found.append(_unless("resourceVersion"))
        if query.continue_token:
            found.append(_with_continue())
        if match not in ("Exact", "NotOlderThan"):
            found.append(not_supported(_MATCH, match, ("Exact", "NotOlderThan", "")))
        if match == "Exact" and query.resource_version == "0":
            detail = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            found.append(forbidden(_MATCH, detail))
    _raise(found)


def check_watch(query: WatchQuery) -> None:
    """Options that exclude each other. Raises InvalidObject."""
    match, found = query.match, []
    if query.initial_events is not None and match != "NotOlderThan":
        detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        found.append(forbidden(_MATCH, detail))
    if match:
        if query.initial_events is None:
            detail = (
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            )
            found.append(forbidden(_MATCH, detail))
        if match != "NotOlderThan":
            found.append(not_supported(_MATCH, match, ("NotOlderThan",)))
        if query.continue_token:
            found.append(_with_continue())
    _raise(found)


def _unless(name: str) -> FieldError:
    return forbidden(_MATCH, f"resourceVersionMatch is forbidden unless {name} is provided")


def _with_continue() -> FieldError:
    return forbidden(_MATCH, "resourceVersionMatch is forbidden when continue is provided")


def _raise(errors: Sequence[FieldError]) -> None:
    if errors:
        raise InvalidObject(group="meta.k8s.io", kind="ListOptions", name="", errors=errors)


def _is_exact(query: ListQuery) -> bool:
    # A limit with a version has always meant that very version.
    legacy = query.limit > 0 and not query.match and query.resource_version not in ("", "0")
    return query.match == "Exact" or legacy


def _limit(query: ListQuery) -> int:
    # "Whatever is there" has always come whole from the cache.
    return 0 if query.limit < 0 or query.resource_version == "0" else query.limit


def _text(query: ListQuery) -> str:
    """The selectors, as far as a continue token is bound to them."""
    selection = query.selection
    return "" if selection.selects_everything else f"{selection.label_text}\0{selection.field_text}"


class ListReader:
    """Reads of one resource."""

    def __init__(
        self, kv: KV, codec: ObjectCodec, cache: WatchCache, tokens: LoadContinueTokenCodec
    ) -> None:
        self._kv = kv
        self._codec = codec
        self._cache = cache
        self._load_token_codec = tokens

    def scope(self, namespace: str, selection: Selection) -> str:
        """The prefix below which everything selected lies; the whole key where a name is."""
        name = selection.name
        namespaced = self._codec.resource.namespaced
        if namespaced and not namespace:
            namespace = selection.namespace or ""
        if not name or "/" in name or (namespaced and not namespace) or "/" in namespace:
            return self._codec.scope(namespace if "/" not in namespace else "")
        return self._codec.path(ObjectKey(namespace if namespaced else "", name))

    def parse_version(self, text: str) -> Revision:
        """A resourceVersion parameter; "" is 0. Raises BadQuery."""
        if not text:
            return Revision(0)
        if not (text.isascii() and text.isdigit()):
            problem = "invalid syntax"
        elif len(text) > 32 or int(text) >= 1 << 64:
            problem = "value out of range"
        else:
            return Revision(int(text))
        detail = f'strconv.ParseUint: parsing "{text}": {problem}'
        error = invalid(Path("resourceVersion"), text, detail)
        raise self.bad_query(f"invalid resource version: {error}")

    async def wait_for_version(self, text: str) -> Revision:
        """Wait until the cache is as new as a resourceVersion asks: "" now, "0" anything. Returns
        the version asked for. Raises BadQuery, ResourceVersionTooLarge."""
        revision = self.parse_version(text)
        if not text:
            await self._cache.wait_fresh()
        elif not await self._cache.wait_for_revision(revision):
            raise self.too_large(revision, self._cache.revision)
        return revision

    async def list(self, query: ListQuery) -> ListResult:
        """One page, or all."""
        try:
            listing = await self._list(query)
            self._codec.decrypt_all(listing.entries)
        except Undecryptable as error:
            raise error.for_list() from error
        return listing

    async def _list(self, query: ListQuery) -> ListResult:
        check_list(query)
        scope = self.scope(query.namespace, query.selection)
        if query.continue_token:
            return await self._continued(query, scope)
        if _is_exact(query):
            revision = self.parse_version(query.resource_version)
            return await self._at(revision, query, scope, "")
        await self.wait_for_version(query.resource_version)
        return await self._present(query, scope, "")

    async def _continued(self, query: ListQuery, scope: str) -> ListResult:
        if query.resource_version not in ("", "0"):
            raise self.bad_query("specifying resource version is not allowed when using continue")
        prefix = self._codec.scope(query.namespace)
        try:
            token = (await self._load_token_codec()).decode(
                query.continue_token, prefix, _text(query)
            )
        except BadToken as error:
            raise self.bad_query(f"invalid continue token: {error}") from None
        if token.revision == LATEST:
            await self._cache.wait_fresh()
            return await self._present(query, scope, token.start)
        try:
            return await self._at(token.revision, query, scope, token.start)
        except Expired:
            latest = ContinueToken(LATEST, token.start)
            again = (await self._load_token_codec()).encode(latest, prefix, _text(query))
            raise self.expired(_CONTINUE_TOO_OLD, again) from None

    async def _present(self, query: ListQuery, scope: str, start: str) -> ListResult:
        return await self._page(query, self._cache.range(scope, start), self._cache.revision)

    async def _at(self, revision: Revision, query: ListQuery, scope: str, start: str) -> ListResult:
        """A page of a past state: from the cache, else from the store."""
        await self._cache.wait_ready()
        if revision > self._cache.revision:
            await self._cache.wait_fresh()
        if revision > self._cache.revision:
            raise self.too_large(revision, self._cache.revision)
        entries = self._cache.range_at(revision, scope, start)
        if entries is not None:
            return await self._page(query, entries, revision)
        try:
            return await self._stored_page(query, revision, scope, start)
        except Compacted:
            raise self.expired(_LIST_TOO_OLD) from None
        except FutureRevision as error:
            raise self.too_large(error.revision, error.current) from None

    async def _page(
        self, query: ListQuery, entries: Sequence[Entry], revision: Revision
    ) -> ListResult:
        selection, limit = query.selection, _limit(query)
        if limit and limit < len(entries) and revision == self._cache.revision:
            self._cache.snapshot()
        if selection.selects_everything:
            chosen = entries[:limit] if limit else entries
            left = len(entries) - len(chosen)
            return await self._listing(query, chosen, chosen, revision, left)
        found: list[Entry] = []
        seen, turn = entries, TimeSlice()
        for number, entry in enumerate(entries, 1):
            if entry.is_selected(selection):
                found.append(entry)
                if len(found) == limit:
                    seen = entries[:number]
                    break
            await turn.yield_if_expired()
        left = len(entries) - len(seen)
        return await self._listing(query, found, seen, revision, left)

    async def _stored_page(
        self, query: ListQuery, revision: Revision, scope: str, start: str
    ) -> ListResult:
        selection, limit = query.selection, _limit(query)
        size = limit if limit and selection.selects_everything else STORED_PAGE
        found: list[Entry] = []
        turn = TimeSlice()
        while True:
            page = await self._kv.range(scope, start=start, limit=size, revision=revision)
            entries = [self._known(item) for item in page.items]
            for number, entry in enumerate(entries, 1):
                in_scope = scope.endswith("/") or entry.path == scope
                if in_scope and entry.is_selected(selection):
                    found.append(entry)
                    if len(found) == limit:
                        left = len(entries) - number + page.remaining
                        seen = entries[:number]
                        return await self._listing(query, found, seen, revision, left)
                await turn.yield_if_expired()
            if not page.remaining:
                return ListResult(entries=found, revision=revision)
            start = page.items[-1].key + "\0"

    def _known(self, item: KeyValue) -> Entry:
        """The cache's entry where it is of the same revision: its encodings are shared."""
        known = self._cache.get(item.key)
        if known is not None and known.revision == item.revision:
            return known
        return Entry(self._codec, item.key, item.value, item.revision)

    async def _listing(
        self,
        query: ListQuery,
        chosen: Sequence[Entry],
        seen: Sequence[Entry],
        revision: Revision,
        left: int,
    ) -> ListResult:
        if not left:
            return ListResult(entries=chosen, revision=revision)
        token = ContinueToken(revision, seen[-1].path + "\0")
        prefix = self._codec.scope(query.namespace)
        return ListResult(
            entries=chosen,
            revision=revision,
            continue_token=(await self._load_token_codec()).encode(token, prefix, _text(query)),
            remaining=left if query.selection.selects_everything else None,
        )

    # Errors.

    def bad_query(self, message: str) -> BadQuery:
        """A parameter that makes no sense."""
        resource = self._codec.resource
        return BadQuery(message, resource=resource.name, group=resource.group)

    def too_large(self, revision: int, current: int) -> ResourceVersionTooLarge:
        """A version newer than everything written."""
        resource = self._codec.resource
        return ResourceVersionTooLarge(
            revision, current=current, resource=resource.name, group=resource.group
        )

    def expired(self, message: str, continue_token: str = "") -> Expired:
        """A version or token that is too old."""
        resource = self._codec.resource
        return Expired(
            message, resource=resource.name, group=resource.group, continue_token=continue_token
        )
