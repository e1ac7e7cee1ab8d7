"""What the plain Python operators of the corpus share: a client, informers and a workqueue.

It needs asyncio and PyYAML alone, so that a process of an operator starts in 0.1 s of CPU. The
informers behave like client-go's: a list with `resourceVersion=0`, which the server may answer from
a cache, then watches that resume where they ended; after 410 a new list. `reconcile` is called
with the name of an object whose state may have changed, one call at a time, and again after an
error of the API with a growing delay. All objects are in the namespace of the kubeconfig.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import copy
import json
import os
import ssl
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, NamedTuple, NoReturn
from urllib.parse import urlencode, urlsplit

import yaml

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
FIRST_RETRY_SECONDS = 0.02
LAST_RETRY_SECONDS = 1.0
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"

Object = dict[str, Any]


class Resource(NamedTuple):
    """A resource of the API, such as `apis/apps/v1` and `deployments`."""

    root: str
    name: str


DATABASES = Resource("apis/example.com/v1", "databases")
CONFIG_MAPS = Resource("api/v1", "configmaps")
SECRETS = Resource("api/v1", "secrets")
CLAIMS = Resource("api/v1", "persistentvolumeclaims")
SERVICE_ACCOUNTS = Resource("api/v1", "serviceaccounts")
STATEFUL_SETS = Resource("apis/apps/v1", "statefulsets")
JOBS = Resource("apis/batch/v1", "jobs")
LEASES = Resource("apis/coordination.k8s.io/v1", "leases")


class ApiError(Exception):
    """The server refused a request, or the connection broke (code 0)."""

    def __init__(self, code: int, status: Object) -> None:
        super().__init__(f"{code} {status.get('message', '')}")
        self.code = code
        self.reason = status.get("reason", "")


class Client:
    """A client of the cluster of a kubeconfig file. It keeps its connections, and reads the file
    again when the server does not accept its credentials."""

    def __init__(self, kubeconfig: str) -> None:
        self.kubeconfig: str | None = kubeconfig
        """None: the file is not read again."""
        self._read(kubeconfig)

    def _read(self, kubeconfig: str) -> None:
        config = yaml.load(Path(kubeconfig).read_text(), LOADER)
        context = config["contexts"][0]["context"]
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self.namespace = context.get("namespace", "default")
        address = urlsplit(cluster["server"])
        self._address = (address.hostname, address.port)
        self._tls = _tls(cluster, user) if address.scheme == "https" else None
        self._headers = f"Host: {address.netloc}\r\nUser-Agent: {_program()}\r\n"
        if "token" in user:
            self._headers += f"Authorization: Bearer {user['token']}\r\n"
        self._cluster = cluster
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    def with_token(self, token: str) -> Client:
        """Return a client of the same cluster that is the user of the token."""
        client = copy.copy(self)
        client.kubeconfig = None
        client._tls = _tls(self._cluster, {}) if self._tls else None
        client._headers = self._headers.partition("Authorization")[0]
        client._headers += f"Authorization: Bearer {token}\r\n"
        client._idle = []
        return client

    async def get(self, resource: Resource, name: str) -> Object:
        return await self._call("GET", self._path(resource, name))

    async def get_or_none(self, resource: Resource, name: str) -> Object | None:
        try:
            return await self.get(resource, name)
        except ApiError as error:
            if error.code != 404:
                raise
            return None

    async def list(self, resource: Resource, **query: str) -> list[Object]:
        return (await self.list_page(resource, **query)).get("items") or []

    async def list_page(self, resource: Resource, **query: str) -> Object:
        return await self._call("GET", self._path(resource, query=query))

    async def create(
        self, resource: Resource, obj: Object, name: str = "", subresource: str = ""
    ) -> Object:
        return await self._call("POST", self._path(resource, name, subresource), obj)

    async def create_if_missing(self, resource: Resource, obj: Object) -> bool:
        """Create the object unless there is one of its name; report whether it was missing."""
        try:
            await self.create(resource, obj)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            return False
        return True

    async def update(self, resource: Resource, obj: Object, subresource: str = "") -> Object:
        return await self._call("PUT", self._path(resource, _name(obj), subresource), obj)

    async def patch(
        self, resource: Resource, name: str, patch: Any, subresource: str = "", type: str = MERGE
    ) -> Object:
        return await self._call("PATCH", self._path(resource, name, subresource), patch, type)

    async def delete(self, resource: Resource, name: str, uid: str = "") -> None:
        """Delete an object if it exists and, if a uid is given, has this uid."""
        options = {"preconditions": {"uid": uid}} if uid else {}
        try:
            await self._call("DELETE", self._path(resource, name), options)
        except ApiError as error:
            if error.code != 404 and not (uid and error.code == 409):
                raise

    async def watch(self, resource: Resource, version: str) -> AsyncIterator[Object]:
        """Yield the events of one watch until the server ends it."""
        query = {"watch": "1", "allowWatchBookmarks": "1", "resourceVersion": version}
        reader, writer = await self._connect()
        try:
            writer.write(self._head("GET", self._path(resource, query=query)).encode() + b"\r\n")
            code, headers = await _read_head(reader)
            if code != 200:
                self._raise(code, json.loads(await _read_body(reader, headers)))
            buffer = b""
            while chunk := await _read_chunk(reader):
                *lines, buffer = (buffer + chunk).split(b"\n")
                for line in lines:
                    yield json.loads(line)
        except (OSError, asyncio.IncompleteReadError) as error:
            raise ApiError(0, {"message": str(error)}) from None
        finally:
            writer.close()

    def _path(
        self, resource: Resource, name: str = "", subresource: str = "", query: Any = None
    ) -> str:
        parts = (resource.root, "namespaces", self.namespace, resource.name, name, subresource)
        return "/" + "/".join(filter(None, parts)) + (f"?{urlencode(query)}" if query else "")

    async def _call(self, method: str, path: str, body: Any = None, type: str = "") -> Object:
        data = b"" if body is None else json.dumps(body).encode()
        head = self._head(method, path)
        if data:
            head += f"Content-Type: {type or 'application/json'}\r\nContent-Length: {len(data)}\r\n"
        reader, writer = self._idle.pop() if self._idle else await self._connect()
        try:
            writer.write(head.encode() + b"\r\n" + data)
            code, headers = await _read_head(reader)
            answer = json.loads(await _read_body(reader, headers) or b"{}")
        except (OSError, asyncio.IncompleteReadError) as error:
            writer.close()
            raise ApiError(0, {"message": f"no response: {error}"}) from None
        self._idle.append((reader, writer))
        if code >= 400:
            self._raise(code, answer)
        return answer

    def _raise(self, code: int, status: Object) -> NoReturn:
        if code == 401 and self.kubeconfig is not None:
            self._read(self.kubeconfig)
        raise ApiError(code, status)

    def _head(self, method: str, path: str) -> str:
        return f"{method} {path} HTTP/1.1\r\n{self._headers}"

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            return await asyncio.open_connection(*self._address, ssl=self._tls, limit=2**24)
        except OSError as error:
            raise ApiError(0, {"message": str(error)}) from None


def _tls(cluster: Object, user: Object) -> ssl.SSLContext:
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=authority)
    if "client-certificate-data" in user:
        with tempfile.NamedTemporaryFile() as file:
            for part in ("client-certificate-data", "client-key-data"):
                file.write(base64.b64decode(user[part]) + b"\n")
            file.flush()
            context.load_cert_chain(file.name)
    return context


def _program() -> str:
    return Path(sys.argv[0]).stem


async def _read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    status, *lines = head.strip().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return int(status.split()[1]), headers


async def _read_body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if headers.get("transfer-encoding") != "chunked":
        return await reader.readexactly(int(headers.get("content-length", 0)))
    body = b""
    while chunk := await _read_chunk(reader):
        body += chunk
    return body


async def _read_chunk(reader: asyncio.StreamReader) -> bytes:
    size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
    return (await reader.readexactly(size + 2))[:-2]


class Informer:
    """The objects of a resource by their names, as lists and watches have shown them.

    changed     called with the type of an event (ADDED, MODIFIED or DELETED), the object and the
                object before it, or None
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        changed: Callable[[str, Object, Object | None], None],
    ) -> None:
        self._client = client
        self._resource = resource
        self._changed = changed
        self._version = ""
        self.objects: dict[str, Object] = {}
        self.synced = asyncio.Event()

    async def run(self) -> None:
        delay = FIRST_RETRY_SECONDS
        while True:
            try:
                if not self._version:
                    await self._list()
                async for event in self._client.watch(self._resource, self._version):
                    delay = FIRST_RETRY_SECONDS
                    self._handle(event)
            except ApiError as error:
                if error.code == 410:
                    self._version = ""
                print(f"the watch of {self._resource.name} ended: {error}", flush=True)
            await asyncio.sleep(delay)
            delay = min(2 * delay, LAST_RETRY_SECONDS)

    async def _list(self) -> None:
        page = await self._client.list_page(self._resource, resourceVersion="0")
        listed = {_name(item): item for item in page.get("items") or []}
        for name in self.objects.keys() - listed.keys():
            self._set("DELETED", self.objects[name])
        for obj in listed.values():
            self._set("MODIFIED" if _name(obj) in self.objects else "ADDED", obj)
        self._version = page["metadata"]["resourceVersion"]
        self.synced.set()

    def _handle(self, event: Object) -> None:
        obj = event["object"]
        if event["type"] == "ERROR":
            raise ApiError(obj.get("code", 500), obj)
        self._version = obj["metadata"]["resourceVersion"]
        if event["type"] != "BOOKMARK":
            self._set(event["type"], obj)

    def _set(self, type: str, obj: Object) -> None:
        before = self.objects.get(_name(obj))
        if type == "DELETED":
            self.objects.pop(_name(obj), None)
        else:
            self.objects[_name(obj)] = obj
        self._changed(type, obj, before)


class Operator:
    """A controller of one resource and of what it makes for each of its objects.

    A subclass has `reconcile`, and may have `handle`, which sees each event first.

    repaired    whether the operator is the corrected twin
    """

    resource = DATABASES
    watched: tuple[Resource, ...] = ()
    """Other resources, whose objects belong to the one that their owner or their label names."""

    def __init__(self, client: Client, *, repaired: bool) -> None:
        self.client = client
        self.repaired = repaired
        self._queue: dict[str, None] = {}
        self._ready = asyncio.Event()
        self._failures: dict[str, int] = {}
        self.caches = {
            resource: Informer(client, resource, self._on_event(resource))
            for resource in (self.resource, *self.watched)
        }

    @property
    def objects(self) -> dict[str, Object]:
        """The cached objects of the operator's resource."""
        return self.caches[self.resource].objects

    async def reconcile(self, name: str) -> None:
        """Bring what belongs to the object into the state that the object declares."""
        raise NotImplementedError

    def handle(self, resource: Resource, type: str, obj: Object, before: Object | None) -> None:
        """Enqueue the object that an event is about."""
        name = _name(obj) if resource == self.resource else owner_name(obj)
        if name:
            self.enqueue(name)

    async def start(self) -> None:
        """Do what has to be done once, when the caches are filled."""

    async def run(self) -> None:
        """Watch and reconcile until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self.caches.values():
                tasks.create_task(informer.run())
            for informer in self.caches.values():
                await informer.synced.wait()
            await self.start()
            tasks.create_task(self._work())

    def enqueue(self, name: str) -> None:
        """Reconcile the object of this name soon; once, however often it is enqueued before."""
        self._queue[name] = None
        self._ready.set()

    def enqueue_after(self, name: str, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self.enqueue, name)

    def _on_event(self, resource: Resource) -> Callable[[str, Object, Object | None], None]:
        return lambda type, obj, before: self.handle(resource, type, obj, before)

    async def _work(self) -> None:
        while True:
            await self._ready.wait()
            name = next(iter(self._queue))
            del self._queue[name]
            if not self._queue:
                self._ready.clear()
            try:
                await self.reconcile(name)
                self._failures.pop(name, None)
            except ApiError as error:
                print(f"reconcile {name} again: {error}", flush=True)
                failures = self._failures[name] = self._failures.get(name, 0) + 1
                delay = min(FIRST_RETRY_SECONDS * 2**failures, LAST_RETRY_SECONDS)
                self.enqueue_after(name, delay)


def owner_name(obj: Object) -> str:
    """Return the name of the object to which another one belongs, or an empty string."""
    metadata = obj["metadata"]
    for owner in metadata.get("ownerReferences", ()):
        if owner["kind"] == "Database":
            return owner["name"]
    return metadata.get("labels", {}).get("database", "")


def child(parent: Object, name: str, **parts: Any) -> Object:
    """Return an object that the garbage collector deletes with its parent."""
    return orphan(parent, name, owned=True, **parts)


def orphan(parent: Object, name: str, *, owned: bool = False, **parts: Any) -> Object:
    """Return an object that belongs to the parent by its label alone."""
    metadata: Object = {"name": name, "labels": {"database": _name(parent)}}
    if owned:
        metadata["ownerReferences"] = [
            {
                "apiVersion": "example.com/v1",
                "kind": "Database",
                "name": _name(parent),
                "uid": parent["metadata"]["uid"],
                "controller": True,
            }
        ]
    return {"metadata": metadata, **parts}


def claim(parent: Object, name: str, size: str = "1Gi") -> Object:
    """Return a PersistentVolumeClaim, which no garbage collector deletes."""
    resources = {"requests": {"storage": size}}
    return orphan(parent, name, spec={"accessModes": ["ReadWriteOnce"], "resources": resources})


def is_deleting(obj: Object) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def _name(obj: Object) -> str:
    return obj["metadata"]["name"]


def main(operator: type[Operator]) -> None:
    """Run the operator, or with `--repaired` its twin, in the cluster of KUBECONFIG."""

    async def run() -> None:
        client = Client(os.environ["KUBECONFIG"])
        await operator(client, repaired="--repaired" in sys.argv).run()

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run())
