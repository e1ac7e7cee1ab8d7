"""How core objects name other objects."""

from __future__ import annotations

from kapiserver.api.types import Kind, Type, field


class ObjectReference(Type):
    """Points at any object, or at a part of one."""

    atomic = True

    kind: str = field(1)
    namespace: str = field(2)
    name: str = field(3)
    uid: str = field(4)
    apiVersion: str = field(5)
    resourceVersion: str = field(6)
    fieldPath: str = field(7)


class LocalObjectReference(Type):
    """Names an object in the same namespace."""

    atomic = True

    name: str = field(1, default="")


class TypedLocalObjectReference(Type):
    """Names an object of any kind in the same namespace."""

    atomic = True

    apiGroup: str | None = field(1, always=True)
    kind: str = field(2, always=True, required=True)
    name: str = field(3, always=True, required=True)


class TypedObjectReference(Type):
    """Names an object of any kind, in another namespace if need be."""

    apiGroup: str | None = field(1, always=True)
    kind: str = field(2, always=True, required=True)
    name: str = field(3, always=True, required=True)
    namespace: str | None = field(4)


class SecretReference(Type):
    """Names a Secret in any namespace."""

    atomic = True

    name: str = field(1)
    namespace: str = field(2)


class SerializedReference(Kind):
    """An object reference as an annotation holds it."""

    listed = False

    reference: ObjectReference = field(1)


class Preconditions(Type):
    """What must hold for an operation to be done."""

    uid: str | None = field(1)
