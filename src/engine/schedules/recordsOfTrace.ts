import type { TraceEvent } from '../../RunStats.js';
import type { PathRecord, TierUsage } from './PathRecord.js';
import type { JudgedRow, KnownStretch } from './PathChecker.js';
import { batchKey, type Batch, type HeadMode, type RowId, type RowRange } from '../grid/Square.js';

/** A trace in the words of `validatePath`: what was done, and what was in use of each tier. */
export interface TracedPath {
  readonly records: PathRecord[];
  readonly usage: TierUsage[];
}

/**
 * The rows of a run, as its trace names them: `validatePath` judges by these. Those that others had computed the
 * beginnings of come with who had.
 */
export function rowsOfTrace(events: Iterable<TraceEvent>): JudgedRow[] {
  const rows: JudgedRow[] = [];
  const known = new Map<RowId, KnownStretch[]>();
  for (const { name, ph, args } of events) {
    if (ph !== 'i') continue;
    if (name === 'known')
      known.get(Number(args['row']))?.push({ behind: Number(args['behind']), end: Number(args['end']) });
    if (name !== 'admit') continue;
    const { row, promptTokens, newTokens, prefix, shared } = args;
    const stretches = Array.isArray(shared)
      ? shared.map((stretch: unknown) => (Array.isArray(stretch) ? stretch.map(Number) : []))
      : [];
    const stretchesKnown: KnownStretch[] = [];
    known.set(Number(row), stretchesKnown);
    rows.push({
      row: Number(row),
      known: stretchesKnown,
      promptTokens: Number(promptTokens),
      newTokens: Number(newTokens),
      prefix: prefix === true,
      shared: stretches.map(([source = NaN, end = NaN]) => ({ row: source, end })),
    });
  }
  return rows;
}

/**
 * Reads a trace, as `onTrace` gives it and `--trace` writes it, so that `validatePath` can judge it.
 *
 * @param events of one run
 * @param rows the rows of the run, such as `rowsOfTrace` finds them
 */
export function recordsOfTrace(events: Iterable<TraceEvent>, rows: readonly JudgedRow[]): TracedPath {
  const byId = new Map(rows.map((row) => [row.row, row]));
  const path: TracedPath = { records: [], usage: [] };
  const batches = new Map<string, Batch>();
  for (const { name, ph, ts, dur = 0, args } of events) {
    if (ph === 'C' && name.endsWith(' bytes'))
      path.usage.push({ at: ts / 1e6, tier: name.slice(0, -' bytes'.length), usedBytes: Number(args['used']) });
    if (ph !== 'X') continue;
    const { layer, part, bytes, from, to } = args;
    const place = { pass: Number(args['pass']), slot: Number(args['slot']) };
    const start = Math.round(ts * 1e3); // in nanoseconds, of which a trace has whole ones
    const key = batchKey(place);
    const batch = batches.get(key) ?? { ...place, rows: rangesOf(args['rows'], byId) };
    batches.set(key, batch);
    path.records.push({
      task: {
        // What follows the task's name tells people which it is.
        name: name.split(' ', 1)[0] ?? name,
        batch,
        layer: Number(layer),
        bytes: Number(bytes),
        ...(typeof part === 'string' && { part }),
        ...(typeof from === 'string' && { from }),
        ...(typeof to === 'string' && { to }),
      },
      timing: { start: start / 1e9, end: (start + Math.round(dur * 1e3)) / 1e9 },
    });
  }
  return path;
}

function rangesOf(list: unknown, rows: ReadonlyMap<RowId, JudgedRow>): RowRange[] {
  if (!Array.isArray(list)) return [];
  return list.map((entry: unknown) => {
    const [row = NaN, firstPosition = NaN, tokens = NaN] = Array.isArray(entry) ? entry.map(Number) : [];
    return { row, firstPosition, tokens, head: headOf(rows.get(row), firstPosition + tokens) };
  });
}

function headOf(row: JudgedRow | undefined, end: number): HeadMode {
  if (row?.prefix === true) return 'none';
  if (row?.newTokens === 0) return 'score';
  return end >= (row?.promptTokens ?? Infinity) ? 'sample' : 'none';
}
