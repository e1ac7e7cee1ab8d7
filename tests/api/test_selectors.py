"""Label and field selectors: parsing, formatting, matching, errors."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kapiserver.api.errors import BadObject
from kapiserver.api.group import Resource
from kapiserver.api.selectors import EVERYTHING, Requirement, Selection, parse, requirement

PODS = Resource(
    group="",
    name="pods",
    kind="Pod",
    namespaced=True,
    versions=("v1",),
    storage_version="v1",
    selectable_fields=("spec.nodeName",),
    field_aliases=(("spec.host", "spec.nodeName"),),
)
PLAIN = Resource(
    group="", name="configmaps", kind="ConfigMap", namespaced=True, versions=("v1",),
    storage_version="v1",
)  # fmt: skip

QUALIFIED = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)

LABELS = [
    # text, canonical text, labels that match, labels that do not
    ("", "", [{}, {"a": "b"}], []),
    ("a=b", "a=b", [{"a": "b"}], [{}, {"a": "c"}]),
    ("a == b", "a==b", [{"a": "b"}], [{}, {"a": "c"}]),
    ("a!=b", "a!=b", [{}, {"a": "c"}], [{"a": "b"}]),
    ("a=", "a=", [{"a": ""}], [{}, {"a": "b"}]),
    ("a,!b", "a,!b", [{"a": ""}], [{}, {"a": "", "b": ""}]),
    ("z=1,a=2", "a=2,z=1", [{"z": "1", "a": "2"}], [{"z": "1"}, {"a": "2"}]),
    ("a in (y, x)", "a in (x,y)", [{"a": "x"}, {"a": "y"}], [{}, {"a": "z"}]),
    ("a in ()", "a in ()", [{"a": ""}], [{}, {"a": "x"}]),
    ("a in (,x)", "a in (,x)", [{"a": ""}, {"a": "x"}], [{}]),
    ("a notin (x)", "a notin (x)", [{}, {"a": "y"}], [{"a": "x"}]),
    ("a>-1", None, [], []),
    ("a>1", "a>1", [{"a": "2"}], [{}, {"a": "1"}, {"a": "x"}, {"a": "0"}]),
    ("a<1", "a<1", [{"a": "0"}, {"a": "-5"}], [{}, {"a": "1"}, {"a": "x"}]),
    ("in", "in", [{"in": ""}], [{}]),
    ("notin in (in)", "notin in (in)", [{"notin": "in"}], [{}]),
    ("example.com/a=b", "example.com/a=b", [{"example.com/a": "b"}], [{"a": "b"}]),
]


@pytest.mark.parametrize(
    ("text", "canonical", "chosen", "refused"), [row for row in LABELS if row[1] is not None]
)
def test_labels(text, canonical, chosen, refused):
    """A label selector and its canonical text select as in Kubernetes."""
    selection = parse(text, "")
    assert selection.label_text == canonical
    for parsed in (selection, parse(canonical, "")):
        assert all(parsed.matches(labels, {}) for labels in chosen)
        assert not any(parsed.matches(labels, {}) for labels in refused)


BAD_LABELS = [
    ("a,", "found '', expected: identifier after ','"),
    ("=b", "found '=', expected: !, identifier, or 'end of string'"),
    ("!", "unable to parse requirement: found '', expected: identifier"),
    ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
    ("a in b", "unable to parse requirement: found 'b' expected: '('"),
    ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
    ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
    ("a=(", "unable to parse requirement: found '(', expected: identifier"),
    ("a=b c", "found 'c', expected: ',' or 'end of string'"),
    ("!a in (b)", "found 'in', expected: ',' or 'end of string'"),
    (
        "a>x",
        "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, "
        "the value must be an integer",
    ),
    ("-a=b", f'unable to parse requirement: <nil>: Invalid value: "-a": name part {QUALIFIED}'),
]


@pytest.mark.parametrize(("text", "message"), BAD_LABELS)
def test_bad_labels(text, message):
    """A malformed label selector is refused with kube-apiserver's message."""
    with pytest.raises(BadObject) as caught:
        parse(text, "")
    assert str(caught.value) == message


FIELDS = [
    ("metadata.name=x", "metadata.name=x", {"metadata.name": "x"}, {"metadata.name": "y"}),
    ("metadata.name==x", "metadata.name=x", {"metadata.name": "x"}, {}),
    ("metadata.name!=x", "metadata.name!=x", {}, {"metadata.name": "x"}),
    ("spec.host=n", "spec.nodeName=n", {"spec.nodeName": "n"}, {"spec.nodeName": ""}),
    (r"spec.nodeName=a\,b\=c\\", r"spec.nodeName=a\,b\=c\\", {"spec.nodeName": "a,b=c\\"}, {}),
    (",metadata.name=x,", "metadata.name=x", {"metadata.name": "x"}, {}),
    ("spec.nodeName=", "spec.nodeName=", {"spec.nodeName": ""}, {"spec.nodeName": "n"}),
]


@pytest.mark.parametrize(("text", "canonical", "chosen", "refused"), FIELDS)
def test_fields(text, canonical, chosen, refused):
    """A field selector and its canonical text select as in Kubernetes."""
    selection = parse("", text, PODS)
    assert selection.field_text == canonical
    for parsed in (selection, parse("", canonical, PODS)):
        assert parsed.matches({}, chosen)
        if refused:
            assert not parsed.matches({}, refused)


BAD_FIELDS = [
    (PODS, "a", "invalid selector: 'a'; can't understand 'a'"),
    (PODS, "metadata.name=a=b", "invalid field selector: unescaped character in value: 61"),
    (PODS, r"metadata.name=\q", r"invalid field selector: invalid escape sequence: \q"),
    (PODS, "spec.x=1", "field label not supported: spec.x"),
    (
        PLAIN,
        "data.x=1",
        '"data.x" is not a known field selector: only "metadata.name", "metadata.namespace"',
    ),
]


@pytest.mark.parametrize(("resource", "text", "message"), BAD_FIELDS)
def test_bad_fields(resource, text, message):
    """A malformed field selector is refused with kube-apiserver's message."""
    with pytest.raises(BadObject) as caught:
        parse("", text, resource)
    assert str(caught.value) == message


def test_single_object():
    """A selection by name and namespace has both, so that the store reads one key."""
    selection = parse("", "metadata.name=a,metadata.namespace=b", PODS)
    assert (selection.name, selection.namespace) == ("a", "b")
    assert parse("", "metadata.name!=a", PODS).name is None


def test_everything():
    """Without selectors, the selection is EVERYTHING."""
    assert parse("", "", PODS) is EVERYTHING
    assert EVERYTHING.selects_everything
    assert EVERYTHING.matches({}, {})


@settings(max_examples=150)
@given(st.text("ab=!(),><in \t-./\\", max_size=30), st.text("a.b=!,\\ ", max_size=20))
def test_any_text(labels, fields):
    """Any text parses to a selection or raises BadObject; the text of a selection parses to the
    same selection."""
    try:
        selection = parse(labels, fields)
    except BadObject:
        return
    assert parse(selection.label_text, selection.field_text).matches({"a": "b"}, {"a": "b"}) == (
        selection.matches({"a": "b"}, {"a": "b"})
    )


def test_long_text():
    """A selector beyond the length limit is refused at once."""
    with pytest.raises(BadObject):
        parse("a," * 200_000, "")


def test_selection_is_a_value():
    """Selections compare by their requirements."""
    assert Selection((requirement("a", "=", ("b",)),)) == Selection(
        (Requirement("a", "=", ("b",)),)
    )


@pytest.mark.parametrize(
    ("labels", "fields", "value", "expected"),
    [
        ("app=web", "", b"app web", None),
        ("app=web", "", b"app", False),
        ("app=web,tier=b1", "", b"app web tier", False),
        ("app in (web,api)", "", b"app api", None),
        ("app in (web,api)", "", b"app of", False),
        ("app in (web,)", "", b"app", None),
        ("app", "", b"web", False),
        ("n>3", "", b"n", None),
        ("app=", "", b"app", None),
        ("app!=web", "", b"app api", True),
        ("app!=web", "", b"web", True),
        ("app!=web", "", b"app web", None),
        ("app!=", "", b"app", None),
        ("app!=", "", b"", True),
        ("app notin (a1,b1)", "", b"app c1", True),
        ("app notin (a1,b1)", "", b"app b1", None),
        ("!app", "", b"web", True),
        ("!app", "", b"app", None),
        ("!app,tier=a1", "", b"tier a1", None),
        ("!app,tier=a1", "", b"app", False),
        ("", "spec.nodeName=n1,status.phase!=Running", b"n2", False),
        ("", "spec.nodeName!=n1,status.phase!=Running", b"n2", True),
        ("", "spec.unschedulable=true", b"", None),
        ("", "spec.unschedulable!=true", b"", None),
        ("", "status.successful!=1", b"", None),
        ("", "a!=", b"", None),
        ("", "status.podIPs=1.2.3.4\\,fd00::1", b"fd00::1", False),
        ("", "status.podIPs!=1.2.3.4\\,fd00::1", b"fd00::1", True),
    ],
)
def test_prefilter(labels: str, fields: str, value: bytes, expected: bool | None) -> None:
    """The prefilter refuses an object if its bytes lack a text that a requirement needs; otherwise
    the object must be decoded."""
    assert parse(labels, fields).prefilter(value) is expected
