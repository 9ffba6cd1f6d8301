import { readKind } from '../corrections.js';
import type { DiskOperation, HardwareProfile } from '../HardwareProfile.js';

/** Bytes a second of what goes to a disk and comes from it. */
export interface DiskRates {
  /** Blocks of weights, hidden states. */
  readonly read: number;
  /**
   * Seconds that a layer's weights take beside that, however much of the layer is read: a short read waits for its last
   * request.
   */
  readonly readOnceSeconds: number;
  readonly write: number;
  /** Pages of the cache, of one layer: small, and not beside each other. */
  readonly readPages: number;
  /** The values of chosen keys, scattered over such pages. */
  readonly readValues: number;
  readonly writePages: number;
}

/** How the engine asks: so many requests in flight. */
const DEPTH = 8;
/**
 * The layer size that `diskReadBytesPerSecond` is measured with (native/profile/measureDisk.cpp): layers of so many
 * bytes wait for their last request rarely enough.
 */
const LARGE_LAYER_BYTES = 2 ** 24;

/**
 * Small pages that are read while layers stream, and written too, take so many times as long as by themselves: by two
 * runs that had much of both, in pages of 24 KiB (bench/results, the policy benchmark). Of pages of half a MiB nothing
 * like it was seen.
 */
const BESIDE_LAYERS = 1.25;
const SMALL_PAGE_BYTES = 2 ** 17;

interface Point {
  readonly requestBytes: number;
  readonly bytesPerSecond: number;
}

/**
 * Rates for layers of `layerBytes` and pages of `pageBytes` (of one layer): what a request, or a layer, costs beside
 * its bytes is taken from two measured sizes. Where only one was measured, pages and small layers are as fast as large
 * ones. What runs taught of each is in them.
 *
 * @param streams whether weights come from disk as well
 */
export function diskRates(
  { links, diskRequests = [], corrections = {} }: Pick<HardwareProfile, 'links' | 'diskRequests' | 'corrections'>,
  {
    layerBytes,
    pageBytes,
    valueBytes = pageBytes,
    streams,
  }: {
    readonly layerBytes: number;
    readonly pageBytes: number;
    /** A request for values of chosen keys. Default: a page's. */
    readonly valueBytes?: number;
    readonly streams: boolean;
  },
): DiskRates {
  const { diskReadBytesPerSecond: read = Infinity, diskWriteBytesPerSecond: write = Infinity } = links;
  const measured = (...operations: readonly DiskOperation[]): readonly Point[] => pointsOf(diskRequests, ...operations);
  const corrected = (kind: string, rate: number): number => rate / (corrections[kind] ?? 1);
  const layers = costOf(
    layerBytes,
    [...measured('readLayers'), { requestBytes: LARGE_LAYER_BYTES, bytesPerSecond: read }],
    read,
  );
  const requests = (bytes: number, rate: number, points: readonly Point[]): number => {
    const { onceSeconds, bytesPerSecond } = costOf(bytes, points, rate);
    return onceSeconds === 0 ? bytesPerSecond : bytes / (onceSeconds + bytes / bytesPerSecond);
  };
  const readRequests = (bytes: number, ...operations: readonly DiskOperation[]): number =>
    corrected('disk.readPages', requests(bytes, read, measured(...operations))) /
    (streams && bytes < SMALL_PAGE_BYTES ? BESIDE_LAYERS : 1);
  const kind = readKind(layerBytes);
  return {
    read: corrected(kind, layers.bytesPerSecond),
    readOnceSeconds: layers.onceSeconds * (corrections[kind] ?? 1),
    write: corrected('disk.write', write),
    readPages: readRequests(pageBytes, 'read', 'readPages'),
    readValues: readRequests(valueBytes, ...operationsOfValues(diskRequests)),
    writePages: corrected('disk.writePages', requests(pageBytes, write, measured('write'))),
  };
}

/**
 * Gives the bytes whose reading takes as long as one request more, by what was measured of small blocks: what has no
 * more between it is better read together. 0 where nobody has measured. Pure.
 */
export function gapWorthReading({
  links: { diskReadBytesPerSecond: read = Infinity },
  diskRequests = [],
}: Pick<HardwareProfile, 'links' | 'diskRequests'>): number {
  const operations = operationsOfValues(diskRequests);
  if (!operations.includes('readBlocks')) return 0;
  const { onceSeconds, bytesPerSecond } = costOf(0, pointsOf(diskRequests, ...operations), read);
  return onceSeconds === 0 ? 0 : Math.floor(Math.min(LARGE_LAYER_BYTES, onceSeconds * bytesPerSecond));
}

function pointsOf(
  diskRequests: NonNullable<HardwareProfile['diskRequests']>,
  ...operations: readonly DiskOperation[]
): readonly Point[] {
  return diskRequests.filter(({ operation, depth }) => operations.includes(operation) && depth === DEPTH);
}

/** Small blocks and the next larger size that was measured: one size alone says nothing of what a request costs. */
function operationsOfValues(diskRequests: NonNullable<HardwareProfile['diskRequests']>): readonly DiskOperation[] {
  const has = (operation: DiskOperation): boolean => pointsOf(diskRequests, operation).length > 0;
  const [blocks, pages] = [has('readBlocks'), has('readPages')];
  return [blocks && pages ? 'readPages' : 'read', blocks ? 'readBlocks' : 'readPages'];
}

/**
 * By the smallest and the largest of the measured sizes: some seconds to begin with, the rest by bytes. Never faster
 * than `most`.
 */
function costOf(
  bytes: number,
  points: readonly Point[],
  most: number,
): { readonly onceSeconds: number; readonly bytesPerSecond: number } {
  const sorted = [...points].sort((a, b) => a.requestBytes - b.requestBytes);
  const [small, large] = [sorted[0], sorted.at(-1)];
  if (small === undefined || large === undefined || small.requestBytes === large.requestBytes)
    return { onceSeconds: 0, bytesPerSecond: most };
  const [first, last] = [small, large].map(({ requestBytes, bytesPerSecond }) => requestBytes / bytesPerSecond) as [
    number,
    number,
  ];
  const perByte = Math.max(0, (last - first) / (large.requestBytes - small.requestBytes));
  const onceSeconds = Math.max(0, first - small.requestBytes * perByte);
  return onceSeconds + bytes * perByte < bytes / most
    ? { onceSeconds: 0, bytesPerSecond: most }
    : { onceSeconds, bytesPerSecond: 1 / perByte };
}

/** Bytes a second of what goes to a GPU and comes from it. Infinite where there is no link. */
export interface LinkRates {
  readonly up: number;
  readonly down: number;
}

/** Gives the measured rates, with what runs taught of them. */
export function linkRates({ links, corrections = {} }: Pick<HardwareProfile, 'links' | 'corrections'>): LinkRates {
  return {
    up: (links.hostToDeviceBytesPerSecond ?? Infinity) / (corrections['link.up'] ?? 1),
    down: (links.deviceToHostBytesPerSecond ?? Infinity) / (corrections['link.down'] ?? 1),
  };
}
