import { ScheduleError } from '../../errors/ScheduleError.js';
import type { Grid, RowId, Square } from './Square.js';
import { PathChecker } from './PathChecker.js';
import type { AdmittedRow } from './Schedule.js';

/** One task of a path, planned or done: its square, what it did, and when. The events of a run are such records. */
export interface PathRecord {
  readonly task: Square & { readonly name: string };
  /** In seconds on any one clock; undefined for a task that did not complete. */
  readonly timing: { readonly start: number; readonly end: number } | undefined;
}

interface Span {
  readonly square: Square;
  start: number;
  end: number;
  inputsEnd: number;
}

const LOADS: ReadonlySet<string> = new Set(['load_weight', 'load_cache', 'load_activation']);

/**
 * Judges a whole path from its records: every row's square is computed only after its left neighbours have ended, with all of its inputs
 * there, and every row passes every layer at every position once (FlexGen, section 4.1).
 *
 * @param grid the shape of the run
 * @param rows the rows that were admitted, with the most tokens that each might have got
 * @param records in any order
 * @param endedEarly rows that ended before their last token: they may be incomplete
 * @throws ScheduleError naming the first constraint that is broken
 */
export function validatePath(grid: Grid, rows: readonly AdmittedRow[], records: readonly PathRecord[], endedEarly: ReadonlySet<RowId> = new Set()): void {
  const spans = spansOf(records);
  const checker = new PathChecker(grid);
  for (const row of rows) checker.admit(row);
  const ends = new Map<string, number>();
  for (const span of [...spans.values()].sort((a, b) => a.start - b.start || a.square.pass - b.square.pass || a.square.layer - b.square.layer)) {
    const { square } = span;
    const where = `pass ${square.pass}, layer ${square.layer}, slot ${square.slot}`;
    if (span.inputsEnd > span.start) throw new ScheduleError('inputs-on-device', `${where}: compute starts before its loads have ended`);
    for (const { row, firstPosition } of square.rows) {
      // Left in layers, and left in tokens: the same row's last square of this layer, and of the last layer for a sampled token.
      const before = [`${row} ${square.layer - 1}`, `${row} ${square.layer}`, ...(square.layer === 0 && firstPosition > 0 ? [`${row} ${grid.layers - 1}`] : [])];
      for (const key of before) {
        if ((ends.get(key) ?? -Infinity) > span.start) throw new ScheduleError('left-neighbour', `${where}: row ${row} starts before its left neighbour has ended`);
      }
    }
    checker.accept(square);
    for (const { row } of square.rows) ends.set(`${row} ${square.layer}`, span.end);
  }
  for (const { row } of rows) {
    const missing = checker.missing(row);
    if (missing > 0 && !endedEarly.has(row)) throw new ScheduleError('complete', `row ${row} lacks ${missing} positions`);
  }
}

/** The compute span of each square, and when the last of its loads ended. */
function spansOf(records: readonly PathRecord[]): Map<string, Span> {
  const spans = new Map<string, Span>();
  const loads = new Map<string, number>();
  for (const { task, timing } of records) {
    const weightKey = `${task.pass} ${task.layer}`;
    const key = `${weightKey} ${task.slot}`;
    if (!timing) throw new ScheduleError('complete', `${task.name} of pass ${task.pass}, layer ${task.layer}, slot ${task.slot} has not completed`);
    if (LOADS.has(task.name)) {
      const loadKey = task.name === 'load_weight' ? weightKey : key;
      loads.set(loadKey, Math.max(loads.get(loadKey) ?? -Infinity, timing.end));
    } else if (task.name === 'compute') {
      const span = spans.get(key);
      if (span) {
        span.start = Math.min(span.start, timing.start);
        span.end = Math.max(span.end, timing.end);
      } else spans.set(key, { square: task, ...timing, inputsEnd: -Infinity });
    }
  }
  for (const [key, span] of spans) {
    const weights = loads.get(`${span.square.pass} ${span.square.layer}`) ?? -Infinity;
    span.inputsEnd = Math.max(weights, loads.get(key) ?? -Infinity);
  }
  return spans;
}
