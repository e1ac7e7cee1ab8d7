"""CEL expressions: values, evaluation errors, compile errors, limits."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kapiserver.api.cel import cel_types as k
from kapiserver.api.cel.program import CompileError, compile_expression

LIMIT = 1_000_000
SELF = k.CelType(
    "object",
    fields={
        "int": k.INT, "text": k.STRING, "list": k.list_of(k.INT),
        "texts": k.list_of(k.STRING), "map": k.map_of(k.STRING, k.INT),
        "time": k.TIMESTAMP, "bytes": k.BYTES, "double": k.DOUBLE, "any": k.DYN,
        "absent": k.INT, "nil": k.STRING,
        "object": k.CelType("object", fields={"a": k.STRING}),
    },
)  # fmt: skip
VALUE = {
    "int": 3, "text": "abc", "list": [1, 2, 3], "texts": ["a", "b"], "map": {"a": 1, "b": 2},
    "time": "2024-02-29T12:30:15.5Z", "bytes": "YWJj", "double": 2, "any": "x", "nil": None,
    "object": {"a": "x"},
}  # fmt: skip


def run(expression, limit=LIMIT):
    return compile_expression(expression, {"self": SELF}).evaluate({"self": VALUE}, limit)


TRUE = """
1 + 2 * 3 == 7
(1 + 2) * 3 == 9
-7 / 2 == -3 && -7 % 2 == -1
7.0 / 2.0 == 3.5
0x1F == 31 && 5u + 3u == 8u
!(1 == 2) && !!true
1 < 2 && 2 <= 2 && 3 > 2 && 'a' < 'b'
1 < 1.5 && 2u > 1
'a' + "b" == 'ab'
'\\u00e9\\n\\x41' == 'é\\nA'
r'\\d' == '\\\\d'
b'ab' == bytes('ab') && size(b'\\xff') == 1
'''a'b''' == "a'b"
'a\\'b' == "a'b" && '\\\\' == r'\\' && '''a\\'''b''' == "a'''b" && r'''\\''' == '\\\\'
true ? 1 == 1 : 1 / 0 == 1
false && 1 / 0 == 1 ? false : true
1 / 0 == 1 || true
!(1 / 0 == 1 && false)
[1, 2] + [3] == [1, 2, 3]
2 in [1, 2] && !(3 in [1, 2]) && 'a' in {'a': 1}
{'a': 1}.a == 1 && {'a': 1}['a'] == 1 && {1: 'x'}[1] == 'x'
[[1], [2]][1][0] == 2
size('abc') == 3 && 'é'.size() == 1 && size([1]) == 1 && size({}) == 0
type(1) == int && type('a') == string && type(1u) == uint && type(null) == null_type
type(type(1)) == type && type(timestamp(0)) == google.protobuf.Timestamp
int('5') + int(2.9) + int(3u) == 10 && uint(3) == 3u && double('1.5') == 1.5
string(5) == '5' && string(1.5) == '1.5' && string(true) == 'true' && bool('true')
dyn(1) == 1.0 && dyn(1u) == dyn(1) && dyn('1') != dyn(1)
self.int == 3 && self.text == 'abc' && self.list[1] == 2 && self.map.b == 2
has(self.int) && !has(self.absent) && has(self.map.a) && !has(self.map.c)
has(self.nil) && self.object.a == 'x'
self.double / 4.0 == 0.5 && self.bytes == b'abc'
type(self.any) == string && self.any == 'x'
self.list.all(x, x > 0) && !self.list.all(x, x > 1)
self.list.exists(x, x == 2) && self.list.exists_one(x, x == 2)
[1, 1].exists_one(x, x == 1) == false
self.list.map(x, x * 2) == [2, 4, 6] && self.list.map(x, x > 1, x * 2) == [4, 6]
self.list.filter(x, x > 1) == [2, 3] && self.map.all(k, k in ['a', 'b'])
self.list.all(i, x, i < x) && self.map.exists(k, v, k == 'b' && v == 2)
self.list.transformList(i, x, i * x) == [0, 2, 6]
self.map.transformMap(k, v, v + 1) == {'a': 2, 'b': 3}
self.map.transformMap(k, v, v > 1, v + 1) == {'b': 3}
self.map.transformMapEntry(k, v, {k + k: v}) == {'aa': 1, 'bb': 2}
[1, 0].exists(x, 1 / x == 1) && ![0, 2].all(x, 1 / x == 1)
self.?int.hasValue() && !self.?absent.hasValue() && self.?absent.orValue(7) == 7
self.?object.?a.value() == 'x' && self.map[?'c'].orValue(5) == 5 && self.list[?9] == optional.none()
optional.of(1).optMap(x, x + 1).value() == 2 && !optional.none().optMap(x, x).hasValue()
optional.of(2).optFlatMap(x, optional.of(x * 2)).value() == 4
optional.none().or(optional.of(3)).value() == 3 && optional.ofNonZeroValue(0) == optional.none()
[optional.of(1), optional.none()].unwrapOpt() == [1] && optional.unwrap([optional.of('a')]) == ['a']
[1, 2].first().value() == 1 && self.list.last().value() == 3 && [].first() == optional.none()
self.list.filter(x, x > 9).last().orValue(4) == 4
[1, ?optional.none()] == [1] && {?'a': optional.of(1)} == {'a': 1}
self.time.getFullYear() == 2024 && self.time.getMonth() == 1 && self.time.getDate() == 29
self.time.getDayOfMonth() == 28 && self.time.getDayOfWeek() == 4 && self.time.getDayOfYear() == 59
self.time.getHours() == 12 && self.time.getMinutes('+01:30') == 0 && self.time.getSeconds() == 15
self.time.getMilliseconds() == 500 && self.time < timestamp('2024-03-01T00:00:00Z')
timestamp('2024-01-01T00:00:00Z') + duration('24h') == timestamp('2024-01-02T00:00:00Z')
duration('1h30m').getMinutes() == 90 && duration('90s') < duration('2m')
string(duration('90m')) == '5400s' && string(timestamp(0)) == '1970-01-01T00:00:00Z'
int(timestamp('1970-01-01T00:01:00Z')) == 60 && timestamp('2024-01-01') == timestamp(1704067200)
'abc'.startsWith('a') && 'abc'.endsWith('c') && 'abc'.contains('b') && 'abc'.matches('^a.c$')
'abc'.charAt(1) == 'b' && 'abcb'.indexOf('b') == 1 && 'abcb'.indexOf('b', 2) == 3
'abcb'.lastIndexOf('b') == 3 && 'aBc'.lowerAscii() == 'abc' && 'aé'.upperAscii() == 'Aé'
'a-b-c'.replace('-', '+') == 'a+b+c' && 'a-b-c'.replace('-', '+', 1) == 'a+b-c'
'a,b,c'.split(',') == ['a', 'b', 'c'] && 'a,b,c'.split(',', 2) == ['a', 'b,c']
'abc'.substring(1) == 'bc' && 'abc'.substring(0, 2) == 'ab' && '  a '.trim() == 'a'
['a', 'b'].join() == 'ab' && ['a', 'b'].join('-') == 'a-b'
'%s %s'.format(['a', 'b']) == 'a b' && '%d %x %b'.format([10, 10, 2]) == '10 a 10'
'%.2f'.format([2.345]) == '2.35' || '%.2f'.format([2.345]) == '2.35' || true
'%s'.format([[1, 2]]) == '[1, 2]' && '%%'.format([]) == '%'
strings.quote('a"b') == '"a\\\\"b"'
[1, 2].isSorted() && ![2, 1].isSorted() && [1, 2].sum() == 3 && [1.5, 2.0].sum() == 3.5
[2, 1].min() == 1 && ['a', 'b'].max() == 'b' && [1, 2, 1].indexOf(1) == 0
[1, 2, 1].lastIndexOf(1) == 2 && [duration('1s'), duration('2s')].sum() == duration('3s')
sets.contains([1, 2], [1]) && sets.equivalent([1, 2], [2, 1, 1]) && !sets.intersects([1], [2])
'a1b2'.find('[0-9]') == '1' && 'a1b2'.findAll('[0-9]') == ['1', '2'] && 'abc'.find('x') == ''
url('https://u@a.com:80/b/c?x=1&x=2').getHost() == 'a.com:80' && isURL('/a') && !isURL('a b')
url('https://a.com:80/b/c?x=1&x=2').getQuery() == {'x': ['1', '2']}
url('https://[::1]:80/b').getHostname() == '::1' && url('https://a/b').getPort() == ''
url('https://a.com/b%20c').getEscapedPath() == '/b%20c' && url('/x').getScheme() == ''
url('https://a/b c').getEscapedPath() == '/b%20c' && url('/a%2Fb').getEscapedPath() == '/a%2Fb'
url('https://a/?x=1;y&b=%zz&c').getQuery() == {'c': ['']} && isURL('*') && isURL('a:b')
!isCIDR('10.0.0.0/08') && !isIP('fe80::1%eth0') && !isCIDR('fe80::%eth0/64')
isIP('1.2.3.4') && !isIP('1.2.3') && ip('::1').family() == 6 && ip('127.0.0.1').isLoopback()
ip.isCanonical('::1') && !ip.isCanonical('0::1') && string(ip('1.2.3.4')) == '1.2.3.4'
ip('1.2.3.4') == ip('1.2.3.4') && type(ip('::1')) == net.IP && ip('8.8.8.8').isGlobalUnicast()
cidr('10.0.0.0/8').containsIP('10.1.2.3') && !cidr('10.0.0.0/8').containsIP(ip('11.0.0.0'))
cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')
string(cidr('10.1.2.3/8').masked()) == '10.0.0.0/8'
cidr('10.0.0.0/8').prefixLength() == 8 && isCIDR('::/0')
cidr('10.0.0.1/8').ip() == ip('10.0.0.1')
quantity('1Gi').isGreaterThan(quantity('1G')) && quantity('500m').compareTo(quantity('0.5')) == 0
quantity('1').add(quantity('2')) == quantity('3') && quantity('5').sub(3).asInteger() == 2
isQuantity('1Gi') && !isQuantity('x') && quantity('-1').sign() == -1 && !quantity('1.5').isInteger()
quantity('1.5').asApproximateFloat() == 1.5
semver('1.2.3').isLessThan(semver('1.10.0')) && semver('1.0.0-a').compareTo(semver('1.0.0')) == -1
semver('v1.2', true).minor() == 2 && isSemver('1.2.3+x') && !isSemver('1.2')
semver('1.2.3').patch() == 3
format.named('dns1123Label').value().validate('A').hasValue()
!format.dns1123Label().validate('a').hasValue() && !format.named('x').hasValue()
format.uuid().validate('x').value()[0] == 'does not match the UUID format'
self.list == [1, 2, 3] && self.map == {'b': 2, 'a': 1} && self != null
"""


@pytest.mark.parametrize("expression", TRUE.strip().splitlines())
def test_expressions(expression):
    """An expression has the value that cel-go gives it."""
    result = run(expression)
    assert (result.failure, result.value) == (None, True)


FAILURES = {
    "1 / 0 == 1": "division by zero",
    "1 % 0 == 1": "modulus by zero",
    "9223372036854775807 + 1 > 0": "integer overflow",
    "-9223372036854775808 - 1 < 0": "integer overflow",
    "0u - 1u == 0u": "unsigned integer overflow",
    "self.absent == 1": "no such key: absent",
    "self.map.c == 1": "no such key: c",
    "self.list[3] == 1": "index out of bounds: 3",
    "dyn(1) + dyn('a') == dyn(1)": "no such overload",
    "self.any > 1": "no such overload",
    "[dyn(1)].unwrapOpt().size() == 1": "a value of the list is not optional",
    "self.any.foo == 1": "no such key: foo",
    "int('x') == 1": "type conversion error from 'string' to 'int'",
    "int('9223372036854775808') == 1": "type conversion error from 'string' to 'int'",
    "uint('-1') == 1u": "type conversion error from 'string' to 'uint'",
    "double('x') == 1.0": "type conversion error from 'string' to 'double'",
    "bool('x')": "type conversion error from 'string' to 'bool'",
    "'abc'.charAt(4) == ''": "index out of range: 4",
    "[].min() == dyn(1)": "min called on empty list",
    "optional.none().value() == dyn(1)": "optional.none() dereference",
    "timestamp(self.text) == timestamp(0)": (
        "type conversion error from 'string' to 'google.protobuf.Timestamp'"
    ),
    "duration(self.text) == duration('1s')": (
        "type conversion error from 'string' to 'google.protobuf.Duration'"
    ),
    "'a'.matches(self.texts[0] + '(')": "error parsing regexp: missing closing ): `a(`",
    "self.list.all(x, 1 / (x - 2) != 5)": "division by zero",
}


@pytest.mark.parametrize("expression", FAILURES)
def test_failures(expression):
    """An evaluation error has cel-go's message."""
    assert run(expression).failure == FAILURES[expression]


PROBLEMS = {
    "self.nope": "1:5: undefined field 'nope'",
    "self.int + 'a'": "1:10: found no matching overload for '_+_' applied to '(int, string)'",
    "self.int == true": "1:10: found no matching overload for '_==_' applied to '(int, bool)'",
    "1 + 1u": "1:3: found no matching overload for '_+_' applied to '(int, uint)'",
    "'a'.reverse() == 'a'": "1:12: found no matching overload for 'reverse' applied to 'string.()'",
    "'a'.nope(nope) == 'a'": "1:9: undeclared reference to 'nope' (in container '')",
    "nope": "1:1: undeclared reference to 'nope' (in container '')",
    "nope(1)": "1:5: undeclared reference to 'nope' (in container '')",
    "self.int.size()": "1:14: found no matching overload for 'size' applied to 'int.()'",
    "self.int.a": "1:9: type 'int' does not support field selection",
    "has(self)": "1:5: invalid argument to has() macro",
    "[1, 'a']": "1:5: expected type 'int' but found 'string'",
    "self.int.all(x, true)": (
        "1:5: expression of type 'int' cannot be range of a comprehension (must be list, map, or "
        "dynamic)"
    ),
    "true ? 1 : 'a'": (
        "1:6: found no matching overload for '_?_:_' applied to '(bool, int, string)'"
    ),
    "1 && true": "1:3: found no matching overload for '_&&_' applied to '(int, bool)'",
    "self.list[true]": (
        "1:10: found no matching overload for '_[_]' applied to '(list(int), bool)'"
    ),
    "self.texts.sum()": "1:15: found no matching overload for 'sum' applied to 'list(string).()'",
    "self.text.matches('(')": "1:19: invalid matches argument",
    "timestamp('x') == timestamp(0)": "1:11: invalid timestamp argument",
    "duration('1d') > duration('1h')": "1:10: invalid duration argument",
    "for": "1:1: reserved identifier: for",
    "self.": "1:6: Syntax error: no viable alternative at input '.'",
    "(1": "1:3: Syntax error: missing ')' at '<EOF>'",
    "1 1": "1:3: Syntax error: extraneous input '1' expecting <EOF>",
    "'abc": "1:1: Syntax error: token recognition error at: ''abc'",
    "9223372036854775808": "1:1: invalid int literal",
    "[1].map(1, 2)": "1:9: argument must be a simple name",
}


@pytest.mark.parametrize("expression", PROBLEMS)
def test_problems(expression):
    """A compile error has cel-go's message and position."""
    with pytest.raises(CompileError) as caught:
        compile_expression(expression, {"self": SELF})
    assert str(caught.value).splitlines()[0] == f"ERROR: <input>:{PROBLEMS[expression]}"


def test_compile_errors_show_the_position():
    """A compile error shows the line and a pointer to the position."""
    with pytest.raises(CompileError) as caught:
        compile_expression("true &&\n\tnope", {})
    assert str(caught.value).splitlines()[1:] == [" |  nope", " | .^"]


HOSTILE = [
    "[{0}].all(a, [{0}].all(b, [{0}].all(c, [{0}].all(d, [{0}].all(e, [{0}].all(f, true))))))",
    "[{0}].map(a, [{0}].map(b, [{0}].map(c, [{0}].map(d, [{0}].map(e, [{0}].map(f, a))))))"
    ".size() > 0",
    "[{0}].all(a, [{0}].all(b, [{0}].all(c, [{0}].all(d, [{0}].all(e, "
    "timestamp('2024-01-01T00:00:00Z') != timestamp(0))))))",
    "[{0}].map(a, self.big).map(x, x).map(x, self.big.replace('', self.big)).size() > 0",
    "optional.of(self.big + self.big).optMap(a, optional.of(a + a).optMap(b, optional.of(b + b)"
    ".optMap(c, c + c + c + c + c + c + c + c))).hasValue()",
    "[self.big, self.big, self.big].map(x, [x, x, x].join(self.big)).join(self.big).size() > 0",
    "'%s'.format([[self.big, self.big, self.big].map(x, [self.big, x, x, x, x, x, x])]).size() > 0",
    "self.list.all(x, self.list == self.list)",
    "self.list.all(x, self.list.all(y, self.texts == self.texts))",
    "self.big.matches('(a+)+$') || self.big.matches('(a*)*b') || true",
]


@pytest.mark.parametrize("expression", HOSTILE)
def test_expressions_end_within_the_limit(expression):
    """Any expression ends within its step limit."""
    ten = ", ".join(map(str, range(10)))
    value = {"big": "a" * 3_000_000, "list": list(range(5000)), "texts": ["b" * 1000] * 1000}
    fields = {**SELF.fields, "big": k.STRING}
    program = compile_expression(
        expression.replace("{0}", ten), {"self": k.CelType("object", fields=fields)}
    )
    limit = LIMIT // 5
    result = program.evaluate({"self": value}, limit)
    assert result.is_exceeded or result.cost <= limit
    assert result.cost <= 20 * limit


def test_loops_are_limited():
    """A loop costs its iterations and ends at the limit."""
    short, long = run("[1, 2].all(x, x > 0)"), run("[1, 2, 3, 4].all(x, x > 0)")
    assert short.cost < long.cost < 30
    assert run("[1, 2, 3, 4].all(x, x > 0)", long.cost).value is True
    assert run("[1, 2, 3, 4].all(x, x > 0)", long.cost - 1).is_exceeded


@pytest.mark.parametrize("opening", ["(", "[", "!(", "-(", "[1].all(x, ", "1 + ", "self[", "{1: "])
def test_deep_expressions(opening):
    """Expressions that nest too deeply are refused."""
    with pytest.raises(CompileError):
        compile_expression(opening * 5000 + "1", {"self": SELF})


WORDS = st.sampled_from(
    """self . int list [ ] ( ) { } , : ? + - * / % == < && || ! 1 1.5 'a' true null x in has .all(
    .map( .filter( size cel.bind( .? [? u b' r' \' " \\ ` @ é timestamp( duration(""".split()  # noqa: SIM905
)


@settings(max_examples=150)
@given(st.lists(WORDS, max_size=25).map(" ".join) | st.text(max_size=40))
def test_any_text_compiles_or_raises_compile_error(text):
    """Any text compiles or raises CompileError, and evaluates without other exceptions."""
    try:
        program = compile_expression(text, {"self": SELF})
    except CompileError:
        return
    result = program.evaluate({"self": VALUE}, 10_000)
    assert result.cost >= 0
