"""Webhook configurations and policies in files: the `staticManifestsDir` of an admission plugin.

The objects apply from the start of the server, and to writes of admission configuration too. The
API does not show them. The server reads changed files again. Mirrors pkg/admission/plugin/manifest,
and the manifest packages of webhooks and policies, in k8s.io/apiserver.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path as FilePath

from kapiserver.api import names
from kapiserver.api.accessors import kind_of, name_of
from kapiserver.api.admissionregistration.strategies import STATIC_SUFFIX, STRATEGIES
from kapiserver.api.errors import FieldError, Path, forbidden, invalid
from kapiserver.api.go_format import quote
from kapiserver.api.group import GroupVersion
from kapiserver.api.metadata_validation import validate_new
from kapiserver.api.scheme import ConfigurationScheme, Scheme
from kapiserver.api.strategy import ValidationTakesLong
from kapiserver.api.types import Tree, Value
from kapiserver.apiserver.configuration_files import read_small_file
from kapiserver.apiserver.file_watch import FileState, FileWatch, file_state
from kapiserver.apiserver.metrics import Metrics
from kapiserver.codecs.errors import CodecError
from kapiserver.codecs.object_decoder import decode_object
from kapiserver.metrics import Reloads, content_hash
from kapiserver.storage.concurrency.clock import Clock
from kapiserver.storage.concurrency.subscriptions import Subscription

_GROUP_VERSION = GroupVersion("admissionregistration.k8s.io", "v1")
_EXTENSIONS = (".yaml", ".yml", ".json")
_SEPARATOR = re.compile(rb"^---.*$", re.MULTILINE)
_log = logging.getLogger(__name__)


class BadManifest(ValueError):
    """The directory cannot be read, or a file in it is invalid."""


class StaticManifests:
    """The objects in the directory of one plugin.

    plugin      its name, for the log
    kinds       plural names of the resources that the directory may have, by kind
    objects     the objects of each resource, sorted by name; shared: never change them
    """

    def __init__(
        self,
        folder: FilePath,
        plugin: str,
        kinds: Mapping[str, str],
        clock: Clock,
        metrics: Metrics,
        file_watch: FileWatch,
    ) -> None:
        """Read the directory. Raises BadManifest."""
        self._folder = folder
        self._file_watch = file_watch
        self._plugin = plugin
        self._kinds = kinds
        self._clock = clock
        self._reloads = metrics.manifest_reloads.setdefault(plugin, Reloads())
        self.objects, digest = self._read()
        self._reloads.succeed(clock.now(), digest)
        self._on_change: Callable[[], None] = lambda: None
        self._subscription: Subscription | None = None
        self._is_outdated = False
        self._reloading: asyncio.Task[None] | None = None

    def start(self, on_change: Callable[[], None]) -> None:
        """Follow changes of the files. Call `on_change` when `objects` change."""
        self._on_change = on_change
        self._subscription = self._file_watch.subscribe(self._file_states, self._start_reload)
        self._start_reload()

    def stop(self) -> None:
        """Follow changes no more. Idempotent."""
        if self._subscription is not None:
            self._subscription.cancel()
        if self._reloading is not None:
            self._reloading.cancel()

    async def reload(self) -> None:
        """Read the directory again. If a file is invalid, log the error and keep the previous
        objects."""
        try:
            objects, digest = await asyncio.to_thread(self._read)
        except BadManifest as error:
            self._reloads.fail(self._clock.now())
            _log.error("changed manifests of %s are not used: %s", self._plugin, error)
            return
        if digest == self._reloads.hash:
            return
        self._reloads.succeed(self._clock.now(), digest)
        if objects != self.objects:
            self.objects = objects
            self._on_change()
            _log.info("reloaded the manifests of %s from %s", self._plugin, self._folder)

    def _start_reload(self) -> None:
        self._is_outdated = True
        if self._reloading is None or self._reloading.done():
            self._reloading = asyncio.get_running_loop().create_task(self._reload_until_current())

    async def _reload_until_current(self) -> None:
        while self._is_outdated:
            self._is_outdated = False
            await self.reload()

    # Reading.

    def _files(self) -> Sequence[FilePath]:
        """Return the files to read, in order. Raises OSError."""
        return sorted(
            file
            for file in self._folder.iterdir()
            if file.suffix.lower() in _EXTENSIONS and not file.is_dir()
        )

    def _file_states(self) -> Sequence[tuple[FilePath, FileState]] | None:
        """Return the states of the files; None if the directory cannot be read."""
        try:
            return [(file, file_state(file)) for file in self._files()]
        except OSError:
            return None

    def _read(self) -> tuple[Mapping[str, Sequence[Tree]], str]:
        """Return the objects of the directory, valid and with defaults, and the hash of the files,
        "" without any content. Raises BadManifest."""
        objects: dict[str, dict[str, Tree]] = {resource: {} for resource in self._kinds.values()}
        contents: list[bytes] = []
        try:
            files = self._files()
        except OSError as error:
            raise BadManifest(
                f'failed to read manifest directory "{self._folder}": {error.strerror}'
            ) from None
        for file in files:
            try:
                data = read_small_file(file)
                if data:
                    contents += (data, b"\0")
                for obj in self._objects_of(data):
                    self._accept(obj, objects[self._kinds[obj["kind"]]])
            except OSError as error:
                raise BadManifest(f"failed to read file {file}: {error.strerror}") from None
            except (BadManifest, CodecError) as error:
                raise BadManifest(f"error loading {file}: {error}") from None
        for resource, by_name in objects.items():
            if resource.endswith("bindings"):
                policies = objects[resource.removesuffix("ybindings") + "ies"]
                for name, binding in by_name.items():
                    _check_policy_name(name, binding, policies)
        sorted_objects = {
            resource: [obj for _, obj in sorted(by_name.items())]
            for resource, by_name in objects.items()
        }
        return sorted_objects, content_hash(*contents) if contents else ""

    def _objects_of(self, data: bytes) -> Iterator[Tree]:
        """Yield the objects of a file: documents, and items of lists. Raises BadManifest,
        CodecError."""
        from kapiserver.codecs.yaml import decode_first_document  # loads a YAML parser

        builtin = Scheme()
        kinds = [_GROUP_VERSION.with_kind(kind) for kind in self._kinds]
        scheme = ConfigurationScheme({kind: builtin.type_of(kind) for kind in kinds})
        for part in _SEPARATOR.split(data):
            if not part.strip():
                continue
            document = decode_first_document(part)
            if document.duplicates:
                raise BadManifest(f"strict decoding error: {', '.join(document.duplicates)}")
            for value in _items(document.value):
                decoded = decode_object(scheme, value, defaults=None, source=part)
                if decoded.strict_errors:
                    errors = ", ".join(decoded.strict_errors)
                    raise BadManifest(f"strict decoding error: {errors}")
                builtin.default(decoded.object)
                yield decoded.object

    def _accept(self, obj: Tree, objects: dict[str, Tree]) -> None:
        """Add a valid object to those of its resource, by name. Raises BadManifest."""
        kind, name = obj["kind"], name_of(obj)
        if name in objects:
            raise BadManifest(f"duplicate name {quote(name)}")
        resource = self._kinds[kind]
        strategy = STRATEGIES[resource]
        check, finalizers = names.dns1123_subdomain, strategy.check_finalizers
        errors = validate_new(obj, namespaced=False, check=check, finalizers=finalizers)
        try:
            errors += strategy.validate(obj)
        except ValidationTakesLong as error:
            errors += error.slow_strategy.validate(obj)
        errors += strategy.declarative_rules.errors(obj)
        errors += _static_errors(obj)
        if errors:
            raise BadManifest(f"{kind_of(obj).kind} {quote(name)}: {', '.join(map(str, errors))}")
        objects[name] = obj


def _items(value: Value) -> Sequence[Value]:
    """Return the items of a v1 List, or the value itself."""
    if isinstance(value, dict) and (value.get("apiVersion"), value.get("kind")) == ("v1", "List"):
        items = value.get("items")
        return items if isinstance(items, list) else ()
    return (value,)


def _static_errors(obj: Tree) -> Iterator[FieldError]:
    """Yield the errors for fields and names that a static object must not have."""
    name, spec = name_of(obj), obj.get("spec") or {}
    if not name.endswith(STATIC_SUFFIX):
        path = Path("metadata") / "name"
        yield invalid(path, name, f"must end with {quote(STATIC_SUFFIX)}")
    for field in ("paramKind", "paramRef"):
        if spec.get(field) is not None:
            yield forbidden(Path("spec") / field, "not supported for static manifests")
    for index, webhook in enumerate(obj.get("webhooks") or ()):
        if "service" in (webhook.get("clientConfig") or {}):
            path = Path("webhooks")[index] / "clientConfig" / "service"
            yield forbidden(
                path, "not supported for static manifests; use clientConfig.url instead"
            )


def _check_policy_name(name: str, binding: Tree, policies: Mapping[str, Tree]) -> None:
    policy = binding["spec"].get("policyName") or ""
    if policy not in policies:
        raise BadManifest(
            f"binding {quote(name)} references policy {quote(policy)} which does not exist in the "
            "manifest directory"
        )
