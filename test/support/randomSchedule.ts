import type { AdmittedRow, Schedule } from '../../src/engine/schedules/Schedule.js';
import type { Batch, Grid, RowId, RowRange, Square } from '../../src/engine/grid/Square.js';

/** How far a row has come. */
interface Cursor extends AdmittedRow {
  readonly next: number;
}

export interface RandomState {
  readonly grid: Grid;
  readonly seed: number;
  readonly pass: number;
  readonly slots: readonly (readonly Cursor[])[];
}

/** Numbers from 0 up to 1 that follow from a seed. */
export function randomNumbers(seed: number): () => number {
  let state = (seed * 2654435761 + 12345) >>> 0;
  return () => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9) >>> 0;
    return ((state ^ (state >>> 13)) >>> 0) / 2 ** 32;
  };
}

/**
 * A schedule such as nobody would write, and yet a valid one: each sweep advances some of the slots, some of their
 * rows, prompts by chunks of any length; a sweep's squares come in any order that keeps each slot's layers in order;
 * new rows go to any slot with a place.
 */
export function randomSchedule(seed: number): Schedule<RandomState> {
  const positions = ({ promptTokens, newTokens }: AdmittedRow): number => promptTokens + newTokens - 1;
  const alive = ({ slots }: RandomState, ended: ReadonlySet<RowId>): Cursor[][] =>
    slots.map((rows) => rows.filter((row) => row.next < positions(row) && !ended.has(row.row)));
  return {
    name: `random ${seed}`,
    start: (grid) => ({ grid, seed, pass: 0, slots: Array.from({ length: grid.slots }, () => []) }),
    free: (state, ended) => state.grid.slots * state.grid.rowsPerSlot - alive(state, ended).flat().length,
    next: (state, { admitted, ended }) => {
      const { grid, pass } = state;
      const random = randomNumbers(state.seed + pass);
      const pick = (count: number): number => Math.min(count - 1, Math.floor(random() * count));
      const slots = alive(state, ended);
      for (const row of admitted) {
        const open = slots.filter((rows) => rows.length < grid.rowsPerSlot);
        open[pick(open.length)]?.push({ ...row, next: 0 });
      }
      const filled = slots.flatMap((rows, slot) => (rows.length > 0 ? [slot] : []));
      const must = filled[pick(filled.length)];
      const batches = filled
        .filter((slot) => slot === must || random() < 0.6)
        .map((slot) => ({ pass, slot, rows: advance(slots[slot] ?? [], grid, random) }));
      for (const { slot, rows } of batches) {
        const tokens = new Map(rows.map((range) => [range.row, range.tokens]));
        slots[slot] = (slots[slot] ?? []).map((row) => ({ ...row, next: row.next + (tokens.get(row.row) ?? 0) }));
      }
      return {
        state: { ...state, pass: pass + 1, slots },
        squares: merged(
          batches.map((batch) => column(batch, grid.layers)),
          random,
        ),
      };
    },
  };
}

/** Some of the rows, at least one, in any order. */
function advance(rows: readonly Cursor[], { tokensPerSquare }: Grid, random: () => number): RowRange[] {
  const ranges: RowRange[] = [];
  let left = tokensPerSquare;
  for (const row of [...rows].sort(() => random() - 0.5)) {
    if (left === 0 || (ranges.length > 0 && random() < 0.2)) continue;
    const remaining = Math.min(row.promptTokens, row.promptTokens + row.newTokens - 1) - row.next;
    const tokens = remaining > 0 ? 1 + Math.floor(random() * Math.min(remaining, left)) : 1;
    const head = row.newTokens === 0 ? 'score' : row.next + tokens >= row.promptTokens ? 'sample' : 'none';
    ranges.push({ row: row.row, firstPosition: row.next, tokens, head });
    left -= tokens;
  }
  return ranges;
}

function column(batch: Batch, layers: number): Square[] {
  return Array.from({ length: layers }, (_, layer) => ({ batch, layer }));
}

function* merged(columns: Square[][], random: () => number): Iterable<Square> {
  for (;;) {
    const left = columns.filter((squares) => squares.length > 0);
    if (left.length === 0) return;
    const next = left[Math.min(left.length - 1, Math.floor(random() * left.length))]?.shift();
    if (next) yield next;
  }
}
