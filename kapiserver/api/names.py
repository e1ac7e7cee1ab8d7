"""Checks of names, keys and numbers, with kube-apiserver's error messages.

Every check takes a value and returns error messages; an empty list means that the value is valid.
Checks take time linear in the length of the value, with no backtracking. Knows no field and no
kind. Mirrors k8s.io/apimachinery/pkg/util/validation.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from typing import TypeAlias

Check: TypeAlias = Callable[[str], list[str]]
"""Checks a string and returns error messages."""

_LOWER = frozenset(string.ascii_lowercase)
_DIGITS = frozenset(string.digits)
_LOWER_OR_DIGIT = _LOWER | _DIGITS
_LETTERS = frozenset(string.ascii_letters)
_ALPHANUMERIC = _LETTERS | _DIGITS
_LABEL = _LOWER_OR_DIGIT | {"-"}
_QUALIFIED = _ALPHANUMERIC | set("-_.")
_C_IDENTIFIER = _ALPHANUMERIC | {"_"}
_HTTP_HEADER = _ALPHANUMERIC | {"-"}

LABEL_MAX = 63
SUBDOMAIN_MAX = 253
PORT_NAME_MAX = 15

_LABEL_REGEX = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN_REGEX = rf"{_LABEL_REGEX}(\.{_LABEL_REGEX})*"
_DNS1035_REGEX = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED_REGEX = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"

EMPTY = "must be non-empty"


def _regex_message(description: str, regex: str, *examples: str) -> str:
    examples_text = " or ".join(f"'{example}', " for example in examples)
    return f"{description} (e.g. {examples_text}regex used for validation is '{regex}')"


_NOT_LABEL = _regex_message(
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character",
    _LABEL_REGEX,
    "my-name",
    "123-abc",
)
_NOT_SUBDOMAIN = _regex_message(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' "
    "or '.', and must start and end with an alphanumeric character",
    _SUBDOMAIN_REGEX,
    "example.com",
)
_NOT_CASELESS = _regex_message(
    "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character",
    _SUBDOMAIN_REGEX,
    "Example.com",
)
_NOT_SEARCH_DOMAIN = _regex_message(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' "
    "or '.', and must start and end with an alphanumeric character",
    r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*",
    "example.com",
)
_NOT_WILDCARD = _regex_message(
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, "
    "which must consist of lower case alphanumeric characters, '-' or '.' and end with an "
    "alphanumeric character",
    rf"\*\.{_SUBDOMAIN_REGEX}",
    "*.example.com",
)
_NOT_DNS1035 = _regex_message(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character",
    _DNS1035_REGEX,
    "my-name",
    "abc-123",
)
_NOT_QUALIFIED = _regex_message(
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character",
    _QUALIFIED_REGEX,
    "MyName",
    "my.name",
    "123-abc",
)
_NOT_LABEL_VALUE = _regex_message(
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character",
    f"({_QUALIFIED_REGEX})?",
    "MyValue",
    "my_value",
    "12345",
)
_NOT_C_IDENTIFIER = _regex_message(
    "a valid C identifier must start with alphabetic character or '_', followed by a string of "
    "alphanumeric characters or '_'",
    "[A-Za-z_][A-Za-z0-9_]*",
    "my_name",
    "MY_NAME",
    "MyName",
)
_NOT_CONFIG_KEY = _regex_message(
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    "[-._a-zA-Z0-9]+",
    "key.name",
    "KEY_NAME",
    "key-name",
)
_NOT_HTTP_HEADER = _regex_message(
    "a valid HTTP header must consist of alphanumeric characters or '-'",
    "[-A-Za-z0-9]+",
    "X-Header-Name",
)
_NOT_PERCENT = _regex_message(
    "a valid percent string must be a numeric string followed by an ending '%'",
    "[0-9]+%",
    "1%",
    "93%",
)
_NOT_ENV_NAME = (
    "a valid environment variable name must consist only of printable ASCII characters other "
    "than '='"
)
_NOT_PORT_CHARACTERS = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"


def max_length(limit: int, unit: str = "bytes") -> str:
    """Return the message for a value of more than `limit` bytes, which kube-apiserver calls
    characters for names of DNS and keys of ConfigMaps."""
    return f"must be no more than {limit} {unit}"


def inclusive_range(low: int, high: int) -> str:
    """Return the message for a number outside `low..high`."""
    return f"must be between {low} and {high}, inclusive"


def byte_length(value: str) -> int:
    """Return the length of a text in UTF-8; an unpaired surrogate counts as three bytes."""
    return len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass"))


# Possessive quantifiers, because backtracking could take long.
_LABEL_FORM = "[a-z0-9]++(?:-++[a-z0-9]++)*+"
_is_label = re.compile(_LABEL_FORM).fullmatch
_is_subdomain = re.compile(rf"{_LABEL_FORM}(?:\.{_LABEL_FORM})*+").fullmatch
_is_qualified = re.compile("[A-Za-z0-9]++(?:[-_.]++[A-Za-z0-9]++)*+").fullmatch


def _has_form(
    value: str, first: frozenset[str], inner: frozenset[str], last: frozenset[str]
) -> bool:
    return bool(value) and value[0] in first and value[-1] in last and inner.issuperset(value)


def _check_length(
    value: str, limit: int, *, is_valid: object, message: str, unit: str = "characters"
) -> list[str]:
    if is_valid and len(value) <= limit and value.isascii():
        return []
    messages = [max_length(limit, unit)] if byte_length(value) > limit else []
    if not is_valid:
        messages.append(message)
    return messages


def dns1123_label(value: str) -> list[str]:
    """Check a DNS label: names of namespaces, containers, volumes."""
    if len(value) <= LABEL_MAX and _is_label(value):
        return []
    message = "must not contain dots" if "." in value and _is_subdomain(value) else _NOT_LABEL
    return _check_length(value, LABEL_MAX, is_valid=_is_label(value), message=message)


def dns1123_subdomain(value: str) -> list[str]:
    """Check a DNS subdomain: the names of most objects."""
    if len(value) <= SUBDOMAIN_MAX and _is_subdomain(value):
        return []
    return _check_length(
        value, SUBDOMAIN_MAX, is_valid=_is_subdomain(value), message=_NOT_SUBDOMAIN
    )


def caseless_subdomain(value: str) -> list[str]:
    """Check a subdomain in which upper case is allowed: names of drivers."""
    is_valid = value.isascii() and _is_subdomain(value.lower())
    return _check_length(value, SUBDOMAIN_MAX, is_valid=is_valid, message=_NOT_CASELESS)


def search_domain(value: str) -> list[str]:
    """Check a DNS search domain, in which underscores are allowed."""
    labels = (part.removeprefix("_") for part in value.split("."))
    is_valid = all(
        _has_form(label, _LOWER_OR_DIGIT, _LABEL | {"_"}, _LOWER_OR_DIGIT) for label in labels
    )
    return _check_length(value, SUBDOMAIN_MAX, is_valid=is_valid, message=_NOT_SEARCH_DOMAIN)


def wildcard_subdomain(value: str) -> list[str]:
    """Check a subdomain after `*.`."""
    is_valid = value.startswith("*.") and _is_subdomain(value[2:])
    return _check_length(value, SUBDOMAIN_MAX, is_valid=is_valid, message=_NOT_WILDCARD)


def dns1035_label(value: str) -> list[str]:
    """Check a label that begins with a letter: versions and plural names of kinds."""
    is_valid = _has_form(value, _LOWER, _LABEL, _LOWER_OR_DIGIT)
    return _check_length(value, LABEL_MAX, is_valid=is_valid, message=_NOT_DNS1035)


def qualified_name(value: str) -> list[str]:
    """Check a label key: a name with an optional subdomain prefix and a slash."""
    parts = value.split("/")
    if len(parts) > 2:
        return [
            f"a valid label key {_NOT_QUALIFIED} with an optional DNS subdomain prefix and '/' "
            "(e.g. 'example.com/MyName')"
        ]
    messages: list[str] = []
    name = parts[-1]
    if len(parts) == 2:
        if not parts[0]:
            messages.append(f"prefix part {EMPTY}")
        else:
            messages.extend(f"prefix part {message}" for message in dns1123_subdomain(parts[0]))
    if not name:
        messages.append(f"name part {EMPTY}")
    elif byte_length(name) > LABEL_MAX:
        messages.append(f"name part {max_length(LABEL_MAX)}")
    if not _is_qualified(name):
        messages.append(f"name part {_NOT_QUALIFIED}")
    return messages


def label_value(value: str) -> list[str]:
    """Check a label value."""
    is_valid = not value or _is_qualified(value)
    return _check_length(
        value, LABEL_MAX, is_valid=is_valid, message=_NOT_LABEL_VALUE, unit="bytes"
    )


def c_identifier(value: str) -> list[str]:
    """Check a C identifier."""
    is_valid = _has_form(value, _LETTERS | {"_"}, _C_IDENTIFIER, _C_IDENTIFIER)
    return [] if is_valid else [_NOT_C_IDENTIFIER]


_is_printable_without_equals = re.compile("[ -<>-~]*+").fullmatch


def env_name(value: str) -> list[str]:
    """Check the name of an environment variable: printable ASCII without `=`."""
    messages = [] if value else [f"environment variable name {EMPTY}"]
    if not _is_printable_without_equals(value):
        messages.append(_NOT_ENV_NAME)
    return messages


def config_key(value: str) -> list[str]:
    """Check a key of a ConfigMap or Secret: a file name."""
    if len(value) <= SUBDOMAIN_MAX and _is_qualified(value):
        return []
    is_valid = bool(value) and _QUALIFIED.issuperset(value)
    messages = _check_length(value, SUBDOMAIN_MAX, is_valid=is_valid, message=_NOT_CONFIG_KEY)
    if value in (".", ".."):
        messages.append(f"must not be '{value}'")
    elif value.startswith(".."):
        messages.append("must not start with '..'")
    return messages


def http_header_name(value: str) -> list[str]:
    """Check the name of an HTTP header."""
    return [] if value and _HTTP_HEADER.issuperset(value) else [_NOT_HTTP_HEADER]


def percent(value: str) -> list[str]:
    """Check a percentage: digits followed by `%`."""
    digits = value.removesuffix("%")
    is_valid = digits != value and bool(digits) and _DIGITS.issuperset(digits)
    return [] if is_valid else [_NOT_PERCENT]


def port_name(value: str) -> list[str]:
    """Check an IANA service name."""
    messages = (
        [max_length(PORT_NAME_MAX, "characters")] if byte_length(value) > PORT_NAME_MAX else []
    )
    if not (value and _LABEL.issuperset(value)):
        messages.append(_NOT_PORT_CHARACTERS)
    if not any(character in _LOWER for character in value):
        messages.append("must contain at least one letter (a-z)")
    if "--" in value:
        messages.append("must not contain consecutive hyphens")
    if value and (value[0] == "-" or value[-1] == "-"):
        messages.append("must not begin or end with a hyphen")
    return messages


def port_number(value: int) -> list[str]:
    """Check a TCP or UDP port number."""
    return [] if 1 <= value <= 65535 else [inclusive_range(1, 65535)]


def uuid(value: str) -> list[str]:
    """Check a lowercase UUID, such as the uid of an object."""
    return [] if _UUID.fullmatch(value) else ["must be a lowercase UUID in 8-4-4-4-12 format"]


_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


# Names of objects.


def path_segment(value: str) -> list[str]:
    """Check that a name can stand in a URL path."""
    if value in (".", ".."):
        return [f"may not be '{value}'"]
    return _path_segment_start(value)


def _path_segment_start(value: str) -> list[str]:
    if "/" not in value and "%" not in value:
        return []
    return [f"may not contain '{illegal}'" for illegal in ("/", "%") if illegal in value]


def without_generate_suffix(check: Check) -> Check:
    """Return the check of `generateName`: a trailing hyphen stands for the random suffix."""
    if check is path_segment:
        return _path_segment_start
    return lambda value: check(_mask_trailing_hyphen(value))


def _mask_trailing_hyphen(value: str) -> str:
    return value[:-2] + "a" if len(value) > 1 and value.endswith("-") else value
