import { closeSync, openSync, readSync, unlinkSync, writeSync } from 'node:fs';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { deserialize, serialize } from 'node:v8';
import { makeFolder } from '../files/makeFolder.js';

/** A file of the queue is given up when all of it has been read: so its room comes free in pieces. */
const SEGMENT_BYTES = 64 * 2 ** 20;
const LENGTH_BYTES = 4;
/**
 * The least that a value counts for: a source without end must not keep the thread for minutes with values of a few
 * bytes.
 */
const LEAST_BYTES = 1024;
/** Values are written together. */
const WRITE_BYTES = 256 * 2 ** 10;

interface Segment {
  readonly file: number;
  /** Bytes in the file; what is `pending` comes after them. */
  written: number;
  pending: Buffer[];
  pendingBytes: number;
  read: number;
  /** Size that it counts for. */
  counted: number;
}

/**
 * A queue of plain data on disk, first in, first out, bounded in bytes. Its files have no name once they are open, so
 * that nothing is left however the process ends. Everything is synchronous: who pushes cannot be made to wait.
 */
export class FileQueue<T> {
  readonly #segments: Segment[] = [];
  #bytes = 0;
  #length = 0;

  /** @param folder made where it is missing @param mostBytes that its files may have together */
  constructor(
    private readonly folder: string,
    private readonly mostBytes: number,
  ) {}

  /** Values that wait. */
  get length(): number {
    return this.#length;
  }

  /**
   * @returns false where there is no room for it
   * @throws the file system's errors; a DataCloneError for what is no plain data
   */
  push(value: T): boolean {
    const data = serialize(value);
    const bytes = LENGTH_BYTES + data.byteLength;
    const counted = Math.max(LEAST_BYTES, bytes);
    if (this.#bytes + counted > this.mostBytes) return false;
    const last = this.#segments.at(-1);
    const segment = last !== undefined && last.written < SEGMENT_BYTES ? last : this.#open();
    const record = Buffer.allocUnsafe(bytes);
    record.writeUInt32LE(data.byteLength);
    data.copy(record, LENGTH_BYTES);
    segment.pending.push(record);
    segment.pendingBytes += bytes;
    segment.counted += counted;
    if (segment.pendingBytes >= WRITE_BYTES) flush(segment);
    this.#bytes += counted;
    this.#length += 1;
    return true;
  }

  /** @throws RangeError for an empty queue; the file system's errors */
  shift(): T {
    const [first] = this.#segments;
    if (first === undefined) throw new RangeError('nothing waits');
    if (first.read === first.written) flush(first);
    const data = this.#read(first, this.#read(first, LENGTH_BYTES).readUInt32LE());
    this.#length -= 1;
    if (first.read === first.written && first.pendingBytes === 0) {
      closeSync(first.file);
      this.#segments.shift();
      this.#bytes -= first.counted;
    }
    return deserialize(data) as T;
  }

  /** Forgets what waits, and lets go of the files. */
  clear(): void {
    for (const { file } of this.#segments.splice(0)) closeSync(file);
    [this.#bytes, this.#length] = [0, 0];
  }

  #open(): Segment {
    makeFolder(this.folder);
    const path = join(this.folder, `queue-${process.pid}-${randomBytes(6).toString('hex')}.tmp`);
    const segment = {
      file: openSync(path, 'wx+', 0o600),
      written: 0,
      pending: [],
      pendingBytes: 0,
      read: 0,
      counted: 0,
    };
    unlinkSync(path);
    this.#segments.push(segment);
    return segment;
  }

  #read(segment: Segment, bytes: number): Buffer {
    const data = Buffer.allocUnsafe(bytes);
    for (let at = 0; at < bytes;) {
      const read = readSync(segment.file, data, at, bytes - at, segment.read + at);
      if (read === 0) throw new RangeError('the file of the queue has become shorter');
      at += read;
    }
    segment.read += bytes;
    return data;
  }
}

function flush(segment: Segment): void {
  const data = Buffer.concat(segment.pending);
  for (let at = 0; at < data.byteLength;)
    at += writeSync(segment.file, data, at, data.byteLength - at, segment.written + at);
  segment.written += data.byteLength;
  segment.pending = [];
  segment.pendingBytes = 0;
}
