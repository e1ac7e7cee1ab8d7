"""Environment variables of a container, and the sources of their values."""

from __future__ import annotations

from kapiserver.api.core.v1.references import LocalObjectReference
from kapiserver.api.scalar_types import Quantity
from kapiserver.api.types import Type, field


class EnvVar(Type):
    """An environment variable of a container."""

    name: str = field(
        1,
        always=True,
        required=True,
        doc='Name of the variable: printable ASCII characters other than "=".',
    )
    value: str = field(
        2,
        doc=(
            "Value of the variable. $(NAME) expands to a variable that is defined before or in "
            "envFrom; $$(NAME) stays as $(NAME). Default: empty."
        ),
    )
    valueFrom: EnvVarSource | None = field(
        3, doc="Source of the value. It cannot be combined with a value."
    )


class EnvVarSource(Type):
    """The source of an environment variable's value. Exactly one field is set."""

    fieldRef: ObjectFieldSelector | None = field(
        1,
        doc=(
            "Field of the pod: name, namespace, uid, one label or annotation, node, service "
            "account, or IP addresses of pod and node."
        ),
    )
    resourceFieldRef: ResourceFieldSelector | None = field(
        2, doc="Request or limit of a container: cpu, memory, ephemeral-storage or huge pages."
    )
    configMapKeyRef: ConfigMapKeySelector | None = field(
        3,
        doc="Key of a ConfigMap in the pod's namespace. The container does not see later changes.",
    )
    secretKeyRef: SecretKeySelector | None = field(
        4, doc="Key of a Secret in the pod's namespace. The container does not see later changes."
    )
    fileKeyRef: FileKeySelector | None = field(
        5,
        doc=(
            "Variable of an environment file in an emptyDir volume of the pod, written by an init "
            "container."
        ),
    )


class EnvFromSource(Type):
    """A ConfigMap or Secret whose keys all become environment variables."""

    prefix: str = field(
        1,
        doc=(
            "Text to put before every key of the source to form the variable's name. Printable "
            'ASCII other than "=". Default: empty.'
        ),
    )
    configMapRef: ConfigMapEnvSource | None = field(
        2, doc="ConfigMap in the pod's namespace whose keys become variables. Excludes secretRef."
    )
    secretRef: SecretEnvSource | None = field(
        3, doc="Secret in the pod's namespace whose keys become variables. Excludes configMapRef."
    )


class ConfigMapEnvSource(Type):
    """A ConfigMap whose keys all become environment variables."""

    localObjectReference: LocalObjectReference = field(1, inline=True)
    optional: bool | None = field(
        2, doc="Start the container although the ConfigMap for envFrom is missing. Default: false."
    )


class SecretEnvSource(Type):
    """A Secret whose keys all become environment variables."""

    localObjectReference: LocalObjectReference = field(1, inline=True)
    optional: bool | None = field(
        2, doc="Start the container although the Secret for envFrom is missing. Default: false."
    )


class ConfigMapKeySelector(Type):
    """One key of a ConfigMap in the pod's namespace."""

    atomic = True

    localObjectReference: LocalObjectReference = field(1, inline=True)
    key: str = field(2, always=True, required=True, doc="Key of the ConfigMap whose value to use.")
    optional: bool | None = field(
        3,
        doc=(
            "Start the container although the ConfigMap or its key is missing; the variable is "
            "then not set. Default: false."
        ),
    )


class SecretKeySelector(Type):
    """One key of a Secret in the same namespace."""

    atomic = True

    localObjectReference: LocalObjectReference = field(1, inline=True)
    key: str = field(2, always=True, required=True, doc="Key of the Secret whose value to use.")
    optional: bool | None = field(
        3,
        doc=(
            "Continue although the Secret or its key is missing; the value is then not set. "
            "Default: false."
        ),
    )


class FileKeySelector(Type):
    """One variable of an environment file in a volume of the pod."""

    atomic = True

    volumeName: str = field(
        1,
        always=True,
        required=True,
        doc="Name of the emptyDir volume with the file. The container need not mount it.",
    )
    path: str = field(
        2,
        always=True,
        required=True,
        doc='File with NAME=VALUE lines, relative to the volume, without "..".',
    )
    key: str = field(
        3,
        always=True,
        required=True,
        doc='Name of the variable in the file: printable ASCII characters other than "=".',
    )
    optional: bool | None = field(
        4,
        default=False,
        doc=(
            "Start the container although the file lacks the variable; it is then not set. "
            "Default: false, so the container fails to start."
        ),
    )


class ObjectFieldSelector(Type):
    """One field of the pod that contains the selector."""

    atomic = True

    apiVersion: str = field(
        1,
        doc=(
            "Version of the schema in which fieldPath is written. Default: v1, which is the only "
            "one."
        ),
    )
    fieldPath: str = field(
        2,
        always=True,
        required=True,
        doc=(
            "Path of the field, for example metadata.name, metadata.labels['app'] or "
            "status.podIP. Environment variables and volumes allow different fields."
        ),
    )


class ResourceFieldSelector(Type):
    """A resource request or limit of one container."""

    atomic = True

    containerName: str = field(
        1,
        doc=(
            "Container whose resource to read. Required in volumes; for environment variables, "
            "the default is the container itself."
        ),
    )
    resource: str = field(
        2,
        always=True,
        required=True,
        doc=(
            "Resource to read, for example limits.cpu or requests.memory. A limit that is not set "
            "reads as what the node can allocate."
        ),
    )
    divisor: Quantity = field(
        3,
        doc=(
            "Unit of the value, rounded up: 1 or 1m for cpu; 1, 1k, 1Ki, 1M, 1Mi and so on for "
            "bytes. Default: 1."
        ),
    )
