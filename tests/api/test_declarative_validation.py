"""Declarative validation: order of errors, ratcheting, and precedence over handwritten errors."""

import pytest

from kapiserver.api import declarative_validation, names
from kapiserver.api.declarative_validation import ABSENT, FieldRules, merge_errors
from kapiserver.api.errors import Path, forbidden, invalid, required
from tests.objects import texts, write_errors

NAMED = FieldRules(
    short_circuit=(declarative_validation.required_value,),
    rules=(declarative_validation.text_format(names.dns1123_label),),
)
ITEMS = FieldRules(
    short_circuit=(declarative_validation.max_items(2),),
    rules=(declarative_validation.unique("name"),),
    items=FieldRules(
        fields={"name": NAMED, "count": FieldRules(rules=(declarative_validation.minimum(1),))}
    ),
    keys=("name",),
)
SPEC = FieldRules(
    fields={
        "fixed": FieldRules(
            short_circuit=(declarative_validation.immutable, declarative_validation.required_value)
        ),
        "once": FieldRules(short_circuit=(declarative_validation.no_modify,)),
        "word": FieldRules(rules=(declarative_validation.enum("a", "b"),)),
        "long": FieldRules(
            rules=(declarative_validation.max_length(2), declarative_validation.max_bytes(3))
        ),
        "items": ITEMS,
        "keys": FieldRules(rules=(declarative_validation.text_format(names.dns1123_label),)),
        "part": FieldRules(pointer=True, fields={"name": NAMED}),
        "zero": FieldRules(pointer=True, rules=(declarative_validation.minimum(1),)),
        "union": FieldRules(pointer=True, rules=(declarative_validation.union("x", "y"),)),
    }
)
KIND = FieldRules(fields={"spec": SPEC})
LABEL = names.dns1123_label("B")[0]

NEW = [
    ({}, ["spec.fixed: Required value"]),
    ({"fixed": "f"}, []),
    ({"fixed": "f", "word": ""}, []),
    ({"fixed": "f", "word": "c"}, [
        'spec.word: Unsupported value: "c": supported values: "a", "b"'
    ]),
    ({"fixed": "f", "long": "\u00e9\u00e9\u00e9"}, [
        "spec.long: Too long: may not be more than 2 characters",
        "spec.long: Too long: may not be more than 3 bytes",
    ]),
    ({"fixed": "f", "items": [{"name": "a", "count": -1}, {"name": "a"}]}, [
        'spec.items[1]: Duplicate value: {"name":"a"}',
        "spec.items[0].count: Invalid value: -1: must be greater than or equal to 1",
    ]),
    ({"fixed": "f", "items": [{}, {}, {}]}, ["spec.items: Too many: 3: must have at most 2 items"]),
    ({"fixed": "f", "items": [{"name": "B"}, {}]}, [
        f'spec.items[0].name: Invalid value: "B": {LABEL}',
        "spec.items[1].name: Required value",
    ]),
    ({"fixed": "f", "keys": {"B": 1}}, [f'spec.keys: Invalid value: "B": {LABEL}']),
    ({"fixed": "f", "part": {}}, ["spec.part.name: Required value"]),
    ({"fixed": "f", "zero": 0}, [
        "spec.zero: Invalid value: 0: must be greater than or equal to 1"
    ]),
    ({"fixed": "f", "union": {}}, [
        'spec.union: Invalid value: "": must specify one of: `x`, `y`'
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "messages"), NEW)
def test_new(spec, messages):
    """A new object is validated by all rules, in the order of the fields."""
    assert texts(KIND.errors({"spec": spec})) == messages


CHANGED = [
    ({"fixed": "f"}, {"fixed": "g"}, ["spec.fixed: Invalid value: null: field is immutable"]),
    ({"fixed": "f"}, {}, [
        "spec.fixed: Invalid value: null: field is immutable",
        "spec.fixed: Required value",
    ]),
    ({}, {"word": "a"}, []),
    ({"word": "c"}, {"word": "c", "once": "x"}, []),
    ({"once": "x"}, {"once": "y"}, [
        "spec.once: Invalid value: null: field cannot be modified once set"
    ]),
    ({"once": "x"}, {}, []),
    ({"items": [{"name": "B"}]}, {"items": [{"name": "B", "count": -1}]}, [
        "spec.items[0].count: Invalid value: -1: must be greater than or equal to 1"
    ]),
    ({"items": [{"name": "B"}]}, {"items": [{"name": "a"}, {"name": "B"}]}, []),
    ({"union": {"x": 1, "y": 1}}, {"union": {"x": 2, "y": 1}}, []),
    ({"union": {"x": 1}}, {"union": {"x": 1, "y": 1}}, [
        'spec.union: Invalid value: "{x, y}": must specify exactly one of: `x`, `y`'
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "messages"), CHANGED)
def test_changed(old, new, messages):
    """An update does not validate unchanged values."""
    assert texts(KIND.errors({"spec": new}, {"spec": old})) == messages


MODES = declarative_validation.discriminated(
    "type",
    "part",
    {"A": declarative_validation.required_value, "B": declarative_validation.forbidden_value},
)


@pytest.mark.parametrize(
    ("old", "new", "messages"),
    [
        (ABSENT, {"type": "A"}, ["part: Required value"]),
        (ABSENT, {"type": "B", "part": {}}, ["part: Forbidden"]),
        (ABSENT, {"type": "C", "part": {}}, []),
        ({"type": "A"}, {"type": "A", "other": 1}, []),
        ({"type": "B"}, {"type": "A"}, ["part: Required value"]),
    ],
)
def test_discriminators(old, new, messages):
    """A discriminator decides which rule a field has; unchanged pairs are not validated."""
    assert texts(MODES(new, old, Path())) == messages


def test_precedence():
    """Declarative errors come last and replace handwritten errors of the same field, type and, for
    invalid values, detail."""
    a, b = Path("a"), Path("b")
    handwritten = [
        required(a, "so that it works"),
        invalid(a, 1, "must be more"),
        invalid(b, "x", "field is immutable"),
        invalid(b, "x", "must be y"),
        forbidden(b, "never"),
    ]
    declarative = [required(a), invalid(b, None, "field is immutable")]
    assert texts(merge_errors(handwritten, declarative)) == [
        "a: Invalid value: 1: must be more",
        'b: Invalid value: "x": must be y',
        "b: Forbidden: never",
        "a: Required value",
        "b: Invalid value: null: field is immutable",
    ]


NEGATIVE = "must be greater than or equal to 0"
TEMPLATE = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {
        "containers": [
            {
                "name": "c",
                "image": "i",
                "imagePullPolicy": "Always",
                "terminationMessagePolicy": "File",
                "resources": {},
            }
        ],
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
    },
}
CONTROLLER = {
    "metadata": {"name": "r", "namespace": "n"},
    "spec": {"replicas": -1, "minReadySeconds": -2, "selector": {}, "template": TEMPLATE},
}


def test_replication_controllers():
    """Declarative errors come after all others and replace duplicates; unchanged invalid numbers
    are reported by the handwritten rules."""
    missing_selector = "spec.selector: Required value"
    count = f"spec.replicas: Invalid value: -1: {NEGATIVE}"
    seconds = f"spec.minReadySeconds: Invalid value: -2: {NEGATIVE}"
    assert write_errors("replicationcontrollers", CONTROLLER) == [missing_selector, count, seconds]
    unchanged_errors = write_errors("replicationcontrollers", CONTROLLER, CONTROLLER)
    assert unchanged_errors == [seconds, missing_selector, count] * 2
    before = {**CONTROLLER, "spec": {**CONTROLLER["spec"], "replicas": 1}}
    assert write_errors("replicationcontrollers", CONTROLLER, before) == [
        seconds, missing_selector, seconds, missing_selector, count
    ]  # fmt: skip
