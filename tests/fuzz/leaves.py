"""Every parser of a leaf: a text within an object, a header, a query or a path.

`LEAVES` says for each parser which errors it may raise. Any other exception is a fault, because the
server answers 500. `test_leaves.py` calls the parsers with hypothesis, `fuzz_leaves.py` with
atheris.
"""

from __future__ import annotations

import base64
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import orjson

from kapiserver.api import (
    addresses,
    formats,
    json_path,
    linear_regex,
    names,
    quantity,
    scalar_types,
    selectors,
    webhooks,
)
from kapiserver.api.apiextensions import printer_columns
from kapiserver.api.apiextensions.cel import schema_types
from kapiserver.api.apply import fieldsets
from kapiserver.api.apply.last_applied import ANNOTATION, unchanged_fields
from kapiserver.api.apply.managed_fields_entries import decode_managers, encode_managers
from kapiserver.api.apply.merge_schema import schema_of
from kapiserver.api.autoscaling import v1_annotations
from kapiserver.api.autoscaling.v2 import MetricSpec
from kapiserver.api.batch import indexes, schedule
from kapiserver.api.cel import cel_types as cel
from kapiserver.api.cel.program import CompileError, Program, compile_expression
from kapiserver.api.certificates import keys, pem
from kapiserver.api.columns import age_of
from kapiserver.api.core.pods import images
from kapiserver.api.errors import BadObject, PatchFailed, Path
from kapiserver.api.group import GroupVersion, GroupVersionKind, sort_versions
from kapiserver.api.patches import json_patch
from kapiserver.api.scheme import Scheme
from kapiserver.apiserver.authentication.authenticator import InvalidCredentials
from kapiserver.apiserver.authentication.service_accounts.tokens import ServiceAccountTokens
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.durations import parse_duration
from kapiserver.apiserver.proxy.links import Links
from kapiserver.apiserver.request import parse_query, unquote_path
from kapiserver.apiserver.request_info import parse_request_info
from kapiserver.codecs import negotiation
from kapiserver.codecs.errors import CodecError
from kapiserver.codecs.parameter_codec import ParameterCodec
from kapiserver.storage.concurrency.clock import SystemClock
from kapiserver.storage.objects.continue_token import BadToken, ContinueTokenCodec
from tests.fuzz.certificates import CERTIFICATE, KEY, REQUEST

SCHEME = Scheme()
_POD = schema_of(SCHEME.type_of(GroupVersionKind("", "v1", "Pod")))
_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_CONTINUE = ContinueTokenCodec(bytes(32))
_TOKENS = ServiceAccountTokens(Config(), SystemClock())
_SELF = {"self": cel.CelType("object", fields={"text": cel.STRING, "any": cel.DYN})}
_VALUE = {"items": [{"name": "a", "size": 1}, {"name": "b", "size": 2.5}], "a": {"a": {"b": "x"}}}
_LINKS = Links(prefix="/p/proxy", server_host="10.0.0.1:80", request_host="localhost")
_EVALUATION_LIMIT = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A parser, the errors that it may raise, and texts to begin with."""

    parse: Callable[[str], object]
    seeds: Sequence[str]
    errors: tuple[type[Exception], ...] = ()


def _every_format(text: str) -> None:
    for name in formats.FORMATS:
        formats.has_format(name, text)


def _every_name(text: str) -> None:
    for check in (
        names.dns1123_label, names.dns1123_subdomain, names.caseless_subdomain, names.search_domain,
        names.wildcard_subdomain, names.dns1035_label, names.qualified_name, names.label_value,
        names.c_identifier, names.env_name, names.config_key, names.http_header_name, names.percent,
        names.port_name, names.uuid, names.path_segment,
    ):  # fmt: skip
        check(text)


def _every_address(text: str) -> None:
    for check in (
        addresses.ip, addresses.canonical_ip, addresses.ordinary_ip, addresses.family_of,
        addresses.cidr, addresses.canonical_cidr,
    ):  # fmt: skip
        check(text)
    list(addresses.ip_warnings(text, Path("p")))
    list(addresses.cidr_warnings(text, Path("p")))
    network = addresses.network_of(text)
    if network is not None:
        addresses.is_strictly_in(network, network)


def _quantity(text: str) -> None:
    """The canonical text is canonical; values can be compared and added."""
    canonical = scalar_types.Quantity.canonical(text)
    assert scalar_types.Quantity.canonical(canonical) == canonical
    amount = quantity.parse(canonical)
    _ = amount.is_integer, amount.scaled(0), amount.scaled(-3), amount.decimal > 0
    quantity.parse(str(quantity.add(amount, amount)))
    quantity.parse(str(quantity.subtract(quantity.parse("1Ki"), amount)))


def _label_selector(text: str) -> None:
    selection = selectors.parse(text, "")
    selection.matches({"a": "b"}, {})
    selectors.parse(selection.label_text, "")


def _field_selector(text: str) -> None:
    selection = selectors.parse("", text)
    selection.matches({}, {"metadata.name": "a"})
    selection.prefilter(b"")
    selectors.parse("", selection.field_text)


def _json_path(text: str) -> None:
    for value in json_path.compile_path(text)(_VALUE):
        orjson.dumps(value)


def _printer_column(text: str) -> None:
    for kind in ("string", "integer", "number", "boolean", "date", "other"):
        column = {"name": "c", "type": kind, "jsonPath": ".x"}
        printer_columns.columns_of([column]).cells({"metadata": {"name": "n"}, "x": text}, _NOW)


def _cel(text: str) -> None:
    program = compile_expression(text, _SELF)
    program.evaluate({"self": {"text": text, "any": _VALUE}}, _EVALUATION_LIMIT)


@functools.cache
def _cel_functions() -> list[Program]:
    return [compile_expression(source, _SELF) for source in _CEL_FUNCTIONS]


def _cel_function(text: str) -> None:
    """Parsers that expressions call: quantity, URL, address, time, regular expression, format."""
    for program in _cel_functions():
        program.evaluate({"self": {"text": text, "any": text}}, _EVALUATION_LIMIT)


_CEL_FUNCTIONS = (
    "quantity(self.text).add(quantity(self.text)).sub(2).isInteger()",
    "quantity('1').sub(quantity(self.text)).add(quantity('1Ki')).isGreaterThan(quantity('1'))",
    "quantity(self.text).asInteger() > quantity(self.text).sign()",
    "quantity(self.text).asApproximateFloat() > 1.0",
    "quantity(self.text).compareTo(quantity('1')) > 0 && isQuantity(self.text)",
    "url(self.text).getHostname() + url(self.text).getPort() + url(self.text).getEscapedPath()",
    "url(self.text).getQuery().size() > 1 && isURL(self.text)",
    "ip(self.text).family() == 4 && ip(self.text).isLoopback() && ip.isCanonical(self.text)",
    "cidr(self.text).containsIP('1.2.3.4') && cidr(self.text).masked().prefixLength() > 1",
    "semver(self.text).major() > 1 && semver(self.text).isLessThan(semver('1.2.3'))",
    "isSemver(self.text, true) && semver(self.text, true).compareTo(semver('1.0.0')) > 0",
    "timestamp(self.text).getFullYear() > 2000",
    "timestamp('2024-01-02T03:04:05Z').getHours(self.text) > 1",
    "duration(self.text).getSeconds() > 1",
    "int(self.text) > 1 || uint(self.text) > 1u || double(self.text) > 1.0 || bool(self.text)",
    "self.text.matches(self.text) && self.text.find(self.text) == ''",
    "self.text.split('').size() > 1 && self.text.split(self.text, 2).join(self.text) == ''",
    "'%s %d %x %.3f %e %b'.format([dyn(self.text), 1, self.any, 1.5, 2.5, 3]) == ''",
    "format.named(self.text).hasValue() && format.dns1123Label().validate(self.text).hasValue()",
    "self.text.substring(1).replace('a', self.text).lowerAscii().trim() == ''",
)


def _regular_expression(text: str) -> None:
    linear_regex.compile_pattern(text).search("text")
    linear_regex.matches(text, "text")


def _json_annotation(text: str) -> None:
    v1_annotations.load_list(MetricSpec, text)
    v1_annotations.load(MetricSpec, text)


def _last_applied(text: str) -> None:
    metadata = {"name": "p", "annotations": {ANNOTATION: text}}
    unchanged_fields(_POD, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}})


def _managed_fields(text: str) -> None:
    entry = {"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return
    for owned in decode_managers([{**entry, "manager": "m", "fieldsV1": value}]).values():
        list(fieldsets.format_paths(owned.fields))
        fieldsets.sort_steps(owned.fields)
    encode_managers(decode_managers([{**entry, "manager": "m", "fieldsV1": value}]))


def _json_patch(text: str) -> None:
    """The text is a pointer of each operation."""
    for operation in ("add", "remove", "replace", "test", "move", "copy"):
        body = {"op": operation, "path": text, "from": text, "value": 1}
        try:
            json_patch.apply(_VALUE, json_patch.read([body]))
        except PatchFailed:
            continue


def _query(text: str) -> None:
    query = parse_query(text)
    parse_request_info("GET", "/api/v1/pods", query)
    for kind in ("ListOptions", "DeleteOptions", "PatchOptions", "GetOptions"):
        ParameterCodec(SCHEME).decode(query, kind)
    ParameterCodec(SCHEME).decode(query, "PodLogOptions", GroupVersion("", "v1"))


def _number_option(text: str) -> None:
    ParameterCodec(SCHEME).decode({"limit": [text], "timeoutSeconds": [text]}, "ListOptions")


def _path(text: str) -> None:
    path = "/" + unquote_path(text).lstrip("/")
    for method in ("GET", "POST", "DELETE"):
        parse_request_info(method, path, {"watch": [text], "fieldSelector": [text]})


def _accept(text: str) -> None:
    negotiation.negotiate_output(text)
    negotiation.parse_accept(text)


def _bytes(text: str) -> bytes:
    return text.encode("latin-1", "replace")


def _pem(text: str) -> None:
    for block in pem.parse_blocks(text):
        certificate = pem.parse_certificate(block)
        if certificate is not None:
            pem.is_authority(certificate)
            pem.alternative_names(certificate)
    pem.request_problem(text)


def _der_certificate(text: str) -> None:
    certificate = pem.parse_certificate(pem.Block("CERTIFICATE", False, _bytes(text)))
    if certificate is not None:
        pem.is_authority(certificate)
        pem.alternative_names(certificate)
        keys.public_key_of(certificate)


def _der_request(text: str) -> None:
    request = keys.parse_request(_bytes(text))
    if request is not None:
        keys.public_key_of(request)
        keys.is_self_signed(request)
    encoded = base64.b64encode(_bytes(text)).decode()
    pem.request_problem(
        f"-----BEGIN CERTIFICATE REQUEST-----\n{encoded}\n-----END CERTIFICATE REQUEST-----\n"
    )


def _public_key(text: str) -> None:
    key = keys.parse_public_key(_bytes(text))
    if key is not None:
        keys.encode_key(key)
        keys.key_problem(key)
        keys.verify_signature(key, _bytes(text), b"content")


_TOKEN_SEED = ".".join(
    base64.urlsafe_b64encode(part).rstrip(b"=").decode()
    for part in (b'{"alg":"RS256","kid":"k"}', b'{"sub":"s","aud":["a"],"exp":1}', b"signature")
)
_TIMES = ("2024-01-02T03:04:05Z", "2024-01-02T03:04:05.123456+01:00", "0001-01-01T00:00:00Z",
          "9999-12-31T23:59:59.999999-23:59", "1e400")  # fmt: skip
_DURATIONS = ("1h30m", "-1.5s", "0", "1us2ns", "9223372036854775807ns", "@every 1h")
_QUANTITIES = ("1", "1.5Gi", "-100m", "1e400", "1e-400", "1e2147483647", "0e-2147483647",
               "9" * 30, "1000e2147483645", "8Ei", "0.000000001n", "1E", "007",
               "9" * 4001 + "0")  # fmt: skip
_SELECTORS = ("a=b", "a in (b,c),!d,e notin (f)", "a>1,b<2", "a==b,c!=d", "x/y=z", "a\\,b=c\\=d",
              "metadata.name=a,spec.nodeName!=b", "a>" + "0" * 70 + "1")  # fmt: skip
_ADDRESSES = ("10.0.0.1", "::ffff:1.2.3.4", "fe80::1%eth0", "10.0.0.0/8", "001.2.3.4/08", "::/0")
_URLS = ("https://user@host:443/a?b=c#d", "http://[::1]:99999/", "https://host:port/", "//[", "*")
_JSON = ('{"f:a":{"k:{\\"b\\":1}":{".":{}}}}', '[{"type":"Resource"}]', "[" * 2000, "1e999",
         '{"v:{\\"a\\":1}":{},"v:1":{},"i:1":{},"v:null":{},"v:[1]":{}}', "null", "{}",
         '{"v:' + "[" * 300 + "]" * 300 + '":{},"v:1":{}}',
         '{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"a":"b"}},"spec":{"containers":[1]}}',
         '[{"resource":{"name":"cpu","target":{"averageValue":"1e400"}}}]')  # fmt: skip
_HEADERS = ("application/json;as=Table;v=v1;g=meta.k8s.io,*/*;q=0.5", 'a/b;c="d\\"e";q=nan',
            "application/json;stream=watch", ";;;", 'text/*;q="1e400"', "*")  # fmt: skip

LEAVES: dict[str, Leaf] = {
    "quantity": Leaf(parse=_quantity, seeds=_QUANTITIES, errors=(ValueError,)),
    "time": Leaf(parse=scalar_types.Time.canonical, seeds=_TIMES, errors=(ValueError,)),
    "microtime": Leaf(parse=scalar_types.MicroTime.canonical, seeds=_TIMES, errors=(ValueError,)),
    "duration": Leaf(
        parse=scalar_types.Duration.canonical, seeds=_DURATIONS, errors=(ValueError,)
    ),
    "duration of a flag": Leaf(parse=parse_duration, seeds=_DURATIONS),
    "age": Leaf(parse=age_of, seeds=_TIMES, errors=(ValueError,)),
    "group version": Leaf(parse=GroupVersion.parse, seeds=("apps/v1", "v1", "a/b/c", "/"),
                          errors=(ValueError,)),
    "versions": Leaf(parse=lambda text: sort_versions(text.split()),
                     seeds=("v1 v2beta1 v10alpha2 x", "v" + "9" * 5000)),
    "label selector": Leaf(parse=_label_selector, seeds=_SELECTORS, errors=(BadObject,)),
    "field selector": Leaf(parse=_field_selector, seeds=_SELECTORS, errors=(BadObject,)),
    "names": Leaf(parse=_every_name, seeds=("a", "a.b", "A_B", "*.a", "a/b", "50%", "-")),
    "addresses": Leaf(parse=_every_address, seeds=_ADDRESSES),
    "formats": Leaf(
        parse=_every_format,
        seeds=(*_TIMES, *_DURATIONS, *_ADDRESSES, *_URLS, "a@b.c", "rgb(1,2,3)", "4111111111111111",
               "978-3-16-148410-0", "01:23:45:67:89:ab", "22 ns", "3 days"),
    ),
    "webhook URL": Leaf(
        parse=lambda text: list(webhooks.validate_client_config({"url": text}, Path("p"))),
        seeds=_URLS,
    ),
    "link in a proxied page": Leaf(parse=_LINKS.rewrite, seeds=_URLS, errors=(ValueError,)),
    "proxied page": Leaf(
        parse=lambda text: _LINKS.rewrite_page(text.encode("utf-8", "surrogateescape"), ""),
        seeds=("<a href='/x?a&amp;b'>", "<script><!--</script>", "<!-- -->", "<a b=\"", "</a>",
               "<br/>", "<!a>", "<plaintext>", "<a &#x41; =/ c='&copy=1'>"),
    ),
    "webhook path": Leaf(
        parse=lambda text: list(
            webhooks.validate_client_config({"service": {"path": text}}, Path("p"))
        ),
        seeds=("/a/b", "//", "/", "/a//"),
    ),
    "image": Leaf(parse=images.tag_of, seeds=("nginx", "host:5000/a/b:1.2@sha256:" + "a" * 64)),
    "cron schedule": Leaf(
        parse=schedule.schedule_problems,
        seeds=("*/5 0 1,15 jan-mar ?", "@every 1h", "TZ=UTC * * * * *", "@daily", "0/0 * * * *"),
    ),
    "completion indexes": Leaf(
        parse=lambda text: indexes.parse_intervals(text, 100),
        seeds=("0,2-4,7", "1-", "-1", "+5", "99999999999999999999"),
        errors=(ValueError,),
    ),
    "JSONPath": Leaf(
        parse=_json_path,
        seeds=('.items[?(@.size>1)].name', "$..a", "['a'][0]", "[*]", "[-1:]", "..a..a",
               '[?(@.name=="a")]', "[?(@.size>=null)]", "[::0]", "[" + "9" * 5000 + "]"),
        errors=(ValueError,),
    ),
    "printer column": Leaf(parse=_printer_column, seeds=(*_TIMES, *_QUANTITIES)),
    "CEL": Leaf(
        parse=_cel,
        seeds=("self.text.size() > 1", "self.any.items.all(i, i.size > 0)", "'\\u00e9' + r'\\d'",
               "[1, 2u, 3.0].map(x, x)", "{'a': 1}.a", "1 / 0 == 1 ? true : false", "b'\\xff'",
               "has(self.any.a) && self.?text.orValue('') == ''", "0x7fffffffffffffff", "1e400"),
        errors=(CompileError,),
    ),
    "CEL functions": Leaf(
        parse=_cel_function,
        seeds=(*_QUANTITIES, *_URLS, *_ADDRESSES, *_TIMES, "1.2.3-a.1+b", "%d%s%%", "UTC", "+01:00",
               "dns1123Label", "(a|b)*"),
    ),
    "CEL name": Leaf(parse=schema_types.escaped, seeds=("a-b", "__x__", "in", "a.b/c")),
    "regular expression": Leaf(
        parse=_regular_expression, seeds=("(a+)+$", "[", "\\pL{1000}", "(?i)x", "a{99999}"),
        errors=(linear_regex.InvalidPattern,),
    ),
    "JSON annotation": Leaf(parse=_json_annotation, seeds=_JSON),
    "last applied configuration": Leaf(parse=_last_applied, seeds=_JSON),
    "managed fields": Leaf(parse=_managed_fields, seeds=_JSON, errors=(BadObject,)),
    "JSON pointer": Leaf(
        parse=_json_patch,
        seeds=("/items/0/name", "/items/-", "/items/-1", "/a~1b", "/a~", "", "/items/\u00b2",
               "/items/-\u0663"),
    ),
    "query": Leaf(
        parse=_query, seeds=("limit=5&watch=1&a;b", "%ff=%zz&continue=+", "uid=x", "sinceTime=1"),
        errors=(CodecError,),
    ),
    "number of a query": Leaf(
        parse=_number_option, seeds=("1", "-9223372036854775808", "0" * 5000 + "1", "+-1"),
        errors=(CodecError,),
    ),
    "path": Leaf(
        parse=_path, seeds=("/api/v1/namespaces/a/pods/b/status/c", "%2e%2e/%00", "/apis")
    ),
    "Accept": Leaf(parse=_accept, seeds=_HEADERS, errors=(CodecError,)),
    "Content-Type": Leaf(parse=negotiation.negotiate_input, seeds=_HEADERS, errors=(CodecError,)),
    "continue token": Leaf(
        parse=lambda text: _CONTINUE.decode(text, "/pods/"),
        seeds=("Ca3dXpCmEv8HOUNF7C86frPYbt2TglYGwlvel9FI8_uTL7oQNWO6z_GLU6Y", "eyJ2", "=", "é"),
        errors=(BadToken,),
    ),
    "bearer token": Leaf(
        parse=_TOKENS.verify,
        seeds=(_TOKEN_SEED, "..", base64.urlsafe_b64encode(b"[" * 3000).decode() + ".a.b"),
        errors=(InvalidCredentials,),
    ),
    "PEM": Leaf(parse=_pem, seeds=(CERTIFICATE, REQUEST, CERTIFICATE.replace("MII", "M\u00e9I"),
                                   "-----BEGIN X-----\nK: v\n\nAA==\n-----END X-----\n")),
    "DER certificate": Leaf(
        parse=_der_certificate,
        seeds=tuple(block.content.decode("latin-1") for block in pem.parse_blocks(CERTIFICATE)),
    ),
    "DER request": Leaf(
        parse=_der_request,
        seeds=tuple(block.content.decode("latin-1") for block in pem.parse_blocks(REQUEST)),
    ),
    "DER key": Leaf(parse=_public_key, seeds=(base64.b64decode(KEY).decode("latin-1"),)),
}  # fmt: skip
"""The parsers by what they parse."""


def parse_leaf(leaf: Leaf, text: str) -> None:
    """Call a parser. Raises what it must not raise."""
    try:
        leaf.parse(text)
    except leaf.errors:
        return


_LEAVES = tuple(LEAVES.values())


def parse_any(data: bytes) -> None:
    """Parse the text after the first byte, which selects the parser. Raises what the parser must
    not raise."""
    if data:
        text = data[1:].decode("utf-8", "surrogateescape")
        parse_leaf(_LEAVES[data[0] % len(_LEAVES)], text)


def corpus() -> list[bytes]:
    """Return inputs of `parse_any`: each text to begin with."""
    return [
        bytes((number,)) + seed.encode()
        for number, leaf in enumerate(_LEAVES)
        for seed in leaf.seeds
    ]
