import type { EngineOptions } from '../../EngineOptions.js';
import { UsageError } from '../../errors/UsageError.js';
import type { ModelSource } from '../../model/ModelSource.js';

/**
 * Options without what the model's cache cannot have, where a plan has chosen it: a share on disk of layers that read
 * other layers' keys, whose pages would have to be written before they are read; integers in place of latent rows.
 * @param given what the caller says
 * @throws UsageError where the caller has chosen it
 */
export function cacheOptions(options: EngineOptions, given: EngineOptions, { decoder }: ModelSource): EngineOptions {
  const { family, layerSpecs, attention } = decoder;
  const refuse = (option: string, found: string, expected: string): never => {
    throw new UsageError(`${option}: found ${found} for a model of the family ${family}, expected ${expected}`);
  };
  let possible = options;
  if ((options.cache?.disk ?? 0) > 0 && layerSpecs.some(({ keysOf }) => keysOf !== undefined)) {
    if ((given.cache?.disk ?? 0) > 0)
      refuse('cache', 'a share on disk', 'none: its layers read keys of other layers, which are kept in memory');
    possible = { ...possible, cache: { cpu: 1, disk: 0 } };
  }
  const { compressCache = 'none' } = options;
  if (compressCache === 'none' || attention.latent === undefined) return possible;
  if (given.compressCache !== undefined && given.compressCache !== 'auto')
    refuse('compressCache', compressCache, 'none: the latent rows that it keeps are small, and kept as floats');
  return { ...possible, compressCache: 'none' };
}
