import { inTurns } from '../../collections/inTurns.js';
import { Turns } from '../../collections/Turns.js';
import type { Work } from '../../collections/drained.js';
import { formatBytes } from '../../units.js';

/** A record of a file of separated values. */
export interface CsvRecord {
  readonly values: readonly string[];
  /** As it stands in the file, without its end; undefined where it was too long to be held. */
  readonly raw: string | undefined;
  /** Its first and last line, from 1. */
  readonly first: number;
  readonly last: number;
  /**
   * The fault of the record's quotes, or of its length. Its values are then what stands between delimiters, quotes too.
   */
  readonly problem?: { readonly code: 'invalid-row' | 'too-long'; readonly message: string };
}

/** Parsed up to `end`, after which the next record begins after its line's end. */
interface Parsed {
  readonly values: readonly string[];
  readonly end: number;
  readonly wrong?: Wrong;
}

/** A record as far as it is read: it is gone on with when there is more, and nothing is looked at again. */
interface Begun {
  readonly values: string[];
  /** Where its next value begins, or what of that is not among the pieces. */
  at: number;
  /** The part of a value in quotes that has been read, as it is meant. */
  quoted: string[] | undefined;
  /** Up to where the quote that closes it has been looked for. */
  seen: number;
}

/** The fault of a record's quotes, and where it was seen. */
interface Wrong {
  readonly what: 'open' | 'text';
  readonly at: number;
}

/** Units of a value in quotes that are gone through between two moments at which others may have their turn. */
const PIECE_UNITS = 2 ** 16;
/** Lines that are looked at, and records that are read, between two such moments. */
const [LINES, RECORDS] = [1024, 256];

/**
 * The records of separated values, blank lines left out: RFC 4180, quotes within a value that begins with none being
 * text. A value that begins with a quote which nothing closes, or after whose closing quote there is more, is a record
 * with a problem. It ends with its own line if nothing closes the quote, or if all lines as far as the one where more
 * was found have as many values as the first record: the quote was a stray one. Else it goes as far as that line. So no
 * quote swallows rows unsaid. Holds one record and a chunk.
 */
export class CsvRecords {
  #text = '';
  #at = 0;
  #line = 1;
  #ended = false;
  /** The next carriage return, as seen from some place on. */
  #return = { from: 0, at: -1 };
  #width: number | undefined;
  #begun: Begun | undefined;
  readonly #chunks: AsyncIterator<string>;

  constructor(
    chunks: AsyncIterable<string>,
    private readonly delimiter: string,
    private readonly maxRecordBytes: number,
    /** The most values: of a record with more so many and one are read. */
    private readonly mostValues: number,
  ) {
    this.#chunks = chunks[Symbol.asyncIterator]();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<CsvRecord, void, undefined> {
    const turns = new Turns();
    try {
      for (let records = 1; ; records++) {
        // After a quote that nothing closes megabytes of short lines are there at once.
        if (records % RECORDS === 0 && turns.due) await turns.give();
        const next = this.#at < this.#text.length ? this.#next() : undefined;
        const parsed = next instanceof Promise ? await next : next;
        if (parsed !== undefined) {
          const record = parsed.wrong === undefined ? this.#taken(parsed) : await inTurns(this.#mended(parsed.wrong));
          if (record === undefined) continue;
          this.#width ??= record.values.length;
          yield record;
        } else if (this.#ended && this.#at >= this.#text.length) return;
        else if (this.#text.length - this.#at > this.maxRecordBytes) yield await this.#tooLong();
        else await this.#fill();
      }
    } finally {
      // Whoever reads a few records alone leaves the file open otherwise.
      await this.#chunks.return?.();
    }
  }

  /** Reads on, as much again as there is: a long record is copied a few times, and not once a chunk. */
  async #fill(): Promise<void> {
    const pieces = [this.#text.slice(this.#at)];
    const wanted = Math.min(pieces[0]?.length ?? 0, this.maxRecordBytes) + 1;
    for (let length = 0; length < wanted && !this.#ended;) {
      const step = await this.#chunks.next();
      if (step.done === true) this.#ended = true;
      else {
        pieces.push(step.value);
        length += step.value.length;
      }
    }
    this.#text = pieces.join('');
    if (this.#begun !== undefined) {
      this.#begun.at -= this.#at;
      this.#begun.seen -= this.#at;
    }
    this.#at = 0;
    this.#return = { from: 0, at: -1 };
  }

  /** The record that goes up to there, gone by; undefined for a blank line. */
  #taken({ values, end }: Parsed): CsvRecord | undefined {
    const first = this.#line;
    const raw = this.#text.slice(this.#at, end);
    this.#at = this.#afterEnd(end);
    this.#begun = undefined;
    if (raw === '') {
      this.#line += this.#at > end ? 1 : 0;
      return undefined;
    }
    const lines = raw.includes('\n') || raw.includes('\r') ? linesIn(raw) : 1;
    this.#line += lines;
    const record = { values, raw, first, last: first + lines - 1 };
    return raw.length > this.maxRecordBytes ? this.#refusedLength(first, record.last) : record;
  }

  /** The same of one whose quotes are wrong. */
  *#mended(wrong: Wrong): Work<CsvRecord | undefined> {
    const [from, first] = [this.#at, this.#line];
    const seen = first + linesIn(this.#text.slice(from, wrong.at)) - 1;
    const record = this.#taken({ values: [], end: yield* this.#lastOf(from, wrong) });
    if (record?.raw === undefined) return record;
    const where = record.last === first ? `line ${first}` : `lines ${first} to ${record.last}`;
    const found =
      wrong.what === 'open' || (record.last === first && seen > first)
        ? 'that begins with a quote which nothing closes'
        : `with more after its closing quote${seen === first ? '' : `, in line ${seen}`}`;
    const message = `${where}: found a value ${found}, expected one that is quoted as a whole, with quotes within it written twice`;
    return {
      ...record,
      values: record.raw.split(this.delimiter, this.mostValues + 1),
      problem: { code: 'invalid-row', message },
    };
  }

  /** Where a record ends whose quotes are wrong. */
  *#lastOf(from: number, { what, at }: Wrong): Work<number> {
    const first = this.#lineEnd(from);
    if (what === 'open' || at <= first) return first;
    let lines = 0;
    for (let end = first; end < at;) {
      const next = this.#afterEnd(end);
      end = this.#lineEnd(next);
      // A record of several lines may be a row, too.
      const parsed = this.#plain(next) ?? (yield* this.#parsed(begunAt(next)));
      if (parsed?.wrong !== undefined || parsed?.values.length !== this.#width) return this.#lineEnd(at);
      end = Math.max(end, parsed?.end ?? end);
      lines += 1;
      if (lines % LINES === 0) yield;
    }
    return first;
  }

  /** The line that begins there, if it is whole and has no quotes. */
  #plain(from: number): Parsed | undefined {
    const end = this.#lineEnd(from);
    const line = this.#isWhole(end) ? this.#text.slice(from, end) : '"';
    return line.includes('"') ? undefined : { values: line.split(this.delimiter, this.mostValues + 1), end };
  }

  /** The next record; undefined where its end is not there yet. */
  #next(): Parsed | undefined | Promise<Parsed | undefined> {
    const plain = this.#begun === undefined ? this.#plain(this.#at) : undefined;
    return plain ?? inTurns(this.#parsed((this.#begun ??= begunAt(this.#at))));
  }

  /** A record, from what is read of it on; undefined where its end is not there yet. */
  *#parsed(begun: Begun): Work<Parsed | undefined> {
    const text = this.#text;
    const { values } = begun;
    let stop = this.#lineEnd(begun.at);
    for (; ; begun.at += this.delimiter.length) {
      if (values.length > this.mostValues) {
        stop = this.#lineEnd(begun.at);
        return this.#isWhole(stop) ? { values, end: stop } : undefined;
      }
      let { at } = begun;
      if (text[at] === '"' || begun.quoted !== undefined) {
        const closes = yield* this.#quoteCloses(begun);
        if (!closes)
          return this.#ended ? { values, end: text.length, wrong: { what: 'open', at: text.length } } : undefined;
        at = begun.at + 1;
        while (text[at] === ' ' && this.delimiter !== ' ') at += 1;
        if (at === text.length && !this.#ended) return undefined;
        if (at > stop) stop = this.#lineEnd(at);
      } else {
        if (!this.#isWhole(stop)) return undefined;
        const length = text.slice(at, stop).indexOf(this.delimiter);
        at = length < 0 ? stop : at + length;
      }
      const goesOn = text.startsWith(this.delimiter, at);
      if (!goesOn && !this.#isWhole(stop)) return undefined;
      values.push(begun.quoted?.join('') ?? text.slice(begun.at, at));
      begun.quoted = undefined;
      begun.at = at;
      if (!goesOn) return { values, end: at, ...(at < stop && { wrong: { what: 'text', at } }) };
    }
  }

  /** Goes on through a value in quotes. @returns whether the quote that closes it is there: `at` is then its place */
  *#quoteCloses(begun: Begun): Work<boolean> {
    const text = this.#text;
    if (begun.quoted === undefined) {
      begun.quoted = [];
      begun.at += 1;
      begun.seen = begun.at;
    }
    for (;;) {
      const quote = text.indexOf('"', begun.seen);
      // Whether the last character that is there is half of a pair is yet to be seen.
      const isOpen = quote < 0 || (quote + 1 === text.length && !this.#ended);
      if (isOpen) {
        begun.seen = quote < 0 ? text.length : quote;
        return false;
      }
      const closes = text[quote + 1] !== '"';
      begun.seen = closes ? quote : quote + 2;
      if (!closes && begun.seen - begun.at < PIECE_UNITS) continue;
      // Strings that V8 replaces in are trees of pieces first, of several times their size.
      begun.quoted.push(text.slice(begun.at, begun.seen).split('""').join('"'));
      begun.at = begun.seen;
      if (closes) return true;
      yield;
    }
  }

  /** The next line break, or the end of what is there. */
  #lineEnd(from: number): number {
    const feed = this.#text.indexOf('\n', from);
    if (from < this.#return.from || this.#return.at < from) {
      const at = this.#text.indexOf('\r', from);
      this.#return = { from, at: at < 0 ? Infinity : at };
    }
    return Math.min(feed < 0 ? this.#text.length : feed, this.#return.at);
  }

  /** Tells whether a line that ends there does not go on in the next chunk. */
  #isWhole(end: number): boolean {
    const text = this.#text;
    return this.#ended || end + 1 < text.length || (end < text.length && text[end] === '\n');
  }

  #afterEnd(end: number): number {
    return end + (this.#text.startsWith('\r\n', end) ? 2 : end < this.#text.length ? 1 : 0);
  }

  /** More than may be held: a quote that nothing closes, or a line, which is gone by. */
  async #tooLong(): Promise<CsvRecord> {
    const end = this.#lineEnd(this.#at);
    if (this.#isWhole(end)) {
      const record = await inTurns(this.#mended({ what: 'open', at: this.#text.length }));
      if (record !== undefined) return record;
    }
    this.#begun = undefined;
    const first = this.#line;
    for (let stop = end; ; stop = this.#lineEnd(0)) {
      this.#at = this.#isWhole(stop) ? this.#afterEnd(stop) : Math.min(stop, this.#text.length - 1);
      if (this.#isWhole(stop)) break;
      await this.#fill();
    }
    this.#line += 1;
    return this.#refusedLength(first, first);
  }

  #refusedLength(first: number, last: number): CsvRecord {
    const where = first === last ? `line ${first}` : `lines ${first} to ${last}`;
    const message = `${where}: found more than ${formatBytes(this.maxRecordBytes)}, expected at most that`;
    return { values: [], raw: undefined, first, last, problem: { code: 'too-long', message } };
  }
}

function begunAt(at: number): Begun {
  return { values: [], at, quoted: undefined, seen: at };
}

/** Line breaks and one: a carriage return counts where no line feed follows it. */
function linesIn(text: string): number {
  let lines = 1;
  for (let at = 0; at < text.length; at += 1) {
    const unit = text.charCodeAt(at);
    if (unit === 0x0a || (unit === 0x0d && text.charCodeAt(at + 1) !== 0x0a)) lines += 1;
  }
  return lines;
}
