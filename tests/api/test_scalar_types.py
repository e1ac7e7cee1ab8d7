"""Scalar types: canonical values and wire messages."""

from __future__ import annotations

import base64
import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kapiserver.api import quantity
from kapiserver.api.scalar_types import (
    Duration,
    FieldsV1,
    IntOrString,
    MicroTime,
    Quantity,
    RawExtension,
    StringList,
    Time,
)
from kapiserver.api.types import ScalarType

FORM = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"

CANONICAL: list[tuple[type[ScalarType], Any, Any]] = [
    # Decimal: the largest suffix without a fraction.
    (Quantity, None, "0"),
    (Quantity, "0", "0"),
    (Quantity, "0.0", "0"),
    (Quantity, "-0", "0"),
    (Quantity, "m", "0"),
    (Quantity, "1", "1"),
    (Quantity, "1000m", "1"),
    (Quantity, "100m", "100m"),
    (Quantity, "0.5", "500m"),
    (Quantity, ".5", "500m"),
    (Quantity, "1.5", "1500m"),
    (Quantity, "1.2345", "1234500u"),
    (Quantity, "-1.5", "-1500m"),
    (Quantity, "1000k", "1M"),
    (Quantity, "1000E", "1e21"),
    (Quantity, "18446744073709551616", "18446744073709551616"),
    (Quantity, "100000000000000000000", "100E"),
    (Quantity, " 1 ", "1"),
    # Finer than nano rounds away from zero.
    (Quantity, "0.9n", "1n"),
    (Quantity, "-0.9n", "-1n"),
    (Quantity, "0.0000000001", "1n"),
    (Quantity, "1e-1000000", "1e-9"),
    (Quantity, "1e400", "10e399"),
    (Quantity, "1e2147483647", "10e2147483646"),
    (Quantity, "0e-2147483647", "0"),
    (Quantity, "9" * 30, "9" * 30),
    (Quantity, "9" * 4000 + "00", "9" * 3999 + "900"),
    # Exponents keep their form.
    (Quantity, "1e3", "1e3"),
    (Quantity, "1E3", "1E3"),
    (Quantity, "1e4", "10e3"),
    (Quantity, "1000e3", "1e6"),
    (Quantity, "1e0", "1e0"),
    # Binary.
    (Quantity, "1Ki", "1Ki"),
    (Quantity, "1024Ki", "1Mi"),
    (Quantity, "1.5Gi", "1536Mi"),
    (Quantity, "0.5Ki", "512"),
    (Quantity, "0.1Ki", "102400m"),
    (Quantity, "8Ei", "9223372036854775807"),
    (Quantity, "-8Ei", "-9223372036854775807"),
    (Quantity, "2Ei", "2Ei"),
    # Texts in these forms are not changed.
    (Quantity, "1.500", "1.500"),
    (Quantity, "+5Gi", "+5Gi"),
    (Quantity, "007", "007"),
    (Quantity, "1.", "1."),
    # Numbers.
    (Quantity, 2, "2"),
    (Quantity, 0.5, "500m"),
    (Quantity, 10**20, "100E"),
    (Time, None, None),
    (Time, "2024-02-29T23:59:59Z", "2024-02-29T23:59:59Z"),
    (Time, "2024-01-02T03:04:05.999Z", "2024-01-02T03:04:05Z"),
    (Time, "2024-01-02T03:04:05+02:00", "2024-01-02T01:04:05Z"),
    (Time, "2024-01-01T00:30:00+01:00", "2023-12-31T23:30:00Z"),
    (Time, "0001-01-01T00:00:00Z", None),
    (Time, "0999-01-01T00:00:00Z", "0999-01-01T00:00:00Z"),
    (MicroTime, None, None),
    (MicroTime, "2024-01-02T03:04:05.123456Z", "2024-01-02T03:04:05.123456Z"),
    (MicroTime, "2024-01-02T03:04:05.000000-01:00", "2024-01-02T04:04:05.000000Z"),
    (MicroTime, "0001-01-01T00:00:00.000000Z", None),
    (Duration, None, "0s"),
    (Duration, "0", "0s"),
    (Duration, "90s", "1m30s"),
    (Duration, "1.5h", "1h30m0s"),
    (Duration, "1h2m3s", "1h2m3s"),
    (Duration, "1500ms", "1.5s"),
    (Duration, "1500us", "1.5ms"),
    (Duration, "1us", "1\N{MICRO SIGN}s"),
    (Duration, "3ns", "3ns"),
    (Duration, "-2m", "-2m0s"),
    (Duration, "+.5s", "500ms"),
    (IntOrString, None, 0),
    (IntOrString, 80, 80),
    (IntOrString, -1, -1),
    (IntOrString, "http", "http"),
    (IntOrString, "80", "80"),
    (RawExtension, None, None),
    (RawExtension, {"a": [1]}, {"a": [1]}),
    (FieldsV1, {"f:spec": {}}, {"f:spec": {}}),
    (StringList, None, None),
    (StringList, [], []),
    (StringList, ["get", None], ["get", ""]),
]


@pytest.mark.parametrize(("leaf", "value", "expected"), CANONICAL)
def test_canonical(leaf: type[ScalarType], value: Any, expected: Any) -> None:
    """The canonical value equals the one that Go writes; canonical values do not change."""
    canonical = leaf.canonical(value)
    assert canonical == expected
    assert type(canonical) is type(expected)
    assert leaf.canonical(canonical) == expected


@pytest.mark.parametrize(("leaf", "value", "expected"), CANONICAL)
def test_wire(leaf: type[ScalarType], value: Any, expected: Any) -> None:
    """The message of a canonical value decodes to that value."""
    message = leaf.to_message(leaf.canonical(value))
    assert set(message) <= {decoded.name for decoded in leaf.fields()}
    assert leaf.from_message(message) == (expected if leaf is not StringList else expected or [])


ARABIC = "\u0662\u0660\u0662\u0664-01-02T00:00:00Z"
ARABIC_BYTES = r"\xd9\xa2\xd9\xa0\xd9\xa2\xd9\xa4-01-02T00:00:00Z"

REFUSED: list[tuple[type[ScalarType], Any, str]] = [
    (Quantity, "", FORM),
    (Quantity, "one", FORM),
    (Quantity, "1 Gi", FORM),
    (Quantity, "1.2.3", FORM),
    (Quantity, True, FORM),
    (Quantity, {}, FORM),
    (Quantity, "1Kii", "unable to parse quantity's suffix"),
    (Quantity, "1e", "unable to parse quantity's suffix"),
    (Quantity, "1e99999999999", "unable to parse quantity's suffix"),
    (Quantity, "1000e2147483645", "unable to parse quantity's suffix"),
    (Quantity, "9" * 4001, "unable to parse numeric part of quantity"),
    (Quantity, "9" * 5000, "unable to parse numeric part of quantity"),
    (
        Time,
        ARABIC,
        f'parsing time "{ARABIC_BYTES}" as "2006-01-02T15:04:05Z07:00": '
        f'cannot parse "{ARABIC_BYTES}" as "2006"',
    ),
    (Time, 5, "json: cannot unmarshal number into Go value of type string"),
    (
        Time,
        "",
        'parsing time "" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "2006"',
    ),
    (
        Time,
        "2024-01-02",
        'parsing time "2024-01-02" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T"',
    ),
    (Time, "2024-13-02T00:00:00Z", 'parsing time "2024-13-02T00:00:00Z": month out of range'),
    (Time, "2023-02-29T00:00:00Z", 'parsing time "2023-02-29T00:00:00Z": day out of range'),
    (
        Time,
        "2024-01-02T00:00:00Zx",
        'parsing time "2024-01-02T00:00:00Zx": extra text: "x"',
    ),
    (
        MicroTime,
        "2024-01-02T03:04:05Z",
        'parsing time "2024-01-02T03:04:05Z" as "2006-01-02T15:04:05.000000Z07:00": '
        'cannot parse "Z" as ".000000"',
    ),
    (Duration, "", 'time: invalid duration ""'),
    (Duration, "5", 'time: missing unit in duration "5"'),
    (Duration, "5d", 'time: unknown unit "d" in duration "5d"'),
    (Duration, "9999999h", 'time: invalid duration "9999999h"'),
    (Duration, 1, "json: cannot unmarshal number into Go value of type string"),
    (IntOrString, 2**31, "json: cannot unmarshal number 2147483648 into Go value of type int32"),
    (IntOrString, 1.5, "json: cannot unmarshal number 1.5 into Go value of type int32"),
    (IntOrString, True, "json: cannot unmarshal bool into Go value of type int32"),
    (StringList, "get", "json: cannot unmarshal string into Go value of type []string"),
    (StringList, [1], "json: cannot unmarshal number into Go value of type string"),
]


@pytest.mark.parametrize(("leaf", "value", "words"), REFUSED)
def test_invalid_values(leaf: type[ScalarType], value: Any, words: str) -> None:
    """An invalid value raises ValueError with Go's message."""
    with pytest.raises(ValueError, match=r".*") as caught:
        leaf.canonical(value)
    assert str(caught.value) == words


MESSAGES: list[tuple[type[ScalarType], Any, dict[str, Any]]] = [
    (Time, "1970-01-01T00:00:01Z", {"seconds": 1, "nanos": 0}),
    (Time, "1969-12-31T23:59:59Z", {"seconds": -1, "nanos": 0}),
    (MicroTime, "1970-01-01T00:00:00.000001Z", {"seconds": 0, "nanos": 1000}),
    (Time, None, {}),
    (Duration, "1.5s", {"duration": 1_500_000_000}),
    (Quantity, "100m", {"string": "100m"}),
    (IntOrString, 80, {"type": 0, "intVal": 80, "strVal": ""}),
    (IntOrString, "http", {"type": 1, "intVal": 0, "strVal": "http"}),
    (RawExtension, {"b": 1, "a": 2}, {"raw": base64.b64encode(b'{"b":1,"a":2}').decode()}),
    (FieldsV1, None, {}),
]


@pytest.mark.parametrize(("leaf", "value", "message"), MESSAGES)
def test_messages(leaf: type[ScalarType], value: Any, message: dict[str, Any]) -> None:
    """A canonical value is encoded as this message, which decodes to the value."""
    assert leaf.to_message(value) == message
    assert leaf.from_message(message) == value


def test_invalid_messages() -> None:
    """An invalid message raises ValueError and no other exception."""
    not_json = base64.b64encode(b"k8s\0").decode()
    for leaf, message in (
        (Time, {"seconds": 2**62}),
        (MicroTime, {"seconds": -(2**62), "nanos": 7}),
        (RawExtension, {"raw": not_json}),
        (Quantity, {"string": "one"}),
    ):
        with pytest.raises(ValueError, match=r"."):
            leaf.from_message(message)


def test_long_texts_are_parsed_in_linear_time() -> None:
    """A megabyte of digits or units is parsed quickly and not cached."""
    assert Duration.canonical("0s" * 500_000) == "0s"
    assert Quantity.canonical("0" * 1_000_000 + "1000m") == "1"
    assert Time.canonical(f"2024-01-02T03:04:05.{'9' * 1_000_000}Z") == "2024-01-02T03:04:05Z"


@pytest.mark.parametrize(
    ("text", "is_integer", "value", "milli_value"),
    [
        ("1500m", False, 2, 1500),
        ("-1500m", False, -2, -1500),
        ("1n", False, 1, 1),
        ("2Ki", True, 2048, 2_048_000),
        ("1e16", True, 10**16, 2**63 - 1),
        ("-1e400", True, -(2**63) + 1, -(2**63) + 1),
        ("0", True, 0, 0),
    ],
)
def test_scaled_quantities(text: str, is_integer: bool, value: int, milli_value: int) -> None:
    """Values in other units are rounded away from zero and limited to 64 bits."""
    amount = quantity.parse(text)
    assert amount.is_integer is is_integer
    assert (amount.scaled(0), amount.scaled(-3)) == (value, milli_value)


def test_sums_can_be_parsed() -> None:
    """The text of a sum or difference is a quantity, whatever the exponents."""
    largest, smallest = quantity.parse("9e2147483647"), quantity.parse("1n")
    for left, right in itertools.product((largest, smallest), repeat=2):
        for amount in (quantity.add(left, right), quantity.subtract(left, right)):
            quantity.parse(str(amount))
    sum_ = quantity.add(quantity.parse("1Ki"), quantity.parse(str(2**80 - 1024)))
    assert str(sum_) == "1048576Ei"


@settings(max_examples=200)
@given(st.text("0123456789.+-eEinumkKMGTP", max_size=24))
def test_canonical_quantity_keeps_the_amount(text: str) -> None:
    """The canonical text of a quantity has the same amount and is its own canonical text."""
    try:
        amount = quantity.parse(text)
    except ValueError:
        return
    reparsed = quantity.parse(str(amount))
    assert str(reparsed) == str(amount)
    assert (
        reparsed.mantissa * 10 ** max(reparsed.scale - amount.scale, 0)
        == amount.mantissa * 10 ** max(amount.scale - reparsed.scale, 0)
        or max(abs(reparsed.scale), abs(amount.scale)) > 10**4
    )


@settings(max_examples=200)
@given(st.integers(-(2**63) + 1, 2**63 - 1))
def test_durations_round_trip(nanos: int) -> None:
    """Every duration round-trips through its text."""
    text = Duration.from_message({"duration": nanos})
    assert Duration.to_message(text) == {"duration": nanos}
    assert Duration.canonical(text) == text


@settings(max_examples=200)
@given(st.integers(-62135596799, 253402300799))
def test_times_round_trip(seconds: int) -> None:
    """Every second of the years 1 to 9999 round-trips through its text."""
    text = Time.from_message({"seconds": seconds})
    assert Time.canonical(text) == text
    assert Time.to_message(text) == {"seconds": seconds, "nanos": 0}
