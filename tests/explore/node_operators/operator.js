// What the JavaScript operators of the corpus share: clients, and an informer that reconciles.

import * as k8s from '@kubernetes/client-node';

const GROUP = { group: 'example.com', version: 'v1', namespace: 'default', plural: 'databases' };
const RETRY_MILLISECONDS = 100;

const config = new k8s.KubeConfig();
config.loadFromDefault();
export const core = config.makeApiClient(k8s.CoreV1Api);
export const custom = config.makeApiClient(k8s.CustomObjectsApi);
export const namespace = 'default';
export const repaired = process.argv.includes('--repaired');

export const getDatabase = (name) => orNull(custom.getNamespacedCustomObject({ ...GROUP, name }));
export const replaceDatabase = (name, body) =>
  custom.replaceNamespacedCustomObject({ ...GROUP, name, body });

/** Returns null if the object does not exist. */
export async function orNull(request) {
  try {
    return await request;
  } catch (error) {
    if (error.code === 404) return null;
    throw error;
  }
}

/** Calls a function with the name of each database that has changed, again after an error. */
export function run(reconcile) {
  let work = Promise.resolve();
  const enqueue = (name) => {
    work = work.then(async () => {
      try {
        await reconcile(name);
      } catch (error) {
        console.log(`reconcile ${name} again: ${error.code ?? error.message}`);
        if (error.code === 401) config.loadFromDefault(); // the kubeconfig may have a new token
        setTimeout(enqueue, RETRY_MILLISECONDS, name);
      }
    });
  };
  const path = `/apis/${GROUP.group}/${GROUP.version}/namespaces/${namespace}/${GROUP.plural}`;
  const informer = k8s.makeInformer(config, path, () =>
    custom.listNamespacedCustomObject(GROUP),
  );
  const enqueueObject = (object) => enqueue(object.metadata.name);
  for (const type of ['add', 'update', 'delete']) informer.on(type, enqueueObject);
  const start = () => informer.start().catch(restart);
  const restart = (error) => {
    if (error?.code === 401 || error?.statusCode === 401) config.loadFromDefault();
    setTimeout(start, RETRY_MILLISECONDS);
  };
  informer.on('error', restart);
  start();
}
