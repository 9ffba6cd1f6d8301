import type { BigIntStats } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { InterruptedError } from '../errors/InterruptedError.js';
import type { KeptAnswer } from '../KeptAnswer.js';
import { answerOf } from './answer.js';
import { HEADER_BYTES } from './header.js';
import { KeyIndex } from './KeyIndex.js';
import { HEAD_BYTES, isWhole, keyOf, payloadOf, recordBytes } from './record.js';
import { RecordScanner, type Damage } from './RecordScanner.js';

/** Methods that a generation needs of an open file; a FileHandle has them. */
export type OpenFile = Pick<FileHandle, 'read' | 'write' | 'stat' | 'sync' | 'close'>;

/** Read at a time, except for a record that is longer. */
const PIECE_BYTES = 2 ** 20;
/** Read at once of a record: most are not longer. */
const FIRST_BYTES = 4096;

/** The result for a key. */
export type Found =
  | { readonly kind: 'answer'; readonly answer: KeptAnswer; readonly record: Buffer }
  | { readonly kind: 'nothing' }
  /** It is not what it was when it was found. */
  | { readonly kind: 'damaged' };

const NOTHING: Found = { kind: 'nothing' };
const DAMAGED: Found = { kind: 'damaged' };

/**
 * One of a store's files, open, and the index of its records. It is shared with other processes: all of them append,
 * nobody changes what is there.
 */
export class Generation {
  readonly index = new KeyIndex();
  #scannedBytes = HEADER_BYTES;

  /**
   * @param file opened with O_APPEND where it can be written; the generation closes it
   * @param writable whether the system lets us
   */
  constructor(
    private readonly file: OpenFile,
    private readonly identity: Pick<BigIntStats, 'dev' | 'ino'>,
    readonly writable: boolean,
  ) {}

  /**
   * Tells whether this is the file that somebody has found at a path. It cannot be another of the same number as long
   * as it is open.
   */
  is(stats: Pick<BigIntStats, 'dev' | 'ino'> | undefined): boolean {
    return stats !== undefined && stats.dev === this.identity.dev && stats.ino === this.identity.ino;
  }

  async bytes(): Promise<number> {
    return (await this.file.stat()).size;
  }

  /**
   * Takes the records into the index that were appended since this was last called, by whomever.
   * @returns what of it is no record
   * @throws the system's errors; InterruptedError
   */
  async scan(signal?: AbortSignal): Promise<Damage | undefined> {
    const fileBytes = await this.bytes();
    if (fileBytes <= this.#scannedBytes) return undefined;
    const scanner = new RecordScanner(this.#scannedBytes, fileBytes, (key, offset) => this.index.set(key, offset));
    let buffer = Buffer.allocUnsafe(Math.min(PIECE_BYTES, fileBytes - this.#scannedBytes));
    while (scanner.position < fileBytes) {
      if (signal?.aborted) throw new InterruptedError(signal.reason);
      if (scanner.neededBytes > buffer.length) buffer = Buffer.allocUnsafe(scanner.neededBytes);
      else if (scanner.neededBytes <= PIECE_BYTES && buffer.length > PIECE_BYTES)
        buffer = Buffer.allocUnsafe(PIECE_BYTES);
      const piece = await this.#fill(
        buffer.subarray(0, Math.min(buffer.length, fileBytes - scanner.position)),
        scanner.position,
      );
      // Somebody has cut it; what was after is not there any more.
      if (piece.length < scanner.neededBytes) return undefined;
      scanner.take(piece);
    }
    this.#scannedBytes = scanner.resumeAt;
    return scanner.damage;
  }

  /**
   * Reads the file's record for a key. What proves to be damaged is forgotten, so that it can be put again.
   * @throws the system's errors
   */
  async read(key: Buffer): Promise<Found> {
    const offset = this.index.get(key);
    if (offset === undefined) return NOTHING;
    const found = await this.#readAt(offset, key);
    if (found.kind === 'damaged') this.index.forget(key);
    return found;
  }

  async #readAt(offset: number, key: Buffer): Promise<Found> {
    const start = await this.#fill(Buffer.allocUnsafe(FIRST_BYTES), offset);
    const bytes = start.length < HEAD_BYTES ? undefined : recordBytes(start);
    if (bytes === undefined) return DAMAGED;
    let record = start.subarray(0, bytes);
    if (bytes > start.length) {
      if (offset + bytes > (await this.bytes())) return DAMAGED;
      record = Buffer.allocUnsafe(bytes);
      start.copy(record);
      const rest = await this.#fill(record.subarray(start.length), offset + start.length);
      if (start.length + rest.length < bytes) return DAMAGED;
    }
    if (!isWhole(record)) return DAMAGED;
    // Of two keys that begin alike the index knows one.
    if (!keyOf(record).equals(key)) return NOTHING;
    const answer = answerOf(payloadOf(record));
    return answer === undefined ? DAMAGED : { kind: 'answer', answer, record };
  }

  /**
   * Appends records in one write, so that those of two processes do not mix. The index learns of them by `scan`, which
   * finds out where they have come to stand.
   * @throws the system's errors; an Error if a part was written: the rest is not tried again, as others may have
   * appended after it
   */
  async append(records: Buffer): Promise<void> {
    const { bytesWritten } = await this.file.write(records, 0, records.length, null);
    if (bytesWritten < records.length) throw new Error(`${bytesWritten} of ${records.length} bytes could be written`);
  }

  /** @throws the system's errors */
  async sync(): Promise<void> {
    await this.file.sync();
  }

  /** Reads that are under way come to their end. */
  async close(): Promise<void> {
    await this.file.close();
  }

  /** As much of the buffer as the file has. */
  async #fill(buffer: Buffer, offset: number): Promise<Buffer> {
    let done = 0;
    while (done < buffer.length) {
      const { bytesRead } = await this.file.read(buffer, done, buffer.length - done, offset + done);
      if (bytesRead === 0) break;
      done += bytesRead;
    }
    return buffer.subarray(0, done);
  }
}
