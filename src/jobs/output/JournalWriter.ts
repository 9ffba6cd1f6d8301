import { type FileHandle, stat } from 'node:fs/promises';
import { JobFileError } from '../../errors/JobFileError.js';
import { describeFileError } from '../../files/fileErrors.js';
import { ifThere } from '../../files/ifThere.js';
import type { RowSink } from '../../files/StreamWriter.js';

/** Rows that may wait while others are being written; then `write` waits. */
const MAX_PENDING_BYTES = 256 * 1024;
/** A power loss costs at most the rows of this long. A killed process costs none that were written. */
const SYNC_SECONDS = 5;

/** Methods that a writer needs of a file; a FileHandle has them. */
export type WritableFile = Pick<FileHandle, 'write' | 'truncate' | 'datasync' | 'stat' | 'close'>;

/**
 * Appends lines to a regular file. A line goes to the operating system at once, or as soon as the write before it is
 * through, so a killed process leaves whole lines and at most one torn last one. After a failure (disk full) the file
 * is cut back to its last whole line; what it could not take is tried once more by `close`, as a run that has ended
 * leaves room on its disk.
 */
export class JournalWriter implements RowSink {
  #pending: Uint8Array[] = [];
  #pendingBytes = 0;
  #flushing: Promise<void> | undefined;
  #failure: JobFileError | undefined;
  #position: number;
  #lastSync = performance.now();

  /**
   * @param position where the next line goes: the end of the last whole line
   * @param checkPlace looks now and then whether the file still stands there; another one is for tests
   */
  constructor(
    private readonly file: WritableFile,
    private readonly path: string,
    position: number,
    private readonly checkPlace = checkInPlace,
  ) {
    this.#position = position;
  }

  async write(text: string | Uint8Array): Promise<void> {
    const line = typeof text === 'string' ? Buffer.from(text) : text;
    if (this.#failure === undefined || this.#pendingBytes > 0) {
      this.#pending.push(line);
      this.#pendingBytes += line.length;
    }
    if (this.#failure !== undefined) throw this.#failure;
    this.#flushing ??= this.#flush();
    while (this.#pendingBytes > MAX_PENDING_BYTES && this.#flushing !== undefined) await this.#flushing;
    // Set by the flush that was awaited.
    if (this.#failure !== undefined) throw this.#failure as JobFileError;
  }

  async close(): Promise<void> {
    while (this.#flushing !== undefined) await this.#flushing;
    const failure = this.#failure;
    if (failure !== undefined && this.#pendingBytes > 0) {
      this.#failure = undefined;
      await this.#flush();
      if (this.#failure !== undefined) this.#failure = failure;
    }
    try {
      if (this.#failure === undefined) {
        await this.file.datasync();
        await checkLength(this.file, this.path, this.#position);
        await this.checkPlace(this.file, this.path);
      }
    } catch (error) {
      this.#failure = this.#failed(error);
    }
    await this.file.close();
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** Never rejects: a failure is kept for the next call. */
  async #flush(): Promise<void> {
    // Not in the same turn as the call: `write` must have noted the promise before this ends, and rows of one turn go
    // together.
    await Promise.resolve();
    try {
      while (this.#pendingBytes > 0) {
        const [first = Buffer.alloc(0), ...others] = this.#pending;
        const lines = others.length === 0 ? first : Buffer.concat(this.#pending, this.#pendingBytes);
        this.#pending = [];
        this.#pendingBytes = 0;
        const begin = this.#position;
        await this.#append(lines).catch((error: unknown) => {
          this.#pending.unshift(lines.subarray(this.#position - begin));
          this.#pendingBytes += lines.length - (this.#position - begin);
          throw error;
        });
        if (performance.now() - this.#lastSync > SYNC_SECONDS * 1000) {
          this.#lastSync = performance.now();
          await this.file.datasync();
          await this.checkPlace(this.file, this.path);
        }
      }
    } catch (error) {
      this.#failure = this.#failed(error);
      // Into a file that somebody else has changed nothing more goes.
      if (error instanceof JobFileError) {
        this.#pending = [];
        this.#pendingBytes = 0;
      }
    } finally {
      this.#flushing = undefined;
    }
  }

  async #append(lines: Uint8Array): Promise<void> {
    await checkLength(this.file, this.path, this.#position);
    let written = 0;
    try {
      while (written < lines.length) {
        const { bytesWritten } = await this.file.write(
          lines,
          written,
          lines.length - written,
          this.#position + written,
        );
        written += bytesWritten;
      }
    } catch (error) {
      const whole = lines.subarray(0, written).lastIndexOf(0x0a) + 1;
      this.#position += whole;
      // If even this fails, a torn last line stays, which a resumed run cuts off.
      await this.file.truncate(this.#position).catch(() => undefined);
      throw error;
    }
    this.#position += written;
  }

  #failed(error: unknown): JobFileError {
    if (error instanceof JobFileError) return error;
    return new JobFileError(
      this.path,
      `cannot be written: ${describeFileError(error)}; the rows before are intact, and \`resume\` goes on`,
      {
        cause: error,
      },
    );
  }
}

type OpenFile = Pick<FileHandle, 'stat'>;

/**
 * Looks whether a file that is being written is as long as what was written to it. Writing would go on after what
 * somebody cut, and leave a hole.
 * @throws JobFileError; the system's errors
 */
export async function checkLength(file: OpenFile, path: string, bytes: number): Promise<void> {
  const { size } = await file.stat({ bigint: true });
  if (size !== BigInt(bytes))
    throw changed(path, `was cut, or written to by somebody else (found ${size} bytes, wrote ${bytes})`);
}

/**
 * Looks whether the file stands where it is looked for: writing to one that was removed or replaced goes on all the
 * same.
 * @throws JobFileError; the system's errors
 */
async function checkInPlace(file: OpenFile, path: string): Promise<void> {
  const own = await file.stat({ bigint: true });
  const there = await ifThere(stat(path, { bigint: true }));
  if (there === undefined) throw changed(path, 'was removed');
  // There are file systems whose numbers of files are not the same twice.
  const same = there.dev === own.dev && there.ino === own.ino;
  if (!same && (there.size !== own.size || there.mtimeNs !== own.mtimeNs))
    throw changed(path, 'was replaced by another file');
}

function changed(path: string, how: string): JobFileError {
  return new JobFileError(
    path,
    `${how} during the run, expected it to be left alone; rows that it does not hold have to be done again`,
  );
}
