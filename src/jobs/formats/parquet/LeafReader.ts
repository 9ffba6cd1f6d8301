import zlib from 'node:zlib';
import type { DecodedArray } from 'hyparquet';
import { compressors, decompressZstd } from 'hyparquet-compressors';
import { parquetHeader } from 'hyparquet/src/column.js';
import { PARQUET_LIMITS } from '../../../model/files/limits.js';
import { checkThrift } from './checkThrift.js';
import { readerOf, readLevels, readValues } from './decodePage.js';
import type { ColumnChunk, ParquetFile } from './ParquetFile.js';
import type { Leaf } from './schema.js';

type Header = ReturnType<typeof parquetHeader>;

/** Values of some rows of a leaf, one a slot, null where there is none. Levels are empty where the leaf has none. */
export interface Slots {
  readonly definition: readonly number[];
  readonly repetition: readonly number[];
  readonly values: ArrayLike<unknown>;
}

/** What is read at a time to find a page's header. */
const HEADER_BYTES = 2 ** 14;

/**
 * The rows of one leaf in one row group, page by page: holds one page, and of a row that goes on in the next one what
 * there is of it.
 */
export class LeafReader {
  #at: number;
  #dictionary: DecodedArray | undefined;
  #slots: Slots = { definition: [], repetition: [], values: [] };
  /** Where rows begin, and where the last one ends that is whole. */
  #starts: readonly number[] = [0];
  /** The next row among them. */
  #next = 0;
  #seen = 0;

  constructor(
    private readonly file: ParquetFile,
    private readonly chunk: ColumnChunk,
    readonly leaf: Leaf,
  ) {
    this.#at = chunk.start;
  }

  /** How many rows can be taken at once; 0 at the end. @throws Error in words */
  async available(): Promise<number> {
    while (this.#rows === 0 && this.#at < this.chunk.end) await this.#readPage();
    if (this.#rows === 0 && this.#seen !== this.chunk.values)
      throw new Error(`found ${this.#seen} values, expected ${this.chunk.values}`);
    return this.#rows;
  }

  /** The next rows, of those that are available. */
  take(rows: number): Slots {
    const [from, to] =
      this.leaf.repetition === 0
        ? [this.#next, this.#next + rows]
        : [this.#starts[this.#next] ?? 0, this.#starts[this.#next + rows] ?? 0];
    this.#next += rows;
    return part(this.#slots, from, to);
  }

  get #rows(): number {
    return (this.leaf.repetition === 0 ? this.#slots.values.length : this.#starts.length - 1) - this.#next;
  }

  async #readPage(): Promise<void> {
    const header = await this.#header();
    const { compressed_page_size: length, uncompressed_page_size: whole } = header;
    if (!isCount(length, this.chunk.end - this.#at) || !isCount(whole, PARQUET_LIMITS.pageBytes)) {
      throw new Error(
        `a page says ${length} bytes, ${whole} decompressed, expected at most ${this.chunk.end - this.#at} and ${PARQUET_LIMITS.pageBytes}`,
      );
    }
    const bytes = await this.file.bytes(this.#at, this.#at + length);
    this.#at += length;
    if (header.crc !== undefined && zlib.crc32(bytes) !== header.crc >>> 0)
      throw new Error('a page is damaged: its checksum is another one');
    if (header.type === 'DICTIONARY_PAGE') {
      const { num_values: count = -1 } = header.dictionary_page_header ?? {};
      checkCount(count);
      this.#dictionary = readValues(
        readerOf(decompressPage(bytes, whole, this.chunk.codec)),
        'PLAIN',
        count,
        this.leaf.element,
        undefined,
      );
    } else if (header.type === 'DATA_PAGE') this.#add(this.#version1(header, bytes));
    else if (header.type === 'DATA_PAGE_V2') this.#add(this.#version2(header, bytes));
    else if (header.type !== 'INDEX_PAGE') throw new Error(`a page of the kind ${String(header.type)}`);
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

  #version1(
    { data_page_header: header, uncompressed_page_size: length }: Header,
    bytes: Uint8Array<ArrayBuffer>,
  ): Slots {
    const { num_values: count = -1, encoding, definition_level_encoding: levels } = header ?? {};
    checkCount(count);
    const { definition: most, repetition: lists, element } = this.leaf;
    if (most > 0 && levels !== 'RLE') throw new Error(`levels are encoded as ${levels}, expected RLE`);
    const reader = readerOf(decompressPage(bytes, length, this.chunk.codec));
    const repetition = lists === 0 ? [] : readLevels(reader, count, lists);
    const definition = most === 0 ? [] : readLevels(reader, count, most);
    const there = most === 0 ? count : countOf(definition, most);
    return {
      definition,
      repetition,
      values: withNulls(
        readValues(reader, String(encoding), there, element, this.#dictionary),
        definition,
        most,
        there,
      ),
    };
  }

  #version2(
    { data_page_header_v2: header, uncompressed_page_size: whole }: Header,
    bytes: Uint8Array<ArrayBuffer>,
  ): Slots {
    const {
      num_values: count = -1,
      num_nulls: nulls = -1,
      encoding,
      repetition_levels_byte_length: first = 0,
      definition_levels_byte_length: second = 0,
    } = header ?? {};
    checkCount(count);
    const { definition: most, repetition: lists, element } = this.leaf;
    if (!isCount(first, bytes.length) || !isCount(second, bytes.length - first) || first + second > whole) {
      throw new Error(`levels of ${first} and ${second} bytes in a page of ${bytes.length}`);
    }
    const reader = readerOf(bytes);
    const repetition = lists === 0 ? [] : readLevels(reader, count, lists, first);
    reader.offset = first;
    const definition = most === 0 ? [] : readLevels(reader, count, most, second);
    const there = most === 0 ? count : countOf(definition, most);
    if (there !== count - nulls)
      throw new Error(`a page says ${nulls} nulls of ${count} values, and has ${count - there}`);
    const rest = bytes.slice(first + second);
    const page = decompressPage(
      rest,
      whole - first - second,
      header?.is_compressed === false ? 'UNCOMPRESSED' : this.chunk.codec,
    );
    return {
      definition,
      repetition,
      values: withNulls(
        readValues(readerOf(page), String(encoding), there, element, this.#dictionary),
        definition,
        most,
        there,
      ),
    };
  }

  #add(page: Slots): void {
    this.#seen += page.values.length;
    if (this.#seen > this.chunk.values)
      throw new Error(`found more than the ${this.chunk.values} values that there are said to be`);
    if (this.leaf.repetition > 0) {
      const pending = part(this.#slots, this.#starts.at(-1) ?? 0, this.#slots.values.length);
      this.#slots = joined(pending, page);
      if (this.#slots.values.length > PARQUET_LIMITS.pageValues)
        throw new Error(`a row has more than ${PARQUET_LIMITS.pageValues} values`);
      if (this.#slots.repetition.length > 0 && this.#slots.repetition[0] !== 0)
        throw new Error('the first row begins within a list');
      const starts = [...this.#slots.repetition.keys()].filter((at) => this.#slots.repetition[at] === 0);
      // The last one may go on in the next page.
      if (this.#at >= this.chunk.end) starts.push(this.#slots.values.length);
      this.#starts = starts.length === 0 ? [0] : starts;
    } else this.#slots = page;
    this.#next = 0;
  }
}

function part({ definition, repetition, values }: Slots, from: number, to: number): Slots {
  const some = Array.isArray(values) ? values.slice(from, to) : (values as Int32Array).subarray(from, to);
  return {
    definition: definition.slice(from, to),
    repetition: repetition.slice(from, to),
    values: some as ArrayLike<unknown>,
  };
}

function joined(a: Slots, b: Slots): Slots {
  if (a.values.length === 0) return b;
  return {
    definition: a.definition.concat(b.definition),
    repetition: a.repetition.concat(b.repetition),
    values: Array.from(a.values).concat(Array.from(b.values)),
  };
}

function withNulls(
  values: DecodedArray,
  definition: readonly number[],
  most: number,
  there: number,
): ArrayLike<unknown> {
  if (values.length !== there) throw new Error(`a page has ${values.length} values, expected ${there}`);
  if (there === definition.length || most === 0) return values;
  let at = 0;
  return definition.map((level) => (level === most ? (values[at++] as unknown) : null));
}

function countOf(levels: readonly number[], most: number): number {
  let count = 0;
  for (const level of levels) if (level === most) count += 1;
  return count;
}

function checkCount(count: number): void {
  if (!isCount(count, PARQUET_LIMITS.pageValues)) {
    throw new Error(`a page says ${count} values, expected at most ${PARQUET_LIMITS.pageValues}`);
  }
}

function isCount(value: number, most: number): boolean {
  return Number.isInteger(value) && value >= 0 && value <= most;
}

type Decompress = (bytes: Uint8Array, length: number) => Uint8Array;

const nativeZstd = (zlib as { readonly zstdDecompressSync?: (bytes: Uint8Array, options: object) => Buffer })
  .zstdDecompressSync;

/** None makes more than it is told. */
const DECOMPRESS: Readonly<Record<string, Decompress | undefined>> = {
  UNCOMPRESSED: (bytes) => bytes,
  SNAPPY: compressors.SNAPPY,
  GZIP: (bytes, length) => zlib.gunzipSync(bytes, { maxOutputLength: Math.max(length, 1) }),
  BROTLI: (bytes, length) => zlib.brotliDecompressSync(bytes, { maxOutputLength: Math.max(length, 1) }),
  LZ4_RAW: compressors.LZ4_RAW,
  ZSTD: (bytes, length) =>
    nativeZstd?.(bytes, { maxOutputLength: Math.max(length, 1) }) ?? decompressZstd(bytes, new Uint8Array(length)),
};

/**
 * What a page holds, in memory of its own.
 * @param length that it is said to have, decompressed; within the limits
 * @throws Error unless it is so; what the decompressor throws
 */
export function decompressPage(bytes: Uint8Array<ArrayBuffer>, length: number, codec: string): Uint8Array<ArrayBuffer> {
  const decompress = DECOMPRESS[codec];
  if (decompress === undefined)
    throw new Error(`it is compressed as ${codec}, expected one of ${Object.keys(DECOMPRESS).join(', ')}`);
  const page = length === 0 ? new Uint8Array() : decompress(bytes, length);
  if (page.length !== length)
    throw new Error(`a page has ${page.length} bytes decompressed, expected ${length}, as its header says`);
  const alone = page.byteOffset === 0 && page.buffer instanceof ArrayBuffer && page.buffer.byteLength === page.length;
  return alone ? new Uint8Array(page.buffer) : new Uint8Array(page);
}
