"""The feature gates that this server has, and the parser of `--feature-gates`.

To add one: a line in `GATES`, and `"Name" in server.config.features.feature_gates` where it
matters. Knows no effect of a gate. Mirrors component-base/featuregate of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from kapiserver.api.go_format import join_errors
from kapiserver.api.releases import NEWEST_MINOR


class Gate(Struct, frozen=True):
    """One feature gate: its default, its maturity, and whether the default cannot be changed.

    off_in   minors of the releases 1.x that have another default: there the gate is off, or unknown
    needs    gates that must be on if this one is
    """

    default: bool
    stage: Literal["ALPHA", "BETA", "GA", "DEPRECATED"]
    locked: bool = False
    off_in: Container[int] = ()
    needs: Sequence[str] = ()


GATES: dict[str, Gate] = {
    "AllAlpha": Gate(default=False, stage="ALPHA"),
    "AllBeta": Gate(default=False, stage="BETA"),
    "AllowUnsafeMalformedObjectDeletion": Gate(default=True, stage="BETA", off_in=range(37)),
    "APIListChunking": Gate(default=True, stage="GA"),
    "APIServerIdentity": Gate(default=True, stage="BETA"),
    "APIResponseCompression": Gate(default=True, stage="BETA"),
    "CBORServingAndStorage": Gate(default=True, stage="ALPHA"),
    "ComponentFlagz": Gate(default=True, stage="BETA", off_in=range(36)),
    "ComponentStatusz": Gate(default=True, stage="BETA", off_in=range(36)),
    "ConstrainedImpersonation": Gate(default=True, stage="BETA", off_in=range(36)),
    "ExcludeAdmissionWebhookVirtualResources": Gate(default=True, stage="BETA", off_in=range(37)),
    "ManifestBasedAdmissionControlConfig": Gate(default=True, stage="BETA", off_in=range(37)),
    "SizeBasedListCostEstimate": Gate(default=True, stage="BETA", off_in=range(34)),
    "StorageVersionAPI": Gate(default=False, stage="ALPHA", needs=("APIServerIdentity",)),
    "UnknownVersionInteroperabilityProxy": Gate(
        default=True, stage="BETA", off_in=range(36), needs=("APIServerIdentity",)
    ),
    "WatchList": Gate(default=True, stage="BETA", off_in=(31, 33)),
}

FeatureGates: TypeAlias = frozenset[str]
"""The gates that are on."""

DEFAULT_GATES: FeatureGates = frozenset(name for name, gate in GATES.items() if gate.default)

_GATE_OF_STAGE = {"ALPHA": "AllAlpha", "BETA": "AllBeta"}
"""The gate that sets every gate of a stage, unless the flag names that gate itself."""
_STAGE_GATES = frozenset(_GATE_OF_STAGE.values())

_BOOLS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


def parse_feature_gates(
    text: str, gates: Mapping[str, Gate] = GATES, *, minor: int = NEWEST_MINOR
) -> FeatureGates:
    """Return the gates that are on after `Name=true,Other=false`; a name may begin with `kube:`.
    `minor` is that of the release to emulate. Raises ValueError with kube-apiserver's message."""
    settings = _settings(text)
    unknown = next((name for name in settings if name not in gates), None)
    if unknown is not None:
        raise ValueError(f"unrecognized feature gate: {unknown}")
    problems = [
        f"cannot set feature gate {name} to {_go_bool(value)}, "
        f"feature is locked to {_go_bool(gates[name].default)}"
        for name, value in settings.items()
        if gates[name].locked and value != gates[name].default
    ]
    if problems:
        raise ValueError(join_errors(problems))
    on = frozenset(name for name, gate in gates.items() if _is_on(name, gate, settings, minor))
    problems = [
        f"{name} is enabled, but depends on features that are disabled: [{' '.join(missing)}]"
        for name in sorted(on)
        if (missing := [gate_name for gate_name in gates[name].needs if gate_name not in on])
    ]
    if problems:
        raise ValueError(join_errors(problems))
    return on


def _is_on(name: str, gate: Gate, settings: Mapping[str, bool], minor: int) -> bool:
    default = gate.default and minor not in gate.off_in
    if name in settings or gate.locked or name in _STAGE_GATES:
        return settings.get(name, default)
    return settings.get(_GATE_OF_STAGE.get(gate.stage, ""), default)


def _settings(text: str) -> dict[str, bool]:
    settings: dict[str, bool] = {}
    for part in filter(None, text.split(",")):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        name = name.removeprefix("kube:")
        if not equals:
            raise ValueError(f"missing bool value for {name}")
        if value not in _BOOLS:
            problem = f'strconv.ParseBool: parsing "{value}": invalid syntax'
            raise ValueError(f"invalid value of {name}={value}, err: {problem}")
        settings[name] = _BOOLS[value]
    return settings


def feature_gates_help(gates: Mapping[str, Gate] = GATES) -> str:
    """Return every gate with its stage and default, for the help text of the flag."""
    return "; ".join(
        f"{name}=true|false ({gate.stage} - default={_go_bool(gate.default)})"
        for name, gate in sorted(gates.items())
    )


def _go_bool(value: bool) -> str:
    return "true" if value else "false"
