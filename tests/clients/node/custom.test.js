// A custom resource definition, its objects, and their subresources.

import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import * as k8s from '@kubernetes/client-node';
import { config, custom, newNamespace, patchType, watch } from './cluster.js';

const definitions = config.makeApiClient(k8s.ApiextensionsV1Api);
const group = 'node.example.com';
const version = 'v1';
const plural = 'gadgets';
let where;

const schema = {
  type: 'object',
  properties: {
    spec: {
      type: 'object',
      required: ['size'],
      properties: {
        size: { type: 'integer', minimum: 0, maximum: 9 },
        color: { type: 'string', _default: 'blue' },
      },
      x_kubernetes_validations: [
        { rule: "self.color != 'red' || self.size < 5", message: 'red gadgets are small' },
      ],
    },
    status: { type: 'object', properties: { size: { type: 'integer' } } },
  },
};

function gadget(name, spec) {
  return { apiVersion: `${group}/${version}`, kind: 'Gadget', metadata: { name }, spec };
}

before(async () => {
  const name = `${plural}.${group}`;
  await definitions.createCustomResourceDefinition({
    body: {
      metadata: { name },
      spec: {
        group,
        scope: 'Namespaced',
        names: { plural, kind: 'Gadget' },
        versions: [{
          name: version,
          served: true,
          storage: true,
          schema: { openAPIV3Schema: schema },
          subresources: {
            status: {},
            scale: { specReplicasPath: '.spec.size', statusReplicasPath: '.status.size' },
          },
        }],
      },
    },
  });
  const path = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
  for await (const { object } of watch(path, { fieldSelector: `metadata.name=${name}` })) {
    const conditions = object.status?.conditions ?? [];
    if (conditions.some(({ type, status }) => type === 'Established' && status === 'True')) break;
  }
  where = { group, version, plural, namespace: await newNamespace() };
});

test('create, default, validate, replace, delete', async () => {
  const created = await custom.createNamespacedCustomObject({ ...where, body: gadget('a', { size: 1 }) });
  assert.deepEqual(created.spec, { size: 1, color: 'blue' });
  const create = (spec) => custom.createNamespacedCustomObject({ ...where, body: gadget('b', spec) });
  await assert.rejects(create({ size: 10 }), { code: 422 });
  await assert.rejects(create({}), { code: 422 });
  await assert.rejects(create({ size: 6, color: 'red' }), (error) => {
    assert.match(JSON.parse(error.body).message, /red gadgets are small/);
    return true;
  });
  const body = { ...created, spec: { size: 2 } };
  const replaced = await custom.replaceNamespacedCustomObject({ ...where, name: 'a', body });
  assert.equal(replaced.metadata.generation, 2);
  const listed = await custom.listNamespacedCustomObject(where);
  assert.deepEqual(listed.items.map((item) => item.metadata.name), ['a']);
  await custom.deleteNamespacedCustomObject({ ...where, name: 'a' });
  await assert.rejects(custom.getNamespacedCustomObject({ ...where, name: 'a' }), { code: 404 });
});

test('patches and server-side apply', async () => {
  await custom.createNamespacedCustomObject({ ...where, body: gadget('p', { size: 1 }) });
  const patch = (body, strategy, options = {}) =>
    custom.patchNamespacedCustomObject({ ...where, name: 'p', body, ...options }, patchType(strategy));
  const merged = await patch({ spec: { size: 2 } }, k8s.PatchStrategy.MergePatch);
  assert.equal(merged.spec.size, 2);
  const steps = [{ op: 'replace', path: '/spec/size', value: 3 }];
  assert.equal((await patch(steps, k8s.PatchStrategy.JsonPatch)).spec.size, 3);
  await assert.rejects(
    patch({ spec: { size: 4 } }, k8s.PatchStrategy.StrategicMergePatch),
    { code: 415 },
  );
  const applied = await patch(
    gadget('p', { size: 5 }), k8s.PatchStrategy.ServerSideApply, { fieldManager: 'me', force: true },
  );
  assert.equal(applied.spec.size, 5);
});

test('status and scale', async () => {
  await custom.createNamespacedCustomObject({ ...where, body: gadget('s', { size: 1 }) });
  const merge = patchType(k8s.PatchStrategy.MergePatch);
  const name = 's';
  const body = { spec: { size: 9 }, status: { size: 1 } };
  const patched = await custom.patchNamespacedCustomObjectStatus({ ...where, name, body }, merge);
  assert.deepEqual([patched.spec.size, patched.status.size], [1, 1]);
  const scaled = await custom.patchNamespacedCustomObjectScale(
    { ...where, name, body: { spec: { replicas: 4 } } }, merge,
  );
  assert.deepEqual([scaled.kind, scaled.spec.replicas, scaled.status.replicas], ['Scale', 4, 1]);
});
