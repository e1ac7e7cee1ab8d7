"""References from core objects to other objects."""

from __future__ import annotations

from kapiserver.api.types import Kind, Type, field


class ObjectReference(Type):
    """A reference to any object, or to a part of one."""

    atomic = True

    kind: str = field(1, doc="Kind of the object, for example Pod.")
    namespace: str = field(2, doc="Namespace of the object. Empty for objects without one.")
    name: str = field(3, doc="Name of the referenced object, whatever its kind.")
    uid: str = field(
        4, doc="UID of the object. When set, a later object of the same name does not match."
    )
    apiVersion: str = field(5, doc="Group and version of the object, for example apps/v1 or v1.")
    resourceVersion: str = field(
        6, doc="Resource version of the object at the time of the reference."
    )
    fieldPath: str = field(
        7, doc="Part of the object, for example spec.containers{web}. When empty: the whole object."
    )


class LocalObjectReference(Type):
    """A reference to an object in the same namespace; the field says of which kind."""

    atomic = True

    name: str = field(
        1,
        default="",
        doc=(
            "Name of the object in the same namespace. Default: empty; almost every use requires "
            "a name."
        ),
    )


class TypedLocalObjectReference(Type):
    """A reference to an object of any kind in the same namespace."""

    atomic = True

    apiGroup: str | None = field(
        1,
        always=True,
        doc=(
            "Group of the object, for example snapshot.storage.k8s.io. When absent: the core group."
        ),
    )
    kind: str = field(
        2,
        always=True,
        required=True,
        doc="Kind of the object in the same namespace, for example VolumeSnapshot.",
    )
    name: str = field(
        3, always=True, required=True, doc="Name of the object of that kind in the same namespace."
    )


class TypedObjectReference(Type):
    """A reference to an object of any kind, possibly in another namespace."""

    apiGroup: str | None = field(
        1,
        always=True,
        doc=(
            "Group of the referenced object. When absent: the core group, where only "
            "PersistentVolumeClaim is accepted."
        ),
    )
    kind: str = field(
        2,
        always=True,
        required=True,
        doc="Kind of the referenced object, for example PersistentVolumeClaim.",
    )
    name: str = field(
        3, always=True, required=True, doc="Name of the referenced object of that kind."
    )
    namespace: str | None = field(
        4,
        doc=(
            "Namespace of the referenced object. When absent: the same one. Other namespaces are "
            "alpha and need a ReferenceGrant there."
        ),
    )


class SecretReference(Type):
    """A reference to a Secret in any namespace."""

    atomic = True

    name: str = field(1, doc="Name of the Secret. It is unique only in its namespace.")
    namespace: str = field(
        2, doc="Namespace of the Secret. Volumes have none, so most of them require it."
    )


class SerializedReference(Kind):
    """An object reference in the form that annotations hold."""

    listed = False

    reference: ObjectReference = field(1, doc="The object that is referred to.")


class Preconditions(Type):
    """Conditions that an object must meet for an operation on it."""

    uid: str | None = field(
        1,
        doc=(
            "UID that the object must have; another one makes the operation fail. When absent: any."
        ),
    )
