import { ScheduleError } from '../../errors/engineErrors.js';
import type { AdmittedRow } from './Schedule.js';
import {
  batchTokens,
  layerBounds,
  type Batch,
  type Grid,
  type HeadMode,
  type LayerBounds,
  type RowId,
  type RowRange,
  type Square,
} from '../grid/Square.js';

/** In the place of the row that has computed tokens: another engine has, before the row came in. */
export const ELSEWHERE: RowId = -1;

/** Tokens of a prompt that another row has computed, from where the stretch before ends. */
export interface SharedStretch {
  /** Or `ELSEWHERE`. */
  readonly row: RowId;
  /** After its last position. */
  readonly end: number;
}

/** Tokens that were known together: a grammar forces them after the one that is sampled from the position `behind`. */
export interface KnownStretch {
  readonly behind: number;
  /** Tokens that were known then. */
  readonly end: number;
}

/** A row as it is judged. */
export interface JudgedRow extends AdmittedRow {
  /** Tokens of the prompt, from the first, that others have computed: its path begins after them. Default: none. */
  readonly shared?: readonly SharedStretch[];
  /** Nothing is sampled or scored: the row's keys and values are for others. Default false. */
  readonly prefix?: boolean;
  /** Tokens that one square may advance it by. Default: none but those of the prompt. */
  readonly known?: readonly KnownStretch[];
}

interface RowPath {
  readonly shared: readonly SharedStretch[];
  /** Its first position of its own. */
  readonly begin: number;
  readonly promptTokens: number;
  readonly positions: number;
  /** The mode of the head for the row's tokens, where it is the same for all of them. */
  readonly mode: HeadMode | undefined;
  /** For each layer of the grid, positions that have been computed (or issued to be): all below this one. */
  readonly done: Int32Array;
  known: readonly KnownStretch[];
  /** Where the row's squares are, once it has any. */
  slot: number | undefined;
}

/** The batch whose hidden states a slot holds. */
interface SlotPath {
  /** Its last square. */
  square: Square;
  /** Up to this layer, its rows' paths say what has been computed. */
  noted: number;
  /**
   * Rows that had been released when it entered: as long as there are no more of them, its rows need no second look.
   */
  readonly releases: number;
  /** A row of it shares what has not been computed in every layer: each of them is looked at. */
  readonly shares: boolean;
}

/**
 * Judges squares one by one, in the order in which they are computed: is each row's left neighbour done (same row,
 * previous layer; same row, previous token), has what it shares with others been computed in this layer by an earlier
 * batch, are the hidden states of each slot's batch kept until its next layer is computed, and is nothing computed
 * twice or left out (FlexGen, section 4.1)? Cheap enough to run beside every job.
 */
export class PathChecker {
  private readonly rows = new Map<RowId, RowPath>();
  private readonly slots: (SlotPath | undefined)[] = [];
  private readonly bounds: LayerBounds;
  private releases = 0;
  /** The highest number that a row has had. */
  private latest: RowId = -1;

  /** @param endedEarly rows that may be left where they are, though they were not released */
  constructor(
    private readonly grid: Grid,
    private readonly endedEarly: ReadonlySet<RowId> = new Set(),
  ) {
    this.bounds = layerBounds(grid);
  }

  admit({ row, promptTokens, newTokens, shared = [], prefix = false, known = [] }: JudgedRow): void {
    if (this.rows.has(row)) throw new ScheduleError('complete', `row ${row} was admitted twice`);
    const begin = shared.at(-1)?.end ?? 0;
    this.rows.set(row, {
      promptTokens,
      shared,
      begin,
      positions: promptTokens + newTokens - 1,
      mode: prefix ? 'none' : newTokens === 0 ? 'score' : undefined,
      done: new Int32Array(this.grid.layers).fill(begin),
      known,
      slot: undefined,
    });
    this.latest = Math.max(this.latest, row);
  }

  /** Tokens of a row became known, after all that were before. */
  knows(row: RowId, stretch: KnownStretch): void {
    const path = this.rows.get(row);
    if (path) path.known = [stretch];
  }

  /** A row gives up its place, and nothing of it is under way: it may go on in another slot. */
  moves(row: RowId): void {
    const path = this.noted(row);
    if (path) path.slot = undefined;
  }

  /** @throws ScheduleError naming the constraint that the square breaks; nothing of it then counts as done. */
  accept(square: Square): void {
    const { batch, layer } = square;
    const { slot, rows } = batch;
    const before = this.slots[slot];
    if (before && this.goesOn(before, square)) {
      before.square = square;
      return;
    }
    if (before) this.note(before);
    if (!(Number.isInteger(layer) && layer >= this.bounds.first && layer <= this.bounds.last))
      throw new ScheduleError(
        'complete',
        `square has layer ${layer}, there are layers ${this.bounds.first} to ${this.bounds.last}`,
      );
    if (!(Number.isInteger(slot) && slot >= 0 && slot < this.grid.slots))
      throw new ScheduleError('capacity', `square has slot ${slot} of ${this.grid.slots}`);
    if (rows.length === 0 || rows.length > this.grid.rowsPerSlot) {
      throw new ScheduleError(
        'capacity',
        `a square holds ${rows.length} rows, at least 1 and at most ${this.grid.rowsPerSlot} are allowed`,
      );
    }
    const tokens = batchTokens(batch);
    if (!(tokens <= this.grid.tokensPerSquare)) {
      throw new ScheduleError(
        'capacity',
        `a square advances ${tokens} tokens, at most ${this.grid.tokensPerSquare} are allowed`,
      );
    }
    const seen = new Set<RowId>();
    for (const range of rows) {
      if (seen.has(range.row)) throw new ScheduleError('left-neighbour', `row ${range.row} stands twice in one square`);
      seen.add(range.row);
      this.check(square, range);
    }
    this.checkSlot(square, before?.square);
    for (const range of rows) {
      const path = this.rows.get(range.row);
      if (!path) continue;
      path.done[layer - this.bounds.first] = range.firstPosition + range.tokens;
      path.slot = slot;
    }
    this.slots[slot] = {
      square,
      noted: layer,
      releases: this.releases,
      shares: rows.some((range) => this.lacking(range) !== undefined),
    };
  }

  /** Positions of the row that have not passed every layer yet; 0 when its path is complete. */
  missing(row: RowId): number {
    const path = this.noted(row);
    return path ? path.positions - Math.min(...path.done) : 0;
  }

  /** The row ended; no later square may hold it. */
  release(row: RowId): void {
    if (this.rows.delete(row)) this.releases++;
  }

  /**
   * Tells whether a square is its batch's next layer, which is nearly always so: the first layer's square has been
   * judged for all of them.
   */
  private goesOn({ square: before, releases, shares }: SlotPath, { batch, layer }: Square): boolean {
    return (
      batch === before.batch &&
      layer === before.layer + 1 &&
      layer <= this.bounds.last &&
      releases === this.releases &&
      !shares
    );
  }

  /** Brings the paths of a slot's rows up to date with its last square. */
  private note(slot: SlotPath): void {
    const { batch, layer } = slot.square;
    if (slot.noted === layer) return;
    for (const { row, firstPosition, tokens } of batch.rows)
      this.rows
        .get(row)
        ?.done.fill(firstPosition + tokens, slot.noted + 1 - this.bounds.first, layer + 1 - this.bounds.first);
    slot.noted = layer;
  }

  /** A row's path, up to date. */
  private noted(row: RowId): RowPath | undefined {
    const path = this.rows.get(row);
    const slot = path?.slot === undefined ? undefined : this.slots[path.slot];
    if (slot) this.note(slot);
    return path;
  }

  /**
   * Finds, of the stretches that a row shares whose first square this is, the first one that has not been computed in a
   * layer of the grid, or in any.
   */
  private lacking({ row, firstPosition }: RowRange, index?: number): SharedStretch | undefined {
    const path = this.rows.get(row);
    return firstPosition === path?.begin
      ? path.shared.find((stretch) => this.reached(stretch.row, index) < stretch.end)
      : undefined;
  }

  /**
   * Up to where a row has computed a layer itself, or all of them; what it shares is its own from its first square on.
   */
  private reached(row: RowId, index?: number): number {
    if (row === ELSEWHERE) return Infinity;
    const path = this.noted(row);
    // Rows that are over have computed what others keep of them.
    if (!path) return this.releases > 0 && row >= 0 && row <= this.latest ? Infinity : 0;
    const done = index === undefined ? Math.min(...path.done) : (path.done[index] ?? 0);
    return done > path.begin ? done : 0;
  }

  /**
   * A slot holds the hidden states of one batch: they go from layer to layer, and no other batch may enter before they
   * have left the last.
   */
  private checkSlot(square: Square, before: Square | undefined): void {
    const { batch, layer } = square;
    const { pass, slot } = batch;
    const where = (): string => `pass ${pass}, layer ${layer}, slot ${slot}`;
    if (layer > this.bounds.first) {
      if (before?.batch.pass !== pass || before.layer !== layer - 1 || !sameRanges(before.batch, batch)) {
        throw new ScheduleError(
          'lifetime',
          `${where()}: the slot does not hold the hidden states of these rows from layer ${layer - 1} of this pass`,
        );
      }
      return;
    }
    if (!before) return;
    const { pass: passBefore, rows: rowsBefore } = before.batch;
    if (pass <= passBefore)
      throw new ScheduleError('complete', `${where()}: the slot has come to pass ${passBefore} already`);
    if (
      before.layer < this.bounds.last &&
      rowsBefore.some(({ row }) => this.rows.has(row) && !this.endedEarly.has(row))
    ) {
      throw new ScheduleError(
        'lifetime',
        `${where()}: overwrites hidden states of pass ${passBefore} that layer ${before.layer + 1} has not been computed from`,
      );
    }
  }

  private check({ batch: { slot }, layer }: Square, range: RowRange): void {
    const path = this.rows.get(range.row);
    if (!path)
      throw new ScheduleError('lifetime', `row ${range.row} is computed before its admission or after its end`);
    const { firstPosition, tokens } = range;
    const end = firstPosition + tokens;
    const where = (): string => `row ${range.row}, layer ${layer}, positions ${firstPosition} to ${end - 1}`;
    if (!(Number.isSafeInteger(firstPosition) && Number.isSafeInteger(tokens) && tokens >= 1)) {
      throw new ScheduleError('complete', `${where()}: not a range of positions`);
    }
    if (path.slot !== undefined && path.slot !== slot)
      throw new ScheduleError(
        'left-neighbour',
        `${where()}: the row is in slot ${slot}, its left neighbour in slot ${path.slot}`,
      );
    const index = layer - this.bounds.first;
    const doneHere = path.done[index] ?? 0;
    if (firstPosition < doneHere) throw new ScheduleError('complete', `${where()}: computed a second time`);
    if (firstPosition > doneHere)
      throw new ScheduleError('left-neighbour', `${where()}: position ${doneHere} of this layer has not been computed`);
    const lacking = this.lacking(range, index);
    if (lacking)
      throw new ScheduleError(
        'left-neighbour',
        `${where()}: shares positions up to ${lacking.end - 1} of row ${lacking.row}, which has computed ${this.reached(lacking.row, index)} in this layer`,
      );
    if (this.grid.wholeRows !== undefined && tokens !== path.promptTokens)
      throw new ScheduleError(
        'complete',
        `${where()}: found a part of the row, expected all of its ${path.promptTokens} tokens at once: the model is an encoder`,
      );
    if (end > path.positions)
      throw new ScheduleError('complete', `${where()}: the row has ${path.positions} positions`);
    if (index > 0 && (path.done[index - 1] ?? 0) < end) {
      throw new ScheduleError(
        'left-neighbour',
        `${where()}: layer ${layer - 1} has been computed up to position ${path.done[index - 1] ?? 0} only`,
      );
    }
    if (index === 0 && end > path.promptTokens) {
      // A token beyond the prompt is sampled by the last layer from the position before it, or known since an earlier
      // one was.
      const lastLayer = path.done[this.grid.layers - 1] ?? 0;
      const behind = path.known.find((stretch) => end - 1 > stretch.behind && end <= stretch.end)?.behind ?? end - 2;
      if (lastLayer <= behind) {
        throw new ScheduleError(
          'left-neighbour',
          `${where()}: the token at ${end - 1} is sampled only after position ${behind} has passed the last layer`,
        );
      }
    }
    const head = path.mode ?? (end >= path.promptTokens ? 'sample' : 'none');
    if (range.head !== head)
      throw new ScheduleError('complete', `${where()}: the head's mode is "${range.head}", expected "${head}"`);
  }
}

/** Whoever wrote down a path may have made an object of the batch for each of its squares. */
function sameRanges(a: Batch, b: Batch): boolean {
  if (a === b) return true;
  return (
    a.rows.length === b.rows.length &&
    a.rows.every(({ row, firstPosition, tokens }, index) => {
      const other = b.rows[index];
      return other?.row === row && other.firstPosition === firstPosition && other.tokens === tokens;
    })
  );
}
