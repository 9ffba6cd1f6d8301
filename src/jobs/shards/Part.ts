import { createHash } from 'node:crypto';
import { open } from 'node:fs/promises';
import { isObject, membersOf } from '../../arguments/isObject.js';
import { isWithin, wholeRange } from '../../arguments/NumberRange.js';
import { JobFileError } from '../../errors/JobFileError.js';
import { fileFailure } from '../../files/fileErrors.js';
import { realPathOf } from '../../files/realPath.js';
import { compareLines, type Journal, journalHeader, type JournalLine, journalLines } from '../output/Journal.js';
import { journalPath, recordPath } from '../output/sidecarFiles.js';
import { type CompletePart, type JobRecord, readRecord } from '../record/jobRecord.js';
import { SHARD_ROWS, SHARDS, type SettledShard } from './Shard.js';

const ROWS = wholeRange(0);

/** The output of one shard, as its record tells of it. */
export interface Part {
  /** As it was named. */
  readonly path: string;
  readonly record: JobRecord;
  readonly shard: SettledShard;
  readonly journal: Journal;
  /** Undefined while some of its rows are not done. */
  readonly complete: CompletePart | undefined;
}

/** @throws JobFileError for one without a record, and for what is no shard's */
export async function readPart(path: string): Promise<Part> {
  const place = await realPathOf(path);
  const record = readRecord(place);
  if (record === undefined) {
    throw new JobFileError(
      path,
      `found no ${recordPath(path)}, expected the record of a shard beside its part: copy both, and ${journalPath(path)} where there is one`,
    );
  }
  const shard = record.options['shard'];
  if (!isShard(shard)) {
    throw new JobFileError(
      recordPath(path),
      'found the record of a job over all rows, expected that of a shard, as `--shard K/N` leaves it',
    );
  }
  const complete = record.complete as unknown;
  if (complete !== undefined && !isComplete(complete))
    throw new JobFileError(
      recordPath(path),
      `complete: found something else than rows, sha256 and written; run the shard again, with \`resume\``,
    );
  return {
    path,
    record,
    shard,
    journal:
      record.journal === 'apart' ? { path: journalPath(place), run: record.run } : { path: place, run: undefined },
    complete,
  };
}

function isShard(value: unknown): value is SettledShard {
  const { index, count, rows } = membersOf(value);
  return isWithin(count, SHARDS) && isWithin(rows, SHARD_ROWS) && isWithin(index, wholeRange(0, count - 1));
}

function isComplete(value: unknown): value is CompletePart {
  const { rows, sha256, written, table } = membersOf(value);
  if (!isWithin(rows, ROWS) || typeof sha256 !== 'string' || !isObject(written) || !isTable(table)) return false;
  const { resultColumns, parts, properties = [], task = '', delimiter = '' } = written;
  return (
    isObject(resultColumns) &&
    Object.values(resultColumns).every((name) => typeof name === 'string') &&
    isTexts(parts) &&
    Array.isArray(properties) &&
    properties.every((property) => isTexts([membersOf(property)['name'], membersOf(property)['type']])) &&
    isTexts([task, delimiter])
  );
}

function isTable(value: unknown): boolean {
  if (value === undefined) return true;
  const { columns, dialect } = membersOf(value);
  const { delimiter, lineEnd, byteOrderMark } = membersOf(dialect);
  return (
    isTexts(columns) && (dialect === undefined || (isTexts([delimiter, lineEnd]) && typeof byteOrderMark === 'boolean'))
  );
}

function isTexts(value: unknown): boolean {
  return Array.isArray(value) && value.every((text) => typeof text === 'string');
}

/** The results of a part, one row after the other. */
export class PartReader implements AsyncDisposable {
  readonly #lines: AsyncGenerator<JournalLine, void, undefined>;
  readonly #hash = createHash('sha256');
  #next: JournalLine | undefined;
  #started = false;

  /** @param pieceBytes read at a time, and held */
  constructor(
    private readonly part: Part & { readonly complete: CompletePart },
    pieceBytes: number,
  ) {
    const { journal } = part;
    if (journal.run !== undefined) this.#hash.update(journalHeader(journal.run));
    this.#lines = journalLines(journal, { pieces: piecesOf(journal.path, pieceBytes) });
  }

  /** The results of a row, which are the next ones. @throws JobFileError where they are not there */
  async *resultsOf(index: number): AsyncGenerator<JournalLine, void, undefined> {
    if (!this.#started) await this.#advance();
    this.#started = true;
    if (this.#next?.index !== index) throw this.#changed(`row ${index}`);
    for (let line: JournalLine | undefined = this.#next; line?.index === index; line = this.#next) {
      yield line;
      await this.#advance();
      if (this.#next !== undefined && compareLines(line, this.#next) >= 0)
        throw this.#changed(`more than row ${index}`);
    }
  }

  /** @throws JobFileError where there are results of other rows, or the file is not what the shard left */
  async end(): Promise<void> {
    if (!this.#started) await this.#advance();
    this.#started = true;
    if (this.#next !== undefined) throw this.#changed('no more rows');
    if (this.#hash.digest('hex') !== this.part.complete.sha256)
      throw this.#changed('the bytes that its record tells of');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#lines.return();
  }

  async #advance(): Promise<void> {
    const step = await this.#lines.next();
    this.#next = step.done === true ? undefined : step.value;
    if (this.#next !== undefined) this.#hash.update(this.#next.bytes).update('\n');
  }

  #changed(expected: string): JobFileError {
    const line = this.#next;
    const there = line === undefined ? 'its end' : `row ${line.index} in line ${line.number}`;
    return new JobFileError(
      this.part.journal.path,
      `found ${there}, expected ${expected}: the file is not what the shard left; copy it again, with its record, or run the shard again`,
    );
  }
}

/**
 * A file piece by piece, open no longer than a piece is read: there may be more parts than files that may be open.
 * @throws JobFileError
 */
async function* piecesOf(path: string, bytes: number): AsyncGenerator<Buffer, void, undefined> {
  const buffer = Buffer.allocUnsafe(bytes);
  for (let position = 0; ;) {
    let read: number;
    try {
      const file = await open(path, 'r');
      try {
        ({ bytesRead: read } = await file.read(buffer, 0, bytes, position));
      } finally {
        await file.close();
      }
    } catch (error) {
      throw fileFailure(path, 'read', error);
    }
    if (read === 0) return;
    position += read;
    // A copy, as lines point into what they were cut from.
    yield Buffer.from(buffer.subarray(0, read));
  }
}
