import { BATCH_STRIDE, HEAD_MODES, type NativeRuntime } from '../../bindings/Addon.js';
import { nativeCall } from '../../bindings/nativeCall.js';
import type { PageTable } from '../grid/PageTable.js';
import { stagedPages, type StagedPages } from '../memory/PagePlacement.js';
import {
  exchangeLengths,
  keptTokens,
  routesOf,
  type Exchange,
  type KeptTokens,
  type Lengths,
  type Routes,
} from '../grid/rowExchange.js';
import type { Batch, GridShare, RowRange } from '../grid/Square.js';
import { fetchedPages, type FetchedPages, type FetchRules } from '../memory/fetchedPages.js';
import type { DevicePeers, DeviceRow } from '../grid/Device.js';
import type { SlotActivations } from './SlotActivations.js';
import { describeTask, type Task, type TaskEvent } from '../grid/Task.js';
import { TaskError } from '../../errors/engineErrors.js';

interface NativeRow {
  readonly id: number;
  readonly handle: number;
  readonly pages: PageTable;
  /** Batches that name the row; it is freed when it is closed and none is left. */
  batches: number;
  closed: boolean;
}

/** A batch as the runtime knows it. */
export interface NativeBatch {
  readonly handle: number;
  /** No two batches of a run share it, unlike handles. */
  readonly serial: number;
  readonly batch: Batch;
  readonly rows: readonly NativeRow[];
  /** The pages of the cache that move, by attention window. */
  readonly moved: Map<number, MovedPages>;
  /**
   * The same of the rows that are kept here, where engines attend to some rows each; undefined where none of the batch
   * is, and where this one attends to all.
   */
  readonly attending: number | undefined;
  /** Who keeps what of it, where engines attend to some rows each. */
  readonly division: Division | undefined;
  /** Tasks that have not completed. */
  outstanding: number;
  /**
   * The head is done, or what the last layer computed has been sent on, or a share of it has been added: no layer is
   * left.
   */
  through: boolean;
}

/** Pages that a layer moves, once for each link, and where they come to a GPU in how many groups. */
type MovedPages = StagedPages & Partial<Pick<FetchedPages, 'groups'>>;

/** Which pages of the cache move. */
export interface CacheMoves {
  readonly pageTokens: number;
  /** Groups of layers, each with a page table. Default 1. */
  readonly groups?: number | undefined;
  /** Where pages in memory and on disk come to a GPU. Default: the disk's move. */
  readonly fetch?: Omit<FetchRules, 'pageTokens'> | undefined;
  /** The share of each layer that is here. Default: all of them. */
  readonly share?: GridShare | undefined;
}

/** How engines that attend to some rows each divide a batch. */
export interface Division {
  readonly routes: Readonly<Record<Exchange, Routes>>;
  /** Which of the engines is here. */
  readonly index: number;
  readonly kept: KeptTokens;
  readonly lengths: Readonly<Record<Exchange, Lengths>>;
}

/** The rows and batches of one run on the native device. */
export class NativeRun {
  private readonly rows = new Map<number, NativeRow>();
  /** The batches that have tasks under way, or may get more. */
  private readonly batches = new Map<Batch, NativeBatch>();
  private nextSerial = 1;
  /** The last part of compute of each slot. */
  readonly computed = new Map<number, TaskEvent>();
  /** The values of each slot that a share of a layer has left to be summed with others. */
  readonly branches = new Map<number, Float32Array>();

  private readonly routes: Division['routes'] | undefined;

  constructor(
    private readonly runtime: NativeRuntime,
    private readonly cache: CacheMoves,
    private readonly layers: { readonly first: number; readonly last: number },
    readonly activations: SlotActivations,
    readonly peers: DevicePeers | undefined,
  ) {
    const attention = cache.share?.attention;
    this.routes = attention && { rows: routesOf(attention, 'rows'), heads: routesOf(attention, 'heads') };
  }

  get firstLayer(): number {
    return this.layers.first;
  }

  /** The native handles of some rows that are open. */
  handlesOf(rows: Iterable<number>): Int32Array {
    return Int32Array.from(rows, (row) => {
      const native = this.rows.get(row);
      if (!native) throw new RangeError(`row ${row} is not open`);
      return native.handle;
    });
  }

  /** @throws TaskError where no part of compute has left one */
  takeBranch(task: Task): Float32Array {
    const { slot } = task.batch;
    const branch = this.branches.get(slot);
    if (!branch)
      throw new TaskError(describeTask(task), 'nothing is there to go round: expected a part of compute before it');
    this.branches.delete(slot);
    return branch;
  }

  openRow(row: number, { tokens, candidates, adjustments, given, ...sequence }: DeviceRow, pages: PageTable): void {
    const handle = nativeCall(() =>
      this.runtime.createRow({
        ...sequence,
        tokens: Int32Array.from(tokens),
        ...(pages.state !== undefined && { state: pages.state }),
        ...(candidates && { candidates: Int32Array.from(candidates) }),
        ...(adjustments && {
          adjustments: {
            ...adjustments,
            biasedTokens: Int32Array.from(adjustments.biasedTokens),
            biases: Float32Array.from(adjustments.biases),
            endTokens: Int32Array.from(adjustments.endTokens),
            badWords: adjustments.badWords.map((word) => Int32Array.from(word)),
          },
        }),
      }),
    );
    this.rows.set(row, { id: row, handle, pages, batches: 0, closed: false });
    for (const { first, count, values } of given?.take() ?? [])
      nativeCall(() => {
        this.runtime.writePages(Int32Array.from(pages.entries.slice(first, first + count)), values);
      });
  }

  /** Copies pages of a row that is open. */
  readPages(row: number, first: number, count: number): Uint8Array {
    const entries = this.rows.get(row)?.pages.entries.slice(first, first + count) ?? [];
    return nativeCall(() => this.runtime.readPages(Int32Array.from(entries)));
  }

  closeRow(row: number): void {
    const native = this.rows.get(row);
    if (!native) return;
    native.closed = true;
    this.freeIfUnused(native);
  }

  /** Frees everything; no task of the run is under way any more. */
  close(): void {
    for (const batch of this.batches.values()) this.closeBatch(batch);
    for (const row of this.rows.values()) this.closeRow(row.id);
    this.activations.free();
  }

  batchOf({ batch }: Task): NativeBatch {
    return this.batches.get(batch) ?? this.openBatch(batch);
  }

  /** Finds the pages of the batch's cache that move in a layer with this attention window. */
  movedBy(batch: NativeBatch, window: number): MovedPages {
    const known = batch.moved.get(window);
    if (known) return known;
    const { pageTokens, fetch } = this.cache;
    const ranges = batch.batch.rows.flatMap((range, i): (readonly [RowRange, PageTable])[] => {
      const pages = batch.rows[i]?.pages;
      return pages ? [[range, pages]] : [];
    });
    // What is on disk moves also where it goes no farther than to memory.
    const moved = ranges.reduce<MovedPages>(
      (sum, [range, pages]) => {
        const { loads, stores } = stagedPages(range, pages, pageTokens, window);
        return { ...sum, loads: sum.loads + loads, stores: sum.stores + stores };
      },
      fetch === undefined ? { loads: 0, stores: 0 } : fetchedPages(ranges, { pageTokens, ...fetch }, window),
    );
    batch.moved.set(window, moved);
    return moved;
  }

  /** One of the batch's tasks has completed. */
  completed(batch: NativeBatch, task: Task): void {
    batch.outstanding--;
    const { name, part, to, layer } = task;
    if (
      part === 'head' ||
      (name === 'store_activation' && to === 'peer') ||
      (part === 'add' && layer === this.layers.last)
    )
      batch.through = true;
    if (batch.through && batch.outstanding === 0) this.closeBatch(batch);
  }

  private openBatch(batch: Batch): NativeBatch {
    const { rows, slot } = batch;
    for (const other of this.batches.values())
      if (other.batch.slot === slot && other.outstanding === 0) this.closeBatch(other);
    const natives = rows.map(({ row }) => {
      const native = this.rows.get(row);
      if (!native) throw new RangeError(`row ${row} is not open`);
      return native;
    });
    const division = this.divisionOf(batch, natives);
    const handle = this.createBatch(rows, natives, division === undefined);
    const isKept = natives.map(({ pages }) => keeperOf(pages) === division?.index);
    const attending = isKept.includes(true)
      ? this.createBatch(
          rows.filter((_, index) => isKept[index]),
          natives.filter((_, index) => isKept[index]),
          true,
        )
      : undefined;
    const native = {
      handle,
      attending,
      division,
      serial: this.nextSerial++,
      batch,
      rows: natives,
      moved: new Map<number, MovedPages>(),
      outstanding: 0,
      through: false,
    };
    for (const row of natives) row.batches++;
    this.batches.set(batch, native);
    return native;
  }

  /** @param attends with the rows' pages */
  private createBatch(rows: readonly RowRange[], natives: readonly NativeRow[], attends: boolean): number {
    const pages: number[] = [];
    const copies: number[] = [];
    const comes: number[] = [];
    const { pageTokens, groups = 1 } = this.cache;
    const stride = BATCH_STRIDE + groups - 1;
    const table = new Int32Array(rows.length * stride);
    rows.forEach(({ firstPosition, tokens, head }, index) => {
      const native = natives[index];
      if (!native) return;
      if (!attends) {
        table.fill(-1, index * stride, (index + 1) * stride);
        table.set([native.handle, firstPosition, tokens, HEAD_MODES[head], 0, 0], index * stride);
        return;
      }
      const { entries, tail, further, copy, attendedPages } = native.pages;
      if (attendedPages !== undefined) comes.push(Math.min(attendedPages, entries.length));
      if (copy?.position === firstPosition) copies.push(index, copy.from, ...(copy.further ?? []));
      // Groups take their pages at different times: of each those that the batch reaches.
      const reached = further ? Math.ceil((firstPosition + tokens) / pageTokens) : entries.length;
      table.set([native.handle, firstPosition, tokens, HEAD_MODES[head], pages.length, reached, tail], index * stride);
      pages.push(...(further ? entries.slice(0, reached) : entries));
      further?.forEach((group, at) => {
        table[index * stride + BATCH_STRIDE + at] = group.tail;
        pages.push(...group.entries.slice(0, reached));
      });
    });
    return nativeCall(() =>
      this.runtime.createBatch(table, Int32Array.from(pages), Int32Array.from(copies), Int32Array.from(comes)),
    );
  }

  private closeBatch(batch: NativeBatch): void {
    nativeCall(() => {
      this.runtime.freeBatch(batch.handle);
      if (batch.attending !== undefined) this.runtime.freeBatch(batch.attending);
    });
    this.batches.delete(batch.batch);
    for (const row of batch.rows) {
      row.batches--;
      this.freeIfUnused(row);
    }
  }

  /** Undefined where every engine attends to all rows. */
  private divisionOf({ rows }: Batch, natives: readonly NativeRow[]): Division | undefined {
    const { routes } = this;
    const { share } = this.cache;
    if (!routes || !share) return undefined;
    const keepers = new Map(natives.map(({ id, pages }) => [id, keeperOf(pages)]));
    const kept = keptTokens(rows, (row) => keepers.get(row) ?? 0, share.of);
    const tokens = kept.map(({ length }) => length);
    const lengths = { rows: exchangeLengths(routes.rows)(tokens), heads: exchangeLengths(routes.heads)(tokens) };
    return { routes, index: share.index, kept, lengths };
  }

  private freeIfUnused(row: NativeRow): void {
    if (!row.closed || row.batches > 0) return;
    nativeCall(() => this.runtime.freeRow(row.handle));
    this.rows.delete(row.id);
  }
}

function keeperOf({ keeper = 0 }: PageTable): number {
  return keeper;
}
