import { ScheduleError } from '../../errors/engineErrors.js';
import type { PathMoves } from './PathMoves.js';
import { attendedAt, keyOf, type ComputeSpan, type TimedMove, type PathRules } from './PathRecord.js';
import type { Moved } from '../grid/Task.js';

/** Bytes that are on a tier for a time, the end left out. */
interface Stay {
  readonly kind: Moved;
  readonly tier: string;
  readonly bytes: number;
  readonly from: number;
  readonly until: number;
}

/** No tier holds more than it can at any time. @throws ScheduleError */
export function checkCapacity(
  spans: readonly ComputeSpan[],
  moves: PathMoves,
  { capacityBytes = {}, usage = [], stagingBytes }: PathRules,
): void {
  for (const { tier, usedBytes } of usage) {
    const capacity = capacityBytes[tier];
    if (capacity !== undefined && usedBytes > capacity)
      throw new ScheduleError('capacity', `${usedBytes} bytes of ${tier} are in use, it has ${capacity}`);
  }
  if (!stagingBytes) return;
  const all = [...stays(spans, moves)];
  for (const kind of ['weights', 'cache', 'activations'] as const) {
    for (const [tier, peak] of peaks(all.filter((each) => each.kind === kind))) {
      const capacity = stagingBytes[kind][tier] ?? 0;
      if (peak > capacity)
        throw new ScheduleError(
          'capacity',
          `${peak} bytes of ${kind} are on their way through ${tier} at once, it has room for ${capacity}`,
        );
    }
  }
}

/**
 * Data that was loaded stays until it has gone on to the next tier, or until all that is computed from it has been;
 * data that is stored passes through the tiers between, and hidden states stay where they are stored until they are
 * loaded from there. (Weights and cache at home are not counted: they are reserved for good, or with their rows.)
 */
function* stays(spans: readonly ComputeSpan[], moves: PathMoves): Iterable<Stay> {
  const ends = new Map(spans.map(({ square, end }) => [keyOf(square), end]));
  for (const all of moves.all('load_weight')) yield* weightStays(spans, all);
  for (const span of spans) {
    const { square, end } = span;
    for (const [name, kind, until] of [
      ['load_cache', 'cache', attendedAt(span)],
      ['load_activation', 'activations', end],
    ] as const) {
      const all = moves.of(name, square);
      for (const move of all) yield stay(kind, move, onward(move, all)?.end ?? until);
    }
    const cache = moves.of('store_cache', square);
    for (const move of cache) {
      const next = onward(move, cache);
      if (next) yield stay('cache', move, next.end);
    }
    const hidden = moves.of('store_activation', square);
    const right = moves.of('load_activation', { ...square, layer: square.layer + 1 });
    for (const move of hidden) {
      const until =
        (onward(move, hidden) ?? onward(move, right))?.end ??
        ends.get(keyOf({ ...square, layer: square.layer + 1 })) ??
        move.end;
      yield stay('activations', move, until);
    }
  }
}

/**
 * Weights of one layer and pass stay for all that is computed from them; loaded once more, for those that come after.
 */
function* weightStays(spans: readonly ComputeSpan[], all: readonly TimedMove[]): Iterable<Stay> {
  const [first] = all;
  if (!first) return;
  const users = spans.filter(
    ({ square }) => square.batch.pass === first.square.batch.pass && square.layer === first.square.layer,
  );
  const copies = [...all].sort((a, b) => a.end - b.end);
  for (const move of copies) {
    const next = onward(move, all);
    if (next) yield stay('weights', move, next.end);
    else {
      const later = copies.find(
        (copy) =>
          copy !== move && sameHop(copy, move) && copy.end >= move.end && copies.indexOf(copy) > copies.indexOf(move),
      );
      const own = users.filter(({ start }) => start >= move.end && start < (later?.end ?? Infinity));
      yield stay('weights', move, Math.max(move.end, ...own.map(({ end }) => end)));
    }
  }
}

function sameHop(a: TimedMove, b: TimedMove): boolean {
  return a.from === b.from && a.to === b.to && a.bytes === b.bytes;
}

function stay(kind: Moved, { to, bytes, start }: TimedMove, until: number): Stay {
  return { kind, tier: to, bytes, from: start, until };
}

/** The move that takes what this one brought further: after it, or piece by piece in the same task. */
function onward({ to, bytes, start, end }: TimedMove, moves: readonly TimedMove[]): TimedMove | undefined {
  return moves.find(
    (next) =>
      next.from === to && next.bytes === bytes && (next.start >= end || (next.start === start && next.end === end)),
  );
}

/** The most bytes that were on each tier at once. */
function peaks(all: Iterable<Stay>): Map<string, number> {
  const changes = new Map<string, { readonly at: number; readonly bytes: number }[]>();
  for (const { tier, bytes, from, until } of all) {
    let list = changes.get(tier);
    if (!list) changes.set(tier, (list = []));
    list.push({ at: from, bytes }, { at: Math.max(from, until), bytes: -bytes });
  }
  const most = new Map<string, number>();
  for (const [tier, list] of changes) {
    let held = 0;
    // At one time, what goes makes room for what comes.
    for (const { bytes } of list.sort((a, b) => a.at - b.at || a.bytes - b.bytes)) {
      held += bytes;
      most.set(tier, Math.max(most.get(tier) ?? 0, held));
    }
  }
  return most;
}
