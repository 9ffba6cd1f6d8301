import { expect, test } from '@jest/globals';
import type { DiskOperation } from '../../../src/plan/HardwareProfile.js';
import { requireKnownShape } from '../../../src/plan/knownShapes.js';
import type { Policy } from '../../../src/plan/Policy.js';
import { predict } from '../../../src/plan/predict.js';
import { diskRates, gapWorthReading } from '../../../src/plan/model/transferRates.js';
import { simulatePlan } from '../../../src/simulatePlan.js';
import { CPU_MACHINE } from '../support/hardware.js';

const links = { diskReadBytesPerSecond: 2e9, diskWriteBytesPerSecond: 1e9 };
/** A request takes 10 µs, and a byte half a nanosecond. */
const rate = (requestBytes: number): number => requestBytes / (10e-6 + requestBytes * 0.5e-9);
const measured = (
  operation: DiskOperation,
  requestBytes: number,
  depth = 8,
): { operation: typeof operation; requestBytes: number; depth: number; bytesPerSecond: number } => ({
  operation,
  requestBytes,
  depth,
  bytesPerSecond: rate(requestBytes),
});

test('small pages cost what requests do beside their bytes', () => {
  const { read, write, readPages, writePages } = diskRates(
    { links, diskRequests: [measured('readPages', 65_536), measured('read', 2 ** 20), measured('read', 4096, 1)] },
    { layerBytes: 2 ** 25, pageBytes: 8192, streams: false },
  );
  expect([read, write, writePages]).toEqual([2e9, 1e9, 1e9]);
  expect(readPages).toBeCloseTo(rate(8192), 0);
});

test('no page is faster than a block, and where one size was measured all are alike', () => {
  expect(
    diskRates(
      { links, diskRequests: [measured('read', 2 ** 20), measured('write', 2 ** 17), measured('write', 2 ** 20)] },
      { layerBytes: 2 ** 25, pageBytes: 2 ** 24, streams: false },
    ),
  ).toMatchObject({ readPages: 2e9, writePages: 1e9 });
  expect(diskRates({ links: {} }, { layerBytes: 2 ** 25, pageBytes: 4096, streams: false })).toEqual({
    read: Infinity,
    readOnceSeconds: 0,
    write: Infinity,
    readPages: Infinity,
    readValues: Infinity,
    writePages: Infinity,
  });
});

test('values of chosen keys take what was measured of small blocks, which pages do not', () => {
  const pagesAlone = [measured('readPages', 65_536), measured('read', 2 ** 20)];
  // Requests of one KiB take 20 µs more than the line through larger ones says.
  const block = { ...measured('readBlocks', 1024), bytesPerSecond: 1024 / (1024 / rate(1024) + 20e-6) };
  const of = (diskRequests: ReturnType<typeof measured>[]): ReturnType<typeof diskRates> =>
    diskRates({ links, diskRequests }, { layerBytes: 2 ** 25, pageBytes: 8192, valueBytes: 1024, streams: false });
  const [without, beside] = [of(pagesAlone), of([...pagesAlone, block])];
  expect(beside).toEqual({ ...without, readValues: beside.readValues });
  expect(without.readValues).toBeCloseTo(rate(1024), 0);
  expect(beside.readValues).toBeCloseTo(block.bytesPerSecond, 0);
  const line = 1024 / beside.readValues;
  const [half, page] = [512, 65_536].map((valueBytes) => {
    const hardware = { links, diskRequests: [...pagesAlone, block] };
    return (
      valueBytes / diskRates(hardware, { layerBytes: 2 ** 25, pageBytes: 8192, valueBytes, streams: false }).readValues
    );
  });
  expect(half).toBeLessThan(line);
  expect(half).toBeGreaterThan(0.95 * line);
  expect(page).toBeCloseTo(65_536 / rate(65_536), 9);
  // Files that people write may have small blocks beside long reads alone.
  expect(of([measured('read', 2 ** 20), block]).readValues).toBeCloseTo(block.bytesPerSecond, 0);
});

test('small pages take longer while layers stream', () => {
  const of = (streams: boolean, pageBytes: number): number =>
    diskRates({ links, corrections: { 'disk.readPages': 0.5 } }, { layerBytes: 2 ** 25, pageBytes, streams }).readPages;
  expect(of(false, 65_536)).toBe(4e9);
  expect(of(true, 65_536)).toBe(4e9 / 1.25);
  expect(of(true, 2 ** 19)).toBe(4e9);
});

test('small layers wait for their last request; from 16 MiB on that is no more than measured', () => {
  const large = 2e9;
  const small = 1e9; // of 2 MiB: 2.1 ms, of which 14 MiB more take 6.3 ms
  const diskRequests = [
    { operation: 'readLayers' as const, requestBytes: 2 ** 21, depth: 8, bytesPerSecond: small },
    measured('read', 2 ** 17),
    measured('readPages', 65_536),
  ];
  const of = (layerBytes: number): number => {
    const { read, readOnceSeconds } = diskRates(
      { links, diskRequests },
      { layerBytes, pageBytes: 65_536, streams: false },
    );
    return layerBytes / (readOnceSeconds + layerBytes / read);
  };
  expect(of(2 ** 21)).toBeCloseTo(small, 0);
  expect(of(2 ** 24)).toBeCloseTo(large, 0);
  expect(of(2 ** 20)).toBeLessThan(0.7 * small);
  expect(of(2 ** 23)).toBeGreaterThan(1.5 * small);
  expect(of(2 ** 30)).toBeCloseTo(large, 0);
  expect(
    diskRates(
      { links, diskRequests: [measured('readLayers', 2 ** 21, 1)] },
      { layerBytes: 2 ** 21, pageBytes: 4096, streams: false },
    ).read,
  ).toBe(large);
});

test('a part of a small layer waits for its last request as the whole does', async () => {
  const diskRequests = [{ operation: 'readLayers' as const, requestBytes: 2 ** 21, depth: 8, bytesPerSecond: 5e8 }];
  const hardware = { ...CPU_MACHINE, links: { ...CPU_MACHINE.links, diskReadBytesPerSecond: 2e9 }, diskRequests };
  const request = {
    hardware,
    shape: { ...requireKnownShape('opt-125m'), layers: 4, layerWeightBytes: 2 ** 22 },
    workload: { promptTokens: 8, newTokens: 8, rows: 4 },
  };
  const onCpu = { gpu: 0, cpu: 1, disk: 0 };
  const policy = (disk: number): Policy => ({
    schedule: 'zigzag',
    batchSize: 4,
    batches: 1,
    weights: { gpu: 0, cpu: 1 - disk, disk },
    cache: onCpu,
    activations: onCpu,
    compressWeights: 'none',
    compressCache: 'none',
    cpuAttention: true,
  });
  const reading = (disk: number): number => predict(request, policy(disk)).queueSeconds['disk-read'] ?? NaN;
  // A read of 2 MiB takes 4.2 ms, one of 16 MiB 8.4 ms: 3.6 ms and 0.3 ns a byte. Eight sweeps of four layers.
  expect(reading(1) / 32).toBeCloseTo(3.6e-3 + 2 ** 22 * 0.286e-9, 4);
  expect(reading(0.25) / 32).toBeCloseTo(3.6e-3 + 2 ** 20 * 0.286e-9, 4);
  expect(reading(0)).toBe(0);
  expect((await simulatePlan(request, policy(0.25))).queueSeconds['disk-read']).toBeCloseTo(reading(0.25), 3);
});

test('what runs taught of large layers is not said of small ones, which wait for their last request', () => {
  const corrections = { 'disk.read': 0.5, 'disk.readSmall': 2, 'disk.write': 4, 'disk.readPages': 1.25 };
  const of = (layerBytes: number): unknown =>
    diskRates({ links, corrections }, { layerBytes, pageBytes: 4096, streams: false });
  const pages = { readPages: 1.6e9, readValues: 1.6e9, writePages: 1e9 };
  expect(of(2 ** 25)).toEqual({ read: 4e9, readOnceSeconds: 0, write: 2.5e8, ...pages });
  expect(of(2 ** 21)).toEqual({ read: 1e9, readOnceSeconds: 0, write: 2.5e8, ...pages });
});

test('a gap is worth reading that takes no longer than a request, where small blocks were measured', () => {
  const [blocks, pages] = [measured('readBlocks', 512), measured('readPages', 65_536)];
  expect(gapWorthReading({ links, diskRequests: [pages, blocks] })).toBe(20_000);
  expect(gapWorthReading({ links, diskRequests: [measured('read', 2 ** 20), blocks] })).toBe(20_000);
  expect(gapWorthReading({ links, diskRequests: [measured('read', 2 ** 20), pages] })).toBe(0);
  expect(gapWorthReading({ links })).toBe(0);
  // As long for any size: bytes cost nothing.
  const alike = [blocks, pages].map((each) => ({ ...each, bytesPerSecond: each.requestBytes / 1e-5 }));
  expect(gapWorthReading({ links: {}, diskRequests: alike })).toBe(2 ** 24);
  // All sizes at the rate of a bound on bytes: requests cost nothing.
  const bound = [blocks, pages].map((each) => ({ ...each, bytesPerSecond: 2e8 }));
  expect(gapWorthReading({ links: { diskReadBytesPerSecond: 2e8 }, diskRequests: bound })).toBe(0);
});
