"""What the types of the resource group declare of their fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kapiserver.api import names
from kapiserver.api.core.validation.volume_plugins import DRIVER_MAX
from kapiserver.api.declarations import (
    Declared,
    at_least,
    at_most,
    characters,
    immutable,
    needed,
    no_more_than,
    octets,
    one_member,
    one_of,
    present,
    spelled,
    unique,
    unmodified,
)
from kapiserver.api.errors import FieldError, Path
from kapiserver.api.resource.validation.claims import extended_resource
from kapiserver.api.resource.validation.common import declared_pool_name, fully_qualified_name

_LABEL = spelled(names.dns1123_label)
_CASELESS = spelled(names.caseless_subdomain)
_REFERENCES = Declared(first=(at_most(32),), rules=(unique(),))
_CONDITIONS = Declared(first=(at_most(4),))
_SELECTORS = Declared(first=(at_most(32),))
_EFFECT = one_of("None", "NoSchedule", "NoExecute")


def _pool(new: Any, _: Any, path: Path) -> Iterator[FieldError]:
    return declared_pool_name(new, path)


def _attribute(new: Any, _: Any, path: Path) -> Iterator[FieldError]:
    return fully_qualified_name(new, path)


_DRIVER = Declared(first=(needed,), rules=(_CASELESS, characters(DRIVER_MAX)))
_POOL = Declared(first=(needed,), rules=(_pool,))
_SHARE = Declared(pointer=True, rules=(spelled(names.uuid),))
_OPAQUE = Declared(pointer=True, fields={"driver": _DRIVER})
_TAINT = Declared(fields={"effect": Declared(first=(needed,), rules=(_EFFECT,))})
_TOLERATIONS = Declared(
    items=Declared(
        fields={
            "key": Declared(rules=(spelled(names.qualified_name),)),
            "operator": Declared(rules=(one_of("Exists", "Equal"),)),
            "effect": Declared(rules=(_EFFECT,)),
        }
    )
)

# Slices.

_COUNTERS = Declared(first=(needed,), rules=(_LABEL,))
_NAMED = Declared(first=(needed,), rules=(_LABEL,))
_VALUE = Declared(
    rules=(one_member("int", "bool", "string", "version", "ints", "bools", "strings", "versions"),)
)
_DEVICE = Declared(
    fields={
        "attributes": Declared(values=_VALUE),
        "consumesCounters": Declared(
            first=(at_most(2),),
            rules=(unique("counterSet"),),
            items=Declared(fields={"counterSet": _NAMED, "counters": _COUNTERS}),
            keys=("counterSet",),
        ),
        "taints": Declared(items=_TAINT),
        "bindingConditions": _CONDITIONS,
        "bindingFailureConditions": _CONDITIONS,
    }
)
RESOURCE_SLICE = Declared(
    fields={
        "spec": Declared(
            fields={
                "devices": Declared(items=_DEVICE, keys=("name",)),
                "sharedCounters": Declared(
                    first=(at_most(8),),
                    rules=(unique("name"),),
                    items=Declared(fields={"name": _NAMED, "counters": _COUNTERS}),
                    keys=("name",),
                ),
            }
        )
    }
)

# Claims.

_ASKED = {
    "selectors": _SELECTORS,
    "allocationMode": Declared(rules=(one_of("ExactCount", "All"),)),
    "tolerations": _TOLERATIONS,
}
_CLASS = Declared(first=(needed,), rules=(spelled(names.dns1123_subdomain),))
_REQUEST = Declared(
    fields={
        "exactly": Declared(pointer=True, fields=_ASKED),
        "firstAvailable": Declared(
            first=(at_most(8),),
            rules=(unique("name"),),
            items=Declared(fields={"deviceClassName": _CLASS, **_ASKED}),
        ),
    }
)
_CONSTRAINT = Declared(
    fields={
        "requests": _REFERENCES,
        "matchAttribute": Declared(pointer=True, rules=(_attribute,)),
    }
)
_CLAIM_FIELDS = {
    "devices": Declared(
        fields={
            "requests": Declared(first=(at_most(32),), rules=(unique("name"),), items=_REQUEST),
            "constraints": Declared(first=(at_most(32),), items=_CONSTRAINT),
            "config": Declared(
                first=(at_most(32),),
                items=Declared(fields={"requests": _REFERENCES, "opaque": _OPAQUE}),
            ),
        }
    )
}
_RESULT = Declared(
    fields={
        "driver": _DRIVER,
        "pool": _POOL,
        "tolerations": _TOLERATIONS,
        "bindingConditions": _CONDITIONS,
        "bindingFailureConditions": _CONDITIONS,
        "shareID": _SHARE,
    }
)
_GIVEN_SETTINGS = Declared(
    fields={
        "source": Declared(first=(needed,), rules=(one_of("FromClass", "FromClaim"),)),
        "requests": _REFERENCES,
        "opaque": _OPAQUE,
    }
)
_ALLOCATED = Declared(
    fields={
        "results": Declared(first=(at_most(32),), items=_RESULT),
        "config": Declared(first=(at_most(64),), items=_GIVEN_SETTINGS),
    }
)
_NETWORK = Declared(
    pointer=True,
    fields={
        "interfaceName": Declared(rules=(octets(256),)),
        "ips": Declared(first=(at_most(16),), rules=(unique(),)),
        "hardwareAddress": Declared(rules=(octets(128),)),
    },
)
_IDENTITY = ("driver", "device", "pool", "shareID")
_STATUS = Declared(
    fields={
        "allocation": Declared(first=(unmodified,), pointer=True, fields={"devices": _ALLOCATED}),
        "reservedFor": Declared(first=(at_most(256),), rules=(unique("uid"),), keys=("uid",)),
        "devices": Declared(
            rules=(unique(*_IDENTITY),),
            items=Declared(fields={"shareID": _SHARE, "networkData": _NETWORK}),
            keys=_IDENTITY,
        ),
    }
)
RESOURCE_CLAIM = Declared(
    fields={"spec": Declared(first=(immutable,), fields=_CLAIM_FIELDS), "status": _STATUS}
)
RESOURCE_CLAIM_TEMPLATE = Declared(
    fields={"spec": Declared(fields={"spec": Declared(fields=_CLAIM_FIELDS)})}
)

# Classes and rules.

DEVICE_CLASS = Declared(
    fields={
        "metadata": Declared(fields={"name": Declared(rules=(spelled(names.dns1123_subdomain),))}),
        "spec": Declared(
            fields={
                "selectors": _SELECTORS,
                "config": Declared(
                    first=(at_most(32),), items=Declared(fields={"opaque": _OPAQUE})
                ),
                "extendedResourceName": Declared(pointer=True, rules=(spelled(extended_resource),)),
            }
        ),
    }
)
DEVICE_TAINT_RULE = Declared(fields={"spec": Declared(fields={"taint": _TAINT})})

# Questions about pools.

_COUNT = Declared(pointer=True, rules=(at_least(0),))
_TOLD_COUNT = Declared(first=(present,), rules=(at_least(0),), pointer=True)
_SUMMARY = Declared(
    pointer=True,
    fields={
        "fullyAvailableDevices": _TOLD_COUNT,
        "partiallyAvailableDevices": _TOLD_COUNT,
        "capacity": Declared(first=(at_most(32),)),
    },
)
_PARTITION = Declared(
    fields={
        "attribute": Declared(first=(needed,)),
        "type": Declared(first=(needed,)),
        "total": _TOLD_COUNT,
        "allocatable": _TOLD_COUNT,
    }
)
_POOL_STATUS = Declared(
    fields={
        "driver": Declared(first=(needed,), rules=(_CASELESS,)),
        "poolName": _POOL,
        "generation": Declared(rules=(at_least(0),)),
        "resourceSliceCount": Declared(pointer=True, rules=(at_least(1),)),
        "totalDevices": _COUNT,
        "allocatedDevices": _COUNT,
        "availableDevices": _COUNT,
        "unavailableDevices": _COUNT,
        "nodeName": Declared(pointer=True, rules=(spelled(names.dns1123_subdomain),)),
        "validationError": Declared(pointer=True, rules=(octets(256),)),
        "partitionSummary": Declared(
            first=(at_most(32),), rules=(unique("attribute", "type"),), items=_PARTITION
        ),
        "shareableSummary": _SUMMARY,
    }
)
POOL_STATUS_REQUEST = Declared(
    fields={
        "spec": Declared(
            first=(immutable,),
            fields={
                "driver": Declared(first=(needed,), rules=(_CASELESS,)),
                "poolName": Declared(pointer=True, rules=(_pool,)),
                "limit": Declared(pointer=True, rules=(at_least(1), no_more_than(1000))),
            },
        ),
        "status": Declared(
            pointer=True,
            fields={
                "poolCount": _TOLD_COUNT,
                "pools": Declared(first=(at_most(1000),), items=_POOL_STATUS),
                "conditions": Declared(
                    first=(at_most(10),), rules=(unique("type"),), keys=("type",)
                ),
            },
        ),
    }
)
