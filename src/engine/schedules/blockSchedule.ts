import type { AdmittedRow, Observed, Schedule } from './Schedule.js';
import type { Batch, Grid, RowId, RowRange, Square } from '../grid/Square.js';

/** How far a row has come. */
interface Cursor {
  readonly row: RowId;
  readonly promptTokens: number;
  /**
   * Positions to compute in all: every token but the last sampled one (or, when scoring, the last given one) is an
   * input once.
   */
  readonly positions: number;
  readonly scored: boolean;
  readonly priority: number;
  readonly next: number;
}

export interface BlockState {
  readonly grid: Grid;
  readonly pass: number;
  /** The rows of each slot. */
  readonly slots: readonly (readonly Cursor[])[];
  /** The micro-batch that comes next. */
  readonly turn: number;
}

/** How rows come in, and what a sweep advances: what there is to know of a block schedule beside its squares. */
export interface BlockRules {
  /**
   * `at-once`: a freed place is taken by the next sweep; `block-end`: no row comes in until all rows of the block have
   * ended.
   */
  readonly refill: 'at-once' | 'block-end';
  /**
   * `interleaved`: a sweep advances every slot of a micro-batch, layer by layer, so a layer's weights serve all of
   * them; `one-slot`: it advances one slot only.
   */
  readonly sweep: 'interleaved' | 'one-slot';
}

/**
 * The common machine of the block schedules: slots of rows that advance together, one sweep over the layers at a time.
 * Micro-batches take turns (GPipe's; FlexGen, section 4.4): while one is with the engines of later layers, the next one
 * is with those of the first.
 */
export function blockSchedule(name: string, rules: BlockRules): Schedule<BlockState> {
  const alive = (state: BlockState, ended: ReadonlySet<RowId>): Cursor[][] =>
    state.slots.map((rows) => rows.filter((cursor) => cursor.next < cursor.positions && !ended.has(cursor.row)));

  const freeIn = (grid: Grid, slots: readonly (readonly Cursor[])[]): number => {
    const taken = slots.reduce((sum, rows) => sum + rows.length, 0);
    return rules.refill === 'block-end' && taken > 0 ? 0 : grid.slots * grid.rowsPerSlot - taken;
  };

  return {
    name,
    ...(rules.sweep === 'interleaved' && {
      steady: rules.refill === 'at-once' ? ('staggered' as const) : ('blocks' as const),
    }),
    start: (grid) => ({ grid, pass: 0, slots: Array.from({ length: grid.slots }, () => []), turn: 0 }),
    free: (state, ended) => freeIn(state.grid, alive(state, ended)),
    next: (state, observed) => {
      const slots = alive(state, observed.ended);
      for (const row of observed.admitted) emptiest(slots, state.grid).push(cursorOf(row));
      const { grid, pass } = state;
      const { chosen, turn } = rules.sweep === 'one-slot' ? oneOf(slots) : microBatchOf(slots, state);
      const batches = chosen
        .map((slot) => ({ pass, slot, rows: advance(slots[slot] ?? [], grid, observed.known) }))
        .filter(({ rows }) => rows.length > 0);
      for (const { slot, rows } of batches) slots[slot] = moved(slots[slot] ?? [], rows);
      return {
        state: { grid, pass: pass + (batches.length > 0 ? 1 : 0), slots, turn },
        squares: sweep(grid.layers, batches),
      };
    },
  };
}

interface Turn {
  /** Slots that the sweep advances. */
  readonly chosen: readonly number[];
  /** The micro-batch that comes next. */
  readonly turn: number;
}

function oneOf(slots: readonly (readonly Cursor[])[]): Turn {
  const first = slots.findIndex((rows) => rows.length > 0);
  return { chosen: first < 0 ? [] : [first], turn: 0 };
}

/** The slots of the micro-batch whose turn it is; one that has no rows makes no other wait. */
function microBatchOf(slots: readonly (readonly Cursor[])[], { grid: { microBatches = 1 }, turn }: BlockState): Turn {
  const taken = slots.flatMap((rows, slot) => (rows.length > 0 ? [slot] : []));
  const waits = (slot: number): number => (slot - turn + microBatches) % microBatches;
  const least = Math.min(...taken.map(waits));
  const chosen = taken.filter((slot) => waits(slot) === least);
  return { chosen, turn: chosen.length > 0 ? (turn + least + 1) % microBatches : turn };
}

function cursorOf({ row, promptTokens, newTokens, priority = 0 }: AdmittedRow): Cursor {
  return { row, promptTokens, positions: promptTokens + newTokens - 1, scored: newTokens === 0, priority, next: 0 };
}

/** New rows go where most places are free, so that slots cost about the same. */
function emptiest(slots: Cursor[][], grid: Grid): Cursor[] {
  let best: Cursor[] | undefined;
  for (const rows of slots)
    if (rows.length < grid.rowsPerSlot && (best === undefined || rows.length < best.length)) best = rows;
  if (best === undefined) throw new RangeError('more rows were admitted than the schedule had places for');
  return best;
}

/**
 * One slot's ranges for one sweep. Rows that decode come first, a token each; what is left of the square goes to
 * prompts, in chunks, those of a higher priority first, then the oldest, and then to tokens of rows that decode which
 * are known. A chunk's length has no influence on the row's result, only on when it comes.
 */
function advance(rows: readonly Cursor[], grid: Grid, known: Observed['known']): RowRange[] {
  if (grid.wholeRows !== undefined) return advanceWhole(rows, grid.wholeRows);
  let left = grid.tokensPerSquare;
  const tokens = new Map<Cursor, number>();
  const take = (cursor: Cursor, wanted: number): void => {
    const taken = Math.min(wanted, left);
    if (taken <= 0) return;
    tokens.set(cursor, (tokens.get(cursor) ?? 0) + taken);
    left -= taken;
  };
  for (const cursor of rows) if (cursor.next >= cursor.promptTokens) take(cursor, 1);
  for (const cursor of byPriority(rows)) take(cursor, Math.min(cursor.promptTokens, cursor.positions) - cursor.next);
  for (const cursor of rows)
    if (tokens.has(cursor) && cursor.next >= cursor.promptTokens)
      take(cursor, Math.min(known?.get(cursor.row) ?? 0, cursor.positions) - cursor.next - 1);
  return Array.from(tokens, ([cursor, taken]) => rangeOf(cursor, taken));
}

function byPriority(rows: readonly Cursor[]): readonly Cursor[] {
  return rows.every(({ priority }) => priority === rows[0]?.priority)
    ? rows
    : [...rows].sort((a, b) => b.priority - a.priority);
}

/**
 * Rows as a whole, those of a higher priority first, then the oldest: as many as there is room for; one that is longer
 * than that goes alone.
 */
function advanceWhole(rows: readonly Cursor[], most: number): RowRange[] {
  let left = most;
  const ranges: RowRange[] = [];
  for (const cursor of byPriority(rows)) {
    const { promptTokens } = cursor;
    if (cursor.next > 0 || (promptTokens > left && ranges.length > 0)) continue;
    ranges.push(rangeOf(cursor, promptTokens));
    left -= promptTokens;
  }
  return ranges;
}

function rangeOf({ row, next, scored, promptTokens }: Cursor, tokens: number): RowRange {
  return {
    row,
    firstPosition: next,
    tokens,
    head: scored ? 'score' : next + tokens >= promptTokens ? 'sample' : 'none',
  };
}

function moved(rows: readonly Cursor[], ranges: readonly RowRange[]): Cursor[] {
  const advanced = new Map(ranges.map((range) => [range.row, range.tokens]));
  return rows.map((cursor) => ({ ...cursor, next: cursor.next + (advanced.get(cursor.row) ?? 0) }));
}

function* sweep(layers: number, batches: readonly Batch[]): Iterable<Square> {
  for (let layer = 0; layer < layers; layer++) for (const batch of batches) yield { batch, layer };
}
