// A PUT without a resourceVersion overwrites what others have written meanwhile.
//
// A replace of an object that was read before, with its resourceVersion removed so that "it always
// works", was the advice of many answers to "the object has been modified". Whatever another writer
// changed between the read and the write is lost. The corrected twin keeps the resourceVersion.

import { core, getDatabase, namespace, orNull, repaired, run } from './operator.js';

run(async (owner) => {
  const database = await getDatabase(owner);
  if (!database || database.metadata.deletionTimestamp) return;
  const name = `${owner}-settings`;
  const data = { storage: database.spec.storage };
  const settings = await orNull(core.readNamespacedConfigMap({ name, namespace }));
  if (!settings) {
    await core.createNamespacedConfigMap({ namespace, body: { metadata: { name }, data } });
  } else if (settings.data.storage !== data.storage) {
    if (!repaired) delete settings.metadata.resourceVersion;
    await core.replaceNamespacedConfigMap({ name, namespace, body: { ...settings, data } });
  }
});
