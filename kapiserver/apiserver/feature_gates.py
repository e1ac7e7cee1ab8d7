"""The feature gates that mean something here, and the flag that sets them.

To add one: a line in `GATES`, and `"Name" in server.config.feature_gates` where it decides. Knows
nothing of what a gate does. Mirrors component-base/featuregate of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias


@dataclass(frozen=True, slots=True)
class Gate:
    """One feature: what it is by default, how far it is, and whether that is for good."""

    default: bool
    stage: Literal["ALPHA", "BETA", "GA", "DEPRECATED"]
    locked: bool = False


GATES: dict[str, Gate] = {
    "AllAlpha": Gate(default=False, stage="ALPHA"),
    "AllBeta": Gate(default=False, stage="BETA"),
    "APIListChunking": Gate(default=True, stage="GA"),
    "APIResponseCompression": Gate(default=True, stage="BETA"),
    "CBORServingAndStorage": Gate(default=True, stage="ALPHA"),
    "WatchList": Gate(default=True, stage="BETA"),
}

FeatureGates: TypeAlias = frozenset[str]
"""The gates that are on."""

DEFAULT_GATES: FeatureGates = frozenset(name for name, gate in GATES.items() if gate.default)

_OF_STAGE = {"ALPHA": "AllAlpha", "BETA": "AllBeta"}
"""Gates that stand for all of a stage that are not named themselves."""
_ALL = frozenset(_OF_STAGE.values())

_BOOLS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


def parse_feature_gates(text: str, known: Mapping[str, Gate] = GATES) -> FeatureGates:
    """What `Name=true,Other=false` sets, `kube:` before a name allowed; all else by default.
    Raises ValueError in kube-apiserver's words."""
    given = _given(text)
    unknown = next((name for name in given if name not in known), None)
    if unknown is not None:
        raise ValueError(f"unrecognized feature gate: {unknown}")
    refused = [
        f"cannot set feature gate {name} to {_word(value)}, "
        f"feature is locked to {_word(known[name].default)}"
        for name, value in given.items()
        if known[name].locked and value != known[name].default
    ]
    if refused:
        raise ValueError(refused[0] if len(refused) == 1 else f"[{', '.join(refused)}]")
    return frozenset(name for name, gate in known.items() if _is_on(name, gate, given))


def _is_on(name: str, gate: Gate, given: Mapping[str, bool]) -> bool:
    if name in given or gate.locked or name in _ALL:
        return given.get(name, gate.default)
    return given.get(_OF_STAGE.get(gate.stage, ""), gate.default)


def _given(text: str) -> dict[str, bool]:
    found: dict[str, bool] = {}
    for part in filter(None, text.split(",")):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        name = name.removeprefix("kube:")
        if not equals:
            raise ValueError(f"missing bool value for {name}")
        if value not in _BOOLS:
            problem = f'strconv.ParseBool: parsing "{value}": invalid syntax'
            raise ValueError(f"invalid value of {name}={value}, err: {problem}")
        found[name] = _BOOLS[value]
    return found


def described(known: Mapping[str, Gate] = GATES) -> str:
    """All gates, for the flag's help."""
    return "; ".join(
        f"{name}=true|false ({gate.stage} - default={_word(gate.default)})"
        for name, gate in sorted(known.items())
    )


def _word(value: bool) -> str:
    return "true" if value else "false"
