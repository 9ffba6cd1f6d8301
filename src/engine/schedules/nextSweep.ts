import { found } from '../../arguments/found.js';
import { membersOf } from '../../arguments/isObject.js';
import { ScheduleError } from '../../errors/engineErrors.js';
import type { Observed, Schedule } from './Schedule.js';
import type { Square, Batch, RowId, RowRange } from '../grid/Square.js';

/**
 * Asks a schedule for its next sweep, and sees to it that what comes is made of squares: a schedule may be anybody's.
 * Whether they are the right ones is for `PathChecker` to say.
 *
 * @throws ScheduleError, also while the squares are iterated
 */
export function nextSweep<State>(
  schedule: Schedule<State>,
  state: State,
  observed: Observed,
): { readonly state: State; readonly squares: Iterable<Square> } {
  const sweep: unknown = schedule.next(state, observed);
  const { state: after, squares } = membersOf(sweep);
  if (!isIterable(squares))
    throw malformed(schedule, `returned ${found(sweep)}, expected { state, squares } with an iterable of squares`);
  return { state: after as State, squares: checked(schedule, squares) };
}

function* checked(schedule: Schedule, squares: Iterable<unknown>): Generator<Square, void, undefined> {
  let judged: unknown;
  for (const square of squares) {
    const { batch, layer } = membersOf(square);
    const { pass, slot, rows } = membersOf(batch);
    if (!areWhole(pass, layer, slot) || !Array.isArray(rows))
      throw malformed(
        schedule,
        `has a square that is ${found(square)}, expected { batch: { pass, slot, rows }, layer }: whole numbers, and an array of ranges`,
      );
    if (batch !== judged) {
      const wrong = rows.findIndex((range) => !isRange(range));
      if (wrong >= 0)
        throw malformed(
          schedule,
          `has a square with a range that is ${found(rows[wrong])}, expected { row, firstPosition, tokens, head }, the first three whole numbers`,
        );
      judged = batch;
    }
    yield square as Square;
  }
}

function malformed({ name }: Schedule, what: string): ScheduleError {
  return new ScheduleError('complete', `${name}: next ${what}`);
}

function isIterable(value: unknown): value is Iterable<unknown> {
  return typeof (value as Partial<Iterable<unknown>> | null | undefined)?.[Symbol.iterator] === 'function';
}

function isRange(value: unknown): boolean {
  const { row, firstPosition, tokens } = membersOf(value);
  return areWhole(row, firstPosition, tokens);
}

function areWhole(...values: readonly unknown[]): boolean {
  return values.every((value) => Number.isSafeInteger(value));
}

/** Where a row really begins, or goes on, of which its schedule knows nothing. */
export interface RowBegin {
  /** Its first position, to the schedule: what comes before it has been computed. */
  readonly firstPosition: number;
  /** Tokens of its prompt that others have computed. Default: all before its first position. */
  readonly sharedTokens?: number;
  /** False for a prefix: it is computed for its keys and values alone, and no head looks at it. */
  readonly samples: boolean;
}

/**
 * A schedule counts a row's positions from the first that has to be computed, so that none need know of prefixes: here
 * they become the row's own. Pure.
 */
export function* withPrefixes(
  squares: Iterable<Square>,
  beginOf: (row: RowId) => RowBegin | undefined,
): Generator<Square, void, undefined> {
  const known = new Map<Batch, Batch>();
  for (const square of squares) {
    const { batch: planned, layer } = square;
    let batch = known.get(planned);
    if (!batch) {
      const { rows } = planned;
      batch = rows.some(({ row }) => beginOf(row))
        ? { ...planned, rows: rows.map((range) => begunAt(range, beginOf(range.row))) }
        : planned;
      known.set(planned, batch);
    }
    yield batch === planned ? square : { batch, layer };
  }
}

function begunAt(range: RowRange, begin: RowBegin | undefined): RowRange {
  if (!begin) return range;
  return {
    ...range,
    firstPosition: range.firstPosition + begin.firstPosition,
    sharedTokens: begin.sharedTokens ?? begin.firstPosition,
    ...(begin.samples ? {} : { head: 'none' as const }),
  };
}
