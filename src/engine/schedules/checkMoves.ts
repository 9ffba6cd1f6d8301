import { ScheduleError } from '../../errors/engineErrors.js';
import type { PathMoves } from './PathMoves.js';
import {
  attendedAt,
  attendsAt,
  whereIs,
  type ComputeSpan,
  type PathMove,
  type RequiredMoves,
  type TimedMove,
} from './PathRecord.js';
import type { RowId, Square } from '../grid/Square.js';
import type { JudgedRow, SharedStretch } from './PathChecker.js';
import { LOADS, type MoveName } from '../grid/Task.js';

/** When something was last stored: by tier, the end of the store. */
type StoredAt = Map<string, number>;

/**
 * All inputs of a square are where it is computed when that starts, its cache when it is attended to, and were loaded
 * after they had been stored; what it puts out is stored where the placement wants it, before anything overwrites it.
 *
 * @param spans in order of time
 * @param rows what they share with others is to be stored where it lives before they load it
 * @throws ScheduleError
 */
export function checkMoves(
  spans: readonly ComputeSpan[],
  moves: PathMoves,
  required: RequiredMoves | undefined,
  rows: readonly JudgedRow[] = [],
): void {
  if (!required) {
    for (const span of spans) {
      const { square } = span;
      const late = LOADS.some((name) => moves.of(name, square).some(({ end }) => end > neededAt(span, name)));
      if (late)
        throw new ScheduleError('inputs-on-device', `${whereIs(square)}: compute starts before its loads have ended`);
    }
    return;
  }
  const hidden = new Map<number, StoredAt>();
  const caches = new Map<string, StoredAt>();
  const shared = new SharedStores(rows);
  const readUntil = new Map<number, number>();
  const computedUntil = new Map<number, number>();
  for (const span of spans) {
    const { square } = span;
    const stores = (row: RowId): StoredAt => stored(caches, `${row} ${square.layer}`);
    for (const name of LOADS) {
      for (const load of checkLoads(span, name, moves, required)) {
        const sources =
          name === 'load_activation'
            ? [stored(hidden, square.batch.slot)]
            : name === 'load_cache'
              ? [...square.batch.rows.map(({ row }) => stores(row)), ...shared.of(square)]
              : [];
        if (sources.some((source) => (source.get(load.from) ?? -Infinity) > load.start)) {
          throw new ScheduleError(
            'inputs-on-device',
            `${whereIs(square)}: ${name} from ${load.from} starts before what it loads has been stored there`,
          );
        }
        // What comes from the engine of other layers overwrites the slot's last batch.
        if (load.from === 'peer' && load.start < (computedUntil.get(square.batch.slot) ?? -Infinity)) {
          throw new ScheduleError(
            'lifetime',
            `${whereIs(square)}: the slot's hidden states are overwritten while they are computed with`,
          );
        }
      }
    }
    if ((readUntil.get(square.batch.slot) ?? -Infinity) > span.start) {
      throw new ScheduleError(
        'lifetime',
        `${whereIs(square)}: the slot's hidden states are overwritten while they are stored`,
      );
    }
    computedUntil.set(square.batch.slot, span.end);
    const outgoing = checkStores(span, 'store_activation', moves, required);
    hidden.set(square.batch.slot, new Map());
    for (const chain of outgoing) note(stored(hidden, square.batch.slot), chain);
    readUntil.set(square.batch.slot, Math.max(-Infinity, ...outgoing.map((chain) => chain[0]?.end ?? -Infinity)));
    const cached: StoredAt = new Map();
    for (const chain of checkStores(span, 'store_cache', moves, required)) {
      note(cached, chain);
      for (const { row } of square.batch.rows) note(stores(row), chain);
    }
    shared.note(square, cached);
  }
}

/** When what rows share with others was stored. */
class SharedStores {
  private readonly shared: ReadonlyMap<RowId, readonly SharedStretch[]>;
  private readonly sources: ReadonlySet<RowId>;
  private readonly stores = new Map<string, { readonly position: number; readonly at: StoredAt }[]>();

  constructor(rows: readonly JudgedRow[]) {
    this.shared = new Map(rows.map(({ row, shared = [] }) => [row, shared]));
    this.sources = new Set(rows.flatMap(({ shared = [] }) => shared.map(({ row }) => row)));
  }

  note({ batch, layer }: Square, at: StoredAt): void {
    for (const { row, firstPosition, tokens } of batch.rows)
      if (this.sources.has(row))
        stored(this.stores, `${row} ${layer}`, []).push({ position: firstPosition + tokens, at });
  }

  /** Finds the stores of what the rows of a square have from others, where they begin. */
  of({ batch, layer }: Square): StoredAt[] {
    return batch.rows.flatMap(({ row, firstPosition }) => {
      const shared = this.shared.get(row) ?? [];
      if (firstPosition !== shared.at(-1)?.end) return [];
      return shared.flatMap(({ row: source, end }) => {
        const store = this.stores.get(`${source} ${layer}`)?.find(({ position }) => position >= end);
        return store ? [store.at] : [];
      });
    });
  }
}

/** When what a load brings has to be there. */
function neededAt(span: ComputeSpan, name: MoveName): number {
  return name === 'load_cache' ? attendsAt(span) : span.start;
}

/** The first hops of a square's loads, all of which have ended in time. */
function checkLoads(span: ComputeSpan, name: MoveName, moves: PathMoves, required: RequiredMoves): TimedMove[] {
  const { square } = span;
  const routes = required(name, square);
  return moves.taken(name, square, routes).flatMap((chain, index) => {
    const end = chain?.at(-1)?.end;
    if (end === undefined)
      throw new ScheduleError('inputs-on-device', `${whereIs(square)}: ${name} ${words(routes[index])} is missing`);
    if (end > neededAt(span, name))
      throw new ScheduleError(
        'inputs-on-device',
        `${whereIs(square)}: ${name === 'load_cache' ? 'attention' : 'compute'} starts before ${name} ${words(routes[index])} has ended`,
      );
    return chain?.slice(0, 1) ?? [];
  });
}

/** A square's stores, all of which have begun after its compute; those of its cache after attention. */
function checkStores(
  span: ComputeSpan,
  name: MoveName,
  moves: PathMoves,
  required: RequiredMoves,
): (readonly TimedMove[])[] {
  const { square } = span;
  const routes = required(name, square);
  const end = name === 'store_cache' ? attendedAt(span) : span.end;
  return moves.taken(name, square, routes, end).map((chain, index) => {
    if (!chain)
      throw new ScheduleError(
        'lifetime',
        `${whereIs(square)}: ${name} ${words(routes[index])} is missing, or began before compute had ended`,
      );
    return chain;
  });
}

function stored<Key, Value = StoredAt>(all: Map<Key, Value>, key: Key, none = new Map() as Value): Value {
  const found = all.get(key) ?? none;
  all.set(key, found);
  return found;
}

function note(at: StoredAt, chain: readonly TimedMove[]): void {
  const last = chain.at(-1);
  if (last) at.set(last.to, Math.max(at.get(last.to) ?? -Infinity, last.end));
}

function words(route: readonly PathMove[] = []): string {
  return `${route.map(({ from, to }) => `${from} → ${to}`).join(', ')} (${route[0]?.bytes ?? 0} bytes)`;
}
