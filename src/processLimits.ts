import { readFileSync } from 'node:fs';
import { getHeapStatistics } from 'node:v8';
import { ProcessLimitError } from './errors/ProcessLimitError.js';
import { formatBytes } from './units.js';

const MIB = 2 ** 20;
/** Loading the addon, and what a process takes until it opens a model. */
export const ADDON_BYTES = 64 * MIB;
/** Stack of a thread, and its guard. */
export const THREAD_BYTES = 8 * MIB + 4096;
/** Threads beside those that compute: of libuv, of V8, of reading and writing. */
export const OTHER_THREADS = 8;
/** Bytes of address space alone that allocators set apart for as many threads as there usually are; for advice. */
const ARENAS_BYTES = 512 * MIB;
/** Less is no advice before it is known which model it is for. */
const LEAST_ADVICE_BYTES = { 'address space': 2048 * MIB, data: 512 * MIB };
/** Advice is a multiple of it. */
const STEP_BYTES = 64 * MIB;

/**
 * V8's heap: what the program takes of it, and a model's tokenizer for each of its tokens, so that something is left to
 * work in. (Runs over short rows were found to get through with 36 MiB, not with 32, at 256 tokens.)
 */
const HEAP_BYTES = 40 * MIB;
const HEAP_TOKEN_BYTES = 256;
/** The bytes that V8 adds to `--max-old-space-size` for new objects. */
const NEW_SPACE_BYTES = 48 * MIB;

/** A limit that the system sets a process, and how much it has. */
export interface ProcessLimit {
  readonly what: 'address space' | 'data';
  readonly flag: '-v' | '-d';
  readonly limitBytes: number;
  readonly usedBytes: number;
}

/**
 * The limits that are set, of those that Linux counts memory by: on address space (RLIMIT_AS) and on what can be
 * written (RLIMIT_DATA). None elsewhere.
 * @param read reads a file of /proc/self; for tests
 */
export function processLimits(
  read: (name: string) => string = (name) => readFileSync(`/proc/self/${name}`, 'utf8'),
): ProcessLimit[] {
  let limits: string;
  let status: string;
  try {
    [limits, status] = [read('limits'), read('status')];
  } catch {
    return [];
  }
  const kinds = [
    { what: 'address space', flag: '-v', limit: /^Max address space +(\d+)/m, used: /^VmSize:\s+(\d+) kB/m },
    { what: 'data', flag: '-d', limit: /^Max data size +(\d+)/m, used: /^VmData:\s+(\d+) kB/m },
  ] as const;
  return kinds.flatMap(({ what, flag, limit, used }) => {
    const found = limit.exec(limits)?.[1];
    if (found === undefined) return [];
    return [{ what, flag, limitBytes: Number(found), usedBytes: Number(used.exec(status)?.[1] ?? 0) * 1024 }];
  });
}

/**
 * Makes sure that a process may grow by so much, before something fails for it in the middle: V8 ends a process that
 * gets no memory, and threads do not start.
 * @throws ProcessLimitError
 */
export function checkProcessLimits(moreBytes: number, limits: readonly ProcessLimit[] = processLimits()): void {
  for (const limit of limits) if (limit.usedBytes + moreBytes > limit.limitBytes) throw tooLittle(limit, moreBytes);
}

/**
 * Gives the error that a failure comes from where the process may hardly grow: else the error itself.
 * @param moreBytes what it was to grow by
 */
export function withProcessLimits(
  error: unknown,
  moreBytes: number,
  limits: readonly ProcessLimit[] = processLimits(),
): unknown {
  const [limit] = limits.filter(({ usedBytes, limitBytes }) => usedBytes + moreBytes + ARENAS_BYTES > limitBytes);
  const failure = error instanceof Error && /memory|resource|allocat|thread|map/i.test(error.message);
  return limit !== undefined && failure ? tooLittle(limit, moreBytes, error) : error;
}

function tooLittle({ what, flag, limitBytes, usedBytes }: ProcessLimit, moreBytes: number, cause?: Error): Error {
  const grown = Math.ceil((usedBytes + moreBytes + ARENAS_BYTES) / STEP_BYTES) * STEP_BYTES;
  const needed = Math.max(grown, LEAST_ADVICE_BYTES[what]);
  const ulimit = (bytes: number): string => `ulimit ${flag} ${Math.floor(bytes / 1024)}`;
  return new ProcessLimitError(
    `this process is limited to ${formatBytes(limitBytes)} of ${what} (${ulimit(limitBytes)}), which is too little: expected ` +
      `${formatBytes(needed)} (${ulimit(needed)}), or unlimited; \`cpuMemory\` is what caps resident memory`,
    cause && { cause },
  );
}

/**
 * Makes sure that V8's heap holds a model's tokenizer: V8 ends a process whose heap is full.
 * @throws ProcessLimitError
 */
export function checkHeapSize(vocabularySize: number, limitBytes = getHeapStatistics().heap_size_limit): void {
  const needed = HEAP_BYTES + vocabularySize * HEAP_TOKEN_BYTES;
  const old = Math.max(0, limitBytes - NEW_SPACE_BYTES);
  if (old >= needed) return;
  throw new ProcessLimitError(
    `the JavaScript heap is limited to ${formatBytes(old)} (--max-old-space-size=${Math.floor(old / MIB)}), which is too little: expected ` +
      `--max-old-space-size=${Math.ceil(needed / MIB)} or more${vocabularySize > 0 ? ` for a model of ${vocabularySize} tokens` : ''}`,
  );
}
