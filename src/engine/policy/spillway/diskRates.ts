import { readKind } from '../corrections/workKinds.js';
import type { HardwareProfile } from '../HardwareProfile.js';

/** Bytes a second of what goes to a disk and comes from it. */
export interface DiskRates {
  /** Blocks of weights, hidden states. */
  readonly read: number;
  readonly write: number;
  /** Pages of the cache, of one layer: small, and not beside each other. */
  readonly readPages: number;
  readonly writePages: number;
}

/** How the engine asks: so many requests in flight. */
const DEPTH = 8;

/**
 * Rates for layers of `layerBytes` and pages of `pageBytes` (of one layer): what a request costs beside its bytes is taken from two measured sizes of requests. Where only one was measured, pages are
 * as fast as blocks. What runs taught of each is in them.
 */
export function diskRates({ links, diskRequests = [], corrections = {} }: Pick<HardwareProfile, 'links' | 'diskRequests' | 'corrections'>, { layerBytes, pageBytes }: { readonly layerBytes: number; readonly pageBytes: number }): DiskRates {
  const { diskReadBytesPerSecond: read = Infinity, diskWriteBytesPerSecond: write = Infinity } = links;
  const small = (operations: readonly string[], block: number): number => {
    const measured = diskRequests.filter(({ operation, depth }) => operations.includes(operation) && depth === DEPTH).sort((a, b) => a.requestBytes - b.requestBytes);
    const [least, most] = [measured[0], measured.at(-1)];
    if (least === undefined || most === undefined || least.requestBytes === most.requestBytes) return block;
    // Seconds a request: some to begin with, the rest by bytes.
    const [first, last] = [least, most].map(({ requestBytes, bytesPerSecond }) => requestBytes / bytesPerSecond) as [number, number];
    const perByte = Math.max(0, (last - first) / (most.requestBytes - least.requestBytes));
    const beside = Math.max(0, first - least.requestBytes * perByte);
    return Math.min(block, pageBytes / (beside + pageBytes * perByte));
  };
  const corrected = (kind: string, rate: number): number => rate / (corrections[kind] ?? 1);
  return {
    read: corrected(readKind(layerBytes), read), write: corrected('disk.write', write),
    readPages: corrected('disk.readPages', small(['read', 'readPages'], read)), writePages: corrected('disk.writePages', small(['write'], write)),
  };
}
