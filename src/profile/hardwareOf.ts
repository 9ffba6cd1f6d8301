import type { MachineFigure, MachineFigures } from '../bindings/Profile.js';
import { NativeError } from '../errors/engineErrors.js';
import {
  CACHE_KINDS,
  LONG_INPUTS,
  MATMUL_WEIGHTS,
  type ComputeProfile,
  type DiskOperation,
  type HardwareProfile,
  type OtherCompute,
} from '../plan/HardwareProfile.js';
import { gpuFigures } from './gpuFigures.js';
import { NO_COST, round, rowHeads, slowest } from './figures.js';

type Draft = Pick<HardwareProfile, 'format' | 'name' | 'description' | 'machine' | 'memory' | 'links' | 'cpu'> &
  Partial<HardwareProfile>;

/** How the engine asks the disk (native/system/DirectFile.h): what `links` are measured with. */
const ENGINE_REQUEST_BYTES = 2 ** 20;
const ENGINE_DEPTH = 8;

/** Makes a hardware profile of the measured figures. Pure. @param cores that the machine's processors are of */
export function hardwareOf(
  { figures, leftOut }: MachineFigures,
  machine: HardwareProfile['machine'],
  memory: HardwareProfile['memory'],
  cores = Infinity,
): Draft {
  const spread: Record<string, number> = {};
  const take = (path: string, figure: MachineFigure | undefined): number => {
    if (figure === undefined) throw new NativeError(`the addon measured no ${path}`);
    spread[path] = round(figure.spread);
    return round(figure.perSecond);
  };
  const set = machine.instructionSet;
  const threads = Math.max(1, ...figures.map((figure) => figure.threads));
  const find = (what: MachineFigure['what'], more: Partial<MachineFigure> = {}): MachineFigure | undefined =>
    figures.find(
      (figure) =>
        figure.what === what &&
        Object.entries(more).every(([key, value]) => figure[key as keyof MachineFigure] === value),
    );
  const has = (wanted: OtherSet): boolean => find('matmul', wanted) !== undefined;

  const compute = (on: OtherSet, path: string): Pick<ComputeProfile, 'matmul' | 'attention'> => {
    const decode = figures.filter(
      (figure) =>
        figure.what === 'attention-decode' &&
        figure.threads === on.threads &&
        figure.instructionSet === on.instructionSet,
    );
    return {
      matmul: MATMUL_WEIGHTS.flatMap((weights) =>
        figures
          .filter(
            (figure) =>
              figure.what === 'matmul' &&
              figure.kind === weights &&
              figure.threads === on.threads &&
              figure.instructionSet === on.instructionSet,
          )
          .map((figure) => {
            const short = figure.inputs > 0 && figure.inputs < LONG_INPUTS ? { inputs: figure.inputs } : {};
            const name = [path, 'matmul', weights, figure.tokens, ...Object.values(short)].join('.');
            return { weights, tokens: figure.tokens, ...short, flopsPerSecond: take(name, figure) };
          }),
      ),
      attention: {
        prefillFlopsPerSecond: take(
          `${path}.attention.prefillFlopsPerSecond`,
          find('attention-prefill', { kind: 'f16', ...on }),
        ),
        decodeBytesPerSecond: take(
          `${path}.attention.decodeBytesPerSecond`,
          decode.find(({ kind, groupHeads }) => kind === 'f16' && groupHeads === 1),
        ),
        decode: CACHE_KINDS.flatMap((cache) =>
          decode
            .filter(({ kind }) => kind === cache)
            .map((figure) => ({
              cache,
              groupHeads: figure.groupHeads,
              bytesPerSecond: take(`${path}.attention.decode.${cache}.${figure.groupHeads}`, figure),
            })),
        ),
        ...rowHeads(
          find('attention-short', on),
          decode.find(({ kind, groupHeads }) => kind === 'f16' && groupHeads === 1),
        ),
      },
    };
  };
  const other = (on: OtherSet, path: string): OtherCompute => ({ ...on, ...compute(on, path) });

  const best = compute({ threads, instructionSet: set ?? '' }, 'cpu');
  const one = { threads: 1, instructionSet: set ?? '' };
  const onCores = { ...one, threads: cores };
  const otherSets = [
    ...new Set(figures.filter(({ what }) => what === 'matmul').map(({ instructionSet }) => instructionSet)),
  ].filter((each) => each !== set);
  const cpu = {
    threads,
    ...best,
    memoryBytesPerSecond: take('cpu.memoryBytesPerSecond', find('memory-read', { threads })),
    memoryCopyBytesPerSecond: take('cpu.memoryCopyBytesPerSecond', find('memory-copy', { threads })),
    quantiseValuesPerSecond: take(
      'cpu.quantiseValuesPerSecond',
      slowest(figures.filter(({ what, kind }) => what === 'cache-store' && kind !== 'f16')),
    ),
    dequantiseValuesPerSecond: dequantiseValuesPerSecond(best.attention.decode ?? []),
    rowOperationsPerSecond: take('cpu.rowOperationsPerSecond', find('rows')),
    sampleLogitsPerSecond: take('cpu.sampleLogitsPerSecond', find('sample-greedy')),
    sampleTopPLogitsPerSecond: take('cpu.sampleTopPLogitsPerSecond', find('sample-top-p')),
    taskSeconds: round(1 / take('cpu.taskSeconds', find('task'))),
    ...(threads > 1 && has(one) && { oneThread: other(one, 'cpu.oneThread') }),
    ...(cores < threads && has(onCores) && { oneThreadACore: other(onCores, 'cpu.oneThreadACore') }),
    ...(otherSets.length > 0 && {
      otherInstructionSets: otherSets.map((instructionSet) =>
        other({ threads, instructionSet }, `cpu.otherInstructionSets.${instructionSet}`),
      ),
    }),
  };

  const engines = { requestBytes: ENGINE_REQUEST_BYTES, depth: ENGINE_DEPTH };
  const [read, write] = [find('disk-read', engines), find('disk-write', engines)];
  const gpu = gpuFigures(figures, take);
  const disk =
    read && write
      ? {
          diskReadBytesPerSecond: take('links.diskReadBytesPerSecond', read),
          diskWriteBytesPerSecond: take('links.diskWriteBytesPerSecond', write),
        }
      : {};
  const operations = {
    'disk-read': 'read',
    'disk-read-layers': 'readLayers',
    'disk-read-pages': 'readPages',
    'disk-read-blocks': 'readBlocks',
    'disk-write': 'write',
  } as const;
  const diskRequests = figures.flatMap((figure) => {
    const operation = (operations as Partial<Record<MachineFigure['what'], DiskOperation>>)[figure.what];
    if (operation === undefined) return [];
    const { requestBytes, depth } = figure;
    return [
      {
        operation,
        requestBytes,
        depth,
        bytesPerSecond: take(`diskRequests.${operation}.${requestBytes}.${depth}`, figure),
      },
    ];
  });
  return {
    format: 'spillway-hardware-1',
    name: `${(machine.processorName ?? 'unknown processor').slice(0, 150)}, ${threads} thread${threads === 1 ? '' : 's'}${gpu ? `, ${(machine.gpuName ?? 'unknown GPU').slice(0, 40)}` : ''}`,
    description: 'Measured by spillway profile.',
    machine,
    memory: {
      gpuBytes: gpu ? memory.gpuBytes : 0,
      cpuBytes: memory.cpuBytes,
      diskBytes: read && write ? memory.diskBytes : 0,
    },
    links: { ...gpu?.links, ...disk },
    ...(diskRequests.length > 0 && { diskRequests }),
    ...(gpu && { linkCopies: gpu.linkCopies }),
    cpu,
    ...(gpu && { gpu: gpu.gpu }),
    spread,
    ...(leftOut.length > 0 && {
      leftOut: Object.fromEntries(leftOut.map(({ what, reason }) => [what, reason.slice(0, 4000)])),
    }),
  };
}

interface OtherSet {
  readonly threads: number;
  readonly instructionSet: string;
}

/**
 * Says how much longer attention over a quantised cache takes than over 16 bits: on the CPU nothing else makes floats
 * of its values.
 */
function dequantiseValuesPerSecond(
  decode: readonly { readonly cache: string; readonly groupHeads: number; readonly bytesPerSecond: number }[],
): number {
  const secondsAValue = (cache: string): number | undefined => {
    const point = decode.find((each) => each.cache === cache && each.groupHeads === 1);
    return point && 2 / point.bytesPerSecond;
  };
  const plain = secondsAValue('f16') ?? 0;
  const longer = Math.max(0, ...['q8', 'q4'].map((cache) => (secondsAValue(cache) ?? plain) - plain));
  return longer > 1 / NO_COST ? round(1 / longer) : NO_COST;
}
