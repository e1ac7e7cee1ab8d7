"""The functions of jq that are written in jq."""

from __future__ import annotations

import functools

from kapiserver.simulation.jq.names import Functions
from kapiserver.simulation.jq.parser import parse_definitions

_SOURCE = r"""
def first: .[0];
def last: .[-1];
def map(f): [.[] | f];
def map_values(f): .[] |= f;
def walk(f): def w: if type == "array" or type == "object" then map_values(w) end | f; w;
def recurse(f; test): def r: ., (f | select(test) | r); r;
def to_entries: [keys[] as $key | {key: $key, value: .[$key]}];
def from_entries:
  reduce .[] as $entry ({};
    .[$entry | .key // .Key // .name // .Name]
      = ($entry | if has("value") then .value else .Value end));
def with_entries(f): to_entries | map(f) | from_entries;
def add(f): reduce f as $each (null; . + $each);
def any(f): any(.[]; f);
def all(f): all(.[]; f);
def in(whole): . as $key | whole | has($key);
def inside(whole): . as $part | whole | contains($part);
def combinations:
  if length == 0 then []
  else .[0][] as $first | .[1:] | combinations as $rest | [$first] + $rest end;
def combinations($n): . as $values | [range($n)] | map($values) | combinations;
def paths: path(..) | select(length > 0);
def paths(test): path(.. | select(test)) | select(length > 0);
def pick(f):
  . as $whole | reduce path(f) as $path (null; setpath($path; $whole | getpath($path)));
def nth($n): .[$n];
def nth($n; f):
  if $n < 0 then error("nth doesn't support negative index") else first(skip($n; f)) end;
def isempty(f): label $out | (f | false, break $out), true;
def todate: strftime("%Y-%m-%dT%H:%M:%SZ");
def todateiso8601: todate;
def fromdate: strptime("%Y-%m-%dT%H:%M:%SZ") | mktime;
def fromdateiso8601: fromdate;
def match($re): match($re; null);
def test($re): test($re; null);
def capture($re; $flags):
  match($re; $flags)
  | [.captures[] | select(.name != null) | {key: .name, value: .string}]
  | from_entries;
def capture($re): capture($re; null);
def scan($re; $flags):
  match($re; $flags + "g") | if .captures == [] then .string else [.captures[].string] end;
def scan($re): scan($re; null);
def split($re; $flags):
  . as $text
  | [foreach (match($re; $flags + "g"), null) as $match ({next: 0};
      if $match then {from: .next, to: $match.offset, next: ($match.offset + $match.length)}
      else {from: .next, to: ($text | length)} end;
      $text[.from:.to])];
def splits($re; $flags): split($re; $flags)[];
def splits($re): splits($re; null);
def sub($re; text; $flags):
  . as $whole
  | def named: [.captures[] | select(.name != null) | {key: .name, value: .string}] | from_entries;
    reduce (match($re; $flags), null) as $match ({at: 0, done: [""]};
      .at as $at
      | if $match then
        [$match | named | text] as $new
        | .done |= [.[] + $whole[$at:$match.offset] + $new[]]
        | .at = $match.offset + $match.length
      else .done |= [.[] + $whole[$at:]] end)
    | .done[];
def sub($re; text): sub($re; text; "");
def gsub($re; text; $flags): sub($re; text; $flags + "g");
def gsub($re; text): gsub($re; text; "");
def INDEX(stream; key): reduce stream as $each ({}; .[$each | key | tostring] |= $each);
def INDEX(key): INDEX(.[]; key);
def IN(stream): any(stream == .; .);
def IN(source; stream): any(source == stream; .);
"""


@functools.cache
def prelude() -> Functions:
    """Return the definitions, which are parsed at the first call."""
    return parse_definitions(_SOURCE)
