"""Invalid input: the response is a Status, never a 500, and the server keeps serving."""

import base64
import contextlib
import itertools
import json
import random
import socket

import pytest

JSON, YAML, PROTOBUF, CBOR = (
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/cbor",
)


@pytest.fixture
def maps(core):
    return f"{core}/configmaps"


@pytest.fixture(autouse=True)
def alive(api):
    """The server still answers after each test."""
    yield
    assert api.get("/api/v1/namespaces/default").status == 200


def assert_refused(response, *codes):
    """Assert that the response is a Status with one of these codes."""
    assert response.status in codes, (response.status, response.body)
    status = response.json
    assert (status["kind"], status["apiVersion"], status["status"]) == ("Status", "v1", "Failure")
    assert status["code"] == response.status
    assert status["message"]
    assert status["reason"]
    return status["message"]


MALFORMED = [
    (JSON, b""),
    (JSON, b"{"),
    (JSON, b"{}}"),
    (JSON, b'{"metadata":{"name":"x"},}'),
    (JSON, b"[]"),
    (JSON, b"null"),
    (JSON, b'"text"'),
    (JSON, b"1e999"),
    (JSON, b"\xff\xfe"),
    (JSON, b"\0" * 100),
    (JSON, b'{"metadata":'),
    (JSON, b'{"metadata":{"name":1}}'),
    (JSON, b'{"metadata":[]}'),
    (JSON, b'{"metadata":{"name":"x"},"data":{"k":1}}'),
    (JSON, b'{"metadata":{"name":"x"},"data":[1]}'),
    (JSON, b'{"kind":1}'),
    (JSON, b'{"kind":"Nothing","apiVersion":"v1"}'),
    (JSON, b'{"kind":"Role","apiVersion":"rbac.authorization.k8s.io/v1"}'),
    (JSON, b'{"kind":"Deployment","apiVersion":"apps/v1beta1"}'),
    (JSON, b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}'),
    (JSON, b'{"kind":"ConfigMap","apiVersion":"v9"}'),
    (JSON, b'{"kind":"ConfigMap","apiVersion":"a/b/c"}'),
    (JSON, b'{"kind":"ConfigMap","apiVersion":"__internal"}'),
    (JSON, b'{"kind":"Secret","apiVersion":"v1"}'),
    (JSON, b'{"kind":"ConfigMapList","apiVersion":"v1","items":[]}'),
    (JSON, b'{"kind":"Status","apiVersion":"v1"}'),
    (JSON, b'{"kind":"Deployment","apiVersion":"apps/v1"}'),
    (YAML, b""),
    (YAML, b"a: b: c"),
    (YAML, b"\t- x"),
    (YAML, b"- 1\n- 2"),
    (YAML, b"&a [*a]"),
    (YAML, b"metadata: {name: [}"),
    (YAML, b"!!python/object/apply:os.system ['true']"),
    (YAML, b"{a: &x [1,2], b: &y [*x,*x], c: [*y,*y]}"),
    (PROTOBUF, b""),
    (PROTOBUF, b"k8s"),
    (PROTOBUF, b"k8s\0"),
    (PROTOBUF, b"k8s\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
    (PROTOBUF, b"k8s\0\x0a\x7f"),
    (PROTOBUF, b"k8s\0\n\x0f\n\x02v1\x12\tConfigMap\x12\x05\xff\xff\xff\xff\xff"),
    (PROTOBUF, b'{"metadata":{"name":"x"}}'),
    (CBOR, b""),
    (CBOR, b"\xd9\xd9\xf7"),
    (CBOR, b"\xd9\xd9\xf7\xbf"),
    (CBOR, b"\xd9\xd9\xf7\xa1\x41a"),
    (CBOR, b"\xd9\xd9\xf7\xa2\x41a\x01\x41a\x02"),
    (CBOR, b"\xd9\xd9\xf7\xf6"),
    (CBOR, b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff"),
    (CBOR, b"\xbb\x7f\xff\xff\xff\xff\xff\xff\xff"),
    (CBOR, b"\x5b\x7f\xff\xff\xff\xff\xff\xff\xff"),
]


@pytest.mark.parametrize(("media", "body"), MALFORMED)
def test_malformed(api, maps, media, body):
    """A body that is not a ConfigMap is a 400 in every encoding; one without a name is a 422."""
    assert_refused(api.post(maps, body, type=media), 400, 422)
    assert_refused(api.put(f"{maps}/x", body, type=media), 400)


def test_bytes_for_text(api, maps):
    """A CBOR byte string that is not UTF-8 is a 400 in an object of a built-in kind."""
    api.post(maps, {"metadata": {"name": "text"}})
    body = b"\xd9\xd9\xf7\xa2\x48metadata\xa1\x44name\x44text\x44data\xa1\x41k\x41\xff"
    for send, path in ((api.post, maps), (api.put, f"{maps}/text")):
        message = assert_refused(send(path, body, type=CBOR), 400)
        assert "data.k: a byte string for text must be valid UTF-8" in message


def test_too_many_values(api, maps):
    """A body with very many empty values is an error."""
    many = b'{"metadata":{"name":"x","finalizers":[' + b"{}," * 400_000 + b"{}]}}"
    patches = ("application/merge-patch+json", "application/json-patch+json")
    for media in (JSON, YAML):
        assert "too many values" in assert_refused(api.post(maps, many, type=media), 400)
    for media in patches:
        assert "too many values" in assert_refused(api.patch(f"{maps}/x", many, type=media), 400)
    assert "too many values" in assert_refused(api.delete(f"{maps}/x", many, type=JSON), 413)


@pytest.mark.parametrize("media", [JSON, YAML, PROTOBUF, CBOR])
def test_random_bodies(api, maps, media):
    """Random bytes, and valid bodies with random changes, cause no 5xx."""
    noise = random.Random(7)
    api.post(maps, {"metadata": {"name": "good"}, "data": {"k": "v"}})
    good = api.get(f"{maps}/good", accept=media).body
    for _ in range(60):
        data = bytearray(good)
        for _ in range(noise.randint(1, 4)):
            data[noise.randrange(len(data))] = noise.randrange(256)
        response = api.put(f"{maps}/good", bytes(data), type=media)
        assert response.status in (200, 400, 404, 409, 413, 422), (bytes(data), response.body)
        if response.status != 200:
            assert_refused(response, response.status)
    for length in (1, 10, 100, 1000):
        assert_refused(api.post(maps, noise.randbytes(length), type=media), 400, 413, 422)


@pytest.mark.parametrize("media", [JSON, YAML, PROTOBUF, CBOR])
def test_truncated(api, maps, media):
    """A truncated body is an object or a client error, never a 5xx."""
    api.post(maps, {"metadata": {"name": "good"}, "data": {"k": "v"}})
    good = api.get(f"{maps}/good", accept=media).body
    for length in range(0, len(good), 7):
        response = api.put(f"{maps}/good?dryRun=All", good[:length], type=media)
        assert response.status < 500, (good[:length], response.body)


DEEP = 100_000


@pytest.mark.parametrize(
    ("media", "body"),
    [
        (JSON, b'{"metadata":' * DEEP),
        (JSON, b"[" * DEEP + b"]" * DEEP),
        (JSON, b'{"data":' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}"),
        (YAML, b"[" * 20_000 + b"]" * 20_000),
        (YAML, b"- " * 20_000),
        (CBOR, b"\x81" * DEEP + b"\x00"),
        (CBOR, b"\xa1\x41a" * DEEP + b"\x00"),
        (PROTOBUF, b"k8s\0" + b"\x0a\x7f" * DEEP),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_deep(api, maps, media, body):
    """Deeply nested bodies are errors."""
    assert_refused(api.post(maps, body, type=media), 400, 413)


def test_deep_patches(api, maps):
    """Deeply nested patches are errors."""
    api.post(maps, {"metadata": {"name": "x"}})
    deep = b'{"data":' + b'{"a":' * 3000 + b"1" + b"}" * 3000 + b"}"
    for kind in ("merge", "strategic"):
        assert_refused(api.patch(f"{maps}/x", deep, kind), 400, 413, 422)
    nested = b'[{"op":"add","path":"/data","value":' + b"[" * 3000 + b"]" * 3000 + b"}]"
    assert_refused(api.patch(f"{maps}/x", nested, "json"), 400, 413, 422)


@pytest.mark.parametrize(
    "number",
    ["99999999999999999999999", "1e400", "-9223372036854775809", "2147483648", "1.5", "1e1000000",
     "9" * 5000],
)  # fmt: skip
def test_huge_numbers(api, core, number):
    """A number that does not fit its field is 400."""
    body = (
        '{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i","ports":'
        f'[{{"containerPort":{number}}}]}}]}}}}'
    )
    assert_refused(api.post(f"{core}/pods", body.encode()), 400)


@pytest.mark.parametrize("text", ["1e400", "9" * 30, "1e2147483647", "0.5"])
def test_large_quantities(api, core, text):
    """A quantity of any size is accepted; a fraction of a byte is warned about."""
    resources = {"requests": {"storage": text}}
    claim = {"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"],
             "resources": resources}}  # fmt: skip
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [
        {"name": "c", "image": "i", "resources": {"requests": {"cpu": text, "memory": text}}}
    ]}}  # fmt: skip
    for path, body in (("persistentvolumeclaims", claim), ("pods", pod)):
        response = api.post(f"{core}/{path}", body)
        assert response.status == 201, response.body
        assert len(response.warnings) == (text == "0.5")


def test_huge_pages(api, core):
    """A request for huge pages must be a multiple of their size, whatever the exponents: 422."""
    resources = {"cpu": "1", "hugepages-3e400": "1e2147483647"}
    container = {"name": "c", "image": "i", "resources": {"limits": resources}}
    body = {"metadata": {"name": "p"}, "spec": {"containers": [container]}}
    assert api.post(f"{core}/pods?dryRun=All", body).status == 201
    container["resources"]["limits"] = {"cpu": "1", "hugepages-3": "10"}
    assert "is not positive integer multiple" in assert_refused(api.post(f"{core}/pods", body), 422)


def test_managed_fields_of_malformed_version(api, maps):
    """A malformed apiVersion of a managedFields entry drops the entries, as in kube-apiserver."""
    entry = {"manager": "m", "operation": "Update", "apiVersion": "a/b/c", "fieldsType": "FieldsV1",
             "fieldsV1": {"f:data": {}}}  # fmt: skip
    body = {"metadata": {"name": "x", "managedFields": [entry]}, "data": {"k": "v"}}
    created = api.post(maps, body)
    assert created.status == 201, created.body
    assert "managedFields" not in created.json["metadata"]
    api.post(maps, {"metadata": {"name": "y"}})
    patch = {"metadata": {"managedFields": [entry]}}
    for type_ in ("merge", "strategic"):
        patched = api.patch(f"{maps}/y", patch, type_)
        assert patched.status == 200, patched.body


def test_managed_fields_of_any_value(api, maps):
    """Steps of managedFields whose values have different types are sorted."""
    steps = ('v:{"a":1}', "v:1", 'v:"x"', "v:[1]", "v:null", "v:true", "i:1", 'k:{"a":[1]}')
    entry = {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
             "fieldsV1": {"f:x": {step: {} for step in steps}}}  # fmt: skip
    body = {"metadata": {"name": "x", "managedFields": [entry]}, "data": {"k": "v"}}
    assert api.post(maps, body).status == 201
    entry["fieldsV1"] = {"f:x": {f"v:{'[' * 300}{']' * 300}": {}, "v:1": {}}}
    assert api.post(maps, {"metadata": {"name": "y", "managedFields": [entry]}}).status == 201


def test_token_for_malformed_version(api, core):
    """A token cannot be bound to an object of a malformed apiVersion."""
    api.post(f"{core}/serviceaccounts", {"metadata": {"name": "a"}})
    reference = {"apiVersion": "a/b/c", "kind": "Pod", "name": "p"}
    body = {"spec": {"boundObjectRef": reference}}
    assert_refused(api.post(f"{core}/serviceaccounts/a/token", body), 400, 404, 422)


def test_certificates_beyond_ascii(api):
    """PEM with text beyond ASCII is refused in a bundle and in a signing request."""
    text = "-----BEGIN CERTIFICATE REQUEST-----\nM\u00e9I=\n-----END CERTIFICATE REQUEST-----\n"
    spec = {"request": base64.b64encode(text.encode()).decode(), "signerName": "example.com/s",
            "usages": ["client auth"]}  # fmt: skip
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    message = assert_refused(api.post(path, {"metadata": {"name": "x"}, "spec": spec}), 422)
    assert "PEM block type must be CERTIFICATE REQUEST" in message


@pytest.mark.parametrize("media", [JSON, YAML, PROTOBUF, CBOR])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_large_bodies(api, maps, media, method):
    """A body of 10 MB is too large for every verb."""
    api.post(maps, {"metadata": {"name": "x"}})
    path = maps if method == "POST" else f"{maps}/x"
    type_ = "application/merge-patch+json" if method == "PATCH" else media
    try:
        response = api(method, path, b" " * (10 << 20), type=type_)
    except (BrokenPipeError, ConnectionResetError):
        return  # the server closed the connection during the upload
    assert assert_refused(response, 413) == "Request entity too large: limit is 3145728"


@pytest.mark.parametrize("type_", ["text/plain", "nonsense", "application/json/x", ";", "é"])
def test_unknown_media(api, maps, type_):
    """An unknown Content-Type is a 415."""
    message = assert_refused(api.post(maps, b"{}", type=type_), 415)
    assert message.startswith(
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json, application/yaml"
    )


SELECTORS = ["(", "a in", "a in (", "a=b=c", "=", "!", "a,,b", "a notin x", "x" * 300 + "=y",
             "a>b", "\0", "a=\U0001f600", "," * 5000]  # fmt: skip


@pytest.mark.parametrize("selector", SELECTORS)
@pytest.mark.parametrize("verb", ["list", "watch", "deletecollection"])
def test_selectors(api, maps, selector, verb):
    """An invalid selector is a 400."""
    from urllib.parse import quote

    query = f"labelSelector={quote(selector)}" + ("&watch=1&timeoutSeconds=1" * (verb == "watch"))
    method = "DELETE" if verb == "deletecollection" else "GET"
    response = api(method, f"{maps}?{query}")
    if selector != "\0":  # "%00" ends the text, as in Go
        assert_refused(response, 400)
    assert response.status < 500


QUERIES = ["limit=x", "limit=99999999999999999999", "limit=-1", "timeoutSeconds=x",
           "continue=%00%ff", "continue=" + "A" * 5000, "limit=" + "0" * 5000 + "1",
           "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ",
           "resourceVersion=-1", "resourceVersion=1.5", "resourceVersion=%F0%9F%98%80",
           "watch=maybe&timeoutSeconds=1", "%", "%zz=%zz", "&&&===", "fieldSelector=%3D",
           "resourceVersionMatch=x", "pretty=perhaps", "allowWatchBookmarks=7"]  # fmt: skip


@pytest.mark.parametrize("query", QUERIES)
def test_queries(api, maps, query):
    """Invalid query options are client errors or ignored, never a 5xx."""
    response = api.get(f"{maps}?{query}")
    assert response.status < 500 or response.status == 504
    if response.status != 200:
        assert_refused(response, 400, 410, 422, 504)


PATHS = ["/api/v1/namespaces/%2e%2e/configmaps", "/api/v1/namespaces/a%2Fb/configmaps/x",
         "/api/v1/namespaces//configmaps", "/api/v1/namespaces/x/configmaps/%00",
         "/api/v1/namespaces/x/configmaps/" + "a" * 3000, "//api//v1//pods", "/api/v1/pods/",
         "/api/v1/namespaces/x/pods/y/z/w", "/api/v1/watch",
         "/apis/apps/v1/deployments/%F0%9F%98%80",
         "/api/v1/namespaces/x/configmaps/..%2f..%2fsecrets"]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
def test_paths(api, path, method):
    """Unusual paths cause no 5xx."""
    response = api(method, path, {} if method in ("POST", "PUT", "PATCH") else None)
    assert response.status < 500, response.body


@pytest.mark.parametrize("method", ["OPTIONS", "TRACE", "CONNECTX", "LINK"])
def test_methods(api, maps, method):
    """An unsupported method is a 405."""
    assert api(method, maps).status in (400, 404, 405)


NAMES = ["", ".", "..", "A", "a_b", "-a", "a" * 254, "a/b", "%", "\n", "é"]


@pytest.mark.parametrize("name", NAMES)
def test_names(api, maps, name):
    """An invalid name is a 422."""
    assert_refused(api.post(maps, {"metadata": {"name": name}}), 422)


def test_options_of_writes(api, maps):
    """Options of writes are checked before anything is written."""
    for query in ("dryRun=Some", "fieldValidation=Hard", "fieldManager=" + "x" * 200):
        assert_refused(api.post(f"{maps}?{query}", {"metadata": {"name": "x"}}), 422)
    assert api.get(maps).json["items"] == []


def raw(port, data):
    """Send bytes, close the sending side and return the response."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(data)
        with contextlib.suppress(OSError):  # the server has closed the connection
            connection.shutdown(socket.SHUT_WR)
        received = b""
        while piece := connection.recv(65536):
            received += piece
    return received


def test_truncated_request(api, maps):
    """A body that ends early changes nothing."""
    head = (
        f"POST {maps} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        "Content-Length: 1000\r\n\r\n"
    )
    response = raw(api.port, head.encode() + b'{"metadata":{"name":"cut"}}')
    assert b" 500 " not in response.split(b"\r\n")[0]
    assert api.get(f"{maps}/cut").status == 404


def test_truncated_chunks(api, maps):
    """Chunks that end early or are malformed change nothing."""
    head = (
        f"POST {maps} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        "Transfer-Encoding: chunked\r\n\r\n"
    )
    for chunks in (b"1b\r\n" + b'{"metadata":{"name":"cut"}}', b"zz\r\nx\r\n", b"1\r\n"):
        response = raw(api.port, head.encode() + chunks)
        assert b" 500 " not in response.split(b"\r\n")[0]
    assert api.get(f"{maps}/cut").status == 404


def test_bytes_that_are_not_http(api):
    """Bytes that are not HTTP get a plain 400."""
    for data in (b"\x16\x03\x01\x02\x00\x01\x00", b"GET\r\n\r\n", b"\0" * 1000, b"x" * 300_000):
        try:
            response = raw(api.port, data)
        except ConnectionError:
            continue
        assert b" 500 " not in response.split(b"\r\n")[0]


def test_combinations(api, maps):
    """All combinations of Accept, Content-Type and verb cause no 5xx."""
    accepts = [
        "",
        "*/*",
        "x",
        "application/json;as=Table",
        ";;;",
        "application/json;q=x",
        "a/b,c/d",
    ]
    types = ["", "application/json", "x", "application/json; charset=utf-16", "application/*"]
    methods = ["GET", "POST", "PUT", "PATCH", "DELETE"]
    for accept, type_, method in itertools.product(accepts, types, methods):
        body = json.dumps({"metadata": {"name": "x"}}).encode()
        response = api(
            method, f"{maps}/x" if method != "POST" else maps, body, type=type_, accept=accept
        )
        assert response.status < 500, (accept, type_, method, response.body)
