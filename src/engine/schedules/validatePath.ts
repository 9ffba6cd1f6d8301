import { ScheduleError } from '../../errors/engineErrors.js';
import { checkCapacity } from './checkCapacity.js';
import { checkMoves } from './checkMoves.js';
import { PathChecker, type JudgedRow, type SharedStretch } from './PathChecker.js';
import { isMove } from '../grid/Task.js';
import { PathMoves } from './PathMoves.js';
import { keyOf, whereIs, type ComputeSpan, type PathRecord, type PathRules } from './PathRecord.js';
import { layerBounds, type Grid, type RowId, type RowRange, type Square } from '../grid/Square.js';

/**
 * Judges a whole path from its records: every row's square is computed only after its left neighbours have ended, and
 * what it shares with other rows, with all of its inputs there; activations live until the right neighbour is computed,
 * a row's cache until the row ends; no tier exceeds its capacity; and every row passes every layer at every position
 * once (FlexGen, section 4.1).
 *
 * @param grid the shape of the run
 * @param rows the rows that were admitted, with the most tokens that each might have got
 * @param records in any order
 * @param endedEarly rows that ended before their last token: they may be incomplete
 * @param rules what else is known of the path
 * @throws ScheduleError naming the first constraint that is broken
 */
export function validatePath(
  grid: Grid,
  rows: readonly JudgedRow[],
  records: readonly PathRecord[],
  endedEarly: ReadonlySet<RowId> = new Set(),
  rules: PathRules = {},
): void {
  const moves = new PathMoves();
  const spans = spansOf(records, moves);
  for (const span of spans) checkComputeParts(grid, span);
  checkOrder(grid, rows, spans, endedEarly);
  checkMoves(spans, moves, rules.moves, rows);
  if (rules.lives) checkLives(records, rules.lives);
  checkCapacity(spans, moves, rules);
}

/** The computes in order of time; the moves are sorted into `moves`. */
function spansOf(records: readonly PathRecord[], moves: PathMoves): ComputeSpan[] {
  const spans = new Map<string, ComputeSpan>();
  for (const record of records) {
    const { task, timing } = record;
    if (!timing) throw new ScheduleError('complete', `${task.name} of ${whereIs(task)} has not completed`);
    if (isMove(task.name)) moves.add(task.name, record);
    else if (task.name === 'compute') {
      const key = keyOf(task);
      let span = spans.get(key);
      if (!span) spans.set(key, (span = { square: task, parts: [], ...timing }));
      span.parts.push({ part: task.part, ...timing });
      span.start = Math.min(span.start, timing.start);
      span.end = Math.max(span.end, timing.end);
    }
  }
  return [...spans.values()].sort(
    (a, b) => a.start - b.start || a.square.batch.pass - b.square.batch.pass || a.square.layer - b.square.layer,
  );
}

function checkOrder(
  grid: Grid,
  rows: readonly JudgedRow[],
  spans: readonly ComputeSpan[],
  endedEarly: ReadonlySet<RowId>,
): void {
  const checker = new PathChecker(grid, endedEarly);
  for (const row of rows) checker.admit(row);
  const ends = new Map<string, number>();
  const sharers = new Map(
    rows.filter(({ shared = [] }) => shared.length > 0).map((row) => [row.row, row.shared ?? []]),
  );
  const sources = new Sources(sharers);
  const bounds = layerBounds(grid);
  for (const { square, start, end } of spans) {
    for (const { row, firstPosition } of square.batch.rows) {
      const shared = sharers.get(row);
      if (shared && firstPosition === shared.at(-1)?.end) sources.check(shared, square, row, start);
      // Left in layers, and left in tokens: the same row's last square of this layer, and of the last layer for a
      // sampled token.
      const before = [
        `${row} ${square.layer - 1}`,
        `${row} ${square.layer}`,
        ...(square.layer === bounds.first && firstPosition > 0 ? [`${row} ${bounds.last}`] : []),
      ];
      for (const key of before) {
        if ((ends.get(key) ?? -Infinity) > start)
          throw new ScheduleError(
            'left-neighbour',
            `${whereIs(square)}: row ${row} starts before its left neighbour has ended`,
          );
      }
    }
    checker.accept(square);
    for (const range of square.batch.rows) {
      ends.set(`${range.row} ${square.layer}`, end);
      sources.computed(range, square.layer, end);
    }
  }
  for (const { row } of rows) {
    const missing = checker.missing(row);
    if (missing > 0 && !endedEarly.has(row))
      throw new ScheduleError('complete', `row ${row} lacks ${missing} positions`);
  }
}

/** When rows had computed what others share of them. */
class Sources {
  private readonly rows: ReadonlySet<RowId>;
  private readonly computedAt = new Map<string, { readonly position: number; readonly end: number }[]>();

  constructor(sharers: ReadonlyMap<RowId, readonly SharedStretch[]>) {
    this.rows = new Set([...sharers.values()].flatMap((shared) => shared.map(({ row }) => row)));
  }

  computed({ row, firstPosition, tokens }: RowRange, layer: number, end: number): void {
    if (!this.rows.has(row)) return;
    const key = `${row} ${layer}`;
    const all = this.computedAt.get(key) ?? [];
    all.push({ position: firstPosition + tokens, end });
    this.computedAt.set(key, all);
  }

  /** @throws ScheduleError where the layer of what a row shares was under way when it began */
  check(shared: readonly SharedStretch[], square: Square, row: RowId, start: number): void {
    for (const { row: source, end: position } of shared) {
      const computed = this.computedAt.get(`${source} ${square.layer}`)?.find((each) => each.position >= position);
      if (computed && computed.end > start)
        throw new ScheduleError(
          'left-neighbour',
          `${whereIs(square)}: row ${row} starts before row ${source} has computed what they share`,
        );
    }
  }
}

/** Everything that is done for a row is done while its memory is its own. */
function checkLives(records: readonly PathRecord[], lives: NonNullable<PathRules['lives']>): void {
  for (const { task, timing } of records) {
    // Weights are no row's.
    if (!timing || task.name === 'load_weight') continue;
    for (const { row } of task.batch.rows) {
      const life = lives.get(row);
      if (life && timing.start >= life.from && timing.end <= life.until) continue;
      throw new ScheduleError(
        'lifetime',
        `${task.name} of ${whereIs(task)}: row ${row} ${life ? 'has not got its memory yet, or has given it back' : 'has never had memory'}`,
      );
    }
  }
}

/** The parts of a square's compute, in order; several tasks may do one part side by side. */
const PARTS = ['embed', 'layer', 'project', 'attend', 'finish', 'output', 'feedForward', 'add', 'head'] as const;

/** Tells whether a square of a grid has a part. @param joined where project, attend and finish are one task */
function hasPart(grid: Grid, layer: number, part: (typeof PARTS)[number], joined: boolean): boolean {
  const { first, last, embeds, samples } = layerBounds(grid);
  switch (part) {
    case 'embed':
      return embeds && layer === first;
    case 'layer':
      return joined;
    case 'project':
    case 'attend':
      return !joined;
    case 'finish':
      return !joined && grid.share === undefined;
    case 'output':
    case 'add':
      return grid.share !== undefined;
    case 'feedForward':
      return grid.share?.sums === 2;
    case 'head':
      return samples && layer === last;
  }
}

/**
 * Each part of a square's compute takes what the part before it has found. Squares whose compute is one task are not
 * looked into.
 * @throws ScheduleError
 */
function checkComputeParts(grid: Grid, { square, parts }: ComputeSpan): void {
  if (parts.every(({ part }) => part === undefined)) {
    if (parts.length > 1) throw new ScheduleError('complete', `${whereIs(square)}: computed a second time`);
    return;
  }
  const joined = grid.share === undefined && parts.some(({ part }) => part === 'layer');
  let ended = -Infinity;
  for (const part of PARTS) {
    const tasks = parts.filter((each) => each.part === part);
    const expected = hasPart(grid, square.layer, part, joined);
    if (expected !== tasks.length > 0)
      throw new ScheduleError(
        'complete',
        `${whereIs(square)}: ${part} is ${expected ? 'missing' : 'not for this layer'}`,
      );
    if (tasks.length > 1 && part !== 'attend')
      throw new ScheduleError('complete', `${whereIs(square)}: ${part} is computed a second time`);
    if (tasks.some(({ start }) => start < ended))
      throw new ScheduleError(
        'inputs-on-device',
        `${whereIs(square)}: ${part} starts before the part before it has ended`,
      );
    for (const { end } of tasks) ended = Math.max(ended, end);
  }
}
