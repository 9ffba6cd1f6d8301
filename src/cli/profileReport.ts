import { formatBytes, type HardwareProfile } from './library.js';
import { formatTable } from './table.js';

type Compute = Pick<HardwareProfile['cpu'], 'matmul' | 'attention'>;

/** A profile in words. */
export function describeProfile(profile: HardwareProfile, seconds: number): string {
  const { machine, memory, links, cpu, diskRequests = [], leftOut = {} } = profile;
  const spreadOf = (path: string): string => {
    const spread = profile.spread[path];
    return spread === undefined ? '' : `±${(spread * 100).toFixed(0)}%`;
  };
  const line = (what: string, value: number | undefined, unit: string, path: string): string[][] =>
    value === undefined ? [] : [[what, `${formatRate(value)}${unit}`, spreadOf(path)]];
  const rates = [
    ['', 'median', 'spread'],
    ...line('memory, read', cpu.memoryBytesPerSecond, 'B/s', 'cpu.memoryBytesPerSecond'),
    ...line('memory, copied', cpu.memoryCopyBytesPerSecond, 'B/s', 'cpu.memoryCopyBytesPerSecond'),
    ...line('disk, read', links.diskReadBytesPerSecond, 'B/s', 'links.diskReadBytesPerSecond'),
    ...line('disk, written', links.diskWriteBytesPerSecond, 'B/s', 'links.diskWriteBytesPerSecond'),
    ...line('attention, prompts', cpu.attention.prefillFlopsPerSecond, 'FLOP/s', 'cpu.attention.prefillFlopsPerSecond'),
    ...(cpu.attention.decode ?? []).flatMap(({ cache, groupHeads, bytesPerSecond }) =>
      line(`attention, ${cache} cache, ${groupHeads} quer${groupHeads === 1 ? 'y' : 'ies'} a head`, bytesPerSecond, 'B/s', `cpu.attention.decode.${cache}.${groupHeads}`),
    ),
    ...line('quantising the cache', cpu.quantiseValuesPerSecond, ' values/s', 'cpu.quantiseValuesPerSecond'),
    ...line('sampling, greedy', cpu.sampleLogitsPerSecond, ' logits/s', 'cpu.sampleLogitsPerSecond'),
    ...line('sampling, top-p', cpu.sampleTopPLogitsPerSecond, ' logits/s', 'cpu.sampleTopPLogitsPerSecond'),
    ['a task beside its work', `${(cpu.taskSeconds * 1e6).toFixed(1)} µs`, spreadOf('cpu.taskSeconds')],
  ];
  const head = [
    ['processor', `${machine.processorName ?? 'unknown'}, ${machine.processors ?? cpu.threads} processors, ${machine.instructionSet ?? 'unknown'}`],
    ['memory', `${formatBytes(machine.memoryBytes ?? memory.cpuBytes)}, ${formatBytes(memory.cpuBytes)} for a run`],
    ['disk', memory.diskBytes > 0 ? `${formatBytes(memory.diskBytes)} for a run` : 'not measured'],
    ...Object.entries(leftOut).map(([what, reason]) => [`${what} left out`, reason]),
    ['measured in', `${seconds.toFixed(1)} s`],
  ];
  const requests = diskRequests.map(({ operation, requestBytes, depth, bytesPerSecond }) => [
    OPERATION_WORDS[operation], formatBytes(requestBytes), String(depth), `${formatRate(bytesPerSecond)}B/s`, spreadOf(`diskRequests.${operation}.${requestBytes}.${depth}`),
  ]);
  return [
    formatTable(head),
    formatTable(rates),
    productTable(cpu, spreadOf),
    ...(requests.length > 0 ? [formatTable([['disk', 'request', 'in flight', 'median', 'spread'], ...requests])] : []),
  ].join('\n');
}

const OPERATION_WORDS = { read: 'read', readLayers: 'read, a layer at a time', readPages: 'read, scattered pages', write: 'write' } as const;

/** Products by weights and rows: the main set on all threads and on one, then the other sets. */
function productTable(cpu: HardwareProfile['cpu'], spreadOf: (path: string) => string): string {
  const counts = [...new Set(cpu.matmul.map(({ tokens }) => tokens))].sort((a, b) => a - b);
  const rows = (on: Compute, where: string, path: string): string[][] =>
    [...new Set(on.matmul.map(({ weights }) => weights))].map((weights) => [
      `${weights}, ${where}`,
      ...counts.map((tokens) => {
        const point = on.matmul.find((each) => each.weights === weights && each.tokens === tokens && each.inputs === undefined);
        return point === undefined ? '-' : `${(point.flopsPerSecond / 1e9).toPrecision(3)} ${spreadOf(`${path}.matmul.${weights}.${tokens}`)}`;
      }),
    ]);
  return formatTable([
    ['products, GFLOP/s', ...counts.map((tokens) => `${tokens} token${tokens === 1 ? '' : 's'}`)],
    ...rows(cpu, `${cpu.threads} thread${cpu.threads === 1 ? '' : 's'}`, 'cpu'),
    ...(cpu.oneThread ? rows(cpu.oneThread, '1 thread', 'cpu.oneThread') : []),
    ...(cpu.otherInstructionSets ?? []).flatMap((each) => rows(each, each.instructionSet ?? 'another set', `cpu.otherInstructionSets.${each.instructionSet ?? ''}`)),
  ]);
}

/** `3.1 G`, `42 M`: decimal, as rates are. */
function formatRate(value: number): string {
  const units = ['', 'k', 'M', 'G', 'T', 'P'];
  const step = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log10(value) / 3)));
  return `${Number((value / 1000 ** step).toPrecision(3))} ${units[step] ?? ''}`;
}
