import { NO_PAGES, plus, type PageCounts } from '../grid/pageCounts.js';
import type { Batch, RowId } from '../grid/Square.js';
import type { PagePool, RunPages, SteadySweeps } from '../memory/PagePool.js';
import type { RowPages } from '../memory/RowPages.js';

/** A row that a run holds memory for. */
export interface HeldRow {
  readonly pages: RowPages;
  /** Batches under way that hold the row. */
  uses: number;
  /** No square that is still to come holds it. */
  forgotten: boolean;
}

export interface HeldRowsSetup {
  readonly pool: PagePool;
  /** The promises of the run's schedule, if it makes any. */
  readonly steady: SteadySweeps | undefined;
  /** Rows whose prompts begin alike share what is computed of that. Default false. */
  readonly sharePrefixes?: boolean;
}

export interface HeldRowsEvents<Row extends HeldRow> {
  /** A row has given its memory back. */
  released(row: RowId, held: Row): void;
  /** A page of the cache is kept for rows to come no longer. */
  freed(page: number): void;
}

/** The rows of a run, the batches of them that are under way, and the pages of the cache that they hold. */
export class HeldRows<Row extends HeldRow> {
  readonly pages: RunPages;
  private readonly pool: PagePool;
  private readonly rows = new Map<RowId, Row>();
  /** How often each batch is under way: its squares, and where it has set out for other engines. */
  private readonly underWay = new Map<Batch, number>();
  /** The batches that have been through all layers. */
  private readonly computed = new Set<Batch>();

  constructor(
    { pool, steady, sharePrefixes = false }: HeldRowsSetup,
    private readonly events: HeldRowsEvents<Row>,
  ) {
    this.pool = pool;
    this.pages = pool.openRun(steady, sharePrefixes, (page) => {
      events.freed(page);
    });
  }

  get size(): number {
    return this.rows.size;
  }

  get(row: RowId): Row | undefined {
    return this.rows.get(row);
  }

  ids(): Iterable<RowId> {
    return this.rows.keys();
  }

  /** In order of admission. */
  all(): Iterable<Row> {
    return this.rows.values();
  }

  add(row: RowId, held: Row): void {
    this.rows.set(row, held);
  }

  /** Takes all pages that the batch's rows need to come as far as it takes them, or none of them. */
  makeRoom({ rows, slot }: Batch): boolean {
    const growing: { readonly pages: RowPages; readonly end: number }[] = [];
    const lacking: PageCounts[] = [];
    for (const { row, firstPosition, tokens } of rows) {
      const pages = this.rows.get(row)?.pages;
      const end = firstPosition + tokens;
      if (pages) pages.slot = slot;
      if (!pages || end <= pages.next) continue;
      growing.push({ pages, end });
      if (end <= pages.reach) continue;
      lacking[pages.keeper] = plus(lacking[pages.keeper] ?? NO_PAGES, pages.lacks(end));
    }
    if (!lacking.every((pages, keeper) => this.pool.has(pages, keeper))) return false;
    for (const { pages, end } of growing) pages.growTo(end);
    return true;
  }

  /** Something of the batch is under way: with the first, its rows are in use. */
  enter(batch: Batch): void {
    const times = this.underWay.get(batch) ?? 0;
    this.underWay.set(batch, times + 1);
    if (times === 0) this.use(batch, 1);
  }

  /** Something of the batch is no longer under way: whether it was the last, and its rows are not in use for it. */
  leave(batch: Batch): boolean {
    const times = (this.underWay.get(batch) ?? 1) - 1;
    if (times > 0) this.underWay.set(batch, times);
    else {
      this.underWay.delete(batch);
      this.use(batch, -1);
      if (this.computed.delete(batch)) this.left(batch);
    }
    return times === 0;
  }

  /** The batch's last square is issued: what it computes is there for whatever is issued from now on. */
  wrote({ rows }: Batch): void {
    for (const { row, firstPosition, tokens } of rows) this.rows.get(row)?.pages.wrote(firstPosition + tokens);
  }

  /**
   * A batch has been through all layers for which the run answers: what its rows begin as a copy of has been copied.
   */
  through(batch: Batch): void {
    for (const { row } of batch.rows) this.rows.get(row)?.pages.copied();
    // What it leaves on a disk may still be on its way.
    if (this.underWay.has(batch)) this.computed.add(batch);
    else this.left(batch);
  }

  releaseIfUnused(row: RowId): void {
    const held = this.rows.get(row);
    if (!held?.forgotten || held.uses > 0) return;
    this.rows.delete(row);
    this.release(row, held);
  }

  /** Gives everything back: nothing is under way any more. */
  close(): void {
    for (const [row, held] of this.rows) this.release(row, held);
    this.rows.clear();
    this.pages.close();
  }

  private left({ rows }: Batch): void {
    for (const { row, firstPosition } of rows) this.rows.get(row)?.pages.left(firstPosition);
  }

  private use({ rows }: Batch, times: 1 | -1): void {
    for (const { row } of rows) {
      const held = this.rows.get(row);
      if (held) held.uses += times;
    }
  }

  private release(row: RowId, held: Row): void {
    this.events.released(row, held);
    held.pages.release();
  }
}
