import type { CsvDialect } from './Table.js';

/** A header is shorter than this. */
const HEADER_CHARACTERS = 2 ** 20;
const DELIMITERS = [',', ';', '\t', '|'];

/**
 * How a file of separated values is written, by its header: the delimiter is whichever of the usual ones stands there
 * most often, outside of quotes.
 * @returns the dialect, and the text again
 */
export async function csvDialect(
  text: AsyncIterable<string>,
  delimiter: string | undefined,
): Promise<{ readonly dialect: CsvDialect; readonly text: AsyncIterable<string> }> {
  const iterator = text[Symbol.asyncIterator]();
  let start = '';
  let whole = false;
  while (!whole && start.length < HEADER_CHARACTERS && headerEnd(start) === undefined) {
    const step = await iterator.next();
    whole = step.done === true;
    if (step.done !== true) start += step.value;
  }
  const byteOrderMark = start.startsWith('\ufeff');
  const end = headerEnd(start) ?? start.length;
  const header = start.slice(byteOrderMark ? 1 : 0, end);
  const dialect = {
    delimiter: delimiter ?? likeliest(header),
    lineEnd: start.startsWith('\r\n', end) ? '\r\n' : '\n',
    byteOrderMark,
  };
  async function* again(): AsyncGenerator<string, void, undefined> {
    try {
      yield start.slice(byteOrderMark ? 1 : 0);
      for (
        let step = whole ? undefined : await iterator.next();
        step !== undefined && step.done !== true;
        step = await iterator.next()
      )
        yield step.value;
    } finally {
      // Whoever reads the header alone leaves the file open otherwise.
      await iterator.return?.();
    }
  }
  return { dialect, text: again() };
}

/** Where the first line ends that holds something; undefined if it goes on. */
function headerEnd(start: string): number | undefined {
  const from = start.search(/[^\ufeff\r\n]/);
  if (from < 0) return undefined;
  let end: number | undefined;
  // A carriage return at the very end may be half of a line's end.
  outsideQuotes(start, from, (unit, at) => {
    if (unit === FEED || (unit === RETURN && at + 1 < start.length)) end = at;
    return end === undefined;
  });
  return end;
}

function likeliest(header: string): string {
  const counts = new Map(DELIMITERS.map((delimiter) => [delimiter.charCodeAt(0), 0]));
  outsideQuotes(header, 0, (unit) => {
    const count = counts.get(unit);
    if (count !== undefined) counts.set(unit, count + 1);
    return true;
  });
  const countOf = (delimiter: string): number => counts.get(delimiter.charCodeAt(0)) ?? 0;
  return DELIMITERS.reduce((best, delimiter) => (countOf(delimiter) > countOf(best) ? delimiter : best));
}

const [QUOTE, FEED, RETURN] = [0x22, 0x0a, 0x0d];

/**
 * Goes through the units of a header that stand in no quotes, as long as it is told to. A quote within a value that
 * begins with none is text.
 */
function outsideQuotes(header: string, from: number, goesOn: (unit: number, at: number) => boolean): void {
  let quoted = false;
  for (let at = from; at < header.length; at += 1) {
    const unit = header.charCodeAt(at);
    if (quoted) quoted = unit !== QUOTE;
    else if (unit !== QUOTE) {
      if (!goesOn(unit, at)) return;
    } else {
      const before = header[at - 1] ?? '';
      // After one that has just closed it is one of two within the value.
      quoted = at === from || before === '"' || DELIMITERS.includes(before) || before === '\ufeff';
    }
  }
}
