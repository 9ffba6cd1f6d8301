import { open, type FileHandle } from 'node:fs/promises';
import { parquetMetadata, parquetSchema, type FileMetaData } from 'hyparquet';
import { JobFileError } from '../../../errors/JobFileError.js';
import { SpillwayError } from '../../../errors/SpillwayError.js';
import { describeFileError, readFailure } from '../../../files/fileErrors.js';
import { checkThrift } from './checkThrift.js';
import { PARQUET_LIMITS } from '../../../model/files/limits.js';
import { checkSchema, columnsOf, type Column } from './schema.js';

const MAGIC = 'PAR1';
const HEAD_BYTES = 4;
/** The footer's length, and the format's name. */
const TAIL_BYTES = 8;

/** A stretch of a file that holds the values of one leaf of one row group. */
export interface ColumnChunk {
  readonly start: number;
  readonly end: number;
  readonly codec: string;
  /** Values, those that are null among them. */
  readonly values: number;
}

export interface RowGroup {
  readonly rows: number;
  /** One a leaf, in the order of the schema. */
  readonly chunks: readonly ColumnChunk[];
}

/** An open Parquet file whose footer was read and checked: what it says lies within the file and agrees with itself. */
export class ParquetFile implements AsyncDisposable {
  private constructor(
    readonly name: string,
    private readonly handle: FileHandle,
    readonly columns: readonly Column[],
    readonly groups: readonly RowGroup[],
  ) {}

  /** @throws JobFileError naming what was found and what was expected; the system's errors */
  static async open(path: string, name: string): Promise<ParquetFile> {
    const handle = await open(path, 'r');
    try {
      return await parquetErrors(name, async () => {
        const { size } = await handle.stat();
        const { metadata, start } = await readFooter(handle, size);
        checkSchema(metadata.schema);
        const columns = columnsOf(parquetSchema(metadata));
        return new ParquetFile(
          name,
          handle,
          columns,
          groupsOf(metadata, columns.flatMap(({ leaves }) => leaves).length, start),
        );
      });
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  get rows(): number {
    return this.groups.reduce((sum, { rows }) => sum + rows, 0);
  }

  chunkOf(group: number, leaf: number): ColumnChunk {
    const chunk = this.groups[group]?.chunks[leaf];
    if (chunk === undefined) throw new Error(`row group ${group} has no column ${leaf}`);
    return chunk;
  }

  /**
   * Bytes in memory of their own: what is read after their end is an error, not somebody else's. @throws where they
   * are not all there
   */
  async bytes(start: number, end: number): Promise<Uint8Array<ArrayBuffer>> {
    return readBytes(this.handle, start, end);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.handle.close();
  }
}

/** Makes errors in reading a Parquet file say so. hyparquet's own errors are of any kind. */
export async function parquetErrors<T>(name: string, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof SpillwayError) throw error;
    if (error instanceof Error && 'syscall' in error) throw readFailure(name, error);
    throw new JobFileError(name, `cannot be read as Parquet: ${describeFileError(error)}`, { cause: error });
  }
}

async function readFooter(handle: FileHandle, size: number): Promise<{ metadata: FileMetaData; start: number }> {
  if (size < HEAD_BYTES + TAIL_BYTES)
    throw new Error(`found ${size} bytes, expected ${HEAD_BYTES + TAIL_BYTES} at least`);
  const [head, tail] = [
    await readBytes(handle, 0, HEAD_BYTES),
    Buffer.from(await readBytes(handle, size - TAIL_BYTES, size)),
  ];
  for (const [where, bytes] of [
    ['begins', Buffer.from(head)],
    ['ends', tail.subarray(4)],
  ] as const) {
    if (bytes.toString('latin1') === 'PARE') throw new Error('it is encrypted, which is not supported');
    if (bytes.toString('latin1') !== MAGIC) {
      throw new Error(
        `it ${where} with ${JSON.stringify(bytes.toString('latin1'))}, expected ${MAGIC}: it may be cut off`,
      );
    }
  }
  const length = tail.readUInt32LE(0);
  const start = size - TAIL_BYTES - length;
  if (start < HEAD_BYTES) throw new Error(`its footer says that it has ${length} bytes, and the file has ${size}`);
  if (length > PARQUET_LIMITS.footerBytes) {
    throw new Error(`found a footer of ${length} bytes, expected at most ${PARQUET_LIMITS.footerBytes}`);
  }
  const footer = await readBytes(handle, start, size);
  checkThrift(footer.subarray(0, length));
  return { metadata: metadataOf(footer), start };
}

function metadataOf(footer: Uint8Array): FileMetaData {
  try {
    // What the least and the most of a column are is not asked.
    return parquetMetadata(footer, { geoparquet: false, parsers: { stringFromBytes: () => undefined } });
  } catch (error) {
    throw new Error(`its footer is damaged (${error instanceof Error ? error.message : String(error)})`, {
      cause: error,
    });
  }
}

async function readBytes(handle: FileHandle, start: number, end: number): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = new Uint8Array(end - start);
  for (let filled = 0; filled < bytes.length;) {
    const { bytesRead } = await handle.read(bytes, filled, bytes.length - filled, start + filled);
    if (bytesRead === 0) throw new Error(`it ends at byte ${start + filled}, expected ${end} bytes at least`);
    filled += bytesRead;
  }
  return bytes;
}

function groupsOf(
  { row_groups: groups, num_rows: total }: FileMetaData,
  leaves: number,
  dataEnd: number,
): readonly RowGroup[] {
  const read = groups.map((group, at): RowGroup => {
    const where = `row group ${at}`;
    const rows = count(`${where}: the number of rows`, group.num_rows);
    if (group.columns.length !== leaves) {
      throw new Error(`${where} has ${group.columns.length} columns, expected ${leaves}, as the schema has`);
    }
    const chunks = group.columns.map(({ meta_data: meta, file_path: elsewhere }, leaf): ColumnChunk => {
      if (meta === undefined || elsewhere !== undefined)
        throw new Error(`${where}, column ${leaf}: its values are not in this file`);
      const first = [meta.dictionary_page_offset, meta.data_page_offset]
        .filter((offset) => offset !== undefined && Number(offset) > 0)
        .map(Number);
      // Of a group without rows there may be none.
      const start =
        rows === 0 && first.length === 0
          ? HEAD_BYTES
          : count(`${where}, column ${leaf}: the offset`, Math.min(...first));
      const end = start + count(`${where}, column ${leaf}: the length`, meta.total_compressed_size);
      if (start < HEAD_BYTES || end > dataEnd) {
        throw new Error(
          `${where}, column ${leaf} lies at bytes ${start} to ${end}, expected ${HEAD_BYTES} to ${dataEnd}`,
        );
      }
      return {
        start,
        end,
        codec: meta.codec,
        values: count(`${where}, column ${leaf}: the number of values`, meta.num_values),
      };
    });
    return { rows, chunks };
  });
  const sum = read.reduce((rows, group) => rows + group.rows, 0);
  if (sum !== count('the number of rows', total))
    throw new Error(`its footer says ${total} rows, and its row groups have ${sum}`);
  return read;
}

function count(what: string, value: unknown): number {
  const number = typeof value === 'bigint' ? Number(value) : value;
  if (typeof number !== 'number' || !Number.isSafeInteger(number) || number < 0) {
    throw new Error(`${what} is ${String(value)}, expected a whole number of at least 0`);
  }
  return number;
}
