"""Environment variables of a container and where their values come from."""

from __future__ import annotations

from kapiserver.api.core.v1.references import LocalObjectReference
from kapiserver.api.leaves import Quantity
from kapiserver.api.types import Type, field


class EnvVar(Type):
    """One environment variable."""

    name: str = field(1, always=True, required=True, doc="Its name.")
    value: str = field(2, doc="Its value; $(NAME) stands for another variable.")
    valueFrom: EnvVarSource | None = field(3, doc="Where the value comes from.")


class EnvVarSource(Type):
    """Where the value of an environment variable comes from."""

    fieldRef: ObjectFieldSelector | None = field(1, doc="A field of the pod.")
    resourceFieldRef: ResourceFieldSelector | None = field(
        2, doc="What a container asks for or may use."
    )
    configMapKeyRef: ConfigMapKeySelector | None = field(3, doc="Out of a config map.")
    secretKeyRef: SecretKeySelector | None = field(4, doc="Out of a secret.")
    fileKeyRef: FileKeySelector | None = field(5, doc="Out of a file in a volume.")


class EnvFromSource(Type):
    """A set of environment variables taken from one object."""

    prefix: str = field(1, doc="What names of variables begin with.")
    configMapRef: ConfigMapEnvSource | None = field(2, doc="All of a config map.")
    secretRef: SecretEnvSource | None = field(3, doc="All of a secret.")


class ConfigMapEnvSource(Type):
    """All keys of a ConfigMap as variables."""

    localObjectReference: LocalObjectReference = field(1, inline=True)
    optional: bool | None = field(2, doc="Whether it may be missing.")


class SecretEnvSource(Type):
    """All keys of a Secret as variables."""

    localObjectReference: LocalObjectReference = field(1, inline=True)
    optional: bool | None = field(2, doc="Whether it may be missing.")


class ConfigMapKeySelector(Type):
    """One key of a ConfigMap."""

    atomic = True

    localObjectReference: LocalObjectReference = field(1, inline=True)
    key: str = field(2, always=True, required=True, doc="The key in the config map.")
    optional: bool | None = field(3, doc="Whether it may be missing.")


class SecretKeySelector(Type):
    """One key of a Secret."""

    atomic = True

    localObjectReference: LocalObjectReference = field(1, inline=True)
    key: str = field(2, always=True, required=True, doc="The key in the secret.")
    optional: bool | None = field(3, doc="Whether it may be missing.")


class FileKeySelector(Type):
    """One key of an environment file in a volume."""

    atomic = True

    volumeName: str = field(1, always=True, required=True, doc="The volume, by name.")
    path: str = field(2, always=True, required=True, doc="The file in the volume.")
    key: str = field(3, always=True, required=True, doc="The variable in the file.")
    optional: bool | None = field(4, default=False, doc="Whether it may be missing.")


class ObjectFieldSelector(Type):
    """A field of the object itself, by path."""

    atomic = True

    apiVersion: str = field(1, doc="The version in which the path is meant.")
    fieldPath: str = field(2, always=True, required=True, doc="Path to the field.")


class ResourceFieldSelector(Type):
    """A container's resource request or limit."""

    atomic = True

    containerName: str = field(1, doc="The container, by name.")
    resource: str = field(2, always=True, required=True, doc="As limits.cpu or requests.memory.")
    divisor: Quantity = field(3, doc="The unit of the answer.")
