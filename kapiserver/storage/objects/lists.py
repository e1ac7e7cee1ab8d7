"""Checks list and watch options, and reads lists: resource versions, scopes and pages.

Lists are read from the cache, or from the store for revisions that the cache no longer has. Mirrors
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
    not_supported_in_order,
)
from kapiserver.api.selectors import Selection
from kapiserver.storage.cache.entry import Entry, ObjectKey
from kapiserver.storage.cache.metrics import ListMetrics
from kapiserver.storage.cache.offload import Offloader
from kapiserver.storage.cache.query import ListQuery, ListResult, WatchQuery
from kapiserver.storage.cache.value_index import ValueIndex
from kapiserver.storage.cache.watch_cache import WatchCache
from kapiserver.storage.concurrency.time_slice import TimeSlice
from kapiserver.storage.errors import (
    BadQuery,
    Compacted,
    CorruptList,
    CorruptObject,
    Expired,
    FutureRevision,
    ResourceVersionTooLarge,
)
from kapiserver.storage.kv.contract import KV, KeyValue, Revision
from kapiserver.storage.objects.continue_token import BadToken, ContinueToken, ContinueTokenCodec
from kapiserver.storage.objects.object_codec import ObjectCodec

LoadContinueTokenCodec: TypeAlias = Callable[[], Awaitable[ContinueTokenCodec]]
"""Loads the continue token codec of the store; called when the first list is paged."""

LATEST = Revision(-1)
"""The revision of a continue token that continues inconsistently, at the newest revision."""
STORED_PAGE = 1000
"""Keys per page when a list is read from the store."""

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
    """Check for conflicting options. Raises InvalidObject."""
    match, errors = query.match, []
    if match:
        if not query.resource_version:
            errors.append(_unless("resourceVersion"))
        if query.continue_token:
            errors.append(_with_continue())
        if match not in ("Exact", "NotOlderThan"):
            errors.append(not_supported_in_order(_MATCH, match, ("Exact", "NotOlderThan", "")))
        if match == "Exact" and query.resource_version == "0":
            detail = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            errors.append(forbidden(_MATCH, detail))
    _raise(errors)


def check_watch(query: WatchQuery) -> None:
    """Check for conflicting options. Raises InvalidObject."""
    match, errors = query.match, []
    if query.initial_events is not None and match != "NotOlderThan":
        detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        errors.append(forbidden(_MATCH, detail))
    if match:
        if query.initial_events is None:
            detail = (
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            )
            errors.append(forbidden(_MATCH, detail))
        if match != "NotOlderThan":
            errors.append(not_supported(_MATCH, match, ("NotOlderThan",)))
        if query.continue_token:
            errors.append(_with_continue())
    _raise(errors)


def _unless(name: str) -> FieldError:
    return forbidden(_MATCH, f"resourceVersionMatch is forbidden unless {name} is provided")


def _with_continue() -> FieldError:
    return forbidden(_MATCH, "resourceVersionMatch is forbidden when continue is provided")


def _raise(errors: Sequence[FieldError]) -> None:
    if errors:
        raise InvalidObject(group="meta.k8s.io", kind="ListOptions", name="", errors=errors)


def _is_exact(query: ListQuery) -> bool:
    # As in kube-apiserver, a limit with a resourceVersion implies Exact.
    legacy = query.limit > 0 and not query.match and query.resource_version not in ("", "0")
    return query.match == "Exact" or legacy


def _limit(query: ListQuery) -> int:
    # As in kube-apiserver, a list at resourceVersion "0" ignores the limit.
    return 0 if query.limit < 0 or query.resource_version == "0" else query.limit


def _selector_text(query: ListQuery) -> str:
    """Return the selectors as text, to bind a continue token to them."""
    selection = query.selection
    return "" if selection.selects_everything else f"{selection.label_text}\0{selection.field_text}"


class ListReader:
    """Reads the lists of one resource."""

    def __init__(
        self,
        kv: KV,
        codec: ObjectCodec,
        cache: WatchCache,
        index: ValueIndex,
        tokens: LoadContinueTokenCodec,
        offloader: Offloader,
    ) -> None:
        self._offloader = offloader
        self._kv = kv
        self._codec = codec
        self._cache = cache
        self._index = index
        self._load_token_codec = tokens
        self.metrics = {"watchcache": ListMetrics(), "etcd": ListMetrics()}
        """The numbers of lists from the watch cache, and from the store for old revisions."""
        self._cached, self._stored = self.metrics.values()

    def scope(self, namespace: str, selection: Selection) -> str:
        """Return the prefix of all selected objects, or the key if a single name is selected."""
        name = selection.name
        namespaced = self._codec.resource.namespaced
        if namespaced and not namespace:
            namespace = selection.namespace or ""
        if not name or "/" in name or (namespaced and not namespace) or "/" in namespace:
            return self._codec.scope(namespace if "/" not in namespace else "")
        return self._codec.path(ObjectKey(namespace if namespaced else "", name))

    def parse_version(
        self, resource_version: str, *, context: str = "invalid resource version: "
    ) -> Revision:
        """Parse a resourceVersion parameter; "" is 0. Raises BadQuery, whose message begins with
        the context."""
        if not resource_version:
            return Revision(0)
        if not (resource_version.isascii() and resource_version.isdigit()):
            problem = "invalid syntax"
        elif len(resource_version) > 32 or int(resource_version) >= 1 << 64:
            problem = "value out of range"
        else:
            return Revision(int(resource_version))
        detail = f'strconv.ParseUint: parsing "{resource_version}": {problem}'
        error = invalid(Path("resourceVersion"), resource_version, detail)
        raise self.bad_query(f"{context}{error}")

    async def wait_for_version(self, resource_version: str) -> Revision:
        """Wait until the cache is at least as new as a resourceVersion ("": the newest, "0": any),
        and return the version. Raises BadQuery, ResourceVersionTooLarge."""
        revision = self.parse_version(resource_version)
        if not resource_version:
            await self._cache.wait_fresh()
        elif not await self._cache.wait_for_revision(revision):
            raise self.too_large(revision, self._cache.revision)
        return revision

    async def list(self, query: ListQuery) -> ListResult:
        """Return a list or one page of it. Raises CorruptList; later, when the entries are encoded,
        `corrupt_list` says which of them cannot be read."""
        try:
            listing = await self._list(query)
            self._codec.decrypt_all(listing.entries)
            if self._codec.unreadable:
                await self._read_again(listing.entries)
        except CorruptObject as error:
            raise await self.corrupt_list(query, error) from error
        return listing

    async def _read_again(self, entries: Sequence[Entry]) -> None:
        """Decode those entries whose keys had values that did not decode. Raises Unreadable."""
        for entry in entries:
            if entry.path in self._codec.unreadable:
                await self._offloader.tree(entry)
                self._codec.unreadable.discard(entry.path)

    async def corrupt_list(self, query: ListQuery, error: CorruptObject) -> CorruptList:
        """Return the error for a list with objects that cannot be read, of which `error` is one: it
        names all of them, up to the end of the page."""
        limit = _limit(query)
        errors, readable, time_slice = [], 0, TimeSlice()
        for entry in self._cache.range(self.scope(query.namespace, query.selection)):
            try:
                await self._offloader.tree(entry)
                readable += 1
            except CorruptObject as problem:
                errors.append(problem)
            if len(errors) == CorruptList.MAX_ERRORS or (errors and 0 < limit <= readable):
                break
            await time_slice.yield_if_expired()
        resource = self._codec.resource
        return CorruptList(errors or [error], resource=resource.name, group=resource.group)

    async def cached_entries(self, namespace: str) -> Sequence[Entry]:
        """Return the objects of a namespace ("" for all) as the watch cache has them."""
        await self._cache.wait_ready()
        entries = self._cache.range(self._codec.scope(namespace))
        self._codec.decrypt_all(entries)
        return entries

    async def _list(self, query: ListQuery) -> ListResult:
        check_list(query)
        scope = self.scope(query.namespace, query.selection)
        if query.continue_token:
            return await self._list_continued(query, scope)
        if _is_exact(query):
            revision = self.parse_version(query.resource_version)
            return await self._list_at(revision, query, scope, "")
        await self._index.prepare(query.selection, scope)
        await self.wait_for_version(query.resource_version)
        return await self._list_current(query, scope, "")

    async def _list_continued(self, query: ListQuery, scope: str) -> ListResult:
        if query.resource_version not in ("", "0"):
            raise self.bad_query("specifying resource version is not allowed when using continue")
        prefix = self._codec.scope(query.namespace)
        try:
            token = (await self._load_token_codec()).decode(
                query.continue_token, prefix, _selector_text(query)
            )
        except BadToken as error:
            raise self.bad_query(f"invalid continue token: {error}") from None
        if token.revision == LATEST:
            await self._cache.wait_fresh()
            return await self._list_current(query, scope, token.start)
        try:
            return await self._list_at(token.revision, query, scope, token.start)
        except Expired:
            latest = ContinueToken(LATEST, token.start)
            inconsistent_token = (await self._load_token_codec()).encode(
                latest, prefix, _selector_text(query)
            )
            raise self.expired_error(_CONTINUE_TOO_OLD, inconsistent_token) from None

    async def _list_current(self, query: ListQuery, scope: str, start: str) -> ListResult:
        entries = self._index.entries(query.selection, scope, start)
        return await self._select_page(query, entries, self._cache.revision)

    async def _list_at(
        self, revision: Revision, query: ListQuery, scope: str, start: str
    ) -> ListResult:
        """Return a list at a past revision, from the cache or else from the store."""
        await self._cache.wait_ready()
        if revision > self._cache.revision:
            await self._cache.wait_fresh()
        if revision > self._cache.revision:
            raise self.too_large(revision, self._cache.revision)
        entries = self._cache.range_at(revision, scope, start)
        if entries is not None:
            return await self._select_page(query, entries, revision)
        try:
            return await self._read_page(query, revision, scope, start)
        except Compacted:
            raise self.expired_error(_LIST_TOO_OLD) from None
        except FutureRevision as error:
            raise self.too_large(error.revision, error.current) from None

    async def _select_page(
        self, query: ListQuery, entries: Sequence[Entry], revision: Revision
    ) -> ListResult:
        selection, limit = query.selection, _limit(query)
        if limit and limit < len(entries) and revision == self._cache.revision:
            self._cache.snapshot()
        if selection.selects_everything:
            page_entries = entries[:limit] if limit else entries
            remaining = len(entries) - len(page_entries)
            self._cached.add(len(page_entries), len(page_entries))
            return await self._result(query, page_entries, page_entries, revision, remaining)
        selected: list[Entry] = []
        scanned, time_slice = entries, TimeSlice()
        for number, entry in enumerate(entries, 1):
            is_selected = (
                await self._offloader.is_selected(entry, selection)
                if entry.is_large
                else entry.is_selected(selection)
            )
            if is_selected:
                selected.append(entry)
                if len(selected) == limit:
                    scanned = entries[:number]
                    break
            await time_slice.yield_if_expired()
        remaining = len(entries) - len(scanned)
        self._cached.add(len(scanned), len(selected))
        return await self._result(query, selected, scanned, revision, remaining)

    async def _read_page(
        self, query: ListQuery, revision: Revision, scope: str, start: str
    ) -> ListResult:
        selection, limit = query.selection, _limit(query)
        size = limit if limit and selection.selects_everything else STORED_PAGE
        selected: list[Entry] = []
        fetched, time_slice = 0, TimeSlice()
        while True:
            page = await self._kv.range(scope, start=start, limit=size, revision=revision)
            entries = [self._cached_entry(item) for item in page.items]
            fetched += len(entries)
            for number, entry in enumerate(entries, 1):
                in_scope = scope.endswith("/") or entry.path == scope
                if in_scope and await self._offloader.is_selected(entry, selection):
                    selected.append(entry)
                    if len(selected) == limit:
                        remaining = len(entries) - number + page.remaining
                        scanned = entries[:number]
                        evaluated = fetched - len(entries) + number
                        self._stored.add(fetched, len(selected), evaluated)
                        return await self._result(query, selected, scanned, revision, remaining)
                await time_slice.yield_if_expired()
            if not page.remaining:
                self._stored.add(fetched, len(selected), fetched)
                return ListResult(entries=selected, revision=revision)
            start = page.items[-1].key + "\0"

    def _cached_entry(self, item: KeyValue) -> Entry:
        """Return the cached entry if it has the same revision, to share its encodings."""
        cached = self._cache.get(item.key)
        if cached is not None and cached.revision == item.revision:
            return cached
        return Entry(self._codec, item.key, item.value, item.revision)

    async def _result(
        self,
        query: ListQuery,
        page_entries: Sequence[Entry],
        scanned: Sequence[Entry],
        revision: Revision,
        remaining: int,
    ) -> ListResult:
        if not remaining:
            return ListResult(entries=page_entries, revision=revision)
        token = ContinueToken(revision, scanned[-1].path + "\0")
        prefix = self._codec.scope(query.namespace)
        return ListResult(
            entries=page_entries,
            revision=revision,
            continue_token=(await self._load_token_codec()).encode(
                token, prefix, _selector_text(query)
            ),
            remaining=remaining if query.selection.selects_everything else None,
        )

    # Errors.

    def bad_query(self, message: str) -> BadQuery:
        """Return the error for an invalid parameter."""
        resource = self._codec.resource
        return BadQuery(message, resource=resource.name, group=resource.group)

    def too_large(self, revision: int, current: int) -> ResourceVersionTooLarge:
        """Return the error for a resource version that does not exist yet."""
        resource = self._codec.resource
        return ResourceVersionTooLarge(
            revision, current=current, resource=resource.name, group=resource.group
        )

    def expired_error(self, message: str, continue_token: str = "") -> Expired:
        """Return the error for a resource version or continue token that is too old."""
        resource = self._codec.resource
        return Expired(
            message, resource=resource.name, group=resource.group, continue_token=continue_token
        )
