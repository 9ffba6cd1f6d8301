import type { MoveName } from '../grid/Task.js';
import { keyOf, type PathMove, type PathRecord, type TimedMove } from './PathRecord.js';
import type { Square } from '../grid/Square.js';

/** The moves of a path, by what they were for. */
export class PathMoves {
  private readonly byName = new Map<MoveName, Map<string, TimedMove[]>>();

  add(name: MoveName, { task, timing }: PathRecord): void {
    if (!timing) return;
    const keys = this.byName.get(name) ?? new Map<string, TimedMove[]>();
    this.byName.set(name, keys);
    const key = keyOf(task, name);
    const { from = '?', to = '?', bytes = 0, hops = [] } = task;
    let list = keys.get(key);
    if (!list) keys.set(key, (list = []));
    for (const hop of [...hops, { from, to, bytes }])
      list.push({ square: task, from: hop.from, to: hop.to, bytes: hop.bytes, ...timing });
  }

  /** In no particular order. */
  of(name: MoveName, square: Square): readonly TimedMove[] {
    return this.byName.get(name)?.get(keyOf(square, name)) ?? [];
  }

  /** Every key of a name, with its moves. */
  *all(name: MoveName): Iterable<readonly TimedMove[]> {
    yield* this.byName.get(name)?.values() ?? [];
  }

  /**
   * The moves that took the given routes, each hop after the one before it; a move serves one route. Undefined for a
   * route that was not taken from end to end. Where several moves would do, the earliest count.
   *
   * @param from no hop that starts earlier counts
   */
  taken(
    name: MoveName,
    square: Square,
    routes: readonly (readonly PathMove[])[],
    from = -Infinity,
  ): (readonly TimedMove[] | undefined)[] {
    const candidates = [...this.of(name, square)].filter(({ start }) => start >= from).sort((a, b) => a.end - b.end);
    const chains = new Map<readonly PathMove[], readonly TimedMove[]>();
    // The longest first: their later hops have less choice.
    for (const route of [...routes].sort((a, b) => b.length - a.length)) {
      const chain: TimedMove[] = [];
      for (const hop of route) {
        const after = chain.at(-1)?.end ?? -Infinity;
        const index = candidates.findIndex(
          (move) => move.from === hop.from && move.to === hop.to && move.bytes === hop.bytes && move.start >= after,
        );
        if (index < 0) break;
        chain.push(...candidates.splice(index, 1));
      }
      if (chain.length === route.length) chains.set(route, chain);
    }
    return routes.map((route) => chains.get(route));
  }
}
