import { UsageError } from '../errors/UsageError.js';
import { type BlockSetting, type CostModel, costAt } from './CostModel.js';
import { pacedSetting } from './model/paced.js';
import type { PlacementVector } from './Placement.js';
import { slotsOf } from './Policy.js';

/**
 * A block's latency as FlexGen has it (section 1): what one block takes from its first prompt to its last token, by
 * itself: as many rows as it has places (or all of them, where there are fewer), which begin together. Pure.
 * @param setting with the rows of the workload, not with a pace
 * @param cpuBytes what may be used of the memory
 */
export function blockSeconds(model: CostModel, setting: BlockSetting, at: PlacementVector, cpuBytes: number): number {
  const alone = rowsAlone(setting);
  return costAt(model.blockAt(pacedSetting(model, alone, at, cpuBytes) ?? alone, at), at).seconds;
}

/** A block by itself: as many rows as it has places, or all of them where there are fewer. Pure. */
export function rowsAlone(setting: BlockSetting): BlockSetting {
  const { workload, block } = setting;
  const places = slotsOf(block) * block.batchSize;
  return { ...setting, workload: { ...workload, rows: Math.min(workload.rows ?? places, places) } };
}

/** Seconds in words that can be asked for: never less than they are. */
function secondsToAskFor(seconds: number): string {
  const digits = Math.max(0, 3 - Math.floor(Math.log10(seconds)));
  return `${(Math.ceil(seconds * 10 ** digits) / 10 ** digits).toFixed(digits)} seconds`;
}

/** The error for a bound on latency that nothing keeps. @param least of all that was found */
export function tooSlow(maxLatencySeconds: number, least: number, what: string): UsageError {
  return new UsageError(
    `maxLatency: found ${maxLatencySeconds}, expected at least ${secondsToAskFor(least)}, the least that any ${what} takes`,
  );
}
