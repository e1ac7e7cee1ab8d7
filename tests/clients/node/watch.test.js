// Watches, their bookmarks, and informers.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { before, test } from 'node:test';
import * as k8s from '@kubernetes/client-node';
import WebSocket from 'ws';
import { config, configMap, core, expectation, load, newNamespace, watch } from './cluster.js';

let namespace;
let path;

before(async () => {
  namespace = await newNamespace();
  path = `/api/v1/namespaces/${namespace}/configmaps`;
});

test('a watch from a version delivers later changes', async () => {
  const created = await core.createNamespacedConfigMap({ namespace, body: configMap('watched') });
  const body = { ...created, data: { x: '1' } };
  await core.replaceNamespacedConfigMap({ namespace, name: 'watched', body });
  await core.deleteNamespacedConfigMap({ namespace, name: 'watched' });
  const types = [];
  const parameters = {
    resourceVersion: created.metadata.resourceVersion,
    fieldSelector: 'metadata.name=watched',
  };
  for await (const event of watch(path, parameters)) {
    types.push(event.type);
    if (event.type === 'DELETED') break;
  }
  assert.deepEqual(types, ['MODIFIED', 'DELETED']);
});

test('a WebSocket without headers of its own, as in a browser, watches', async () => {
  const { server, caFile, caData } = config.getCurrentCluster();
  const ca = caData ? Buffer.from(caData, 'base64') : await readFile(caFile);
  const { token } = load(process.env.TOKEN_KUBECONFIG).getCurrentUser();
  const bearer = `base64url.bearer.authorization.k8s.io.${Buffer.from(token).toString('base64url')}`;
  const url = `${server.replace('http', 'ws')}/api/v1/namespaces?watch=1`;
  const socket = new WebSocket(url, [bearer, 'base64.binary.k8s.io'], { ca });
  const [message] = await once(socket, 'message');
  assert.equal(socket.protocol, 'base64.binary.k8s.io');
  assert.equal(JSON.parse(message).type, 'ADDED');
  socket.terminate();
});

test('initial events end with a bookmark', async () => {
  await core.createNamespacedConfigMap({ namespace, body: configMap('initial') });
  const parameters = {
    sendInitialEvents: true,
    resourceVersionMatch: 'NotOlderThan',
    allowWatchBookmarks: true,
    fieldSelector: 'metadata.name=initial',
  };
  const events = [];
  for await (const event of watch(path, parameters)) {
    events.push(event);
    if (event.type === 'BOOKMARK') break;
  }
  assert.deepEqual(events.map((event) => event.type), ['ADDED', 'BOOKMARK']);
  const { annotations } = events[1].object.metadata;
  assert.equal(annotations['k8s.io/initial-events-end'], 'true');
});

test('a watch sends a bookmark before its time-out', async () => {
  const listed = await core.listNamespacedConfigMap({ namespace });
  const parameters = {
    resourceVersion: listed.metadata.resourceVersion,
    allowWatchBookmarks: true,
    timeoutSeconds: 3,
    fieldSelector: 'metadata.name=none',
  };
  await core.createNamespacedConfigMap({ namespace, body: configMap('unrelated') });
  const types = [];
  for await (const event of watch(path, parameters)) types.push(event.type);
  assert.deepEqual(types, ['BOOKMARK']);
});

test('a watch from a version of the future is refused', async () => {
  const types = [];
  for await (const event of watch(path, { resourceVersion: 'x' })) types.push(event.type);
  assert.deepEqual(types, ['FAILED']);
});

test('an informer follows changes after its watch has ended', async () => {
  const list = () => core.listNamespacedConfigMap({ namespace });
  // Each watch of the informer ends after a second.
  const watcher = new k8s.Watch(config);
  let connections = 0;
  const short = {
    watch(where, parameters, ...callbacks) {
      connections += 1;
      return watcher.watch(where, { ...parameters, timeoutSeconds: 1 }, ...callbacks);
    },
  };
  const informer = new k8s.ListWatch(path, short, list, false);
  const reconnected = expectation(() => connections === 2);
  informer.on('connect', () => reconnected.take());
  const added = expectation((object) => object.metadata.name === 'late');
  informer.on('add', added.take);
  const deleted = expectation((object) => object.metadata.name === 'late');
  informer.on('delete', deleted.take);
  await informer.start();
  await reconnected.met;
  await core.createNamespacedConfigMap({ namespace, body: configMap('late') });
  await added.met;
  assert.ok(informer.get('late', namespace));
  await core.deleteNamespacedConfigMap({ namespace, name: 'late' });
  await deleted.met;
  assert.equal(informer.get('late', namespace), undefined);
  await informer.stop();
});
