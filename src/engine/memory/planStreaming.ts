import { MemoryBudgetError } from '../../errors/MemoryBudgetError.js';
import { HEAP_MARGIN_BYTES, type ProcessBytes } from '../../plan/reserves.js';

export interface StreamingDemand extends ProcessBytes {
  /** Cap on resident memory. */
  readonly capBytes: number;
  /**
   * Scratch, activations of all slots, and the weights that are resident in any case: those of no layer, norms and
   * biases.
   */
  readonly fixedBytes: number;
  /** One page of cache in every layer. */
  readonly pageBytes: number;
  /** The other weights of each layer, any part of which can stream. */
  readonly layerBytes: readonly number[];
  /** Layers that are in memory at once while they stream. */
  readonly buffers: number;
  /** Pages without which no row of a sensible length fits. */
  readonly leastPages: number;
  /** Pages that a full batch of rows of usual length takes. */
  readonly usualPages: number;
  /**
   * The share of those that is to be resident, where somebody has decided it; else what is left when the cache has its
   * pages.
   */
  readonly residentShare?: number | undefined;
}

export interface StreamingPlan {
  readonly pages: number;
  /** Of `layerBytes`, what stays in memory of each layer for good; the rest streams every pass. */
  readonly residentLayerBytes: number;
  readonly reservedBytes: number;
}

/**
 * Divides the cap between KV cache and weights for a model that does not fit. A row more in a pass costs nothing on
 * disk, so the cache of a full batch comes first; what is left keeps a part of every layer in memory. Pure.
 * @throws MemoryBudgetError with the smallest cap that works at this start and at the next ones
 */
export function planStreaming(demand: StreamingDemand): StreamingPlan {
  const { capBytes, residentBytes, laterBytes, fixedBytes, pageBytes, layerBytes, buffers, leastPages, usualPages } =
    demand;
  const largest = Math.max(...layerBytes);
  // A byte of each layer that is resident costs that byte a layer, and saves it in each buffer.
  const weights = (resident: number): number =>
    layerBytes.reduce((sum, bytes) => sum + Math.min(bytes, resident), 0) + buffers * Math.max(0, largest - resident);
  const other = residentBytes + HEAP_MARGIN_BYTES + fixedBytes;
  const asked = demand.residentShare === undefined ? undefined : Math.round(largest * demand.residentShare);
  const least = asked ?? 0;
  const room = capBytes - other - weights(least);
  if (room < leastPages * pageBytes) {
    throw new MemoryBudgetError(
      'cpu',
      capBytes,
      other - residentBytes + laterBytes + weights(least) + leastPages * pageBytes,
      'the model, streaming from disk,',
    );
  }
  const pages = Math.min(usualPages, Math.floor(room / pageBytes));
  const spare = room - pages * pageBytes;
  let low = least;
  let high = asked === undefined ? largest : least;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (weights(middle) - weights(least) <= spare) low = middle;
    else high = middle - 1;
  }
  return {
    pages,
    residentLayerBytes: low,
    reservedBytes: HEAP_MARGIN_BYTES + fixedBytes + weights(low) + pages * pageBytes,
  };
}
