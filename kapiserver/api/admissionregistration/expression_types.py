"""The CEL environment of admission expressions: of the match conditions of webhooks, and of
admission policies.

Objects and parameters are dynamic. The request and the namespace are typed. Loads
`kapiserver.api.cel`; callers import this module with the first expression. Mirrors
pkg/admission/plugin/cel/compile.go of k8s.io/apiserver.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from kapiserver.api.cel import cel_types as k
from kapiserver.api.cel.cel_types import CelType
from kapiserver.api.cel.extensions import BASE, JSON_PATCHES, MUTATIONS, OBJECT
from kapiserver.api.cel.program import Program, compile_expression

REQUEST_RESOURCE = "authorizer.requestResource"
BOOL, STRING, APPLY_CONFIGURATION, PATCHES = k.BOOL, k.STRING, OBJECT, JSON_PATCHES
STRING_OR_NULL = (k.STRING, k.NULL)
ANY: tuple[CelType, ...] = ()
"""No restriction of the type."""


def _object(**fields: CelType) -> CelType:
    return CelType("object", fields=fields, names={field: field for field in fields})


_STRINGS = k.list_of(k.STRING)
_KIND = _object(group=k.STRING, version=k.STRING, kind=k.STRING)
_RESOURCE = _object(group=k.STRING, version=k.STRING, resource=k.STRING)
_REQUEST = _object(
    kind=_KIND,
    resource=_RESOURCE,
    subResource=k.STRING,
    requestKind=_KIND,
    requestResource=_RESOURCE,
    requestSubResource=k.STRING,
    name=k.STRING,
    namespace=k.STRING,
    operation=k.STRING,
    userInfo=_object(
        username=k.STRING,
        uid=k.STRING,
        groups=_STRINGS,
        extra=k.map_of(k.STRING, _STRINGS),
    ),
    dryRun=k.BOOL,
    options=k.DYN,
)
_NAMESPACE = _object(
    metadata=_object(
        name=k.STRING,
        generateName=k.STRING,
        namespace=k.STRING,
        labels=k.map_of(k.STRING, k.STRING),
        annotations=k.map_of(k.STRING, k.STRING),
        UID=k.STRING,
        creationTimestamp=k.TIMESTAMP,
        deletionGracePeriodSeconds=k.INT,
        deletionTimestamp=k.TIMESTAMP,
        generation=k.INT,
        resourceVersion=k.STRING,
        finalizers=_STRINGS,
    ),
    spec=_object(finalizers=_STRINGS),
    status=_object(
        phase=k.STRING,
        conditions=k.list_of(
            _object(
                status=k.STRING,
                type=k.STRING,
                lastTransitionTime=k.TIMESTAMP,
                message=k.STRING,
                reason=k.STRING,
            )
        ),
    ),
)


@functools.cache
def variable_types(*, params: bool, authorizer: bool) -> Mapping[str, CelType]:
    """Return the types of the variables of admission expressions.

    params      whether there is the variable `params`
    authorizer  whether there are `authorizer` and `authorizer.requestResource`
    """
    types = {
        "object": k.DYN,
        "oldObject": k.DYN,
        "request": _REQUEST,
        "namespaceObject": _NAMESPACE,
    }
    if params:
        types["params"] = k.DYN
    if authorizer:
        types["authorizer"] = CelType("authorizer")
        types[REQUEST_RESOURCE] = CelType("resourcecheck")
    return types


def composition_type(fields: Mapping[str, CelType]) -> CelType:
    """Return the type of `variables`, by the types of the variables that are declared."""
    return CelType("object", fields=dict(fields), names={name: name for name in fields})


def compile_admission_expression(
    text: str,
    types: Mapping[str, CelType],
    allowed: tuple[CelType, ...] = (BOOL,),
    *,
    mutation: bool = False,
) -> Program:
    """Compile an expression whose value has one of the types `allowed`. Raises ValueError, with
    kube-apiserver's message.

    mutation  whether it can construct objects and JSON patches
    """
    try:
        program = compile_expression(text, types, MUTATIONS if mutation else BASE)
    except ValueError as error:
        raise ValueError(f"compilation failed: {error}") from None
    names = [_type_name(cel_type) for cel_type in allowed]
    actual = _type_name(program.cel_type)
    if names and actual not in names:
        expected = names[0] if len(names) == 1 else f"one of [{' '.join(names)}]"
        raise ValueError(f"must evaluate to {expected} but got {actual}")
    return program


def _type_name(cel_type: CelType) -> str:
    return "null_type" if cel_type.name == "null" else str(cel_type)
