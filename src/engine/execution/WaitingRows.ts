import type { Device } from '../grid/Device.js';
import type { RunPages } from '../memory/PagePool.js';
import type { PrefixPath } from '../memory/PrefixNode.js';
import type { RowLengths } from '../memory/PagePlacement.js';
import type { RowFeed } from './RowFeed.js';
import type { RunRow } from './RunRow.js';

/** A row that waits, and its way through what prompts have in common, where rows share that. */
export interface WaitingRow<Result> {
  readonly row: RunRow<Result>;
  readonly path: PrefixPath | undefined;
  /** How many rows had been admitted when it came. */
  readonly since: number;
}

/**
 * The rows that wait for a place, and whose turn it is. Rows that begin alike come in together, first those of whose
 * prompts most is there already; but none is passed by more rows than may wait at once, and where there is nothing in
 * common the order is that of arrival.
 */
export class WaitingRows<Result> {
  /** In order of arrival. */
  private readonly rows = new Map<RunRow<Result>, WaitingRow<Result>>();
  private readonly byPath = new Map<PrefixPath, WaitingRow<Result>>();
  private admitted = 0;

  constructor(
    private readonly feed: RowFeed<Result>,
    private readonly pages: RunPages,
  ) {}

  /** A row has come. @param device says which prompts may share, and whether what follows them may stand in for one */
  arrived(row: RunRow<Result>, shares: boolean, device: Pick<Device, 'promptKind' | 'sharesPromptsOnly'>): void {
    const { sequence, newTokens } = row;
    const { tokens, promptTokens = tokens.length } = sequence;
    const { sharedTokens = newTokens > 0 ? tokens.length : 0 } = row;
    const most = device.sharesPromptsOnly === true ? Math.min(sharedTokens, promptTokens) : sharedTokens;
    const prompt = most < tokens.length ? tokens.slice(0, most) : tokens;
    const kind = device.promptKind?.(promptTokens);
    const path = shares ? this.pages.expect(lengthsOf(row), prompt, kind, row.goesOn) : undefined;
    const waiting = { row, path, since: this.admitted };
    this.rows.set(row, waiting);
    if (path) this.byPath.set(path, waiting);
  }

  /** All that wait now, the next one first. They may be taken in between. */
  *inTurn(): Generator<WaitingRow<Result>, void, undefined> {
    const overdue = new Set<WaitingRow<Result>>();
    for (const waiting of this.rows.values()) {
      if (waiting.path && this.admitted - waiting.since < this.feed.ahead) break;
      overdue.add(waiting);
    }
    yield* overdue;
    for (const path of this.pages.inTurn()) {
      const waiting = this.byPath.get(path);
      if (waiting && !overdue.has(waiting)) yield waiting;
    }
  }

  /** The row has been admitted: it waits no more. */
  take({ row, path }: WaitingRow<Result>): void {
    this.rows.delete(row);
    if (path) this.byPath.delete(path);
    // Rows that go on behind one that had its turn pass nobody: others would go before them else, and more would wait.
    if ((row.countedTokens ?? 0) === 0) this.admitted++;
    this.feed.take(row);
  }

  /** None of them will come. */
  close(): void {
    for (const path of this.byPath.keys()) this.pages.forget(path);
    this.byPath.clear();
    this.rows.clear();
    this.feed.close();
  }
}

export function lengthsOf({ sequence, newTokens }: Pick<RunRow<unknown>, 'sequence' | 'newTokens'>): RowLengths {
  const promptTokens = sequence.tokens.length;
  return { promptTokens, positions: Math.max(1, promptTokens + newTokens - 1) };
}
