// Any error of a read is taken for "there is none".
//
// ClickHouse's operator (issue 2056) skipped its cleanup when it could not read what had to be
// cleaned up, and removed its finalizer. A time-out or a 500 at that moment leaves the claim behind.
// The corrected twin knows 404 from other errors.

import { core, getDatabase, namespace, orNull, repaired, replaceDatabase, run } from './operator.js';

const FINALIZER = 'example.com/claims';

run(async (name) => {
  const database = await getDatabase(name);
  if (!database) return;
  const finalizers = (database.metadata.finalizers ??= []);
  const claim = `data-${name}`;
  if (database.metadata.deletionTimestamp) {
    if (!finalizers.includes(FINALIZER)) return;
    if (await readClaim(claim)) {
      await orNull(core.deleteNamespacedPersistentVolumeClaim({ name: claim, namespace }));
    }
    database.metadata.finalizers = finalizers.filter((finalizer) => finalizer !== FINALIZER);
    await orNull(replaceDatabase(name, database));
    return;
  }
  if (!finalizers.includes(FINALIZER)) {
    finalizers.push(FINALIZER);
    await replaceDatabase(name, database);
  }
  if (!(await readClaim(claim))) await createClaim(claim);
});

async function readClaim(name) {
  const request = core.readNamespacedPersistentVolumeClaim({ name, namespace });
  return repaired ? orNull(request) : request.catch(() => null);
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
