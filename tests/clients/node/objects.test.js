// Reads and writes of objects: create, read, replace, patch, list, delete, subresources, errors.

import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import * as k8s from '@kubernetes/client-node';
import { apps, config, configMap, core, deployment, newNamespace, patchType, watch } from './cluster.js';

let namespace;

before(async () => {
  namespace = await newNamespace();
});

test('create, read, replace, delete', async () => {
  const created = await core.createNamespacedConfigMap({ namespace, body: configMap('a', { x: '1' }) });
  assert.ok(created.metadata.creationTimestamp instanceof Date);
  const read = await core.readNamespacedConfigMap({ namespace, name: 'a' });
  assert.deepEqual(read.data, { x: '1' });
  read.data.x = '2';
  const replaced = await core.replaceNamespacedConfigMap({ namespace, name: 'a', body: read });
  assert.notEqual(replaced.metadata.resourceVersion, created.metadata.resourceVersion);
  const status = await core.deleteNamespacedConfigMap({ namespace, name: 'a' });
  assert.equal(status.status, 'Success');
  assert.equal(status.details.name, 'a');
});

test('a dry run writes nothing', async () => {
  await core.createNamespacedConfigMap({ namespace, body: configMap('dry'), dryRun: 'All' });
  await assert.rejects(core.readNamespacedConfigMap({ namespace, name: 'dry' }), { code: 404 });
});

test('JSON patch', async () => {
  await core.createNamespacedConfigMap({ namespace, body: configMap('json', { x: '1' }) });
  const body = [
    { op: 'test', path: '/data/x', value: '1' },
    { op: 'replace', path: '/data/x', value: '2' },
  ];
  const options = patchType(k8s.PatchStrategy.JsonPatch);
  const patched = await core.patchNamespacedConfigMap({ namespace, name: 'json', body }, options);
  assert.deepEqual(patched.data, { x: '2' });
  await assert.rejects(
    core.patchNamespacedConfigMap({ namespace, name: 'json', body }, options),
    { code: 422 },
  );
});

test('merge patch', async () => {
  await core.createNamespacedConfigMap({ namespace, body: configMap('merge', { x: '1', y: '1' }) });
  const patched = await core.patchNamespacedConfigMap(
    { namespace, name: 'merge', body: { data: { x: null, z: '1' } } },
    patchType(k8s.PatchStrategy.MergePatch),
  );
  assert.deepEqual(patched.data, { y: '1', z: '1' });
});

test('strategic merge patch', async () => {
  await apps.createNamespacedDeployment({ namespace, body: deployment('strategic') });
  const containers = [{ name: 'side', image: 'side:1' }];
  const patched = await apps.patchNamespacedDeployment(
    { namespace, name: 'strategic', body: { spec: { template: { spec: { containers } } } } },
    patchType(k8s.PatchStrategy.StrategicMergePatch),
  );
  const names = patched.spec.template.spec.containers.map((container) => container.name);
  assert.deepEqual(names, ['side', 'main']);
});

test('server-side apply, its conflict, and force', async () => {
  const apply = (replicas, fieldManager, force) =>
    apps.patchNamespacedDeployment(
      { namespace, name: 'applied', body: deployment('applied', replicas), fieldManager, force },
      patchType(k8s.PatchStrategy.ServerSideApply),
    );
  const created = await apply(1, 'first');
  assert.equal(created.metadata.managedFields[0].manager, 'first');
  await assert.rejects(apply(2, 'second'), (error) => {
    assert.equal(error.code, 409);
    const status = JSON.parse(error.body);
    assert.deepEqual(
      status.details.causes.map((cause) => [cause.reason, cause.field]),
      [['FieldManagerConflict', '.spec.replicas']],
    );
    return true;
  });
  assert.equal((await apply(2, 'second', true)).spec.replicas, 2);
});

test('KubernetesObjectApi', async () => {
  const objects = k8s.KubernetesObjectApi.makeApiClient(config);
  const body = { ...deployment('any'), metadata: { name: 'any', namespace } };
  await objects.create(body);
  body.spec.replicas = 4;
  const patched = await objects.patch(body, undefined, undefined, 'node', undefined, k8s.PatchStrategy.MergePatch);
  assert.equal(patched.spec.replicas, 4);
  const listed = await objects.list('apps/v1', 'Deployment', namespace);
  assert.ok(listed.items.some((item) => item.metadata.name === 'any'));
  await objects.delete(body);
  await assert.rejects(objects.read(body), { code: 404 });
});

test('pages of a list', async () => {
  for (let index = 0; index < 7; index += 1) {
    const body = configMap(`page-${index}`);
    body.metadata.labels = { pages: 'yes' };
    await core.createNamespacedConfigMap({ namespace, body });
  }
  const names = [];
  const sizes = [];
  let _continue;
  let version;
  do {
    const page = await core.listNamespacedConfigMap({
      namespace, labelSelector: 'pages=yes', limit: 3, _continue,
    });
    version ??= page.metadata.resourceVersion;
    assert.equal(page.metadata.resourceVersion, version);
    names.push(...page.items.map((item) => item.metadata.name));
    sizes.push(page.items.length);
    _continue = page.metadata._continue;
  } while (_continue);
  assert.deepEqual(sizes, [3, 3, 1]);
  assert.deepEqual(names, [0, 1, 2, 3, 4, 5, 6].map((index) => `page-${index}`));
  await core.deleteCollectionNamespacedConfigMap({ namespace, labelSelector: 'pages=yes' });
  const rest = await core.listNamespacedConfigMap({ namespace, labelSelector: 'pages=yes' });
  assert.deepEqual(rest.items, []);
});

test('scale and status', async () => {
  const name = 'scaled';
  await apps.createNamespacedDeployment({ namespace, body: deployment(name) });
  const scale = await apps.readNamespacedDeploymentScale({ namespace, name });
  scale.spec.replicas = 3;
  await apps.replaceNamespacedDeploymentScale({ namespace, name, body: scale });
  const read = await apps.readNamespacedDeployment({ namespace, name });
  assert.equal(read.spec.replicas, 3);
  const patched = await apps.patchNamespacedDeploymentStatus(
    { namespace, name, body: { spec: { replicas: 9 }, status: { observedGeneration: 7 } } },
    patchType(k8s.PatchStrategy.MergePatch),
  );
  assert.equal(patched.status.observedGeneration, 7);
  assert.equal(patched.spec.replicas, 3);
});

test('deletion with propagation', async () => {
  const owner = await core.createNamespacedConfigMap({ namespace, body: configMap('owner') });
  const reference = {
    apiVersion: 'v1', kind: 'ConfigMap', name: 'owner', uid: owner.metadata.uid,
    blockOwnerDeletion: true,
  };
  const dependent = configMap('dependent');
  dependent.metadata.ownerReferences = [reference];
  const created = await core.createNamespacedConfigMap({ namespace, body: dependent });
  const path = `/api/v1/namespaces/${namespace}/configmaps`;
  const events = watch(path, { resourceVersion: created.metadata.resourceVersion });
  await core.deleteNamespacedConfigMap({ namespace, name: 'owner', propagationPolicy: 'Foreground' });
  const deleted = [];
  for await (const event of events) {
    if (event.type === 'DELETED') deleted.push(event.object.metadata.name);
    if (deleted.includes('owner')) break;
  }
  assert.deepEqual(deleted, ['dependent', 'owner']);
});

test('errors carry their status', async () => {
  const reason = (error) => JSON.parse(error.body).reason;
  const rejects = async (promise, code, expected) => {
    await assert.rejects(promise, (error) => {
      assert.ok(error instanceof k8s.ApiException);
      assert.equal(error.code, code);
      assert.equal(reason(error), expected);
      return true;
    });
  };
  const create = (body) => core.createNamespacedConfigMap({ namespace, body });
  const stale = await create(configMap('errors'));
  await rejects(create(configMap('errors')), 409, 'AlreadyExists');
  await rejects(create(configMap('No!')), 422, 'Invalid');
  await rejects(core.readNamespacedConfigMap({ namespace, name: 'none' }), 404, 'NotFound');
  await core.replaceNamespacedConfigMap({ namespace, name: 'errors', body: { ...stale, data: { x: '1' } } });
  await rejects(
    core.replaceNamespacedConfigMap({ namespace, name: 'errors', body: stale }), 409, 'Conflict',
  );
  await rejects(
    core.listNamespacedConfigMap({ namespace, labelSelector: 'a in b' }), 400, 'BadRequest',
  );
  await rejects(
    core.listNamespacedConfigMap({ namespace, limit: 1, _continue: 'x' }), 400, 'BadRequest',
  );
});
