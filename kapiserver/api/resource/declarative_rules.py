"""Declarative validation rules of the resource group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kapiserver.api import names
from kapiserver.api.core.validation.volume_plugins import DRIVER_MAX
from kapiserver.api.declarative_validation import (
    FieldRules,
    enum,
    immutable,
    max_bytes,
    max_items,
    max_length,
    maximum,
    minimum,
    no_modify,
    required_pointer,
    required_value,
    text_format,
    union,
    unique,
)
from kapiserver.api.errors import FieldError, Path
from kapiserver.api.resource.validation.claims import extended_resource_name_problems
from kapiserver.api.resource.validation.common import (
    validate_declared_pool_name,
    validate_fully_qualified_name,
)

_LABEL = text_format(names.dns1123_label)
_CASELESS = text_format(names.caseless_subdomain)
_REQUEST_REFERENCES = FieldRules(short_circuit=(max_items(32),), rules=(unique(),))
_CONDITIONS = FieldRules(short_circuit=(max_items(4),))
_SELECTORS = FieldRules(short_circuit=(max_items(32),))
_EFFECT = enum("None", "NoSchedule", "NoExecute")


def _pool_name_rule(new: Any, _: Any, path: Path) -> Iterator[FieldError]:
    return validate_declared_pool_name(new, path)


def _attribute_name_rule(new: Any, _: Any, path: Path) -> Iterator[FieldError]:
    return validate_fully_qualified_name(new, path)


_DRIVER = FieldRules(short_circuit=(required_value,), rules=(_CASELESS, max_length(DRIVER_MAX)))
_POOL = FieldRules(short_circuit=(required_value,), rules=(_pool_name_rule,))
_SHARE_ID = FieldRules(pointer=True, rules=(text_format(names.uuid),))
_OPAQUE = FieldRules(pointer=True, fields={"driver": _DRIVER})
_TAINT = FieldRules(
    fields={"effect": FieldRules(short_circuit=(required_value,), rules=(_EFFECT,))}
)
_TOLERATIONS = FieldRules(
    items=FieldRules(
        fields={
            "key": FieldRules(rules=(text_format(names.qualified_name),)),
            "operator": FieldRules(rules=(enum("Exists", "Equal"),)),
            "effect": FieldRules(rules=(_EFFECT,)),
        }
    )
)

# Resource slices.

_COUNTERS = FieldRules(short_circuit=(required_value,), rules=(_LABEL,))
_NAME = FieldRules(short_circuit=(required_value,), rules=(_LABEL,))
_VALUE = FieldRules(
    rules=(union("int", "bool", "string", "version", "ints", "bools", "strings", "versions"),)
)
_DEVICE = FieldRules(
    fields={
        "attributes": FieldRules(values=_VALUE),
        "consumesCounters": FieldRules(
            short_circuit=(max_items(2),),
            rules=(unique("counterSet"),),
            items=FieldRules(fields={"counterSet": _NAME, "counters": _COUNTERS}),
            keys=("counterSet",),
        ),
        "taints": FieldRules(items=_TAINT),
        "bindingConditions": _CONDITIONS,
        "bindingFailureConditions": _CONDITIONS,
    }
)
RESOURCE_SLICE = FieldRules(
    fields={
        "spec": FieldRules(
            fields={
                "devices": FieldRules(items=_DEVICE, keys=("name",)),
                "sharedCounters": FieldRules(
                    short_circuit=(max_items(8),),
                    rules=(unique("name"),),
                    items=FieldRules(fields={"name": _NAME, "counters": _COUNTERS}),
                    keys=("name",),
                ),
            }
        )
    }
)

# Resource claims and claim templates.

_REQUEST_FIELDS = {
    "selectors": _SELECTORS,
    "allocationMode": FieldRules(rules=(enum("ExactCount", "All"),)),
    "tolerations": _TOLERATIONS,
}
_CLASS = FieldRules(short_circuit=(required_value,), rules=(text_format(names.dns1123_subdomain),))
_REQUEST = FieldRules(
    fields={
        "exactly": FieldRules(pointer=True, fields=_REQUEST_FIELDS),
        "firstAvailable": FieldRules(
            short_circuit=(max_items(8),),
            rules=(unique("name"),),
            items=FieldRules(fields={"deviceClassName": _CLASS, **_REQUEST_FIELDS}),
        ),
    }
)
_CONSTRAINT = FieldRules(
    fields={
        "requests": _REQUEST_REFERENCES,
        "matchAttribute": FieldRules(pointer=True, rules=(_attribute_name_rule,)),
    }
)
_CLAIM_FIELDS = {
    "devices": FieldRules(
        fields={
            "requests": FieldRules(
                short_circuit=(max_items(32),), rules=(unique("name"),), items=_REQUEST
            ),
            "constraints": FieldRules(short_circuit=(max_items(32),), items=_CONSTRAINT),
            "config": FieldRules(
                short_circuit=(max_items(32),),
                items=FieldRules(fields={"requests": _REQUEST_REFERENCES, "opaque": _OPAQUE}),
            ),
        }
    )
}
_RESULT = FieldRules(
    fields={
        "driver": _DRIVER,
        "pool": _POOL,
        "tolerations": _TOLERATIONS,
        "bindingConditions": _CONDITIONS,
        "bindingFailureConditions": _CONDITIONS,
        "shareID": _SHARE_ID,
    }
)
_ALLOCATION_CONFIG = FieldRules(
    fields={
        "source": FieldRules(
            short_circuit=(required_value,), rules=(enum("FromClass", "FromClaim"),)
        ),
        "requests": _REQUEST_REFERENCES,
        "opaque": _OPAQUE,
    }
)
_ALLOCATION = FieldRules(
    fields={
        "results": FieldRules(short_circuit=(max_items(32),), items=_RESULT),
        "config": FieldRules(short_circuit=(max_items(64),), items=_ALLOCATION_CONFIG),
    }
)
_NETWORK = FieldRules(
    pointer=True,
    fields={
        "interfaceName": FieldRules(rules=(max_bytes(256),)),
        "ips": FieldRules(short_circuit=(max_items(16),), rules=(unique(),)),
        "hardwareAddress": FieldRules(rules=(max_bytes(128),)),
    },
)
_DEVICE_KEYS = ("driver", "device", "pool", "shareID")
_STATUS = FieldRules(
    fields={
        "allocation": FieldRules(
            short_circuit=(no_modify,), pointer=True, fields={"devices": _ALLOCATION}
        ),
        "reservedFor": FieldRules(
            short_circuit=(max_items(256),), rules=(unique("uid"),), keys=("uid",)
        ),
        "devices": FieldRules(
            rules=(unique(*_DEVICE_KEYS),),
            items=FieldRules(fields={"shareID": _SHARE_ID, "networkData": _NETWORK}),
            keys=_DEVICE_KEYS,
        ),
    }
)
RESOURCE_CLAIM = FieldRules(
    fields={"spec": FieldRules(short_circuit=(immutable,), fields=_CLAIM_FIELDS), "status": _STATUS}
)
RESOURCE_CLAIM_TEMPLATE = FieldRules(
    fields={"spec": FieldRules(fields={"spec": FieldRules(fields=_CLAIM_FIELDS)})}
)

# Device classes and taint rules.

DEVICE_CLASS = FieldRules(
    fields={
        "metadata": FieldRules(
            fields={"name": FieldRules(rules=(text_format(names.dns1123_subdomain),))}
        ),
        "spec": FieldRules(
            fields={
                "selectors": _SELECTORS,
                "config": FieldRules(
                    short_circuit=(max_items(32),), items=FieldRules(fields={"opaque": _OPAQUE})
                ),
                "extendedResourceName": FieldRules(
                    pointer=True, rules=(text_format(extended_resource_name_problems),)
                ),
            }
        ),
    }
)
DEVICE_TAINT_RULE = FieldRules(fields={"spec": FieldRules(fields={"taint": _TAINT})})

# Pool status requests.

_COUNT = FieldRules(pointer=True, rules=(minimum(0),))
_REQUIRED_COUNT = FieldRules(short_circuit=(required_pointer,), rules=(minimum(0),), pointer=True)
_SHAREABLE_SUMMARY = FieldRules(
    pointer=True,
    fields={
        "fullyAvailableDevices": _REQUIRED_COUNT,
        "partiallyAvailableDevices": _REQUIRED_COUNT,
        "capacity": FieldRules(short_circuit=(max_items(32),)),
    },
)
_PARTITION = FieldRules(
    fields={
        "attribute": FieldRules(short_circuit=(required_value,)),
        "type": FieldRules(short_circuit=(required_value,)),
        "total": _REQUIRED_COUNT,
        "allocatable": _REQUIRED_COUNT,
    }
)
_POOL_STATUS = FieldRules(
    fields={
        "driver": FieldRules(short_circuit=(required_value,), rules=(_CASELESS,)),
        "poolName": _POOL,
        "generation": FieldRules(rules=(minimum(0),)),
        "resourceSliceCount": FieldRules(pointer=True, rules=(minimum(1),)),
        "totalDevices": _COUNT,
        "allocatedDevices": _COUNT,
        "availableDevices": _COUNT,
        "unavailableDevices": _COUNT,
        "nodeName": FieldRules(pointer=True, rules=(text_format(names.dns1123_subdomain),)),
        "validationError": FieldRules(pointer=True, rules=(max_bytes(256),)),
        "partitionSummary": FieldRules(
            short_circuit=(max_items(32),), rules=(unique("attribute", "type"),), items=_PARTITION
        ),
        "shareableSummary": _SHAREABLE_SUMMARY,
    }
)
POOL_STATUS_REQUEST = FieldRules(
    fields={
        "spec": FieldRules(
            short_circuit=(immutable,),
            fields={
                "driver": FieldRules(short_circuit=(required_value,), rules=(_CASELESS,)),
                "poolName": FieldRules(pointer=True, rules=(_pool_name_rule,)),
                "limit": FieldRules(pointer=True, rules=(minimum(1), maximum(1000))),
            },
        ),
        "status": FieldRules(
            pointer=True,
            fields={
                "poolCount": _REQUIRED_COUNT,
                "pools": FieldRules(short_circuit=(max_items(1000),), items=_POOL_STATUS),
                "conditions": FieldRules(
                    short_circuit=(max_items(10),), rules=(unique("type"),), keys=("type",)
                ),
            },
        ),
    }
)
