import { formatBytes, type HardwareProfile } from './library.js';
import { formatTable } from './table.js';

type Compute = Pick<HardwareProfile['cpu'], 'matmul' | 'attention'>;

/** A profile in words. */
export function describeProfile(profile: HardwareProfile, seconds: number): string {
  const { machine, memory, links, cpu, gpu, diskRequests = [], linkCopies = [], leftOut = {} } = profile;
  const spreadOf = (path: string): string => {
    const spread = profile.spread[path];
    return spread === undefined ? '' : `±${(spread * 100).toFixed(0)}%`;
  };
  const line = (what: string, value: number | undefined, unit: string, path: string): string[][] =>
    value === undefined ? [] : [[what, `${formatRate(value)}${unit}`, spreadOf(path)]];
  const computeLines = (on: HardwareProfile['cpu'], path: string): string[][] => [
    ...line(
      'attention, prompts',
      on.attention.prefillFlopsPerSecond,
      'FLOP/s',
      `${path}.attention.prefillFlopsPerSecond`,
    ),
    ...(on.attention.decode ?? []).flatMap(({ cache, groupHeads, bytesPerSecond }) =>
      line(
        `attention, ${cache} cache, ${groupHeads} quer${groupHeads === 1 ? 'y' : 'ies'} a head`,
        bytesPerSecond,
        'B/s',
        `${path}.attention.decode.${cache}.${groupHeads}`,
      ),
    ),
    ...line('quantising the cache', on.quantiseValuesPerSecond, ' values/s', `${path}.quantiseValuesPerSecond`),
    ...line('sampling, greedy', on.sampleLogitsPerSecond, ' logits/s', `${path}.sampleLogitsPerSecond`),
    ...line('sampling, top-p', on.sampleTopPLogitsPerSecond, ' logits/s', `${path}.sampleTopPLogitsPerSecond`),
    ['a task beside its work', micros(on.taskSeconds), spreadOf(`${path}.taskSeconds`)],
  ];
  const rates = [
    ['', 'median', 'spread'],
    ...line('memory, read', cpu.memoryBytesPerSecond, 'B/s', 'cpu.memoryBytesPerSecond'),
    ...line('memory, copied', cpu.memoryCopyBytesPerSecond, 'B/s', 'cpu.memoryCopyBytesPerSecond'),
    ...line('disk, read', links.diskReadBytesPerSecond, 'B/s', 'links.diskReadBytesPerSecond'),
    ...line('disk, written', links.diskWriteBytesPerSecond, 'B/s', 'links.diskWriteBytesPerSecond'),
    ...computeLines(cpu, 'cpu'),
  ];
  const gpuRates = gpu && [
    ['GPU', 'median', 'spread'],
    ...line('link, to the GPU', links.hostToDeviceBytesPerSecond, 'B/s', 'links.hostToDeviceBytesPerSecond'),
    ...line('link, from it', links.deviceToHostBytesPerSecond, 'B/s', 'links.deviceToHostBytesPerSecond'),
    ...(links.copySeconds === undefined ? [] : [['a copy of next to nothing', micros(links.copySeconds), '']]),
    ...line('memory, copied', gpu.memoryCopyBytesPerSecond, 'B/s', 'gpu.memoryCopyBytesPerSecond'),
    ...computeLines(gpu, 'gpu'),
  ];
  const head = [
    [
      'processor',
      `${machine.processorName ?? 'unknown'}, ${machine.processors ?? cpu.threads} processors, ${machine.instructionSet ?? 'unknown'}`,
    ],
    ['memory', `${formatBytes(machine.memoryBytes ?? memory.cpuBytes)}, ${formatBytes(memory.cpuBytes)} for a run`],
    ...(gpu ? [['GPU', `${machine.gpuName ?? 'unknown'}, ${formatBytes(memory.gpuBytes)} for a run`]] : []),
    ['disk', memory.diskBytes > 0 ? `${formatBytes(memory.diskBytes)} for a run` : 'not measured'],
    ...Object.entries(leftOut).map(([what, reason]) => [`${what} left out`, reason]),
    ['measured in', `${seconds.toFixed(1)} s`],
    ...(profile.disturbed === undefined
      ? []
      : [['busy', `${profile.disturbed}: measure again while nothing else runs`]]),
  ];
  const requests = diskRequests.map(({ operation, requestBytes, depth, bytesPerSecond }) => [
    OPERATION_WORDS[operation],
    formatBytes(requestBytes),
    String(depth),
    `${formatRate(bytesPerSecond)}B/s`,
    spreadOf(`diskRequests.${operation}.${requestBytes}.${depth}`),
  ]);
  const copies = linkCopies.map(({ direction, copyBytes, depth, bytesPerSecond }) => [
    direction === 'toDevice' ? 'to the GPU' : 'from it',
    formatBytes(copyBytes),
    String(depth),
    `${formatRate(bytesPerSecond)}B/s`,
    spreadOf(`linkCopies.${direction}.${copyBytes}.${depth}`),
  ]);
  return [
    formatTable(head),
    formatTable(rates),
    productTable(cpu, `${cpu.threads} thread${cpu.threads === 1 ? '' : 's'}`, 'cpu', spreadOf),
    ...(gpuRates && gpu ? [formatTable(gpuRates), productTable(gpu, 'GPU', 'gpu', spreadOf)] : []),
    ...(copies.length > 0 ? [formatTable([['link', 'copy', 'at a time', 'median', 'spread'], ...copies])] : []),
    ...(requests.length > 0 ? [formatTable([['disk', 'request', 'in flight', 'median', 'spread'], ...requests])] : []),
  ].join('\n');
}

const OPERATION_WORDS = {
  read: 'read',
  readLayers: 'read, a layer at a time',
  readPages: 'read, scattered pages',
  readBlocks: 'read, scattered blocks',
  write: 'write',
} as const;

/** Products by weights and rows: the main set on all threads and on one, then the other sets. */
function productTable(
  on: HardwareProfile['cpu'],
  where: string,
  path: string,
  spreadOf: (path: string) => string,
): string {
  const counts = [...new Set(on.matmul.map(({ tokens }) => tokens))].sort((a, b) => a - b);
  const rows = (of: Pick<Compute, 'matmul'>, name: string, at: string): string[][] =>
    [...new Set(of.matmul.map(({ weights }) => weights))].map((weights) => [
      `${weights}, ${name}`,
      ...counts.map((tokens) => {
        const point = of.matmul.find(
          (each) => each.weights === weights && each.tokens === tokens && each.inputs === undefined,
        );
        return point === undefined
          ? '-'
          : `${(point.flopsPerSecond / 1e9).toPrecision(3)} ${spreadOf(`${at}.${weights}.${tokens}`)}`;
      }),
    ]);
  return formatTable([
    ['products, GFLOP/s', ...counts.map((tokens) => `${tokens} token${tokens === 1 ? '' : 's'}`)],
    ...rows(on, where, `${path}.matmul`),
    ...(on.matmulCublasLt ? rows({ matmul: on.matmulCublasLt }, `${where}, cuBLASLt`, `${path}.matmulCublasLt`) : []),
    ...(on.oneThread ? rows(on.oneThread, '1 thread', `${path}.oneThread.matmul`) : []),
    ...(on.oneThreadACore
      ? rows(on.oneThreadACore, `${on.oneThreadACore.threads} threads`, `${path}.oneThreadACore.matmul`)
      : []),
    ...(on.otherInstructionSets ?? []).flatMap((each) =>
      rows(
        each,
        each.instructionSet ?? 'another set',
        `${path}.otherInstructionSets.${each.instructionSet ?? ''}.matmul`,
      ),
    ),
  ]);
}

function micros(seconds: number): string {
  return `${(seconds * 1e6).toFixed(1)} µs`;
}

/** `3.1 G`, `42 M`: decimal, as rates are. */
function formatRate(value: number): string {
  const units = ['', 'k', 'M', 'G', 'T', 'P'];
  const step = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log10(value) / 3)));
  return `${Number((value / 1000 ** step).toPrecision(3))} ${units[step] ?? ''}`;
}
