"""Lists encoded as text in chunks, compared with the same lists encoded at once."""

import itertools

import orjson
import pytest

from kapiserver.codecs import json, yaml
from kapiserver.codecs.streaming_lists import COMPACT, INDENTED, stream_json_list, stream_yaml_list

HEAD = {
    "kind": "ThingList",
    "apiVersion": "v1",
    "metadata": {"resourceVersion": "7", "continue": 'items: []\nrows: []\n"items": []'},
    "items": [],
}
ITEMS = (
    {"metadata": {"name": "a"}, "spec": {"list": [1, {"b": [2, [3]]}], "empty": {}, "none": None}},
    {},
    {"text": "one\n\n  two\n", "kept": "end\n\n\n", "folded": "x " * 100, "quoted": "a: b # c"},
    {"lead": "  in\n out", "tab": "\ttab\n", "last": "…\nline\n\n", "float": 1.5, "mark": "<&>"},
    {"zz": "open end\n\n"},
    {"only": "...\n"},
)
LISTS = [(), *((item,) for item in ITEMS), *itertools.permutations(ITEMS, 2), ITEMS]


@pytest.mark.parametrize("items", LISTS)
def test_chunks_make_the_document(items):
    """The joined chunks equal the document."""
    whole = {**HEAD, "items": list(items)}
    for order in (0, json.SORT_KEYS):
        plain = json.encode_value(whole, option=order) + b"\n"
        assert b"".join(stream_json_list(HEAD, "items", items, COMPACT, sort_option=order)) == plain
        indented = json.encode_value(whole, option=orjson.OPT_INDENT_2 | order)
        assert (
            b"".join(stream_json_list(HEAD, "items", items, INDENTED, sort_option=order))
            == indented
        )
    assert b"".join(stream_yaml_list(HEAD, "items", items)) == yaml.encode_value(whole)


def test_members_in_yaml():
    """YAML sorts keys, so `rows` follows the other members."""
    head = {"kind": "Table", "apiVersion": "v1", "rows": []}
    rows = [{"cells": ["a", 1]}, {"cells": []}]
    whole = yaml.encode_value({**head, "rows": rows})
    assert b"".join(stream_yaml_list(head, "rows", iter(rows))) == whole
