// The server of the tests: clients, namespaces, and objects.

import * as k8s from '@kubernetes/client-node';

export const config = load(process.env.KUBECONFIG);
export const core = config.makeApiClient(k8s.CoreV1Api);
export const apps = config.makeApiClient(k8s.AppsV1Api);
export const custom = config.makeApiClient(k8s.CustomObjectsApi);

/** Returns the configuration of a kubeconfig file. */
export function load(file) {
  const loaded = new k8s.KubeConfig();
  loaded.loadFromFile(file);
  return loaded;
}

/** Returns the name of a new namespace. */
export async function newNamespace() {
  const created = await core.createNamespace({ body: { metadata: { generateName: 'node-' } } });
  return created.metadata.name;
}

export function configMap(name, data = {}) {
  return { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, data };
}

export function deployment(name, replicas = 1) {
  const labels = { app: name };
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name },
    spec: {
      replicas,
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: { containers: [{ name: 'main', image: 'nginx:1' }] },
      },
    },
  };
}

/** Returns the options of a patch of this type. */
export function patchType(strategy) {
  return k8s.setHeaderOptions('Content-Type', strategy);
}

/** Opens a watch; returns an async iterator of its events, which ends with the watch. */
export async function* watch(path, parameters) {
  const events = [];
  let wake = () => {};
  let ended = false;
  const watcher = new k8s.Watch(config);
  const controller = await watcher.watch(
    path,
    parameters,
    (type, object) => {
      events.push({ type, object });
      wake();
    },
    (error) => {
      ended = true;
      if (error && error.name !== 'AbortError') events.push({ type: 'FAILED', error });
      wake();
    },
  );
  try {
    for (;;) {
      while (events.length) yield events.shift();
      if (ended) return;
      await new Promise((resolve) => {
        wake = resolve;
      });
    }
  } finally {
    controller.abort();
  }
}

/** Returns a promise of the first event for which the predicate is true, and the function that
 * takes events. */
export function expectation(predicate) {
  let take;
  const met = new Promise((resolve) => {
    take = (event) => {
      if (predicate(event)) resolve(event);
    };
  });
  return { met, take };
}
