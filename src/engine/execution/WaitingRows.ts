import type { Device } from '../grid/Device.js';
import type { RunPages } from '../memory/PagePool.js';
import type { PrefixPath } from '../memory/PrefixNode.js';
import type { RowLengths } from '../memory/PagePlacement.js';
import type { Call } from './Call.js';
import type { RunRow } from './RunRow.js';

/** A row that waits, and its way through what prompts have in common, where rows share that. */
export interface WaitingRow<Result> {
  readonly row: RunRow<Result>;
  readonly call: Call<Result>;
  readonly path: PrefixPath | undefined;
  /** How many of its call's rows had been admitted when it came. */
  readonly since: number;
}

/** The rows of one call. */
interface RowsOfCall<Result> {
  /** In order of arrival. */
  readonly rows: Map<RunRow<Result>, WaitingRow<Result>>;
  admitted: number;
}

/**
 * The rows that wait for a place, and which of a call's comes next. Rows that begin alike come in together, first those
 * of whose prompts most is there already; but none is passed by more rows of its call than may wait at once, and where
 * there is nothing in common the order is that of arrival.
 */
export class WaitingRows<Result> {
  /** In the order in which they have joined. */
  private readonly calls = new Map<Call<Result>, RowsOfCall<Result>>();
  private readonly byPath = new Map<PrefixPath, WaitingRow<Result>>();

  constructor(private readonly pages: RunPages) {}

  join(call: Call<Result>): void {
    this.calls.set(call, { rows: new Map(), admitted: 0 });
  }

  /** A row has come. @param device says which prompts may share, and whether what follows them may stand in for one */
  arrived(
    call: Call<Result>,
    row: RunRow<Result>,
    shares: boolean,
    device: Pick<Device, 'promptKind' | 'sharesPromptsOnly'>,
  ): void {
    const of = this.calls.get(call);
    if (!of) return;
    const { sequence, newTokens } = row;
    const { tokens, promptTokens = tokens.length } = sequence;
    const { sharedTokens = newTokens > 0 ? tokens.length : 0 } = row;
    const most = device.sharesPromptsOnly === true ? Math.min(sharedTokens, promptTokens) : sharedTokens;
    const prompt = most < tokens.length ? tokens.slice(0, most) : tokens;
    const kind = device.promptKind?.(promptTokens);
    // What comes with a row is its own.
    const path =
      shares && call.sharePrefixes && (sequence.given?.tokens ?? 0) === 0
        ? this.pages.expect(lengthsOf(row), prompt, kind, row.goesOn)
        : undefined;
    const waiting = { row, call, path, since: of.admitted };
    of.rows.set(row, waiting);
    if (path) this.byPath.set(path, waiting);
  }

  /** All that wait now, of each call the next one first. They may be taken in between. */
  inTurn(): Map<Call<Result>, Iterable<WaitingRow<Result>>> {
    const waiting = [...this.calls].filter(([, { rows }]) => rows.size > 0);
    if (waiting.length === 1) return new Map(waiting.map(([call, of]) => [call, this.ofOnly(call, of)]));
    const turns = new Map<Call<Result>, WaitingRow<Result>[]>();
    const overdue = new Set<WaitingRow<Result>>();
    for (const [call, of] of waiting) {
      const first = [...overdueOf(call, of)];
      for (const each of first) overdue.add(each);
      turns.set(call, first);
    }
    for (const path of this.pages.inTurn()) {
      const each = this.byPath.get(path);
      if (each && !overdue.has(each)) turns.get(each.call)?.push(each);
    }
    return turns;
  }

  private *ofOnly(call: Call<Result>, of: RowsOfCall<Result>): Generator<WaitingRow<Result>, void, undefined> {
    const overdue = new Set(overdueOf(call, of));
    yield* overdue;
    for (const path of this.pages.inTurn()) {
      const waiting = this.byPath.get(path);
      if (waiting && !overdue.has(waiting)) yield waiting;
    }
  }

  /** The row has been admitted: it waits no more. */
  take({ row, call, path }: WaitingRow<Result>): void {
    const of = this.calls.get(call);
    of?.rows.delete(row);
    if (path) this.byPath.delete(path);
    // Rows that go on after one that had its turn pass nobody: others would go before them else, and more would wait.
    if (of && (row.countedTokens ?? 0) === 0) of.admitted++;
    call.feed.take(row);
  }

  /** None of the call's rows will come. */
  leave(call: Call<Result>): void {
    for (const { path } of this.calls.get(call)?.rows.values() ?? []) {
      if (!path) continue;
      this.byPath.delete(path);
      this.pages.forget(path);
    }
    this.calls.delete(call);
    call.feed.close();
  }

  /** None of them will come. */
  close(): void {
    for (const call of [...this.calls.keys()]) this.leave(call);
  }
}

function* overdueOf<Result>(
  { feed }: Call<Result>,
  { rows, admitted }: RowsOfCall<Result>,
): Generator<WaitingRow<Result>, void, undefined> {
  for (const waiting of rows.values()) {
    if (waiting.path && admitted - waiting.since < feed.ahead) break;
    yield waiting;
  }
}

export function lengthsOf({ sequence, newTokens }: Pick<RunRow<unknown>, 'sequence' | 'newTokens'>): RowLengths {
  const promptTokens = sequence.tokens.length;
  const given = sequence.given?.tokens;
  return {
    promptTokens,
    positions: Math.max(1, promptTokens + newTokens - 1),
    ...(given !== undefined && { given }),
  };
}
