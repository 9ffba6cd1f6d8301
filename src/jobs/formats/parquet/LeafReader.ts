import { setImmediate } from 'node:timers/promises';
import zlib from 'node:zlib';
import { parquetHeader } from 'hyparquet/src/column.js';
import { PARQUET_LIMITS } from '../../../model/files/limits.js';
import { inTurns } from '../../../collections/inTurns.js';
import { checkThrift } from './checkThrift.js';
import { copiedInParts, copyInParts } from './copyInParts.js';
import { decompressPage } from './decompressPage.js';
import { Dictionary } from './Dictionary.js';
import { isForeign, PageBytes, TOO_LARGE } from './PageBytes.js';
import type { ColumnChunk, ParquetFile } from './ParquetFile.js';
import { RunCursor } from './RunCursor.js';
import type { Leaf } from './schema.js';
import { valueCursor, type ValueCursor } from './ValueCursor.js';

type Header = ReturnType<typeof parquetHeader>;

/** Values of some rows of a leaf, one a slot, null where there is none. Levels are empty where the leaf has none. */
export interface Slots {
  readonly definition: readonly number[];
  readonly repetition: readonly number[];
  readonly values: ArrayLike<unknown>;
}

/** Bytes of pages that the readers of all leaves hold. */
export interface HeldPages {
  bytes: number;
}

/** Bytes that are read at a time to find a page's header. */
const HEADER_BYTES = 2 ** 14;
/** Bytes that a value takes beside its own. */
const VALUE_BYTES = 16;
/** Bytes that a page of one value holds beside it, at most: its length, and its levels. */
const PAGE_BYTES = 64;
/** Bytes whose checksum is made in one turn. */
const CHECKED_BYTES = 2 ** 24;
/** Bytes that a value in a list counts for more than others, where it is decided how many are made at a time. */
const LISTED_BYTES = 112;
/** Slots of a list that are read in one turn. */
const SLOTS = 2 ** 16;
/** Levels that are counted in one turn. */
const COUNTED = 2 ** 20;

/** Where a page is, to be read again. */
interface Place {
  readonly header: Header;
  readonly start: number;
  readonly end: number;
}

/** A page that is being read. */
interface Page extends Place {
  readonly held: PageBytes;
  readonly repetition: RunCursor | undefined;
  readonly definition: RunCursor | undefined;
  readonly values: ValueCursor;
  /** Slots to come. */
  left: number;
}

/** Rows that have been read and not been taken. */
interface Window {
  readonly definition: number[];
  readonly repetition: number[];
  readonly values: unknown[];
  /** Where each row ends; empty where it has one value. */
  readonly ends: number[];
  /** The bytes that each row takes; Infinity for one that has no room. */
  readonly bytes: number[];
}

const empty = (): Window => ({ definition: [], repetition: [], values: [], ends: [], bytes: [] });

/**
 * The rows of one leaf in one row group: goes through its pages value by value. Where all leaves together hold more
 * than they may, it lets go of its page and reads that again for the rows that follow.
 */
export class LeafReader {
  #at: number;
  #page: Page | undefined;
  #dictionary: { readonly place: Place; readonly page: PageBytes; readonly values: Dictionary } | undefined;
  #window = empty();
  #held = 0;
  #seen = 0;
  /** The repetition of the next slot, where that has been looked at. */
  #next: number | undefined;

  constructor(
    private readonly file: ParquetFile,
    private readonly chunk: ColumnChunk,
    readonly leaf: Leaf,
    private readonly all: HeldPages,
  ) {
    this.#at = chunk.start;
  }

  /**
   * Reads rows ahead, where none has been. @param rows at most @param mostBytes that they may take, the first one aside
   * @param before what each of them takes in other leaves: beyond `PARQUET_LIMITS.rowBytes` nothing of it is kept
   * @returns what each of those takes that can be taken now; none at the end @throws Error in words
   */
  async fill(rows: number, mostBytes: number, before: Float64Array): Promise<readonly number[]> {
    const { bytes } = this.#window;
    if (bytes.length === 0) {
      let sum = 0;
      do {
        const taken = before[bytes.length] ?? 0;
        if (!this.#isReady && !(await this.#ready(PARQUET_LIMITS.rowBytes - taken))) break;
        sum += this.leaf.repetition === 0 ? this.#value(taken) : await this.#list(taken);
        if (isForeign(this.#window.values.at(-1))) await this.#keep();
      } while (bytes.length < rows && sum <= mostBytes && this.#isReady);
    }
    if (bytes.length === 0 && this.#seen !== this.chunk.values)
      throw new Error(`found ${this.#seen} values, expected ${this.chunk.values}`);
    if (this.all.bytes > PARQUET_LIMITS.heldBytes) this.#letGo();
    return bytes;
  }

  /** The first rows of those that have been read. */
  take(rows: number): Slots {
    const window = this.#window;
    const { definition, repetition, values, ends, bytes } = window;
    // All of them, most often.
    if (rows === bytes.length) {
      this.#window = empty();
      return window;
    }
    const end = this.leaf.repetition === 0 ? rows : rows === 0 ? 0 : (ends[rows - 1] ?? 0);
    this.#window = {
      definition: definition.slice(end),
      repetition: repetition.slice(end),
      values: values.slice(end),
      ends: ends.slice(rows).map((each) => each - end),
      bytes: bytes.slice(rows),
    };
    return { definition: definition.slice(0, end), repetition: repetition.slice(0, end), values: values.slice(0, end) };
  }

  /** Lets go of all that it holds. */
  close(): void {
    this.all.bytes -= this.#held;
    this.#held = 0;
    this.#page = undefined;
    this.#dictionary = undefined;
  }

  /** The row of a leaf with one value a row. @returns what it takes */
  #value(before: number): number {
    const { definition, values, bytes } = this.#window;
    const room = PARQUET_LIMITS.rowBytes - before - VALUE_BYTES;
    const [level, value] = this.#slot(room);
    const kept = value !== TOO_LARGE && room >= 0;
    if (this.leaf.definition > 0) definition.push(kept ? level : 0);
    values.push(kept ? value : null);
    const own = VALUE_BYTES + (value instanceof Uint8Array ? value.length : 0);
    bytes.push(kept ? own : Infinity);
    return own;
  }

  /** A row of a leaf that repeats, which may go on in the pages that follow. @returns what it takes */
  async #list(before: number): Promise<number> {
    const { definition, repetition, values, ends, bytes } = this.#window;
    const from = values.length;
    let room = PARQUET_LIMITS.rowBytes - before;
    for (let slots = 0; ; slots++) {
      if (slots > 0 && !this.#isReady && !(await this.#ready(room))) break;
      const again = this.#peek();
      if (slots > 0 && again === 0) break;
      if (slots === 0 && again !== 0) throw new Error('the first row begins within a list');
      if (slots % SLOTS === SLOTS - 1) await setImmediate();
      this.#next = undefined;
      const [level, value] = this.#slot(room - VALUE_BYTES);
      room -= VALUE_BYTES + (value instanceof Uint8Array ? value.length : 0);
      if (value === TOO_LARGE || room < 0 || slots >= PARQUET_LIMITS.listValues) room = -Infinity;
      else {
        if (this.leaf.definition > 0) definition.push(level);
        repetition.push(again);
        values.push(value);
        if (isForeign(value)) await this.#keep();
      }
    }
    const own = PARQUET_LIMITS.rowBytes - before - room;
    if (own === Infinity) {
      // Nothing of the row is kept, but a place.
      values.splice(from, Infinity, null);
      repetition.splice(from, Infinity, 0);
      if (this.leaf.definition > 0) definition.splice(from, Infinity, 0);
    }
    ends.push(values.length);
    bytes.push(own);
    // Lists are put together out of their levels: fewer of their values are made at a time.
    return own === Infinity ? 0 : own + (values.length - from) * LISTED_BYTES;
  }

  /** The last value that was read gets memory of its own: rows wait, and its page is let go of. */
  async #keep(): Promise<void> {
    const { values } = this.#window;
    const value = values.at(-1);
    if (value instanceof Uint8Array) values[values.length - 1] = await inTurns(copiedInParts(value));
  }

  /** The repetition of the next slot. */
  #peek(): number {
    const { repetition: most } = this.leaf;
    if (most === 0) return 0;
    this.#next ??= levelOf(this.#page?.repetition, most);
    return this.#next;
  }

  #slot(room: number): readonly [level: number, value: unknown] {
    const page = this.#page;
    if (page === undefined) throw new Error('found no page');
    const { definition: most } = this.leaf;
    const level = levelOf(page.definition, most);
    page.left -= 1;
    return [level, level === most ? page.values.next(room) : null];
  }

  /** Tells whether the next slot is in a page that is there. */
  get #isReady(): boolean {
    const page = this.#page;
    return page !== undefined && page.left > 0 && page.held.bytes.length > 0 && this.#dictionary?.values.bytes !== 0;
  }

  /** Tells whether there is a slot to come; its page is there then. @param room for the values of the row */
  async #ready(room: number): Promise<boolean> {
    while (this.#page === undefined || this.#page.left === 0) {
      if (this.#page) this.#free(this.#page);
      this.#page = undefined;
      if (this.#at >= this.chunk.end) return false;
      await this.#readPage(room);
    }
    if (this.#page.held.bytes.length === 0 || this.#dictionary?.values.bytes === 0) await this.#restore(this.#page);
    return true;
  }

  async #readPage(room: number): Promise<void> {
    const header = await this.#header();
    const { compressed_page_size: length, uncompressed_page_size: whole } = header;
    if (!isCount(length, this.chunk.end - this.#at) || !isCount(whole, PARQUET_LIMITS.pageBytes)) {
      throw new Error(
        `a page says ${length} bytes, ${whole} decompressed, expected at most ${this.chunk.end - this.#at} and ${PARQUET_LIMITS.pageBytes}`,
      );
    }
    const place = { header, start: this.#at, end: this.#at + length };
    this.#at = place.end;
    switch (header.type) {
      case 'DICTIONARY_PAGE': {
        const count = header.dictionary_page_header?.num_values ?? -1;
        checkCount(count);
        const page = new PageBytes(await this.#bytes(place));
        this.#dictionary = { place, page, values: new Dictionary(page, count, this.leaf.element) };
        this.#hold(this.#dictionary.values.bytes);
        return;
      }
      case 'DATA_PAGE':
      case 'DATA_PAGE_V2':
        this.#page = await this.#opened(place, room);
        this.#seen += this.#page.left;
        if (this.#seen > this.chunk.values)
          throw new Error(`found more than the ${this.chunk.values} values that there are said to be`);
        return;
      case 'INDEX_PAGE':
        return;
      default:
        throw new Error(`a page of the kind ${String(header.type)}`);
    }
  }

  async #opened(place: Place, room: number): Promise<Page> {
    const { header } = place;
    const [first, second] = [header.data_page_header, header.data_page_header_v2];
    const count = (header.type === 'DATA_PAGE' ? first : second)?.num_values ?? -1;
    checkCount(count);
    const { definition: most, repetition: lists } = this.leaf;
    if (header.type === 'DATA_PAGE' && most > 0 && first?.definition_level_encoding !== 'RLE')
      throw new Error(`levels are encoded as ${first?.definition_level_encoding}, expected RLE`);
    const encoding = String((header.type === 'DATA_PAGE' ? first : second)?.encoding);
    // One value that its row has no room for is not even decompressed.
    if (count === 1 && lists === 0 && header.uncompressed_page_size > room + PAGE_BYTES)
      return { ...place, ...ONE_TOO_LARGE, left: 1 };
    const held = new PageBytes(await this.#bytes(place));
    this.#hold(held.bytes.length);
    let at = 0;
    const levels = (highest: number, said: number | undefined): (() => RunCursor) | undefined => {
      const prefixed = said === undefined && highest > 0;
      const length = prefixed ? held.view.getUint32(at, true) : (said ?? 0);
      const start = at + (prefixed ? 4 : 0);
      at = start + length;
      return highest === 0 ? undefined : () => new RunCursor(held, start, length, 32 - Math.clz32(highest), count);
    };
    const repetition = levels(lists, second?.repetition_levels_byte_length);
    const definition = levels(most, second?.definition_levels_byte_length);
    const there = definition === undefined ? count : await countOf(definition(), count, most);
    if (second !== undefined && there !== count - second.num_nulls)
      throw new Error(`a page says ${second.num_nulls} nulls of ${count} values, and has ${count - there}`);
    const values = valueCursor(held, at, encoding, there, this.leaf.element, this.#dictionary?.values);
    this.#hold(values.bytes);
    return { ...place, held, repetition: repetition?.(), definition: definition?.(), values, left: count };
  }

  /** The bytes of a page, decompressed; of the second version after its levels, which are not compressed. */
  async #bytes({ header, start, end }: Place): Promise<Uint8Array<ArrayBuffer>> {
    const { crc, uncompressed_page_size: whole, data_page_header_v2: second } = header;
    const bytes = await this.file.bytes(start, end);
    if (crc !== undefined && (await checksumOf(bytes)) !== crc >>> 0)
      throw new Error('a page is damaged: its checksum is another one');
    const { codec } = this.chunk;
    if (second === undefined) return decompressPage(bytes, whole, codec);
    const { repetition_levels_byte_length: first, definition_levels_byte_length: others } = second;
    const levels = first + others;
    if (!isCount(first, bytes.length) || !isCount(others, bytes.length - first) || levels > whole)
      throw new Error(`levels of ${first} and ${others} bytes in a page of ${bytes.length}`);
    const rest = second.is_compressed === false ? 'UNCOMPRESSED' : codec;
    if (levels === 0) return decompressPage(bytes, whole, rest);
    const page = new Uint8Array(whole);
    page.set(bytes.subarray(0, levels));
    await inTurns(copyInParts(await decompressPage(bytes.slice(levels), whole - levels, rest), page, levels));
    return page;
  }

  async #header(): Promise<Header> {
    for (let most = HEADER_BYTES; ; most = PARQUET_LIMITS.pageHeaderBytes) {
      const bytes = await this.file.bytes(this.#at, Math.min(this.#at + most, this.chunk.end));
      try {
        checkThrift(bytes);
      } catch (error) {
        if (most === PARQUET_LIMITS.pageHeaderBytes || bytes.length < most) throw error;
        continue;
      }
      const reader = { view: new DataView(bytes.buffer), offset: 0 };
      const header = parquetHeader(reader);
      this.#at += reader.offset;
      return header;
    }
  }

  #hold(bytes: number): void {
    this.#held += bytes;
    this.all.bytes += bytes;
  }

  /** The page that is being read is done with, or let go of. */
  #free({ held, values }: Page): void {
    if (held.bytes.length === 0) return;
    this.#hold(-held.bytes.length - values.bytes);
    held.drop();
    values.drop();
  }

  #letGo(): void {
    if (this.#page) this.#free(this.#page);
    if (!this.#dictionary) return;
    this.#hold(-this.#dictionary.values.bytes);
    this.#dictionary.values.drop();
  }

  /** Reads again what has been let go of. */
  async #restore(page: Page): Promise<void> {
    const dictionary = this.#dictionary;
    if (dictionary?.values.bytes === 0) {
      dictionary.page.put(await this.#bytes(dictionary.place));
      dictionary.values.restore();
      this.#hold(dictionary.values.bytes);
    }
    if (page.held === NOTHING || page.held.bytes.length > 0) return;
    page.held.put(await this.#bytes(page));
    this.#hold(page.held.bytes.length + page.values.bytes);
  }
}

/** Stands for the bytes of a page that is not decompressed at all. */
const NOTHING = new PageBytes(new Uint8Array());
const ONE_TOO_LARGE = {
  held: NOTHING,
  repetition: undefined,
  definition: undefined,
  values: { bytes: 0, next: () => TOO_LARGE, drop: () => undefined },
};

/** A level that is no higher than it may be. */
function levelOf(levels: RunCursor | undefined, most: number): number {
  const level = levels?.next() ?? most;
  if (level > most) throw new Error(`a level is ${level}, expected at most ${most}`);
  return level;
}

/** How many of the levels are the highest. */
async function countOf(levels: RunCursor, count: number, most: number): Promise<number> {
  let highest = 0;
  for (let at = 0; at < count; at++) {
    if (levelOf(levels, most) === most) highest += 1;
    if (at % COUNTED === COUNTED - 1) await setImmediate();
  }
  return highest;
}

async function checksumOf(bytes: Uint8Array): Promise<number> {
  let checksum = 0;
  for (let at = 0; at < bytes.length; at += CHECKED_BYTES) {
    if (at > 0) await setImmediate();
    checksum = zlib.crc32(bytes.subarray(at, at + CHECKED_BYTES), checksum);
  }
  return checksum;
}

function checkCount(count: number): void {
  if (!isCount(count, PARQUET_LIMITS.pageValues)) {
    throw new Error(`a page says ${count} values, expected at most ${PARQUET_LIMITS.pageValues}`);
  }
}

function isCount(value: number, most: number): boolean {
  return Number.isInteger(value) && value >= 0 && value <= most;
}
