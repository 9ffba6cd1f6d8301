import type { NativeRuntime } from '../../bindings/Addon.js';
import { loadAddon } from '../../bindings/loadAddon.js';
import type { ModelIdentity } from '../../model/identity/identifyModel.js';
import type { SettledOptions } from './openRuntime.js';
import { resultIdentity, type ResultIdentity } from './resultIdentity.js';

/** What decides the results of an engine that has been opened. */
export function identityOfEngine(
  { hash: model }: ModelIdentity,
  { gpuProducts: products }: NativeRuntime,
  settled: SettledOptions,
): ResultIdentity {
  const {
    grid: { part, layers: count },
    gpuTier: gpu,
    diskCache,
  } = settled;
  const addon = loadAddon();
  const facts = gpu && addon.machine().gpus[gpu.options.device];
  return resultIdentity({
    ...settled,
    numerics: addon.numerics,
    model,
    layers: part && { first: part.first, count },
    gpu: gpu && facts && { facts, products, cacheShare: gpu.cacheShare, diskCache },
  });
}
