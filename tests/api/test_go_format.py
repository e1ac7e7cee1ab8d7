"""Values in messages, formatted as Go formats them."""

import pytest

from kapiserver.api.errors import Path, invalid
from kapiserver.api.go_format import go_value


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"),
        (True, "true"),
        (7, "7"),
        (1.5, "1.5"),
        (100000.0, "100000"),
        (1000000.0, "1e+06"),
        (123456789.5, "1.234567895e+08"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (-2.0, "-2"),
        (0.0, "0"),
        ("plain", '"plain"'),
        ("<a> & 'b' \"c\" \\", '"<a> & \'b\' \\"c\\" \\\\"'),
        ("\a\b\f\n\r\t\v\x00\x01\x7f", r'"\a\b\f\n\r\t\v\x00\x01\x7f"'),
        ("é\u00a0\u200b\u2028\U000e0001", r'"é\u00a0\u200b\u2028\U000e0001"'),
        ("\udcff", r'"\xff"'),
        ("\ufffd", '"\ufffd"'),
        (["<b>", 1.0, 1e6, None, True], r'["\u003cb\u003e",1,1000000,null,true]'),
        ({"a&b": {"c": "d\u2028\x01\n"}}, r'{"a\u0026b":{"c":"d\u2028\u0001\n"}}'),
        ({"é": "\udcff"}, '{"é":"\ufffd"}'),
    ],
)
def test_field_errors(value, shown):
    """Strings as `%q`, scalars as `%v`, anything else as json.Marshal."""
    assert str(invalid(Path("x"), value, "bad")) == f"x: Invalid value: {shown}: bad"


def test_values():
    """`%v` sorts maps and knows no quotes."""
    assert go_value({"b": [1, "x"], "a": 1.5e7}) == "map[a:1.5e+07 b:[1 x]]"
