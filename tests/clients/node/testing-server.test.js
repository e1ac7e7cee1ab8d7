// `kapiserver testing-server`: the test starts it, and controls its time, its faults and its state.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { after, before, beforeEach, test } from 'node:test';
import * as k8s from '@kubernetes/client-node';
import { configMap, expectation, load } from './cluster.js';

let process_;
let server;
let config;
let core;

/** Calls an operation of the control API; returns its JSON. */
async function control(method, path, body) {
  const response = await fetch(server.controlUrl + path, {
    method,
    headers: { Authorization: `Bearer ${server.controlToken}` },
    body: body && JSON.stringify(body),
  });
  const answer = await response.json();
  assert.ok(response.ok, `${method} ${path}: ${answer.message}`);
  return answer;
}

before(async () => {
  const stdio = ['pipe', 'pipe', 'inherit'];
  process_ = spawn(process.env.PYTHON, ['-m', 'kapiserver', 'testing-server'], { stdio });
  const lines = createInterface(process_.stdout);
  const [line] = await once(lines, 'line');
  server = JSON.parse(line);
  config = load(server.kubeconfig);
  core = config.makeApiClient(k8s.CoreV1Api);
});

beforeEach(() => control('POST', '/reset'));

after(async () => {
  process_.stdin.end();
  const [code] = await once(process_, 'exit');
  assert.equal(code, 0);
});

test('a fault is injected once', async () => {
  await control('POST', '/faults/respond', { status: 503, verb: 'get', resource: 'configmaps', times: 1 });
  const read = () => core.readNamespacedConfigMap({ namespace: 'default', name: 'none' });
  await assert.rejects(read(), { code: 503 });
  await assert.rejects(read(), { code: 404 });
  const { items } = await control('GET', '/requests?verb=get&resource=configmaps');
  assert.deepEqual(items.map((item) => item.status), [503, 404]);
});

test('time', async () => {
  await control('POST', '/clock/freeze');
  const before_ = await control('GET', '/clock');
  const metadata = { name: 'old', namespace: 'default' };
  const involvedObject = { kind: 'ConfigMap', namespace: 'default', name: 'none' };
  await core.createNamespacedEvent({ namespace: 'default', body: { metadata, involvedObject } });
  const created = await core.readNamespacedEvent(metadata);
  const age = created.metadata.creationTimestamp - new Date(before_.time);
  assert.ok(Math.abs(age) <= 1000, `${age} ms`);
  await control('POST', '/clock/advance', { duration: '2h' }); // Events live for one hour
  await assert.rejects(core.readNamespacedEvent(metadata), { code: 404 });
  await control('POST', '/clock/resume');
});

test('an informer recovers from dropped and expired watches', async () => {
  const path = '/api/v1/namespaces/default/configmaps';
  const list = () => core.listNamespacedConfigMap({ namespace: 'default' });
  const informer = k8s.makeInformer(config, path, list);
  let connections = 0;
  let reconnected = expectation(() => true);
  informer.on('connect', () => {
    connections += 1;
    if (connections > 1) reconnected.take();
  });
  let added;
  informer.on('add', (object) => added?.take(object));
  await informer.start();
  for (const [name, effect] of [['a', 'end-watches'], ['b', 'expire-watches']]) {
    added = expectation((object) => object.metadata.name === name);
    reconnected = expectation(() => true);
    await control('POST', `/faults/${effect}`, { resource: 'configmaps', times: 1 });
    await reconnected.met;
    await core.createNamespacedConfigMap({ namespace: 'default', body: configMap(name) });
    await added.met;
  }
  await informer.stop();
});

test('waits and assertions', async () => {
  const metadata = { name: 'waited' };
  const created = control('POST', '/objects/wait-for', { target: 'cm/waited', condition: 'create' });
  await core.createNamespacedConfigMap({ namespace: 'default', body: { metadata } });
  const { object } = await created;
  assert.equal(object.metadata.name, 'waited');
  const condition = 'jsonpath={.data.x}=1';
  const missed = control('POST', '/objects/wait-for', { target: 'cm/waited', condition, timeout: '50ms' });
  await assert.rejects(missed, /has not met jsonpath=.* within 0.05 s\nlast seen:/);
  for (const x of ['1', '2', '3']) {
    const body = { metadata, data: { x } };
    await core.replaceNamespacedConfigMap({ namespace: 'default', name: 'waited', body });
  }
  await control('POST', '/objects/assert-converges', { quiet: '50ms' });
  await control('POST', '/requests/assert-no-hot-loop', { requests: 3 });
  const hot = control('POST', '/requests/assert-no-hot-loop', { requests: 2 });
  await assert.rejects(hot, /hot loop: .* sent update configmaps/);
});

test('snapshots and resets', async () => {
  await control('POST', '/state/load', { sources: [configMap('kept', { x: '1' })] });
  const { number } = await control('POST', '/state/snapshots');
  await core.deleteNamespacedConfigMap({ namespace: 'default', name: 'kept' });
  await control('POST', `/state/snapshots/${number}/restore`);
  const kept = await core.readNamespacedConfigMap({ namespace: 'default', name: 'kept' });
  assert.deepEqual(kept.data, { x: '1' });
  const { items } = await control('GET', '/objects/configmap/kept/history');
  assert.ok(items.length >= 2);
  await control('POST', '/reset');
  const missing = core.readNamespacedConfigMap({ namespace: 'default', name: 'kept' });
  await assert.rejects(missing, { code: 404 });
});
