import { formatBytes } from '../../units.js';

/** A record of a file of separated values. */
export interface CsvRecord {
  readonly values: readonly string[];
  /** As it stands in the file, without its end; undefined where it was too long to be held. */
  readonly raw: string | undefined;
  /** Its first and last line, from 1. */
  readonly first: number;
  readonly last: number;
  /** What is wrong with its quotes, or its length. Its values are then what stands between delimiters, quotes too. */
  readonly problem?: { readonly code: 'invalid-row' | 'too-long'; readonly message: string };
}

/** Parsed up to `end`, behind which the next record begins after its line's end. */
interface Parsed {
  readonly values: readonly string[];
  readonly end: number;
  /** Where it was seen that its quotes are wrong. */
  readonly wrong?: { readonly what: 'open' | 'text'; readonly at: number };
}

/**
 * The records of separated values, blank lines left out: RFC 4180, quotes within a value that begins with none being
 * text. A value that begins with a quote which nothing closes, or behind whose closing quote there is more, is a record
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
  readonly #chunks: AsyncIterator<string>;

  constructor(
    chunks: AsyncIterable<string>,
    private readonly delimiter: string,
    private readonly maxRecordBytes: number,
    /** Of a record with more values so many and one are read. */
    private readonly mostValues: number,
  ) {
    this.#chunks = chunks[Symbol.asyncIterator]();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<CsvRecord, void, undefined> {
    try {
      for (;;) {
        const parsed = this.#at < this.#text.length ? this.#parsed(this.#at) : undefined;
        if (parsed !== undefined) {
          const record = this.#taken(parsed);
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

  /** Reads on, as much again as there is: a long record is gone through a few times, and not once a chunk. */
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
    this.#at = 0;
    this.#return = { from: 0, at: -1 };
  }

  /** A parsed record, gone by; undefined for a blank line. */
  #taken({ values, end, wrong }: Parsed): CsvRecord | undefined {
    const [from, first] = [this.#at, this.#line];
    const last = wrong === undefined ? end : this.#lastOf(from, wrong);
    this.#at = this.#afterEnd(last);
    const raw = this.#text.slice(from, last);
    if (raw === '') {
      this.#line += this.#at > last ? 1 : 0;
      return undefined;
    }
    const lines = raw.includes('\n') || raw.includes('\r') ? linesIn(raw) : 1;
    this.#line += lines;
    const record = { values, raw, first, last: first + lines - 1 };
    if (raw.length > this.maxRecordBytes) return this.#refusedLength(first, record.last);
    if (wrong === undefined) return record;
    const seen = first + linesIn(this.#text.slice(from, wrong.at)) - 1;
    const where = record.last === first ? `line ${first}` : `lines ${first} to ${record.last}`;
    const found =
      wrong.what === 'open' || (record.last === first && seen > first)
        ? 'that begins with a quote which nothing closes'
        : `with more behind its closing quote${seen === first ? '' : `, in line ${seen}`}`;
    const message = `${where}: found a value ${found}, expected one that is quoted as a whole, with quotes within it written twice`;
    return {
      ...record,
      values: raw.split(this.delimiter, this.mostValues + 1),
      problem: { code: 'invalid-row', message },
    };
  }

  /** Where a record ends whose quotes are wrong. */
  #lastOf(from: number, { what, at }: NonNullable<Parsed['wrong']>): number {
    const first = this.#lineEnd(from);
    if (what === 'open' || at <= first) return first;
    for (let end = first; end < at;) {
      const next = this.#afterEnd(end);
      end = this.#lineEnd(next);
      const { values, end: ends, wrong } = this.#parsed(next) ?? { values: [], end, wrong: undefined };
      // A record of several lines may be a row, too.
      if (wrong !== undefined || values.length !== this.#width) return this.#lineEnd(at);
      end = Math.max(end, ends);
    }
    return first;
  }

  /** The record that begins there; undefined where its end is not there yet. */
  #parsed(from: number): Parsed | undefined {
    const text = this.#text;
    let stop = this.#lineEnd(from);
    const line = this.#isWhole(stop) ? text.slice(from, stop) : undefined;
    if (line?.includes('"') === false) return { values: line.split(this.delimiter, this.mostValues + 1), end: stop };
    const values: string[] = [];
    for (let at = from; ; at += this.delimiter.length) {
      if (values.length > this.mostValues) {
        stop = this.#lineEnd(at);
        return this.#isWhole(stop) ? { values, end: stop } : undefined;
      }
      if (text[at] === '"') {
        const closing = this.#closingQuote(at + 1);
        if (closing === undefined)
          return this.#ended ? { values, end: text.length, wrong: { what: 'open', at: text.length } } : undefined;
        const value = text.slice(at + 1, closing);
        values.push(unquoted(value));
        at = closing + 1;
        while (text[at] === ' ' && this.delimiter !== ' ') at += 1;
        if (at > stop) stop = this.#lineEnd(at);
        if (at === text.length && !this.#ended) return undefined;
      } else {
        if (!this.#isWhole(stop)) return undefined;
        const length = text.slice(at, stop).indexOf(this.delimiter);
        const to = length < 0 ? stop : at + length;
        values.push(text.slice(at, to));
        at = to;
      }
      if (text.startsWith(this.delimiter, at)) continue;
      if (!this.#isWhole(stop)) return undefined;
      return { values, end: at, ...(at < stop && { wrong: { what: 'text', at } }) };
    }
  }

  /** The quote that closes a value; undefined where there is none yet. */
  #closingQuote(from: number): number | undefined {
    const text = this.#text;
    for (let at = text.indexOf('"', from); at >= 0; at = text.indexOf('"', at + 2)) {
      if (at + 1 === text.length && !this.#ended) return undefined;
      if (text[at + 1] !== '"') return at;
    }
    return undefined;
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

  /** Whether a line that ends there does not go on in the next chunk. */
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
      const wrong = { what: 'open', at: this.#text.length } as const;
      const record = this.#taken({ values: [], end, wrong });
      if (record !== undefined) return record;
    }
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

/** Units of a value whose quotes are looked at together: of each V8 makes a piece to put the text together from. */
const PIECE_UNITS = 2 ** 16;

/** A value as it is meant, in which quotes stand twice. */
function unquoted(value: string): string {
  if (!value.includes('"')) return value;
  if (value.length <= PIECE_UNITS) return value.replaceAll('""', '"');
  const pieces: string[] = [];
  for (let at = 0; at < value.length;) {
    let end = Math.min(at + PIECE_UNITS, value.length);
    // No pair is parted: of the quotes side by side at its end an even number is in the piece.
    let quotes = 0;
    while (quotes < end - at && value[end - 1 - quotes] === '"') quotes += 1;
    if (quotes % 2 === 1) end += 1;
    pieces.push(value.slice(at, end).replaceAll('""', '"'));
    at = end;
  }
  return pieces.join('');
}

/** Line breaks and one: a carriage return counts where no line feed follows it. */
function linesIn(text: string): number {
  let lines = 1;
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) lines += 1;
  for (let at = text.indexOf('\r'); at >= 0; at = text.indexOf('\r', at + 1)) if (text[at + 1] !== '\n') lines += 1;
  return lines;
}
