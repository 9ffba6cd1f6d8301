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
  for (const [at, character] of outsideQuotes(start, from))
    // A carriage return at the very end may be half of a line's end.
    if (character === '\n' || (character === '\r' && at + 1 < start.length)) return at;
  return undefined;
}

function likeliest(header: string): string {
  const counts = new Map(DELIMITERS.map((delimiter) => [delimiter, 0]));
  for (const [, character] of outsideQuotes(header, 0)) {
    const count = counts.get(character);
    if (count !== undefined) counts.set(character, count + 1);
  }
  return DELIMITERS.reduce((best, delimiter) =>
    (counts.get(delimiter) ?? 0) > (counts.get(best) ?? 0) ? delimiter : best,
  );
}

/** The characters of a header that stand in no quotes. A quote within a value that begins with none is text. */
function* outsideQuotes(header: string, from: number): Generator<readonly [at: number, character: string]> {
  let quoted = false;
  for (let at = from; at < header.length; at += 1) {
    const [character = '', before = ''] = [header[at], header[at - 1]];
    if (quoted) quoted = character !== '"';
    else if (character !== '"') yield [at, character];
    // Behind one that has just closed it is one of two within the value.
    else quoted = at === from || before === '"' || DELIMITERS.includes(before) || before === '\ufeff';
  }
}
