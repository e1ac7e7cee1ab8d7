"""Environment variables of a container and where their values come from."""

from __future__ import annotations

from kapiserver.api.core.v1.references import LocalObjectReference
from kapiserver.api.leaves import Quantity
from kapiserver.api.types import Type, field


class EnvVar(Type):
    """One environment variable."""

    name: str = field(1, always=True, required=True)
    value: str = field(2)
    valueFrom: EnvVarSource | None = field(3)


class EnvVarSource(Type):
    """Where the value of an environment variable comes from."""

    fieldRef: ObjectFieldSelector | None = field(1)
    resourceFieldRef: ResourceFieldSelector | None = field(2)
    configMapKeyRef: ConfigMapKeySelector | None = field(3)
    secretKeyRef: SecretKeySelector | None = field(4)
    fileKeyRef: FileKeySelector | None = field(5)


class EnvFromSource(Type):
    """A set of environment variables taken from one object."""

    prefix: str = field(1)
    configMapRef: ConfigMapEnvSource | None = field(2)
    secretRef: SecretEnvSource | None = field(3)


class ConfigMapEnvSource(Type):
    """All keys of a ConfigMap as variables."""

    localObjectReference: LocalObjectReference = field(1, inline=True)
    optional: bool | None = field(2)


class SecretEnvSource(Type):
    """All keys of a Secret as variables."""

    localObjectReference: LocalObjectReference = field(1, inline=True)
    optional: bool | None = field(2)


class ConfigMapKeySelector(Type):
    """One key of a ConfigMap."""

    atomic = True

    localObjectReference: LocalObjectReference = field(1, inline=True)
    key: str = field(2, always=True, required=True)
    optional: bool | None = field(3)


class SecretKeySelector(Type):
    """One key of a Secret."""

    atomic = True

    localObjectReference: LocalObjectReference = field(1, inline=True)
    key: str = field(2, always=True, required=True)
    optional: bool | None = field(3)


class FileKeySelector(Type):
    """One key of an environment file in a volume."""

    atomic = True

    volumeName: str = field(1, always=True, required=True)
    path: str = field(2, always=True, required=True)
    key: str = field(3, always=True, required=True)
    optional: bool | None = field(4, default=False)


class ObjectFieldSelector(Type):
    """A field of the object itself, by path."""

    atomic = True

    apiVersion: str = field(1)
    fieldPath: str = field(2, always=True, required=True)


class ResourceFieldSelector(Type):
    """A container's resource request or limit."""

    atomic = True

    containerName: str = field(1)
    resource: str = field(2, always=True, required=True)
    divisor: Quantity = field(3)
