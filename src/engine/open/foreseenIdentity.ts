import { loadAddon } from '../../bindings/loadAddon.js';
import { nativeCall } from '../../bindings/nativeCall.js';
import type { EngineOptions } from '../../EngineOptions.js';
import { withPolicy } from './policyOptions.js';
import { resultIdentity, type ResultIdentity } from './resultIdentity.js';
import { settleOptions } from './settleOptions.js';

/**
 * What can be told of an engine's `resultIdentity` by its options, so that a job which could not go on with it is
 * refused before the model is loaded. What is only chosen then (`auto`; what is on a GPU) is left out.
 *
 * @param options as `checkedOptions` leaves them
 * @param model `ModelIdentity.hash`
 * @throws UsageError
 */
export function foreseenIdentity(options: EngineOptions, model: string): Partial<ResultIdentity> {
  const addon = loadAddon();
  const machine = nativeCall(() => addon.machine());
  const { gpu: onGpu } = settleOptions(options, machine);
  const given = withPolicy(options, onGpu !== undefined);
  const facts = { ...settleOptions(given, machine), numerics: addon.numerics, model, gpu: undefined };
  const { layers, compressWeights, compressCache, gpu, instructions, ...known } = resultIdentity(facts);
  return {
    ...known,
    ...(options.layers === undefined && { layers }),
    ...(given.compressWeights !== 'auto' && { compressWeights }),
    ...(given.compressCache !== 'auto' && { compressCache }),
    ...(!onGpu && { instructions, gpu }),
  };
}
