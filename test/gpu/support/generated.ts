import type { Engine, Row, RowResult, RunOptions, RunStats } from '../../../src/index.js';

export interface Generated {
  readonly results: readonly RowResult[];
  readonly stats: RunStats | undefined;
}

/** All results of rows, with log-probabilities and to their full lengths, and the run's statistics. */
export async function generated(engine: Engine, rows: readonly Row[], run: RunOptions = {}): Promise<Generated> {
  const results: RowResult[] = [];
  let stats: RunStats | undefined;
  const onStats = (final: RunStats): void => void (stats = final);
  for await (const row of engine.generate(rows, { logprobs: 1, ignoreEos: true, ...run, onStats })) results.push(row);
  return { results, stats };
}
