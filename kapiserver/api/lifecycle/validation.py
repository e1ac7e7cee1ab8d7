"""Rules for evictions that are asked for and answered step by step.

Mirrors pkg/apis/lifecycle/validation and the declared rules of its types.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api import names
from kapiserver.api.core.validation.common import checked, checked_name, chosen, needed
from kapiserver.api.core.validation.conditions import conditions
from kapiserver.api.declared import kept
from kapiserver.api.errors import FieldError, Path, duplicate, invalid
from kapiserver.api.objects import value_at
from kapiserver.api.types import Tree

_SPEC = Path("spec")
_STATUS = Path("status")
_INTENTS = ("Eviction", "Withdrawn")
_FINAL = ("TargetEvicted", "Failed")


def eviction(obj: Tree) -> Iterator[FieldError]:
    """What goes."""
    pod, at = value_at(obj, "spec", "target", "pod"), _SPEC / "target"
    if pod is None:
        yield invalid(at, "", "must specify one of: `pod`")
        return
    yield from checked_name(names.dns1123_subdomain, pod.get("name"), at / "pod" / "name")
    uid = pod.get("uid") or ""
    yield from needed(pod, "uid", at / "pod")
    if uid:
        yield from checked(names.uuid, uid, at / "pod" / "uid")


def changed_eviction(new: Tree, old: Tree) -> Iterator[FieldError]:
    """What goes does not change."""
    target, before = value_at(new, "spec", "target"), value_at(old, "spec", "target")
    yield from kept(target, before, _SPEC / "target")


def eviction_request(obj: Tree) -> Iterator[FieldError]:
    """What shall go, and who wants it."""
    yield from eviction(obj)
    spec = obj.get("spec") or {}
    yield from _party(spec, "requester", _SPEC)


def _party(obj: Tree, field: str, path: Path) -> Iterator[FieldError]:
    yield from needed(obj, field, path)
    name = obj.get(field) or ""
    if name and "/" not in name:
        yield invalid(path / field, name, 'must be a domain-prefixed key (such as "acme.io/foo")')
    elif name:
        yield from checked(names.qualified_name, name, path / field)
    yield from chosen(obj.get("intent"), _INTENTS, path / "intent")


def changed_eviction_request(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Who wants it and what goes does not change; they may withdraw."""
    yield from changed_eviction(new, old)
    name = "requester"
    party, before = value_at(new, "spec", name), value_at(old, "spec", name)
    yield from kept(party, before, _SPEC / name)
    yield from chosen(value_at(new, "spec", "intent"), _INTENTS, _SPEC / "intent")


def changed_request_status(new: Tree, old: Tree) -> Iterator[FieldError]:
    """What is known of a request."""
    seen, before = (value_at(one, "status", "observedGeneration") for one in (new, old))
    if before is not None and (seen or 0) < before:
        detail = f"cannot decrement, must be greater than or equal to {before}"
        yield invalid(_STATUS / "observedGeneration", seen, detail)
    yield from conditions(value_at(new, "status", "conditions"), _STATUS / "conditions")


def changed_eviction_status(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Who asked, who answers: nobody is forgotten, and an end is an end."""
    yield from changed_request_status(new, old)
    found = value_at(new, "status", "conditions") or []
    for one in value_at(old, "status", "conditions") or ():
        ended = one.get("type") in _FINAL and one.get("status") == "True"
        if ended and one not in found:
            detail = f"{one['type']} condition status cannot be reverted"
            yield invalid(_STATUS / "conditions", found, detail)
    seen: set[str] = set()
    for index, one in enumerate(value_at(new, "status", "requesters") or ()):
        at = (_STATUS / "requesters")[index]
        if one.get("name") in seen:
            yield duplicate(at, {"name": one.get("name")})
        seen.add(one.get("name") or "")
        yield from _party(one, "name", at)
    responders, before = (value_at(one, "status", "targetResponders") or [] for one in (new, old))
    if before and [one.get("name") for one in responders] != [one.get("name") for one in before]:
        what = "keys" if len(responders) == len(before) else "length and the same keys"
        detail = f"must preserve the same {what} in the same order"
        yield invalid(_STATUS / "targetResponders", responders, detail)
