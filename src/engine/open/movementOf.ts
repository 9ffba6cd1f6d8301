import type { DecoderSpec } from '../../model/DecoderSpec.js';
import type { Movement } from '../memory/movement.js';
import { pagedMovement } from '../memory/pagedMovement.js';
import { peerMovement } from '../memory/peerMovement.js';
import type { SettledOptions } from './openRuntime.js';
import { layerBounds } from '../grid/Square.js';
import type { Tier } from '../grid/Tier.js';

/** What an engine moves for a square, by what it was opened with. */
export function movementOf(
  settled: SettledOptions,
  { layerSpecs, hiddenSize }: DecoderSpec,
  computeTier: Tier,
): Movement {
  const { cache, activations, streamedBytes, grid, gpuTier: gpu } = settled;
  const { first, last } = layerBounds(grid);
  const tokenBytes = hiddenSize * 4;
  const movement = pagedMovement({
    streamedBytes,
    pageTokens: cache.pageTokens,
    diskPages: settled.diskCache.pages,
    pageSlotBytes: settled.pageSlotBytes,
    windows: layerSpecs.slice(first, last + 1).map(({ window }) => window),
    tokenBytes,
    residentTokens: activations?.residentTokens ?? Infinity,
    gpu: gpu && settled,
  });
  return peerMovement(movement, grid, tokenBytes, computeTier);
}
