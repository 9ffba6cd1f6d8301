import type { InstructionSet, MachineFacts, NativeRuntime, RuntimeOptions } from '../bindings/Addon.js';
import { loadAddon } from '../bindings/loadAddon.js';
import { nativeCall } from '../bindings/nativeCall.js';
import type { EngineOptions } from '../EngineOptions.js';
import { UsageError } from '../errors/UsageError.js';
import type { ModelSource } from '../model/ModelSource.js';
import { parseBytes } from '../units.js';
import { planMemory } from './memory/planMemory.js';
import type { Grid } from './schedules/Square.js';

/** What was decided for an engine: the grid of its runs, and its KV cache. */
export interface SettledOptions {
  readonly grid: Grid;
  readonly cache: RuntimeOptions['cache'];
  /** Bytes of one page, all layers together. */
  readonly pageBytes: number;
  readonly cpuMemoryBytes: number;
  /** What the runtime reserved, and the process held before. */
  readonly reservedBytes: number;
  readonly threads: number;
  readonly precision: 'default' | 'float32';
}

const PAGE_TOKENS = 32;
const BATCH_SIZE = 64;
const TOKENS_PER_SQUARE = 512;
/** Contexts beyond this are not provided for in every row at once; longer rows are admitted as pages come free. */
const USUAL_ROW_TOKENS = 4096;
/** A budget must hold at least a row of this many tokens. */
const LEAST_ROW_TOKENS = 512;
const INSTRUCTION_SETS: readonly InstructionSet[] = ['scalar', 'avx2', 'avx512'];

/** Settles every option, plans the memory, and opens the native runtime; its weights are not loaded yet. @throws UsageError, MemoryBudgetError, ModelFileError */
export function runtimeFor(source: ModelSource, options: EngineOptions): { readonly runtime: NativeRuntime; readonly settled: SettledOptions } {
  const addon = loadAddon();
  const machine = nativeCall(() => addon.machine());
  if (options.device !== undefined && !['auto', 'cpu'].includes(options.device)) {
    throw new UsageError(`device: found ${JSON.stringify(options.device)}, this build has: auto, cpu`);
  }
  const precision = options.precision ?? 'default';
  if (!['default', 'float32'].includes(precision)) throw new UsageError(`precision: found ${JSON.stringify(precision)}, expected default or float32`);
  const threads = whole('threads', options.threads, machine.processors, 1024);
  const rowsPerSlot = whole('batchSize', options.batchSize, BATCH_SIZE, 4096);
  const slots = whole('batches', options.batches, 1, 256);
  const tokensPerSquare = whole('tokensPerSquare', options.tokensPerSquare, Math.max(TOKENS_PER_SQUARE, rowsPerSlot), 65_536);
  const instructionSet = instructionSetOf(options, machine);

  const runtimeOptions = (pages: number): RuntimeOptions => ({
    decoder: source.decoder,
    bindings: source.bindings,
    files: source.files,
    precision,
    threads,
    instructionSet,
    cache: { type: precision === 'float32' ? 'f32' : 'f16', pageTokens: PAGE_TOKENS, pages },
    limits: { tokensPerSquare, rowsPerSquare: rowsPerSlot },
  });
  const onePage = nativeCall(() => addon.measureRuntime(runtimeOptions(1)));
  const { contextTokens } = source.decoder;
  const pagesOf = (tokens: number): number => Math.ceil(Math.min(tokens, contextTokens) / PAGE_TOKENS);
  const cpuMemoryBytes = options.cpuMemory === undefined ? freeMemory(machine) : parseBytes(options.cpuMemory, 'cpuMemory');
  const { pages, reservedBytes } = planMemory({
    capBytes: cpuMemoryBytes,
    residentBytes: process.memoryUsage.rss(),
    onePage,
    slots,
    leastPages: pagesOf(LEAST_ROW_TOKENS),
    mostPages: Math.max(pagesOf(contextTokens), pagesOf(USUAL_ROW_TOKENS) * slots * rowsPerSlot),
  });
  const settledRuntime = runtimeOptions(pages);
  return {
    runtime: nativeCall(() => addon.openRuntime(settledRuntime)),
    settled: {
      grid: { layers: source.decoder.layers, slots, rowsPerSlot, tokensPerSquare },
      cache: settledRuntime.cache,
      pageBytes: onePage.cache,
      cpuMemoryBytes,
      reservedBytes,
      threads,
      precision,
    },
  };
}

function whole(name: string, value: number | undefined, fallback: number, most: number): number {
  const settled = value ?? fallback;
  if (!Number.isSafeInteger(settled) || settled < 1 || settled > most) {
    throw new UsageError(`${name}: found ${String(value)}, expected a whole number from 1 to ${most}`);
  }
  return settled;
}

function instructionSetOf({ instructionSet }: EngineOptions, { instructionSets }: MachineFacts): InstructionSet {
  const best = instructionSets.at(-1) ?? 'scalar';
  if (instructionSet === undefined) return best;
  if (!INSTRUCTION_SETS.includes(instructionSet) || !instructionSets.includes(instructionSet)) {
    throw new UsageError(`instructionSet: found ${JSON.stringify(instructionSet)}, this machine has: ${instructionSets.join(', ')}`);
  }
  return instructionSet;
}

/** What the machine has free, less a margin for everybody else, plus what this process holds already. */
function freeMemory({ availableBytes }: MachineFacts): number {
  return Math.floor(availableBytes * 0.9) + process.memoryUsage.rss();
}
