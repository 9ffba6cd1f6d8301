import { UsageError } from '../../errors/UsageError.js';

/** The rows that are to be generated, all alike. */
export interface Workload {
  readonly promptTokens: number;
  readonly newTokens: number;
  /** How many there are. Default: without end, which is to say whole blocks of them. */
  readonly rows?: number | undefined;
  /** Pages of the KV cache in memory, where rows at their full length would take more: rows of all ages share them. Default: as many as they would take. */
  readonly cachePages?: number | undefined;
  /** Rows that come in a sweep at most, where memory sets the pace of a diagonal block (memory/AdmissionPace). Default: as many as there are places. */
  readonly admittedPerSweep?: number | undefined;
}

/** @throws UsageError */
export function checkWorkload({ promptTokens, newTokens, rows }: Workload, contextTokens: number): void {
  const whole = (name: string, value: number): void => {
    if (!Number.isSafeInteger(value) || value < 1) throw new UsageError(`${name}: found ${value}, expected a whole number of at least 1`);
  };
  whole('promptTokens', promptTokens);
  whole('newTokens', newTokens);
  if (rows !== undefined) whole('rows', rows);
  if (promptTokens + newTokens > contextTokens + 1) {
    throw new UsageError(`promptTokens and newTokens: found ${promptTokens} + ${newTokens}, but the model's context is ${contextTokens} tokens`);
  }
}
