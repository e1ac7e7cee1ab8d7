// The error of a cleanup is discarded.
//
// ClickHouse's operator (issue 2056) ignored the errors of its cleanup on each level, and removed its
// finalizer in any case. A time-out or a 500 at that moment leaves the claim behind. The corrected
// twin only ignores that there is none, and tries again after other errors.

import { core, getDatabase, namespace, orNull, repaired, replaceDatabase, run } from './operator.js';

const FINALIZER = 'example.com/claims';

run(async (name) => {
  const database = await getDatabase(name);
  if (!database) return;
  const finalizers = (database.metadata.finalizers ??= []);
  const claim = `data-${name}`;
  if (database.metadata.deletionTimestamp) {
    if (!finalizers.includes(FINALIZER)) return;
    await deleteClaim(claim);
    database.metadata.finalizers = finalizers.filter((finalizer) => finalizer !== FINALIZER);
    await orNull(replaceDatabase(name, database));
    return;
  }
  if (!finalizers.includes(FINALIZER)) {
    finalizers.push(FINALIZER);
    await replaceDatabase(name, database);
  }
  await createClaim(claim);
});

async function deleteClaim(name) {
  const request = core.deleteNamespacedPersistentVolumeClaim({ name, namespace });
  await (repaired ? orNull(request) : request.catch(() => null));
}

async function createClaim(name) {
  const resources = { requests: { storage: '1Gi' } };
  const body = { metadata: { name }, spec: { accessModes: ['ReadWriteOnce'], resources } };
  try {
    await core.createNamespacedPersistentVolumeClaim({ namespace, body });
  } catch (error) {
    if (error.code !== 409) throw error;
  }
}
