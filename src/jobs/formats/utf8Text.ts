import { isUtf8 } from 'node:buffer';
import { JobFileError } from '../../errors/JobFileError.js';
import { checkBeginning } from './foreignBytes.js';
import type { RowSource } from './RowFormat.js';

/**
 * The text of a source, checked: a table whose encoding is not UTF-8 has no row that can be trusted. Holds a chunk.
 * @throws JobFileError naming the line
 */
export async function* utf8Text(source: RowSource): AsyncGenerator<string, void, undefined> {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  let line = 1;
  let begun = false;
  const decode = (chunk: Buffer, last: boolean): string => {
    try {
      return decoder.decode(chunk, { stream: !last });
    } catch (error) {
      throw new JobFileError(
        source.name,
        `line ${line + linesBefore(chunk)}: found bytes that are no UTF-8, expected UTF-8; convert the file first, e.g. with iconv -t UTF-8`,
        { cause: error },
      );
    }
  };
  for await (const chunk of source.bytes()) {
    const bytes = Buffer.from(chunk as Uint8Array);
    if (!begun) checkBeginning(source, bytes);
    begun = true;
    const text = decode(bytes, false);
    for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) line += 1;
    yield text;
  }
  yield decode(Buffer.alloc(0), true);
}

/** Lines of a chunk that end before what is no UTF-8; of a character that began in the chunk before, none. */
function linesBefore(chunk: Buffer): number {
  let lines = 0;
  for (let from = 0; from < chunk.length; lines += 1) {
    const end = chunk.indexOf(0x0a, from);
    if (end < 0 || !isUtf8(chunk.subarray(lines === 0 ? continuationEnd(chunk) : from, end))) break;
    from = end + 1;
  }
  return lines;
}

function continuationEnd(chunk: Buffer): number {
  let at = 0;
  while (at < 3 && ((chunk[at] ?? 0) & 0xc0) === 0x80) at += 1;
  return at;
}
