"""A client of the server that it runs in: the verbs of `kapiserver.client` without HTTP.

Each call is made as one user and passes authorization, admission, field managers, validation and
the store, as a request does; the operations are those of the HTTP handlers. Objects are trees.
Logs, connections and component statuses are served over HTTP only.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from kapiserver.api.accessors import copy_tree
from kapiserver.api.group import GroupVersion
from kapiserver.api.resource_client import MERGE_PATCH, Event, ResourceClient, StatusError
from kapiserver.api.types import Tree
from kapiserver.apiserver.authorization.forbidden import forbidden
from kapiserver.apiserver.caller import Caller, Warnings
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.decode import field_validation
from kapiserver.apiserver.endpoints.handlers import HANDLERS
from kapiserver.apiserver.endpoints.object_responses import list_head
from kapiserver.apiserver.endpoints.operations.unstored import unstored_create
from kapiserver.apiserver.endpoints.options import (
    apply_rules,
    check_delete_options,
    list_query,
    parse_options,
    watch_query,
)
from kapiserver.apiserver.endpoints.subresources import SUBRESOURCES
from kapiserver.apiserver.endpoints.tables import in_version
from kapiserver.apiserver.endpoints.tree_body import TreeBody
from kapiserver.apiserver.endpoints.watch_frames import bookmark_metadata
from kapiserver.apiserver.errors import BadRequest, MethodNotAllowed, status_of
from kapiserver.apiserver.first_request import first_request
from kapiserver.apiserver.request import Query
from kapiserver.apiserver.request_info import RequestInfo, name_selected, selectors_of
from kapiserver.apiserver.target import Target
from kapiserver.apiserver.target_resolver import resolve_target
from kapiserver.apiserver.user import User
from kapiserver.storage.cache.entry import Entry
from kapiserver.storage.cache.event_stream import InitialEventsEnd
from kapiserver.storage.cache.query import ListResult
from kapiserver.storage.cache.visible_events import VisibleEvent
from kapiserver.storage.concurrency.clock import wait
from kapiserver.storage.concurrency.time_slice import TimeSlice

if TYPE_CHECKING:
    from kapiserver.apiserver.proxy.aggregated_client import AggregatedResource

RETRY_SECONDS = 1.0
"""The wait before `follow` tries again after a transient error."""

Parameters: TypeAlias = Mapping[str, Any]


class InternalClient:
    """Calls as one user.

    user_agent  names the program: fields are managed under its part before the slash
    authorize   whether to check that the user is authorized; without it, built-in resources that
                are off are there, too
    warnings    collects the warnings of all calls; None drops them
    """

    def __init__(
        self,
        server: Server,
        user: User,
        *,
        user_agent: str = "kapiserver",
        authorize: bool = True,
        warnings: Warnings | None = None,
    ) -> None:
        self.server = server
        self.user = user
        self.user_agent = user_agent
        self.authorize = authorize
        self.warnings = warnings

    def resource(self, version: str, name: str, *, namespace: str = "") -> InternalResource:
        """The objects of a resource: `resource("apps/v1", "deployments", namespace="x")`."""
        return InternalResource(self, GroupVersion.parse(version), name, namespace)


class InternalResource(ResourceClient):
    """The objects of one resource within the server, in one namespace or in all.

    Returned trees are copies. `shared` returns the trees of the watch cache instead, without the
    cost of copying; never change them.
    """

    def __init__(
        self,
        client: InternalClient,
        version: GroupVersion,
        name: str,
        namespace: str,
        *,
        copy: Callable[[Tree], Tree] = copy_tree,
    ) -> None:
        super().__init__(version, name, namespace)
        self._client = client
        self._server = client.server
        self._copy = copy

    @functools.cached_property
    def shared(self) -> InternalResource:
        """The same objects, returned without copying. Never change them."""
        return InternalResource(
            self._client, self.version, self.name, self.namespace, copy=lambda tree: tree
        )

    # Reading.

    async def get(self, name: str, *, subresource: str = "", **parameters: str | int) -> Tree:
        """Return one object, or a subresource of it."""
        info = self._info("get", name, subresource)
        if (aggregated := await self._aggregated(info)) is not None:
            return await aggregated.get(name, subresource=subresource, **parameters)
        with _as_status_error(info):
            if (tree := await self._read_computed(info, _query(parameters))) is not None:
                return tree
            target = await self._target(info)
            _check_is_object(target)
            version = parameters.get("resourceVersion")
            entry = await target.store.get(target.key, resource_version=str(version or ""))
            return await self._tree(target, entry)

    async def list_page(self, **parameters: str | int) -> Tree:
        """Return one page of a list, or all of it without a limit."""
        query = _query(parameters)
        info = self._info("list", query=query)
        if (aggregated := await self._aggregated(info)) is not None:
            return await aggregated.list_page(**parameters)
        with _as_status_error(info):
            if (tree := await self._read_computed(info, query)) is not None:
                return tree
            target = await self._target(info)
            _check_is_object(target)
            options = parse_options(self._server, query, "ListOptions")
            listing = await target.store.list(list_query(info, target, options))
            return await self._list(target, listing)

    async def list(self, *, limit: int = 500, **parameters: Any) -> Tree:
        """Return all objects as one list; only an extension API server needs pages."""
        if self._server.api_services.server_of(self.version) is not None:
            return await super().list(limit=limit, **parameters)
        page = await self.list_page(**parameters)
        return {**page, "metadata": {**page["metadata"], "continue": ""}}

    async def watch(
        self, *, resource_version: str = "", **parameters: str | int
    ) -> AsyncGenerator[Event, None]:
        """Yield the events of one watch; the only bookmark is that of `sendInitialEvents`."""
        query = _query({**parameters, "watch": 1, "allowWatchBookmarks": 1})
        if resource_version:
            query["resourceVersion"] = [resource_version]
        info = self._info("watch", query=query)
        if (aggregated := await self._aggregated(info)) is not None:
            watched = aggregated.watch(resource_version=resource_version, **parameters)
            async with contextlib.aclosing(watched) as aggregated_events:
                async for aggregated_event in aggregated_events:
                    yield aggregated_event
            return
        with _as_status_error(info):
            target = await self._target(info)
            _check_is_object(target)
            options = parse_options(self._server, query, "ListOptions")
            stream = target.store.events(
                watch_query(info, target, options), max_seconds=options.get("timeoutSeconds")
            )
            async with contextlib.aclosing(stream) as events:
                async for event in events:
                    yield await self._event(target, event)

    # Writing.

    async def create(
        self, obj: Tree, *, name: str = "", subresource: str = "", **parameters: str | int
    ) -> Tree:
        """Create an object; with a subresource, post to that of `name`."""
        info = self._info("create", name, subresource)
        if (aggregated := await self._aggregated(info)) is not None:
            return await aggregated.create(obj, name=name, subresource=subresource, **parameters)
        async with self._write(info) as target:
            caller = self._caller(info)
            options = parse_options(self._server, _query(parameters), "CreateOptions")
            body = TreeBody(self._versioned(obj))
            unstored = unstored_create(self._server, target)
            if unstored is not None:
                create_unstored = await self._server.offloader.load(unstored)
                tree = await create_unstored(self._server, target, caller, options, body)
                return _success(tree)
            _check_is_object(target)
            if target.key.name:
                raise MethodNotAllowed
            from kapiserver.apiserver.endpoints.operations.create import create_object

            written = await create_object(self._server, target, caller, options, body)
            return await self._tree(target, written.entry)

    async def update(self, obj: Tree, *, subresource: str = "", **parameters: str | int) -> Tree:
        """Replace an object."""
        info = self._info("update", obj["metadata"]["name"], subresource)
        if (aggregated := await self._aggregated(info)) is not None:
            return await aggregated.update(obj, subresource=subresource, **parameters)
        async with self._write(info) as target:
            _check_is_object(target)
            options = parse_options(self._server, _query(parameters), "UpdateOptions")
            body = TreeBody(self._versioned(obj))
            from kapiserver.apiserver.endpoints.operations.update import update_object

            written = await update_object(self._server, target, self._caller(info), options, body)
            return await self._tree(target, written.entry)

    async def patch(
        self,
        name: str,
        patch: Any,
        *,
        type: str = MERGE_PATCH,
        subresource: str = "",
        **parameters: str | int,
    ) -> Tree:
        """Patch an object. `patch` is a JSON value of the patch `type`."""
        info = self._info("patch", name, subresource)
        if (aggregated := await self._aggregated(info)) is not None:
            return await aggregated.patch(
                name, patch, type=type, subresource=subresource, **parameters
            )
        async with self._write(info) as target:
            _check_is_object(target)
            from kapiserver.apiserver.endpoints.operations import patch as operations

            type_ = operations.patch_type(self._server, target, type)
            options = parse_options(self._server, _query(parameters), "PatchOptions")
            document = operations.Document(copy_tree(patch))
            parsed_patch = operations.patch_of(type_, document, field_validation(options))
            written = await operations.patch_object(
                self._server, target, self._caller(info), options, parsed_patch
            )
            return await self._tree(target, written.entry)

    async def update_with_retry(
        self,
        name: str,
        change: Callable[[Tree], Tree],
        *,
        subresource: str = "",
        **parameters: str | int,
    ) -> Tree:
        """Update an object to `change(current)` as one guaranteed update of its store. `change`
        may be called more than once; its errors that have a Status are raised as StatusError."""
        info = self._info("update", name, subresource)
        if (aggregated := await self._aggregated(info)) is not None:
            return await aggregated.update_with_retry(
                name, change, subresource=subresource, **parameters
            )
        async with self._write(info, operations="patch") as target:
            from kapiserver.apiserver.endpoints.operations import patch as operations

            _check_is_object(target)
            options = parse_options(self._server, _query(parameters), "UpdateOptions")
            written = await operations.patch_object(
                self._server,
                target,
                self._caller(info),
                options,
                operations.function_patch(change, field_validation(options)),
            )
            return await self._tree(target, written.entry)

    async def apply(
        self, obj: Tree, *, manager: str, subresource: str = "", **parameters: str | int
    ) -> Tree:
        """Apply a configuration."""
        info = self._info("patch", obj["metadata"]["name"], subresource)
        if (aggregated := await self._aggregated(info)) is not None:
            return await aggregated.apply(
                obj, manager=manager, subresource=subresource, **parameters
            )
        async with self._write(info) as target:
            _check_is_object(target)
            query = _query({"fieldManager": manager, **parameters})
            options = parse_options(self._server, query, "PatchOptions", rules=apply_rules)
            from kapiserver.apiserver.endpoints.operations.apply import (
                Configuration,
                apply_configuration,
            )

            content = Configuration(copy_tree(self._versioned(obj)))
            written = await apply_configuration(
                self._server, target, self._caller(info), options, content
            )
            return await self._tree(target, written.entry)

    async def delete(self, name: str, options: Tree | None = None, **parameters: str | int) -> Tree:
        """Delete an object."""
        info = self._info("delete", name)
        if (aggregated := await self._aggregated(info)) is not None:
            return await aggregated.delete(name, options, **parameters)
        async with self._write(info) as target:
            delete_options = self._delete_options(options, parameters)
            from kapiserver.apiserver.endpoints.operations.delete import (
                delete_object,
                deleted_status,
            )
            from kapiserver.apiserver.endpoints.operations.unsafe_delete import (
                delete_unreadable,
                is_unsafe,
            )

            if is_unsafe(delete_options):
                caller = self._caller(info)
                return await delete_unreadable(self._server, target, caller, delete_options)
            written = await delete_object(self._server, target, self._caller(info), delete_options)
            status = await deleted_status(self._server, target, written)
            return await self._tree(target, written.entry) if status is None else status

    async def delete_collection(self, options: Tree | None = None, **parameters: str | int) -> Tree:
        """Delete the selected objects and return the list of them."""
        query = _query(parameters)
        info = self._info("deletecollection", query=query)
        if (aggregated := await self._aggregated(info)) is not None:
            return await aggregated.delete_collection(options, **parameters)
        async with self._write(info) as target:
            list_options = parse_options(self._server, query, "ListOptions")
            delete_options = self._delete_options(options, parameters)
            selection_query = list_query(info, target, list_options)
            from kapiserver.apiserver.endpoints.operations.delete import delete_objects

            listing = await delete_objects(
                self._server, target, self._caller(info), delete_options, selection_query
            )
            return await self._list(target, listing)

    # Helpers of the verbs.

    def _info(
        self, verb: str, name: str = "", subresource: str = "", *, query: Parameters | None = None
    ) -> RequestInfo:
        """Return the request of a call; one on a collection has a query."""
        version, namespace = self.version, self.namespace
        is_item = bool(name)
        fields = labels = ""
        if query is not None:
            name, (fields, labels) = name_selected(query), selectors_of(query)
        if self.name == "namespaces" and not version.group:
            namespace = name
        return RequestInfo(
            verb=verb,
            prefix="apis" if version.group else "api",
            version=version,
            namespace=namespace,
            resource=self.name,
            name=name,
            subresource=subresource,
            is_item=is_item,
            field_selector=fields,
            label_selector=labels,
        )

    async def _authorize(self, info: RequestInfo) -> None:
        """Raise Forbidden unless the user may make a call."""
        client = self._client
        if client.authorize:
            decision = await self._server.authorizer.authorize(client.user, info)
            if not decision.allowed:
                raise forbidden(client.user, info, decision.reason)

    async def _aggregated(self, info: RequestInfo) -> AggregatedResource | None:
        """Authorize a call for an extension API server and return a client of the same objects;
        None if this server has them. Raises StatusError."""
        if self._server.api_services.server_of(info.version) is None:
            return None
        with _as_status_error(info):
            await self._authorize(info)
        from kapiserver.apiserver.proxy.aggregated_client import AggregatedResource

        return AggregatedResource(
            self._server, self._client.user, self.version, self.name, self.namespace
        )

    async def _read_computed(self, info: RequestInfo, query: Query) -> Tree | None:
        """Read from a computed group; None if the group is stored. Raises Forbidden,
        UnknownResource, NotFound, BadObject and StatusError."""
        if info.version.group not in self._server.computed:
            return None
        await self._authorize(info)
        from kapiserver.apiserver.endpoints.computed import read_computed

        return await read_computed(self._server, info, query)

    async def _target(self, info: RequestInfo) -> Target:
        """Authorize a call and return its target. Raises Forbidden, UnknownResource,
        MethodNotAllowed."""
        await self._authorize(info)
        target = await resolve_target(self._server, info, served_only=self._client.authorize)
        if self._client.warnings is not None:
            self._client.warnings.add(target.deprecation)
        target.check_verb(info.verb)
        return target

    @contextlib.asynccontextmanager
    async def _write(self, info: RequestInfo, operations: str = "") -> AsyncIterator[Target]:
        """Authorize a write and give its target. Errors that have a Status are raised as
        StatusError. The first write of its use loads the operations of the verb, or of another one,
        and works in threads."""
        with _as_status_error(info):
            target = await self._target(info)
            verb = operations or info.verb
            use = (verb, info.subresource, "")
            if use in target.kind_info.loaded_uses:
                yield target
                return
            async with first_request(self._server.offloader, target, use, HANDLERS[verb]):
                yield target

    def _caller(self, info: RequestInfo) -> Caller:
        client = self._client
        warnings = Warnings() if client.warnings is None else client.warnings
        return Caller(
            user=client.user,
            verb=info.verb,
            user_agent=client.user_agent,
            warnings=warnings,
            may_all=not client.authorize,
        )

    def _delete_options(self, options: Tree | None, parameters: Parameters) -> Tree:
        if options is None:
            return parse_options(self._server, _query(parameters), "DeleteOptions")
        if options.get("kind", "DeleteOptions") != "DeleteOptions":
            raise BadRequest("decoded object cannot be converted to DeleteOptions")
        # Our own code built the options, so skip decoding: garbage collection deletes many objects.
        return check_delete_options(self._server, options)

    async def _tree(self, target: Target, entry: Entry) -> Tree:
        offloader = self._server.offloader
        obj = await offloader.tree(entry)
        if target.view is not None:
            return target.view.read(obj)
        in_version_of_target = in_version(self._server.scheme, obj, target.version)
        return await offloader.run_for_entry(entry, self._copy, in_version_of_target)

    async def _event(self, target: Target, event: VisibleEvent | InitialEventsEnd) -> Event:
        if isinstance(event, VisibleEvent):
            return Event(event.kind, await self._tree(target, event.entry))
        metadata = bookmark_metadata(event.revision, initial_events_end=True)
        return Event("BOOKMARK", target.store.encoder.bookmark_object(target.version, metadata))

    async def _list(self, target: Target, listing: ListResult) -> Tree:
        time_slice = TimeSlice()
        items = []
        for entry in listing.entries:
            items.append(await self._tree(target, entry))
            await time_slice.yield_if_expired()
        return {**list_head(target, listing), "items": items}

    async def _pause(self) -> None:
        await wait(self._server.clock, RETRY_SECONDS)


def _check_is_object(target: Target) -> None:
    """Raise MethodNotAllowed for resources that are served over HTTP only."""
    resource = target.resource
    has_own_handler = (resource.group, resource.name, target.subresource) in SUBRESOURCES
    if has_own_handler or not resource.stored:
        raise MethodNotAllowed


def _success(tree: Tree) -> Tree:
    """Return the tree unless it is a Status of failure. Raises StatusError."""
    if tree.get("kind") == "Status" and tree["code"] >= 400:
        raise StatusError(tree, tree["code"])
    return tree


def _query(parameters: Parameters) -> dict[str, Sequence[str]]:
    return {
        name: [str(item) for item in value] if isinstance(value, list | tuple) else [str(value)]
        for name, value in parameters.items()
    }


@contextlib.contextmanager
def _as_status_error(info: RequestInfo) -> Iterator[None]:
    """Convert errors that have a Status to StatusError."""
    try:
        yield
    except Exception as error:
        status = status_of(error, info)
        if status is None:
            raise
        raise StatusError(status, status["code"]) from error
