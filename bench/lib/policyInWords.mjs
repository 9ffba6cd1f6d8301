// A policy, short.

/** E.g. `zigzag 2 x 64, 40% of weights on disk, cache 4bit`. */
export function policyInWords({ schedule, batchSize, batches, weights, cache, activations, compressCache }) {
  const disk = [
    ['weights', weights],
    ['cache', cache],
    ['activations', activations],
  ]
    .filter(([, { disk: share }]) => share > 0)
    .map(([what, { disk: share }]) => `, ${(100 * share).toFixed(0)}% of ${what} on disk`);
  return `${schedule} ${batches} x ${batchSize}${disk.join('')}${compressCache === 'none' ? '' : `, cache ${compressCache}`}`;
}
