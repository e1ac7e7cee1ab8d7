"""Reads the AdmissionConfiguration of `--admission-control-config-file`.

It lists plugins; the configuration of each is inline or in a file of its own. Each plugin declares
the kinds of its configuration and decodes it when it is loaded (`plugin.py`). For example:

    configurations = read_admission_configuration(file)
    tree = configurations["PodSecurity"].decode(kinds)

Mirrors pkg/admission/config.go of k8s.io/apiserver.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from kapiserver.api.errors import FieldError
from kapiserver.api.go_format import join_errors
from kapiserver.api.group import GroupVersionKind
from kapiserver.api.scheme import ConfigurationScheme
from kapiserver.api.types import Kind, Tree, Type, field
from kapiserver.apiserver.configuration_files import read_small_file
from kapiserver.codecs.errors import CodecError


class BadAdmissionConfiguration(ValueError):
    """The file cannot be read, or the configuration of a plugin is invalid."""


class AdmissionPluginConfiguration(Type):
    """The configuration of one plugin, inline or as the path of a file."""

    name: str = field(1, always=True)
    path: str = field(2)
    configuration: Any = field(3)


class AdmissionConfiguration(Kind):
    """The file of `--admission-control-config-file`."""

    plugins: list[AdmissionPluginConfiguration] = field(1)


_KINDS: dict[GroupVersionKind, type[Kind]] = {
    GroupVersionKind(group, version, "AdmissionConfiguration"): AdmissionConfiguration
    for group, version in (("apiserver.config.k8s.io", "v1"), ("apiserver.k8s.io", "v1alpha1"))
}
_LEGACY_PLUGINS = {
    "imagePolicy": "ImagePolicyWebhook",
    "podNodeSelectorPluginConfig": "PodNodeSelector",
}
"""Plugins whose configuration may be the whole file, by its field."""


class PluginConfiguration(Struct, frozen=True, kw_only=True):
    """The configuration of the plugin `name` as YAML or JSON; `data` is empty if there is none.
    Relative paths in it begin at `folder`."""

    name: str
    data: bytes = b""
    folder: Path = Path()

    def decode(
        self,
        kinds: Mapping[GroupVersionKind, type[Kind]],
        validate: Callable[[Tree], Iterable[FieldError]] = lambda _tree: (),
        *,
        strict: bool = False,
    ) -> Tree:
        """Return the object of one of the kinds, valid; an empty one without a configuration.
        Unknown and repeated fields are ignored unless `strict`. Raises
        BadAdmissionConfiguration."""
        tree = _decode(self.data, kinds, self.name, strict=strict) if self.data.strip() else {}
        problems = [str(error) for error in validate(tree)]
        if problems:
            raise self.error(join_errors(problems))
        return tree

    def decode_unversioned(self) -> Tree:
        """Return the object of a configuration without a kind; empty without a configuration.
        Raises BadAdmissionConfiguration."""
        try:
            return _load_yaml(self.data)
        except ValueError as error:
            raise self.error(str(error)) from None

    def error(self, reason: str) -> BadAdmissionConfiguration:
        """Return the error for an invalid configuration."""
        return BadAdmissionConfiguration(f'couldn\'t init admission plugin "{self.name}": {reason}')


def read_admission_configuration(file: Path) -> Mapping[str, PluginConfiguration]:
    """Return the configurations of a file, by the names of their plugins; the first one if several
    have the same name. Raises BadAdmissionConfiguration."""
    data = _read_file(file)
    legacy = _read_legacy(data, file)
    if legacy:
        return legacy
    configurations: dict[str, PluginConfiguration] = {}
    for plugin in _decode(data, _KINDS, file.name).get("plugins") or ():
        name = plugin.get("name") or ""
        if name not in configurations:
            configurations[name] = PluginConfiguration(
                name=name, data=_data_of(plugin, file.parent), folder=file.parent
            )
    return configurations


def _data_of(plugin: Tree, folder: Path) -> bytes:
    if plugin.get("configuration") is not None:
        return json.dumps(plugin["configuration"]).encode()
    if plugin.get("path"):
        return _read_file(folder / plugin["path"])
    return b""


def _read_file(file: Path) -> bytes:
    try:
        return read_small_file(file)
    except OSError as error:
        raise BadAdmissionConfiguration(
            f'unable to read admission control configuration from "{file}" [{error}]'
        ) from error


def _read_legacy(data: bytes, file: Path) -> Mapping[str, PluginConfiguration]:
    """Return the configurations in a file that has no kind and is itself that of a plugin."""
    try:
        tree = _load_yaml(data)
    except ValueError:
        return {}
    if tree.get("apiVersion") or tree.get("kind") or not tree.keys() & _LEGACY_PLUGINS.keys():
        return {}
    return {
        name: PluginConfiguration(name=name, data=data, folder=file.parent)
        for name in _LEGACY_PLUGINS.values()
    }


def _load_yaml(data: bytes) -> Tree:
    """Return the mapping in a YAML document, empty for an empty one. Raises ValueError."""
    from kapiserver.codecs.yaml import decode_value  # most servers have no such file

    try:
        tree = decode_value(data)
    except CodecError as error:
        raise ValueError(str(error)) from None
    if tree is not None and not isinstance(tree, dict):
        raise ValueError("must be an object")
    return tree or {}


def _decode(
    data: bytes, kinds: Mapping[GroupVersionKind, type[Kind]], name: str, *, strict: bool = False
) -> Tree:
    from kapiserver.codecs.yaml import YAMLSerializer  # most servers have no such file

    try:
        decoded = YAMLSerializer(ConfigurationScheme(kinds)).decode(data)
    except CodecError as error:
        raise BadAdmissionConfiguration(f"{name}: {error}") from error
    if strict and decoded.strict_errors:
        strict_errors = ", ".join(decoded.strict_errors)
        raise BadAdmissionConfiguration(f"{name}: strict decoding error: {strict_errors}")
    return decoded.object
