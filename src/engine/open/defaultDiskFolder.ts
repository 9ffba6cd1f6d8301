import { join } from 'node:path';
import { userCacheFolder } from '../../files/cacheFolder.js';

/** Where runs keep repacked models and spill files unless told otherwise. */
export function defaultDiskFolder(): string {
  return join(userCacheFolder(), 'repacked');
}
