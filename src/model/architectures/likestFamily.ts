import type { Family } from './Family.js';
import type { Fields } from './Fields.js';

/** Settings that nearly all families have say nothing. */
const LEAST_READ = 8;

/**
 * The family that reads the most settings of a configuration, by its model type: the one that an unknown family is made
 * like. Undefined where none reads enough of them to tell.
 */
export function likestFamily(families: readonly Family[], config: Fields): string | undefined {
  let [likest, most]: [string | undefined, number] = [undefined, LEAST_READ - 1];
  for (const family of families) {
    const read = new Set<string>();
    try {
      family.fromConfig(config.with({ model_type: family.modelTypes[0] }).noting(read));
    } catch {
      // It reads as far as it can.
    }
    if (read.size > most) [likest, most] = [family.modelTypes[0], read.size];
  }
  return likest;
}
