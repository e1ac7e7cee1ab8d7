"""Expressions of jq whose results are compared to those of gojq; the input is a pod."""

from __future__ import annotations

EXPRESSIONS = r"""
def f: . + 1; 1 | f | f
def f(g): g | g; 3 | f(. * 2)
def f($x; $y): $x + $y; f(1, 2; 10, 20)
def f($x): x + $x; f(1, 2)
def f: def g: 3; g * 2; f
def f(x): x | x; def g: f(. + "a"); "b" | g
def f: reduce .[] as $x (0; . + $x); [1, 2, 3] | f
def fac: if . <= 1 then 1 else . * (. - 1 | fac) end; [range(8) | fac]
def f(g): def h: g; [h, h]; f(1, 2)
1 as $x | def f: $x; 2 as $x | [f, $x]
def f($n; g): if $n == 0 then [] else [g] + f($n - 1; g + 1) end; f(3; 1)
def f: 1; def f(x): 2; def f(x; y): 3; [f, f(0), f(0; 0)]
def f: 1; def g: f; def f: 2; [f, g]
[.[]? | def d: . * 2; d]
[limit(3; def r: ., (. + 1 | r); 0 | r)]
def map2(f): [.[] | f]; [1, 2] | map2(. * 10)
def f(a): a as $a | a, $a; [f(1, 2)]
[def f: 1, 2; f, f]
def f: g; f
def f(x): y; f(1)
def f: .
def : 1; 2
reduce range(5) as $i (0; . + $i)
reduce range(5) as $i ([]; [$i] + .)
reduce .status.conditions[] as {type: $t, status: $s} ({}; .[$t] = $s)
reduce empty as $x (3; 4)
reduce (1, 2) as $x (0; empty)
reduce (1, 2) as $x (0, 10; . + $x)
reduce (1, 2, 3) as $x (0; ., $x)
reduce range(3) as $x (0; $x) | . + 1
[foreach range(5) as $i (0; . + $i)]
[foreach range(5) as $i (0; . + $i; [$i, .])]
[foreach (1, 2) as $x (0; ., $x)]
[foreach (1, 2) as $x (0, 10; . + $x)]
[foreach (1, 2) as $x (0; empty; .)]
[foreach .status.conditions[] as $c (0; . + 1; {n: ., t: $c.type})]
[foreach [[1, 2], [3, 4]][] as [$a, $b] (0; . + $a; . * $b)]
"a\(1 + 1)b"
"\(1, 2)-\(3, 4)"
"name: \(.metadata.name), labels: \(.metadata.labels)"
"nested \("inner \(.metadata.name | "x\(.)")")"
"\(null) \(true) \(1.5) \([1, "a"])"
"a\tb\n\u00e9\\\"\/"
"\("\(")\")")"
@base64 "x\(.metadata.name)y"
@base64, @json, @text, @uri, @html | length
.metadata.name | @base64 | ., @base64d
@json "v: \(.metadata.labels)"
@uri "?q=\("a b&c=d/é")"
"a b&c=d/é~" | @uri | ., @urid
@html "<b>\("<&'\">")</b>"
@sh "echo \("it's", [1, "two", null, true])"
[1, "a\"b", null, true, 1.5] | @csv
["a\tb", "c\\d", null, 1] | @tsv
[[1]] | @csv
{} | @sh
"=" | @base64d
"YQ" | @base64d
{"a\(1)": 2, "b": "\(3)"}
{(1, 2 | tostring): 3}
{@base64 "x": 1}
{"a": 1 | 2}
{a: 1 + 2, b: (1, 2)}
{$__loc__}
{if: 1, then: 2, and: 3} | .if, .then, .and
{a: 1} | .a as $x | {$x, "y": 2}
[limit(3; range(10))]
[limit(0; range(10))]
[limit(-1; range(10))]
[limit(1, 2; 7, 8, 9)]
[first(range(10))], [first(empty)]
first(range(3; 10))
[last(range(10))], [last(empty)]
nth(2; range(10))
[nth(0, 2; range(10))]
nth(-1; 1)
nth(1)?
[1, 2, 3] | nth(1)
[skip(2; range(5))]
[skip(-1; range(5))]
[until(. > 100; . * 2)?]
1 | until(. > 100; . * 2)
[1 | while(. < 100; . * 3)]
[limit(5; 1 | repeat(. * 2))]
[2 | recurse(if . < 50 then . * . else empty end)]
[2 | recurse(. * .; . < 100)]
[recurse | numbers]
[.. | scalars]
[..] | length
isempty(empty), isempty(1), isempty(1, error("x"))
label $out | 1, 2, break $out, 3
[label $out | foreach (1, 2, 3) as $x (0; $x; if . == 2 then break $out else . end)]
label $a | label $b | 1, break $a, 2
[label $a | (label $b | 1, break $b, 2), 3]
break $x
label $f | def g: break $f; 1, g, 2
[.[]?]
try error catch .
try error("x") catch .
try error({a: 1}) catch .a
try error(null) catch .
try (1, error("x"), 3) catch .
[try (1, error("x"), 3)]
[(1, error("x"), 3)?]
try (try error("a") catch error("b")) catch .
error("x")
error(null)
error
[.metadata.name.x?]
try (.metadata.name[0]) catch "caught"
[.[] | try if . == 1 then error("x") else . end catch "c"]
.a.b.c?
try error("\(1)") catch .
[.status.conditions[] | (.type | tonumber)?]
[1, 2, 3] as [$a, $b] | $a + $b
{a: 1, b: [2, {c: 3}]} as {a: $x, b: [$y, {c: $z}]} | [$x, $y, $z]
{a: 1} as {$a} | $a
{a: [1]} as {$a: [$b]} | [$a, $b]
{"a b": 1} as {"a b": $x} | $x
{a: 1} as {("a", "b"): $x} | $x
[[1, 2], [3, 4]] | .[] as [$a] | $a
1 as [$a] | $a
null as [$a, $b] | [$a, $b]
[1] as {a: $x} | $x
{a: 1} as [$x] ?// {a: $x} | $x
[[1, 2]] | .[] as [$a] ?// $a | $a
[3] as [$a] ?// {b: $a} ?// $c | [$a, $c]
[3] | . as {b: $a} ?// [$a] | if ($a | type) == "number" then error("x") else $a end
[1, 2, 3] as [$a, $b, $c, $d] | $d
1 as $x | 2 as $y | [$x, $y, $__loc__.line]
[1, 2] | .[0] as $x | map(. + $x)
(1, 2) as $x | $x * 10
1 as $x | [$x, (2 as $x | $x), $x]
[.[] as $x | $x]
$__loc__
"a" as $x | "b" as $y | $x + $y
path(.a.b)
path(.a[0].b)
[paths]
[paths(type == "number")]
[leaf_paths]
[path(..)]
[path(.status.conditions[] | select(.type == "Ready"))]
[path(.a, .b)]
[path(.a[1:3], .a[:2])]
[path(if .status then .status else .metadata end)]
[path(.x // .status.count)]
[path(limit(1; .a, .b))]
[path(getpath(["a", "b"]))]
[path(. as $x | .a)]
[path(empty)]
[path(.a | select(false))]
[path(.metadata | .. | strings)]
[path(recurse(.a?; . != null))]
path(1)
path(.metadata | tojson)
path(.metadata | length)
try path(.a | tostring) catch "no"
[path(.a[].b?)]
[path(try .a catch .b)]
[path(def f: .a; f | f)]
[path(def f(g): g | g; f(.a))]
[path(label $x | .a, break $x, .b)]
getpath(["metadata", "name"])
getpath(["a", "b", "c"])
getpath(["metadata", "name", "x"])
[getpath(["metadata", "name"], ["status", "count"])]
getpath("a")
setpath(["a", "b"]; 1) | .a
setpath([]; 1)
setpath(["metadata", 0]; 1)
null | setpath([2]; 1)
[1, 2] | setpath([-1]; 9)
[1, 2] | setpath([-5]; 9)
null | setpath([-1]; 9)
delpaths([["metadata"], ["status", "count"]])
delpaths([])
delpaths([["a", "b"]]) == .
del(.metadata, .status.conditions)
del(.status.conditions[0])
del(.status.conditions[0, 1])
del(.status.conditions[] | select(.type == "Ready")) | .status.conditions
[1, 2, 3, 4, 5] | del(.[1:3]), del(.[-1]), del(.[0, 2, 4]), del(.[10]), del(.[])
del(.)
del(.metadata.name.x)
{a: null} | del(.a.b)
to_entries | map(.key)
pick(.metadata.name)
pick(.status.conditions[1].type)
pick(.x.y)
[1, 2, 3] | pick(.[1])
.metadata.name = "x" | .metadata.name
.a.b.c = 1 | .a
.status.count |= . + 1 | .status.count
.status.count += 1, .status.count -= 1 | .status.count
.status.count *= 2 | .status.count /= 5 | .status.count %= 3 | .status.count
.x //= 3 | .x
.status.count //= 3 | .status.count
.status.conditions[].status |= ascii_downcase | [.status.conditions[].status]
.status.conditions[] |= select(.type == "Ready") | .status.conditions
.status.conditions |= map(.type) | .status.conditions
[1, 2, 3, 4] | .[] |= empty
[1, 2, 3, 4] | (.[] | select(. > 2)) |= empty
[1, 2, 3] | .[1:] = [9, 9, 9]
[1, 2, 3] | .[1:] |= map(. * 2)
[1, 2, 3] | .[:-1] = []
[1, 2, 3] | .[0] = (7, 8)
(.a, .b) = 1 | [.a, .b]
(.a, .b) = (1, 2) | [.a, .b]
.a = .status.count | .a
.a |= (1, 2) | .a
.a += (1, 2) | .a
.[] += 1
.status.conditions[0] += {a: 1} | .status.conditions[0]
.metadata.labels["x"] = "y" | .metadata.labels
.a[2] = 1 | .a
.a[-1] = 1
"abc" | .[0] = 1
"abc" | .[1:] = ["x"]
[1] | .a = 1
"" | .a = 1
{} | .[1:] = [1]
{} | .["a", "b"] = 1
1 |= 2
.a = 1 | .b = 2 | del(.metadata, .status)
.. |= (if type == "number" then . + 1 else . end) | .status.count
.status |= with_entries(select(.key == "count")) | .status
[[1, [2]], 3] | .. |= (numbers |= . + 1)
map_values(length)
[1, 2] | map_values(. * 2), map_values(empty)
{a: 1, b: 2} | map_values(select(. > 1))
walk(if type == "string" then ascii_upcase else . end) | .metadata.name
[3, [1, 2]] | walk(if type == "array" then sort else . end)
with_entries(.value |= length)
{a: 1} | with_entries(.key |= "k" + .)
[{name: "a", value: 1}, {Key: "b"}, {Name: "c", Value: 2}] | from_entries
[{key: null, value: 3}] | from_entries
[{k: "a"}] | from_entries
[{key: {}, value: 1}] | from_entries
[["a", 1]] | from_entries
add(.status.conditions[].type), add(empty)
[1, 2, 3] | add, add(.[] * 2)
{a: 1, b: 2} | add
[[1], [2]] | add
["a", "b"] | add
null | add
"abc" | test("B"; "i"), test("B"), test("b"; null), test("a.c"; "x")
"foo bar" | [match("o+"; "g") | [.offset, .length, .string]]
"test" | match("t(?<x>e)?(?<y>z)?") | .captures
"aXbX" | capture("(?<a>[a-z])(?<n>X)")
[ "a1b2" | scan("[a-z][0-9]") ]
[ "a1b2" | scan("([a-z])([0-9])") ]
["A1b2" | scan("[a-z]"; "i")]
"a, b,c" | [splits(", *")], split(", *"; null), split(",")
"abc" | sub("b"; "x"), sub("(?<l>b)"; "<\(.l)>"), gsub("[ac]"; "-"), gsub("(?<l>.)"; .l + .l)
"abc" | gsub(""; "-")
"aaa" | gsub("^a"; "b"), sub("a"; "b"; "g")
"abc" | [sub("(?<x>.)"; "\(.x)1", "\(.x)2")]
"abAB" | gsub("a"; "x"; "i")
"a" | test("(")
"é1é" | match("1").offset
1 | test("a")
"abc" | ltrimstr("a"), rtrimstr("c"), ltrimstr("x"), trimstr("a"), ltrimstr(1)
"  a b " | trim, ltrim, rtrim
1 | trim
"a,b, cd, efg" | indices(", "), index(","), rindex(","), indices("z"), index("z")
[0, 1, 2, 1, 2] | indices(1), indices([1, 2]), index(1), rindex(2), indices([])
null | indices(1), index("a")
"" | indices("")
"abc" | explode, (explode | implode)
[65, 1114112] | implode
[-1] | implode
"aé😀" | length, utf8bytelength, explode
"AbÉ" | ascii_downcase, ascii_upcase
65 | ascii
"abc" | .[1:], .[:-1], .[1:2], .[-2:]
"abc" | .[0]
[1, 2, 3] | .[1:], .[:1], .[-1:], .[1.2:2.7], .[null:2], .[5:], .[2:1]
null | .[1:2]
{} | .[1:2]
[1, 2] | .["a"]?
[1, 2, 1] | .[[1]]
[1, 2] | .[0.9], .[-1], .[5], .[-5]
{"a": 1} | .[0]?
{"a": 1} | has("a"), has("b")
[1] | has(0), has(1), has(-1)
{} | has(0)
"a" | in({"a": 1})
[0, 5] | map(in([1, 2]))
[1, [2, [3]]] | flatten, flatten(1), flatten(0)
[1] | flatten(-1)
{a: [1]} | flatten
[3, 1, 2] | sort, sort_by(-.), min, max, min_by(-.), max_by(-.), reverse
[] | min, max, min_by(.), add, first, last, sort, unique
[{a: 2, b: 1}, {a: 1}, {a: 2, b: 0}] | sort_by(.a), sort_by(.a, .b), group_by(.a), unique_by(.a)
[1, 2, 1, "a", null, "a"] | unique
null | reverse
"abc" | reverse
1 | reverse
[1, 2] | contains([1]), inside([1, 2, 3])
{a: [1, 2], b: "xyz"} | contains({a: [1], b: "y"}), contains({c: 1})
"foobar" | contains("bar"), inside("a foobar b")
1 | contains("a")
null | contains(null)
true | contains(true)
[1, 2] | combinations
[[1, 2], [3, 4]] | [combinations]
[[0, 1] | combinations(2)]
[[1, 2], [3]] | transpose
[1, 2, 3] | bsearch(2), bsearch(0), bsearch(4), bsearch(2.5)
[{id: 1, n: "a"}, {id: 2, n: "b"}] | INDEX(.id)
INDEX(.status.conditions[]; .type) | keys
2 | IN(1, 2, 3), IN(4)
IN(1, 2; 2, 3)
[1, 2] | any(. > 1), all(. > 1), any, all
any(1, 2; . == 2), all(1, 2; . == 2)
[] | any, all
any(empty; .), all(empty; .)
any(true, error("x"); .)
[range(5; 0; -2)], [range(0; 1; 0.3)], [range(3; 1)], [range(0, 1; 3, 4)]
range("a")
[limit(3; range(0; 1; 0))]
1 + null, null + 1, null + null
"a" + "b", [1] + [2], {a: 1} + {b: 2}
"a" * 3, "a" * 0, "a" * -1, "a" * 0.5, "a" * 1.5
3 * "a"
{a: {b: 1}} * {a: {c: 2}}
{a: 1} * {a: {c: 2}}
[1, 2, 3, 1] - [1]
"a,b" / ",", "abc" / ""
6 / 4, 6 / 3, -7 / 2
5 % 3, -5 % 3, 5 % -3, 5.9 % 3, 5 % 3.9
1 % 0
0 / 0
1 / 0
1e1000, -1e1000
100000000000000000000 + 1
9007199254740993
3.0, 3.10, 1e3, 1E-2, .5
-(1, 2), -.status.count
-"a"
[1, 1.0, "1"] | map(. == 1)
1 == 1.0, [1] == [1.0], {a: 1} == {a: 1}, "a" < "b", [] < {}, null < false, {} < {a: 1}
{a: 2} < {b: 1}, {a: 1} < {a: 2}, [1, 2] < [1, 3]
[nan] | sort, (.[0] == .[0]), (.[0] < 1)
nan > nan, nan < nan, nan == nan
infinite, -infinite | isinfinite
[nan | isnan], (1 | isnan), (0, 1 | isnormal)
1.5 | floor, ceil, round, trunc, fabs, abs, -. | floor
-1.5 | floor, ceil, round, trunc, abs
4 | sqrt, pow(.; 2), pow(2; .), log2, exp2, exp10
null | abs
"a" | abs
[1, null, "a", [], {}, true] | map(type)
[.[] | length]?
true | length
-5 | length
"12", "1.5", "-3", " 1", "0x1", "nan", "1e2" | try tonumber catch "bad"
"true", "false", "x", true | try toboolean catch "bad"
[1, "a", null, [1], {b: 2, a: 1}] | map(tostring), map(tojson)
"[1, {\"a\": 2}]" | fromjson
"{" | try fromjson catch "bad"
"nan" | try fromjson catch "bad"
{b: 1, a: 2} | tojson, keys, keys_unsorted?, to_entries, [.[]]
[1.0, 1.5, 100000000000, 1e17, 1e-7, 3.14159] | tojson
0 | todate, gmtime, (gmtime | mktime)
1425599621.678 | todate
"2015-03-05T23:51:47Z" | fromdate, strptime("%Y-%m-%dT%H:%M:%SZ")
1425599621 | strftime("%A, %B %d, %Y"), strftime("%H:%M:%S %j")
"x" | fromdate
[2015, 2, 5, 23, 51, 47, 4, 63] | todate, mktime
"a" | todate
$ENV | type
env | type
splits("a")
[.status.conditions[] | {(.type): .status}] | add
if . then 1 end, if null then 1 end, if empty then 1 else 2 end
if true, false then 1 else 2 end
if . == 1 then "a" elif . == 2 then "b" else "c" end
[if (true, null) then 1 elif 3 then 2 end]
.status.conditions | map(select(.status == "True").type)
.metadata | has("name") and (.name | test("^web"))
.a // .b // "c"
(false, null, 1) // 2
(false, null) // 2
empty // 2
[false, 1, 2] | .[] // 9
first(.a // empty)?
1 // error("x")
[.[] // "none"]
1, 2 | . * 10
1 as $x | $x, 2
true and (true, false), (true, false) or false
(true, false) and (true, false), (true, false) or (true, false)
null and error, true or error
true | not, (null | not), ([] | not)
1 == 1 == true
1 < 2 < 3
1 - 1 - 1, 2 - 3 + 4, 8 / 2 / 2, 2 + 3 * 4 % 5
[.[]?, 1]
. as [$a] | $a
"\u00e9\ud83d\ude00"
"\ud800"
'a'
"\x"
"unclosed
"\(1"
.a."b".c, .a["b"].c, ."a"."b"
.["a", "b"]
.a.[0]
..a
...
.[.metadata.name]
{a: 1,}
[1,]
{a: 1, a: 2}
{"a": (1, 2), b: (3, 4)} | [.a, .b]
reduce .[] as $x (0)
foreach .[] as $x (0)
if 1 then 2 else
try
label x | 1
.a as x | 1
. as [] | 1
. as {} | 1
limit(1)
format("text"), format("json"), format("base64")
format("x")
input
ascii(1)
getpath(["a", 0, "b"])
splits(1)
tojson | fromjson | .metadata.name
[splits("a", "b")]?
@text "a\(1)", @json "a\("b")"
ltrimstr("a")
.status.count as $n | [range($n)] | map(. * $n) | add
[.status.conditions | to_entries[] | "\(.key):\(.value.type)"] | join(",")
[1, null, "a", true] | join("-")
[[1]] | join(",")
[] | join(1)
["a", "b"] | join(1)
[1, 2] | join(",", "/")
.status | to_entries | map("\(.key)") | sort
(.status.conditions | map({(.type): .status}) | add).Ready
.metadata.ownerReferences | any(.kind == "Job")
[.metadata.ownerReferences[] | select(.kind == "Job")] | length > 0
.status.conditions | INDEX(.type) | .Ready.status
[limit(3; .status.conditions[].type)] | first
.metadata.labels | to_entries[] | "\(.key)=\(.value)"
.metadata.labels | keys[0] | split("/") | last
reduce (.status.conditions[] | select(.status == "True")) as $c (0; . + 1)
[.status.conditions[].type] | index("Ready")
now | type
getpath(["status", "conditions", 0, "type"]) as $t | $t
.metadata.creationTimestamp // "none"
try (.x | fromdate) catch 0
""".strip("\n")
