"""How core objects name other objects."""

from __future__ import annotations

from kapiserver.api.types import Kind, Type, field


class ObjectReference(Type):
    """Points at any object, or at a part of one."""

    atomic = True

    kind: str = field(1, doc="The kind of the object.")
    namespace: str = field(2, doc="Its namespace.")
    name: str = field(3, doc="Its name.")
    uid: str = field(4, doc="Its uid.")
    apiVersion: str = field(5, doc="Group and version of the object.")
    resourceVersion: str = field(6, doc="The version of the object.")
    fieldPath: str = field(7, doc="Path to the field.")


class LocalObjectReference(Type):
    """Names an object in the same namespace."""

    atomic = True

    name: str = field(1, default="", doc="Its name.")


class TypedLocalObjectReference(Type):
    """Names an object of any kind in the same namespace."""

    atomic = True

    apiGroup: str | None = field(1, always=True, doc="The group of the object; empty: core.")
    kind: str = field(2, always=True, required=True, doc="The kind of the object.")
    name: str = field(3, always=True, required=True, doc="Its name.")


class TypedObjectReference(Type):
    """Names an object of any kind, in another namespace if need be."""

    apiGroup: str | None = field(1, always=True, doc="The group of the object; empty: core.")
    kind: str = field(2, always=True, required=True, doc="The kind of the object.")
    name: str = field(3, always=True, required=True, doc="Its name.")
    namespace: str | None = field(4, doc="Its namespace.")


class SecretReference(Type):
    """Names a Secret in any namespace."""

    atomic = True

    name: str = field(1, doc="Its name.")
    namespace: str = field(2, doc="Its namespace.")


class SerializedReference(Kind):
    """An object reference as an annotation holds it."""

    listed = False

    reference: ObjectReference = field(1)


class Preconditions(Type):
    """What must hold for an operation to be done."""

    uid: str | None = field(1)
