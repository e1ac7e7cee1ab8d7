// HTTP/2 by Node's own module: requests and a watch are streams of one session.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import http2 from 'node:http2';
import { test } from 'node:test';
import { config, newNamespace } from './cluster.js';

function connect() {
  const cluster = config.getCurrentCluster();
  const user = config.getCurrentUser();
  const decode = (data) => Buffer.from(data, 'base64');
  return http2.connect(cluster.server, {
    ca: decode(cluster.caData),
    cert: decode(user.certData),
    key: decode(user.keyData),
  });
}

async function request(session, method, path, body) {
  const stream = session.request({ ':method': method, ':path': path, 'content-type': 'application/json' });
  stream.end(body === undefined ? undefined : JSON.stringify(body));
  const [headers] = await once(stream, 'response');
  let text = '';
  for await (const piece of stream.setEncoding('utf8')) text += piece;
  return { status: headers[':status'], object: text ? JSON.parse(text) : undefined };
}

test('requests and a watch share a session', async () => {
  const namespace = await newNamespace();
  const session = connect();
  try {
    const path = `/api/v1/namespaces/${namespace}/secrets`;
    const watch = session.request({ ':path': `${path}?watch=1` });
    await once(watch, 'response');
    const large = 'x'.repeat(300_000);
    const secret = { metadata: { name: 'one' }, stringData: { large } };
    assert.equal((await request(session, 'POST', path, secret)).status, 201);
    const read = await request(session, 'GET', `${path}/one`);
    assert.equal(Buffer.from(read.object.data.large, 'base64').length, large.length);
    let events = '';
    for await (const piece of watch.setEncoding('utf8')) {
      events += piece;
      if (events.includes('\n')) break;
    }
    assert.equal(JSON.parse(events.split('\n')[0]).type, 'ADDED');
    const missing = await Promise.all(
      Array.from({ length: 50 }, () => request(session, 'GET', `${path}/none`)),
    );
    assert.ok(missing.every(({ status, object }) => status === 404 && object.reason === 'NotFound'));
  } finally {
    session.close();
  }
});

test('trailers and pings are accepted', async () => {
  const session = connect();
  try {
    const stream = session.request({ ':path': '/version', te: 'trailers' });
    const [headers] = await once(stream, 'response');
    assert.equal(headers[':status'], 200);
    stream.resume();
    await once(stream, 'close');
    await new Promise((resolve, reject) =>
      session.ping((error) => (error ? reject(error) : resolve())),
    );
  } finally {
    session.close();
  }
});
