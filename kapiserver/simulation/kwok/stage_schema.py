"""The schema of the spec of a Stage. Mirrors stage_types.go of kwok's pkg/apis/v1alpha1."""

from __future__ import annotations

from kapiserver.simulation.kwok.schemas import count, flag, items, mapping, record, text, texts

_PATCH_TYPES = ("json", "merge", "strategic")
_APPLY_TYPES = ("apply", "merge", "strategic")

_CEL = record(
    "An expression of CEL about the object `self`.",
    {"expression": text("The text of the expression.")},
)
_EXPRESSION_FROM = {
    "expressionFrom": text("An expression of jq about the object. `jq` has replaced it."),
    "jq": record(
        "An expression of jq about the object.",
        {"expression": text("The text of the expression.")},
    ),
    "cel": _CEL,
}
_REQUIREMENT = {
    "key": text("An expression of jq about the object, whose results are compared."),
    "operator": text("How the results are compared: In, NotIn, Exists or DoesNotExist."),
    "values": texts("The values for In and NotIn; none for Exists and DoesNotExist."),
}
_IMPERSONATION = record(
    "The user who makes the request; kwok itself if there is none.",
    {"username": text("The name of the user.")},
    required=("username",),
)
_EVENT = record(
    "An event about the object.",
    {
        "type": text("Normal or Warning."),
        "reason": text("Why it happened, as one word."),
        "message": text("What happened."),
    },
)
_FINALIZER = record("", {"value": text("The name of the finalizer.")})
_FINALIZERS = record(
    "A change of the finalizers of the object.",
    {
        "add": items("Finalizers to add.", _FINALIZER),
        "remove": items("Finalizers to remove.", _FINALIZER),
        "empty": flag("Whether all finalizers are removed."),
    },
)
_PATCH = record(
    "A patch of the object.",
    {
        "subresource": text("The subresource that is patched; the object itself if it is empty."),
        "root": text("The field that holds what the template makes; the whole object if empty."),
        "template": text("A Go template whose output is YAML."),
        "type": text(
            "The type of the patch. By default it is strategic for nodes and pods, and merge for "
            "other kinds.",
            *_PATCH_TYPES,
        ),
        "impersonation": _IMPERSONATION,
    },
)
_APPLY = record(
    "Another object that is created, or changed if it exists.",
    {
        "subresource": text("The subresource that is written, of an object that exists."),
        "template": text("A Go template whose output is an object in YAML."),
        "type": text("How an object that exists is changed. Default: apply.", *_APPLY_TYPES),
        "impersonation": _IMPERSONATION,
    },
)
_NEXT = record(
    "What happens to the object. `steps` has replaced it.",
    {
        "event": _EVENT,
        "finalizers": _FINALIZERS,
        "delete": flag("Whether the object is deleted."),
        "patches": items("Patches of the object.", _PATCH),
        "statusTemplate": text("A Go template of the status. `patches` has replaced it."),
        "statusSubresource": text("The subresource for `statusTemplate`.", default="status"),
        "statusPatchAs": _IMPERSONATION,
    },
)
_STEP = record(
    "",
    {
        "event": _EVENT,
        "finalizers": _FINALIZERS,
        "delete": flag("Whether the object is deleted."),
        "patch": _PATCH,
        "apply": _APPLY,
    },
)

STAGE = record(
    "When a stage applies to an object, and what it does.",
    {
        "resourceRef": record(
            "The kind of the objects.",
            {
                "apiGroup": text("The group and version, such as apps/v1.", default="v1"),
                "kind": text("The kind, such as Pod."),
            },
            required=("kind",),
        ),
        "selector": record(
            "The objects that the stage applies to: all requirements must hold. An empty selector "
            "selects all objects, a missing one none.",
            {
                "matchLabels": mapping("Labels that the object has."),
                "matchAnnotations": mapping("Annotations that the object has."),
                "matchExpressions": items(
                    "Expressions that hold for the object.",
                    record("", _REQUIREMENT | {"jq": record("", _REQUIREMENT), "cel": _CEL}),
                ),
            },
        ),
        "weight": count("How likely the stage is among those that apply.", default=0),
        "weightFrom": record("The weight, from the object.", _EXPRESSION_FROM),
        "delay": record(
            "How long the stage waits.",
            {
                "durationMilliseconds": count("The least delay."),
                "durationFrom": record("The least delay, from the object.", _EXPRESSION_FROM),
                "jitterDurationMilliseconds": count("The end of the range of random delays."),
                "jitterDurationFrom": record("That end, from the object.", _EXPRESSION_FROM),
            },
        ),
        "next": _NEXT,
        "immediateNextStage": flag("Whether the next stage is chosen without waiting for a watch."),
        "steps": items("What happens to the object, in order.", _STEP),
    },
    required=("resourceRef",),
)
