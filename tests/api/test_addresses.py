"""Checks and warnings of IP addresses and CIDR networks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapiserver.api.addresses import (
    address_of,
    canonical_cidr,
    canonical_ip,
    cidr,
    cidr_warnings,
    family_of,
    ip,
    ip_warnings,
    network_of,
    ordinary_ip,
)
from kapiserver.api.errors import Path

NO_IP = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
NO_CIDR = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"

CASES = [
    (ip, "10.0.0.1", []),
    (ip, "2001:DB8::1", []),
    (ip, "10.0.0", [NO_IP]),
    (ip, "fe80::1%eth0", [NO_IP]),
    (ip, "10.0.0.256", [NO_IP]),
    (ip, "010.0.0.1", ["must not have leading 0s"]),
    (ip, "::ffff:1.2.3.4", ["must not be an IPv4-mapped IPv6 address"]),
    (canonical_ip, "10.0.0.1", []),
    (canonical_ip, "2001:DB8::1", ['must be in canonical form ("2001:db8::1")']),
    (canonical_ip, "010.0.0.1", ["must not have leading 0s"]),
    (family_of, "10.0.0.1", 4),
    (family_of, "::ffff:10.0.0.1", 4),
    (family_of, "2001:db8::1", 6),
    (family_of, "nothing", 0),
    (cidr, "10.0.0.0/8", []),
    (cidr, "2001:DB8::/32", []),
    (cidr, "10.0.0.0", [NO_CIDR]),
    (cidr, "10.0.0.0/33", [NO_CIDR]),
    (cidr, "10.0.0.0/x", [NO_CIDR]),
    (cidr, "10.0.0.0/1000000008", [NO_CIDR]),
    (cidr, "10.0.0.0/08", ["must not have leading 0s in IP or prefix length"]),
    (cidr, "010.1.0.0/08", ["must not have leading 0s in IP or prefix length"]),
    (cidr, "10.1.0.0/8", ["must not have bits set beyond the prefix length"]),
    (cidr, "::ffff:1.2.3.0/120", ["must not have an IPv4-mapped IPv6 address"]),
    (canonical_cidr, "2001:DB8::/32", ['must be in canonical form ("2001:db8::/32")']),
    (ordinary_ip, "10.0.0.1", []),
    (ordinary_ip, "nothing", ["must be a valid IP address"]),
    (ordinary_ip, "0.0.0.0", ["may not be unspecified (0.0.0.0)"]),
    (ordinary_ip, "::1", ["may not be in the loopback range (127.0.0.0/8, ::1/128)"]),
    (
        ordinary_ip,
        "169.254.1.1",
        ["may not be in the link-local range (169.254.0.0/16, fe80::/10)"],
    ),
    (
        ordinary_ip,
        "224.0.0.9",
        ["may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"],
    ),
    (
        ordinary_ip,
        "ff02::1",
        ["may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"],
    ),
    (ordinary_ip, "224.0.1.9", []),
]


@pytest.mark.parametrize(("check", "text", "messages"), CASES)
def test_checks(check, text, messages):
    """A check returns no message for a valid text and the expected one for an invalid text."""
    assert check(text) == messages


BETTER = "should be in RFC 5952 canonical format"
FUTURE = "will be considered invalid in a future Kubernetes release: use"
WARNINGS = [
    (ip_warnings, "10.0.0.1", []),
    (ip_warnings, "nothing", []),
    (ip_warnings, "2001:DB8::1", [f'IPv6 address "2001:DB8::1" {BETTER} ("2001:db8::1")']),
    (ip_warnings, "010.0.0.1", [f'non-standard IP address "010.0.0.1" {FUTURE} "10.0.0.1"']),
    (
        ip_warnings,
        "::ffff:1.2.3.4",
        [f'non-standard IP address "::ffff:1.2.3.4" {FUTURE} "1.2.3.4"'],
    ),
    (cidr_warnings, "10.0.0.0/8", []),
    (
        cidr_warnings,
        "2001:db8:0::/32",
        [f'IPv6 CIDR value "2001:db8:0::/32" {BETTER} ("2001:db8::/32")'],
    ),
    (
        cidr_warnings,
        "10.1.2.3/8",
        [
            'CIDR value "10.1.2.3/8" is ambiguous in this context (should be "10.0.0.0/8" or '
            '"10.1.2.3/32"?)'
        ],
    ),
    (
        cidr_warnings,
        "::ffff:1.2.3.0/120",
        [f'non-standard CIDR value "::ffff:1.2.3.0/120" {FUTURE} "1.2.3.0/24"'],
    ),
    (
        cidr_warnings,
        "10.0.0.0/08",
        [f'non-standard CIDR value "10.0.0.0/08" {FUTURE} "10.0.0.0/8"'],
    ),
]


@pytest.mark.parametrize(("warn", "text", "messages"), WARNINGS)
def test_warnings(warn, text, messages):
    """A text that is valid but not canonical gets a warning with the canonical form."""
    assert list(warn(text, Path("a"))) == [f"a: {message}" for message in messages]


@given(st.one_of(st.ip_addresses().map(str), st.text(alphabet="0123456789abcdef:./%", max_size=50)))
def test_any_text(text):
    """For any text, the checks agree on whether it is an address or a network."""
    assert (address_of(text) is None) == (NO_IP in ip(text))
    assert (network_of(text) is None) == (NO_CIDR in cidr(text))
    ordinary_ip(text)
    if not canonical_ip(text):
        assert str(address_of(text)) == text
