"""Makes the Config of a test server from settings that are easy to write in a test."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kapiserver.apiserver.config import ANNOTATIONS, Config
from kapiserver.apiserver.feature_gates import parse_feature_gates
from kapiserver.apiserver.version import emulated_minor
from kapiserver.codecs import json
from kapiserver.codecs.errors import CodecError

DRAIN_SECONDS = 0.002
"""Time for watches to end and for requests in flight to finish, when a test server stops."""

_FIELDS = ANNOTATIONS
_FLAG_TEXTS = ("feature_gates", "runtime_config")
"""Settings whose text is that of the flag."""
_SWITCHES = ("rbac", "tls", "insecure")
"""Settings that Config does not have."""
_TYPES: Mapping[str, tuple[tuple[type, ...], str]] = {
    "str": ((str,), "text"),
    "int": ((int,), "an integer"),
    "float": ((int, float), "a number"),
    "bool": ((bool,), "True or False"),
    "tuple": ((tuple,), "a list"),
    "Path": ((Path,), "a path"),
}
"""The types of the values of a Config field and their description, by the field's annotation."""


def server_config(folder: Path, settings: Mapping[str, Any]) -> Config:
    """Return the Config of the settings, which are those of Config and

    rbac            False: every authenticated user may do everything (bool)
    tls             False: plain HTTP only (bool)
    insecure        True: plain HTTP besides HTTPS (bool)
    feature_gates   whether each gate is on, by name, or the text of `--feature-gates`
    runtime_config  whether each API version is on, by name, or the text of `--runtime-config`

    A list or a set may stand for a tuple, and a string for a path. `folder` holds the server's
    files. Raises TypeError for an unknown setting and for a value of another type, ValueError for
    an unusable value.
    """
    fields = {name: value for name, value in settings.items() if name in _FIELDS}
    friendly = {name: value for name, value in settings.items() if name not in _FIELDS}
    for name, value in friendly.items():
        if name not in _SWITCHES:
            raise TypeError(_unknown_setting_message(name))
        _check_type(name, value, "bool")
    if not friendly.get("rbac", True):
        fields["authorization_mode"] = ("AlwaysAllow",)
    if not friendly.get("tls", True):
        fields |= {"secure_port": None, "insecure_port": fields.get("insecure_port") or 0}
    if friendly.get("insecure", False):
        fields.setdefault("insecure_port", 0)
    if not isinstance(fields.get("feature_gates"), frozenset):
        text = _flag_text("feature_gates", fields.get("feature_gates", ""))
        release = _typed("emulated_version", fields.get("emulated_version", ""))
        fields["feature_gates"] = parse_feature_gates(text, minor=emulated_minor(release))
    if "runtime_config" in fields:
        fields["runtime_config"] = _flag_text("runtime_config", fields["runtime_config"])
    defaults: dict[str, Any] = {"cert_dir": folder, "shutdown_timeout": DRAIN_SECONDS}
    return Config.of(**defaults | {name: _typed(name, value) for name, value in fields.items()})


def parse_setting(text: str) -> tuple[str, Any]:
    """Return the name and the value of `NAME=VALUE`, a setting on a command line: true, false,
    numbers, text, and parts separated by commas for a sequence. Raises ValueError."""
    name, equals, value = text.partition("=")
    name = name.replace("-", "_")
    if not equals or not name:
        raise ValueError(f"{text!r} is not of the form NAME=VALUE")
    type_name = _FIELDS.get(name, "")
    if type_name.startswith(("str", "Path")) or name in _FLAG_TEXTS:
        return name, value
    if type_name.startswith("tuple"):
        return name, tuple(part.strip() for part in value.split(",") if part.strip())
    try:
        return name, json.decode_value(value.encode())
    except CodecError:
        if type_name:
            raise ValueError(f"{name} is {type_name}, not {value!r}") from None
        return name, value


def _flag_text(name: str, value: str | Mapping[str, bool]) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, Mapping):
        raise TypeError(f"the setting {name} must be a dict or text, not {value!r}")
    return ",".join(f"{key}={str(is_on).lower()}" for key, is_on in value.items())


def _typed(name: str, value: Any) -> Any:
    """Return the value in the type of the field. Raises TypeError."""
    type_name = _FIELDS[name]
    if type_name.startswith("Path") and isinstance(value, str):
        return Path(value)
    if type_name.startswith("tuple") and isinstance(value, (list, set, frozenset)):
        return tuple(map(Path, value)) if "Path" in type_name else tuple(value)
    _check_type(name, value, type_name)
    return value


def _check_type(name: str, value: Any, type_name: str) -> None:
    """Raise TypeError for a value of another type than the annotation `type_name` says; without
    this check, text would count as true, and as a list of its letters."""
    if value is None and type_name.endswith("| None"):
        return
    base = type_name.removesuffix(" | None").partition("[")[0]
    if base not in _TYPES:
        return
    types, description = _TYPES[base]
    is_number = isinstance(value, bool) and base != "bool"  # for isinstance, a bool is an int
    if not isinstance(value, types) or is_number:
        raise TypeError(f"the setting {name} must be {description}, not {value!r}")


def _unknown_setting_message(name: str) -> str:
    close = difflib.get_close_matches(name, [*_SWITCHES, *_FIELDS], n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"TestServer has no setting {name}{hint}"
