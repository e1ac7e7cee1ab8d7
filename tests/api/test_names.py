"""Checks of names, keys and numbers."""

import time

import pytest

from kapiserver.api import names

CASES = [
    (names.dns1123_label, ["a", "a-b", "0", "a" * 63], ["", "A", "-a", "a-", "a.b", "a_b", "é"]),
    (names.dns1123_subdomain, ["a", "a.b-c.0", "a" * 253], ["", ".", "a.", "a..b", "A.b", "a/b"]),
    (names.dns1035_label, ["a", "a-0"], ["", "0a", "-", "a-", "A"]),
    (names.wildcard_subdomain, ["*.a", "*.a.b"], ["*", "a", "*.", "*.*.a"]),
    (names.qualified_name, ["a", "A.b_c-d", "a.b/c"], ["", "/a", "a/", "a/b/c", "A/b", "-", "a b"]),
    (names.label_value, ["", "a", "A.b_c-d"], ["-", "a-", "a b", "é"]),
    (names.c_identifier, ["a", "_0"], ["", "0", "a-"]),
    (names.env_name, ["A", "a b", "0-.x", "~"], ["", "a=b", "a\n", "é"]),
    (names.config_key, ["a", "A_b.c-d", ".a"], ["", ".", "..", "..a", "a/b", "a b"]),
    (names.http_header_name, ["X-A", "a"], ["", "a b", "a_b"]),
    (names.percent, ["1%", "100%"], ["", "%", "1", "1.5%", "-1%"]),
    (names.port_name, ["http", "a-1"], ["", "1", "a--b", "-a", "a-", "A", "a" * 16]),
    (names.path_segment, ["a", "a:b", ""], [".", "..", "a/b", "a%b"]),
]


@pytest.mark.parametrize(("check", "good", "bad"), CASES)
def test_names(check, good, bad):
    """Each check accepts exactly the names that Kubernetes accepts."""
    assert [value for value in good if check(value)] == []
    assert [value for value in bad if not check(value)] == []


MESSAGES = [
    (
        names.dns1123_label,
        "A",
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
        "and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', "
        "regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
    ),
    (
        names.dns1123_subdomain,
        "_",
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' "
        "or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex "
        "used for validation is "
        r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
    ),
    (names.label_value, "a" * 64, "must be no more than 63 bytes"),
    (names.qualified_name, "/a", "prefix part must be non-empty"),
    (names.config_key, "..a", "must not start with '..'"),
    (names.path_segment, "a/b", "may not contain '/'"),
]


@pytest.mark.parametrize(("check", "value", "message"), MESSAGES)
def test_messages(check, value, message):
    """Messages are byte for byte those of kube-apiserver."""
    assert check(value) == [message]


@pytest.mark.parametrize("check", [row[0] for row in CASES])
def test_hostile_values(check):
    """A megabyte of worst-case input is refused quickly."""
    start = time.thread_time()
    for value in ("a" * 10**6 + "!", "a-" * 500_000, "a." * 500_000, "." * 10**6):
        check(value)
    assert time.thread_time() - start < 20


def test_generate_name():
    """generateName may end with a hyphen, because a suffix follows."""
    check = names.without_generate_suffix(names.dns1123_label)
    assert check("a-") == []
    assert check("a") == []
    assert check("-") != []
    assert check("AB-") != []


@pytest.mark.parametrize("number", [1, 80, 65535])
def test_ports(number):
    """Ports are between 1 and 65535."""
    assert names.port_number(number) == []
    assert names.port_number(-number) == ["must be between 1 and 65535, inclusive"]
