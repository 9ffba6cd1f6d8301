import type { SchemaElement } from 'hyparquet';
import { ByteWriter } from 'hyparquet-writer';
import { writeColumn } from 'hyparquet-writer/src/column.js';
import { writeMetadata } from 'hyparquet-writer/src/metadata.js';
import { snappyCompress } from 'hyparquet-writer/src/snappy.js';
import { Turns } from '../../../collections/Turns.js';
import { JobFileError } from '../../../errors/JobFileError.js';
import { SpillwayError } from '../../../errors/SpillwayError.js';
import type { FinishedRow, WriteOptions } from '../RowFormat.js';
import { bytesOfRow, outputLeaves, type OutputLeaf } from './outputLeaves.js';

const MAGIC = 0x31524150;
/** A row group has so many rows, or about so many bytes, whichever comes first: what is held until it is written. */
const GROUP_ROWS = 10_000;
const GROUP_BYTES = 16 * 2 ** 20;
const PAGE_BYTES = 2 ** 20;

type RowGroup = Parameters<typeof writeMetadata>[1]['row_groups'][number];

/** The bytes of a Parquet file, a row group at a time, compressed with Snappy. */
export async function* encodeParquet(
  results: AsyncIterable<FinishedRow>,
  options: WriteOptions,
): AsyncGenerator<Uint8Array, void, undefined> {
  const file = new GroupWriter(options);
  let rows: FinishedRow[] = [];
  let bytes = 0;
  for await (const row of results) {
    rows.push(row);
    bytes += bytesOfRow(row);
    if (rows.length < GROUP_ROWS && bytes < GROUP_BYTES) continue;
    yield await file.group(rows);
    [rows, bytes] = [[], 0];
  }
  if (rows.length > 0) yield await file.group(rows);
  yield file.end();
}

/**
 * The least and the most of a column are kept until the file ends, and may be views of pages that they came in: a
 * megabyte each.
 */
function withOwnStatistics(chunk: RowGroup['columns'][number]): RowGroup['columns'][number] {
  const { meta_data: meta } = chunk;
  if (meta?.statistics === undefined) return chunk;
  const own = Object.entries(meta.statistics).map(([name, value]) => [
    name,
    value instanceof Uint8Array ? value.slice() : (value as unknown),
  ]);
  return {
    ...chunk,
    meta_data: { ...meta, statistics: Object.fromEntries(own) as NonNullable<typeof meta.statistics> },
  };
}

class GroupWriter {
  readonly #writer = new ByteWriter();
  readonly #groups: RowGroup[] = [];
  #schema: SchemaElement[] = [];
  #leaves: readonly OutputLeaf[] | undefined;
  #rows = 0;

  constructor(private readonly options: WriteOptions) {
    this.#writer.appendUint32(MAGIC);
  }

  /** @throws JobFileError for a value that its column has no room for */
  async group(rows: readonly FinishedRow[]): Promise<Uint8Array> {
    const start = this.#writer.offset;
    const turns = new Turns();
    const columns: RowGroup['columns'][number][] = [];
    for (const leaf of this.#begin(rows)) {
      if (turns.due) await turns.give();
      columns.push(this.#column(leaf, rows));
    }
    const sum = columns.reduce((bytes, { meta_data: meta }) => bytes + (meta?.total_uncompressed_size ?? 0n), 0n);
    this.#groups.push({
      columns,
      total_byte_size: sum,
      num_rows: BigInt(rows.length),
      total_compressed_size: BigInt(this.#writer.offset - start),
    });
    this.#rows += rows.length;
    return this.#taken();
  }

  end(): Uint8Array {
    this.#begin([]);
    writeMetadata(this.#writer, {
      version: 2,
      created_by: 'spillway',
      schema: this.#schema,
      num_rows: BigInt(this.#rows),
      row_groups: this.#groups,
      metadata_length: 0,
    });
    this.#writer.appendUint32(MAGIC);
    return this.#taken();
  }

  /** The first group decides what columns there are, where nothing else does. */
  #begin(first: readonly FinishedRow[]): readonly OutputLeaf[] {
    if (this.#leaves === undefined)
      ({ leaves: this.#leaves, schema: this.#schema } = outputLeaves(first, this.options));
    return this.#leaves;
  }

  #column(leaf: OutputLeaf, rows: readonly FinishedRow[]): RowGroup['columns'][number] {
    try {
      const { chunk } = writeColumn({
        writer: this.#writer,
        column: {
          columnName: leaf.name,
          element: leaf.stored,
          schemaPath: leaf.path,
          // A dictionary would take 0 and -0 for one value.
          ...(leaf.stored.type === 'FLOAT' || leaf.stored.type === 'DOUBLE' ? { encoding: 'PLAIN' as const } : {}),
          codec: 'SNAPPY',
          compressors: { SNAPPY: snappyCompress },
          stats: leaf.ordered,
          pageSize: PAGE_BYTES,
          columnIndex: false,
          offsetIndex: false,
        },
        pageData: leaf.values(rows),
      });
      return withOwnStatistics(chunk);
    } catch (error) {
      if (error instanceof SpillwayError) throw error;
      throw new JobFileError(
        this.options.name,
        `column ${leaf.name}: cannot be written as Parquet: ${error instanceof Error ? error.message : String(error)}; write CSV or lines of JSON instead`,
        { cause: error },
      );
    }
  }

  /** Takes what was written since the last time. */
  #taken(): Uint8Array {
    const bytes = this.#writer.getBytes().slice();
    this.#writer.index = 0;
    return bytes;
  }
}
