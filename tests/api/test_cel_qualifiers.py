"""The parts that CEL expressions select, of dynamic and of typed values. The results are those of
cel-go 0.29 in the environment of Kubernetes 1.37."""

from __future__ import annotations

import pytest

from kapiserver.api.apiextensions.cel.schema_types import cel_type_of
from kapiserver.api.apiextensions.schema.structural import Structural
from kapiserver.api.cel import cel_types as k
from kapiserver.api.cel.lexer import RESERVED, TOKENS
from kapiserver.api.cel.program import CompileError, compile_expression

LIMIT = 1_000_000


def evaluate(expression, value, cel_type=k.DYN):
    result = compile_expression(expression, {"x": cel_type}).evaluate({"x": value}, LIMIT)
    return result.value if result.failure is None else result.failure


WITHOUT_PARTS = [
    "null",
    "true",
    "1",
    "1u",
    "1.5",
    "'s'",
    "b's'",
    "timestamp(0)",
    "int",
    "ip('::1')",
]
OF_NOTHING = {
    "has({}.f)": False,
    "{}.f": "no such key: f",
    "has({}.f.g)": "no such key: f",
    "{}['f']": "no such key: f",
    "{}[0]": "no such key: 0",
    "{}[1.5]": "no such key: 1.5",
    "{}[true]": "no such key: true",
    "{}.?f.orValue(1)": 1,
    "{}.?f.g.orValue(1)": 1,
    "{}[?'f'].orValue(1)": 1,
    "{}[?0].orValue(1)": 1,
    "{}[dyn(null)]": "invalid qualifier type: types.Null",
}


@pytest.mark.parametrize("expression", OF_NOTHING)
def test_values_without_parts(expression):
    """A dynamic value that is neither a list nor a map has no part."""
    for value in WITHOUT_PARTS:
        assert evaluate(expression.format(f"dyn({value})"), None) == OF_NOTHING[expression], value
    for plain in (None, True, 1, 1.5, "s"):
        assert evaluate(expression.format("x"), plain) == OF_NOTHING[expression], plain


WITH_PARTS = {
    # (expression, value): result
    ("has(x.f)", (("f", 1),)): True,
    ("has(x.f)", (("f", None),)): True,
    ("x.f == null", (("f", None),)): True,
    ("has(x.f)", ()): False,
    ("has(x.f.g)", (("f", None),)): False,
    ("x.?f.?g.orValue(2)", (("f", None),)): 2,
    ("x.?f.hasValue()", (("f", None),)): True,
    ("x[?0].orValue(2)", (("f", 1),)): 2,
    ("x[1.0]", ()): "no such key: 1",
    ("dyn({1: 2})[1u]", ()): 2,
    ("dyn({1: 2})[1.0]", ()): 2,
    ("dyn(['a', 'b'])[1.0]", ()): "b",
    ("dyn(['a', 'b'])[?1u].value()", ()): "b",
    ("dyn(['a'])[1]", ()): "index out of bounds: 1",
    ("dyn(['a'])[-1]", ()): "index out of bounds: -1",
    ("dyn(['a'])[?1].orValue('z')", ()): "z",
    ("dyn(['a'])[0.5]", ()): "unsupported index value 0.5 in list",
    ("dyn(['a'])[?0.5].orValue('z')", ()): "unsupported index value 0.5 in list",
    ("has(dyn(['a']).f)", ()): "unsupported index type 'string' in list",
    ("dyn(['a']).f", ()): "unsupported index type 'string' in list",
    ("dyn(['a']).?f.orValue('z')", ()): "unsupported index type 'string' in list",
    ("dyn(['a'])[?true].orValue('z')", ()): "unsupported index type 'bool' in list",
    ("dyn(optional.of({'f': 1}))[0].hasValue()", ()): False,
    ("dyn(optional.of({'f': 1})).f.hasValue()", ()): True,
    ("dyn(optional.of(1)).f.hasValue()", ()): False,
    ("has(dyn(optional.none()).f)", ()): False,
    ("x.?f.orValue(2) == null", (("f", None),)): True,
    ("x.?f.orValue([]) == 'a'", (("f", "a"),)): True,
    ("x.?f.or(optional.of(1)).value() == 'a'", (("f", "a"),)): True,
    ("([1] + [dyn('a')])[1] == 'a'", ()): True,
}


@pytest.mark.parametrize(("expression", "entries"), WITH_PARTS)
def test_lists_maps_and_optionals(expression, entries):
    """A list has items at whole numbers of any type; a map has entries, null is one of them."""
    assert evaluate(expression, dict(entries)) == WITH_PARTS[expression, entries]


def schema(**properties):
    return {"type": "object", "properties": properties}


STRING = {"type": "string", "nullable": True}
NULLS = schema(
    text=STRING,
    map={"type": "object", "additionalProperties": STRING},
    object={**schema(a={"type": "integer"}), "nullable": True},
    list={"type": "array", "items": STRING},
)
OF_NULLS = {
    "has(x.text)": False,
    "x.text": "no such key: text",
    "x.?text.orValue('d')": "d",
    "has(x.object)": False,
    "has(x.object.a)": "no such key: object",
    "x.?object.a.orValue(1)": 1,
    "has(x.map.a)": True,
    "x.map.a": None,
    "x.?map.a.hasValue()": True,
    "x.list[0]": None,
    "x.list[?0].hasValue()": True,
}


@pytest.mark.parametrize("expression", OF_NULLS)
def test_null_in_typed_objects(expression):
    """A field of a typed object that is null counts as absent, a null in a map or list does not."""
    value = {"text": None, "map": {"a": None}, "object": None, "list": [None]}
    cel_type = cel_type_of(Structural(NULLS), is_root=False)
    assert evaluate(expression, value, cel_type) == OF_NULLS[expression]


def test_indexes_of_typed_lists():
    """The index of a list whose type is known is an int."""
    for index in ("0u", "1.0", "'a'", "true"):
        with pytest.raises(CompileError, match="found no matching overload for '_"):
            evaluate(f"[1, 2][{index}]", None)


@pytest.mark.parametrize("word", sorted(RESERVED | TOKENS))
def test_reserved_words(word):
    """A field named as a word of CEL is accessible as `__word__`, in backticks and, unless the
    grammar needs the word, as it is. A field without that name is undefined in all forms."""
    named = cel_type_of(Structural(schema(**{word: {"type": "string"}})), is_root=False)
    other = cel_type_of(Structural(schema(a={"type": "string"})), is_root=False)
    value = {word: "v"}
    forms = [f"__{word}__", f"`{word}`"] + [word] * (word in RESERVED)
    for form in forms:
        assert evaluate(f"x.{form}", value, named) == "v"
        assert evaluate(f"x.?{form}.orValue('d')", {}, named) == "d"
        assert evaluate(f"has(x.{form}) && x.{form}.size() == 1", value, named) is True
        assert evaluate(f"has(x.{form})", {}, named) is False
        with pytest.raises(CompileError, match=f"undefined field '{form.strip('`')}'"):
            evaluate(f"x.{form}", {}, other)
    assert evaluate(f"x.`{word}`", value) == "v"
    assert evaluate(f"has(x.__{word}__)", value) is False  # a dynamic value has the name itself
    if word in TOKENS:
        with pytest.raises(CompileError, match=f"1:3: Syntax error: .* at input '.{word}'"):
            evaluate(f"x.{word}", value)
    else:
        assert evaluate(f"x.{word}", value) == "v"
        for expression in (word, f"{word}()", f"[1].all({word}, true)"):
            with pytest.raises(CompileError, match=f"reserved identifier: {word}"):
                evaluate(expression, value)
