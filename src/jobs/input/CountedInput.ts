import { createHash } from 'node:crypto';
import { constants, type BigIntStats } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { InterruptedError } from '../../errors/InterruptedError.js';
import { JobFileError } from '../../errors/JobFileError.js';
import { readFailure } from '../../files/fileErrors.js';
import { ifThere } from '../../files/ifThere.js';
import type { FileFingerprint } from '../record/fingerprint.js';
import { decompressed } from '../formats/compression.js';
import type { FileFormat } from '../jobFormats.js';
import type { RowFormat, RowSource } from '../formats/RowFormat.js';
import { ROW_LIMITS } from '../../model/files/limits.js';

/** Bytes that are read, and compared, at a time: what follows has to be the same before any of its rows is sent on. */
const BLOCK_BYTES = 2 ** 20;

interface Counted {
  readonly bytes: number;
  readonly rows: number;
  /** A hash of all bytes up to the end of each block, 32 characters each; of the whole input as hexadecimal digits. */
  readonly hashes: readonly string[];
  readonly sha256: string;
}

/**
 * The regular file that is a job's input, as it was counted when the job began. What is read of it afterwards is
 * compared, block by block, so that no row is sent on that was not there then: what stands in the output is always
 * right for the input that its record names.
 */
export class CountedInput implements RowSource {
  private constructor(
    readonly path: string,
    readonly file: FileFormat,
    private readonly stats: BigIntStats,
    private readonly counted: Counted,
    private readonly signal: AbortSignal | undefined,
  ) {}

  /**
   * Reads the whole file once. Holds 32 bytes a MiB of it.
   * @param signal ends this, and everything that is read later
   * @throws JobFileError, InterruptedError
   */
  static async count(path: string, file: FileFormat, signal?: AbortSignal): Promise<CountedInput> {
    const hash = createHash('sha256');
    const hashes: string[] = [];
    let bytes = 0;
    async function* hashed(input: FileHandle): AsyncGenerator<Buffer, void, undefined> {
      for await (const block of blocksOf(input, Infinity, signal)) {
        hashes.push(hash.update(block).copy().digest('binary'));
        bytes += block.length;
        yield block;
      }
    }
    try {
      await using input = await openAtOnce(path);
      // Before it is read, so that a change meanwhile shows at the end.
      const stats = await input.stat({ bigint: true });
      const blocks = hashed(input);
      const rows = await countRows(file.format, {
        name: path,
        path,
        bytes: () => decompressed(blocks, file.compression, path),
      });
      // What the format had no need to read.
      while ((await blocks.next()).done !== true);
      return new CountedInput(path, file, stats, { bytes, rows, hashes, sha256: hash.digest('hex') }, signal);
    } catch (error) {
      throw readFailure(path, error);
    }
  }

  get name(): string {
    return this.path;
  }

  /** The count of rows: of lines, those that are not blank. */
  get rows(): number {
    return this.counted.rows;
  }

  get fingerprint(): FileFingerprint {
    const { bytes, sha256 } = this.counted;
    return { bytes, sha256 };
  }

  /**
   * Tells whether the file is what it once was with more rows after: in a format of lines, where the last one had come
   * to its end.
   * @throws JobFileError, InterruptedError
   */
  async continues({ bytes, sha256 }: FileFingerprint): Promise<boolean> {
    if (this.file.format.appendable !== true || this.file.compression !== undefined || bytes >= this.counted.bytes)
      return false;
    const hash = createHash('sha256');
    let left = bytes;
    let last = 0x0a;
    let next: number | undefined;
    for await (const block of this.read()) {
      const before = block.subarray(0, left);
      hash.update(before);
      last = before.at(-1) ?? last;
      next = block[left];
      left -= before.length;
      if (next !== undefined) break;
    }
    return hash.digest('hex') === sha256 && [last, next].includes(0x0a);
  }

  bytes(): AsyncIterable<Uint8Array | string> {
    return decompressed(this.read(), this.file.compression, this.path);
  }

  check(): Promise<void> {
    return this.checkUnchanged();
  }

  /**
   * The bytes that were counted, once more; the same buffer each time.
   * @throws JobFileError where others, or fewer, are there by now; InterruptedError
   */
  async *read(): AsyncGenerator<Buffer, void, undefined> {
    try {
      await using input = await openAtOnce(this.path);
      yield* this.#blocks(input);
    } catch (error) {
      throw readFailure(this.path, error);
    }
  }

  async *#blocks(input: FileHandle): AsyncGenerator<Buffer, void, undefined> {
    const { bytes, hashes } = this.counted;
    const hash = createHash('sha256');
    let position = 0;
    let blocks = 0;
    for await (const block of blocksOf(input, bytes, this.signal)) {
      if (hash.update(block).copy().digest('binary') !== hashes[blocks]) break;
      position += block.length;
      blocks += 1;
      yield block;
    }
    if (position === bytes) return;
    const { size } = await input.stat();
    throw size < bytes ? this.#failure('shrank', size) : this.#failure('changed', position);
  }

  /**
   * Looks, once all has been read, whether the file is still what was counted: one that has grown meanwhile holds rows
   * that nobody answered. A file that was moved away or deleted holds none.
   * @throws JobFileError, InterruptedError
   */
  async checkUnchanged(): Promise<void> {
    try {
      await using input = await ifThere(openAtOnce(this.path));
      const now = await input?.stat({ bigint: true });
      if (input === undefined || now === undefined || sameVersion(now, this.stats)) return;
      // Touched, or saved once more: its content says whether that matters. (Some files of the system have no size.)
      if (now.isFile() && Number(now.size) > this.counted.bytes) throw this.#failure('grew', Number(now.size));
      const blocks = this.#blocks(input);
      while ((await blocks.next()).done !== true);
    } catch (error) {
      throw readFailure(this.path, error);
    }
  }

  #failure(how: 'shrank' | 'grew' | 'changed', at: number): JobFileError {
    const { bytes, rows } = this.counted;
    const foundThere = how === 'changed' ? `other bytes after byte ${at}` : `${at} bytes`;
    return new JobFileError(
      this.path,
      `the input ${how} during the run: found ${foundThere}, expected the ${bytes} bytes (${rows} rows) that were counted when it began; ` +
        `rows that were finished are intact, and \`resume\` goes on with them once the input is again what it was`,
    );
  }
}

async function countRows(format: RowFormat, source: RowSource): Promise<number> {
  if (format.count) return format.count(source);
  let rows = 0;
  for await (const _ of format.rows(source, { carryFields: false, maxLineBytes: ROW_LIMITS.lineBytes })) rows += 1;
  return rows;
}

/** Opens a file to be read, without waiting, should a FIFO stand there by now. */
function openAtOnce(path: string): Promise<FileHandle> {
  return open(path, constants.O_RDONLY | constants.O_NONBLOCK);
}

/** A file in blocks of a MiB, the last one shorter, up to so many bytes. The next block overwrites the one before. */
async function* blocksOf(
  file: FileHandle,
  bytes: number,
  signal: AbortSignal | undefined,
): AsyncGenerator<Buffer, void, undefined> {
  const buffer = Buffer.allocUnsafe(BLOCK_BYTES);
  for (let position = 0, filled = BLOCK_BYTES; filled === BLOCK_BYTES; position += filled) {
    if (signal?.aborted === true) throw new InterruptedError(signal.reason);
    const wanted = Math.min(BLOCK_BYTES, bytes - position);
    for (filled = 0; filled < wanted;) {
      const { bytesRead } = await file.read(buffer, filled, wanted - filled, position + filled);
      if (bytesRead === 0) break;
      filled += bytesRead;
    }
    if (filled > 0) yield buffer.subarray(0, filled);
  }
}

/** Nothing has been written to the file, and it is the same. */
function sameVersion(a: BigIntStats, b: BigIntStats): boolean {
  return a.dev === b.dev && a.ino === b.ino && a.size === b.size && a.mtimeNs === b.mtimeNs && a.ctimeNs === b.ctimeNs;
}
