// Credentials: a client certificate, a token, none, a wrong one; the CA of the server.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as k8s from '@kubernetes/client-node';
import { config, core, load } from './cluster.js';

async function identity(from) {
  const review = await from
    .makeApiClient(k8s.AuthenticationV1Api)
    .createSelfSubjectReview({ body: {} });
  return review.status.userInfo;
}

test('a client certificate authenticates', async () => {
  const user = await identity(config);
  assert.equal(user.username, 'kubernetes-admin');
  assert.ok(user.groups.includes('system:masters'));
});

test('a token authenticates', async () => {
  const user = await identity(load(process.env.TOKEN_KUBECONFIG));
  assert.equal(user.username, 'token-user');
});

test('a wrong token is refused with 401', async () => {
  const wrong = load(process.env.TOKEN_KUBECONFIG);
  wrong.users[0] = { ...wrong.users[0], token: 'wrong' };
  await assert.rejects(wrong.makeApiClient(k8s.CoreV1Api).listNamespace(), {
    code: 401,
    message: /Unauthorized/,
  });
});

test('a user without rights is refused with 403', async () => {
  const anonymous = load(process.env.TOKEN_KUBECONFIG);
  anonymous.users[0] = { name: anonymous.users[0].name };
  await assert.rejects(anonymous.makeApiClient(k8s.CoreV1Api).listNamespace(), { code: 403 });
});

test('a server of another CA is refused', async () => {
  const stranger = load(process.env.KUBECONFIG);
  stranger.clusters[0] = { ...stranger.clusters[0], caData: undefined };
  await assert.rejects(stranger.makeApiClient(k8s.CoreV1Api).listNamespace(), (error) => {
    assert.match(String(error.cause ?? error), /certificate/);
    return true;
  });
});

test('version and discovery', async () => {
  const version = await config.makeApiClient(k8s.VersionApi).getCode();
  assert.equal(version.major, '1');
  const groups = await config.makeApiClient(k8s.ApisApi).getAPIVersions();
  assert.ok(groups.groups.some((group) => group.name === 'apps'));
  const resources = await core.getAPIResources();
  assert.ok(resources.resources.some((resource) => resource.name === 'pods/status'));
});
