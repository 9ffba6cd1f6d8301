import { JobFileError } from '../../errors/JobFileError.js';
import type { RowSource } from './RowFormat.js';

const UTF16 = 'found UTF-16, by its byte order mark, expected UTF-8; convert the file first: iconv -f UTF-16 -t UTF-8';

/** How files begin that are no text of UTF-8, with what there is to be done. */
const BEGINNINGS: readonly (readonly [bytes: readonly number[], found: string])[] = [
  [[0xff, 0xfe], UTF16],
  [[0xfe, 0xff], UTF16],
  [[0x1f, 0x8b], compressed('gzip', '.gz')],
  [[0x28, 0xb5, 0x2f, 0xfd], compressed('zstd', '.zst')],
];

function compressed(kind: string, ending: string): string {
  return `found what ${kind} has compressed, by its first bytes, expected text; name the file so that it ends with ${ending}`;
}

/** @throws JobFileError for what begins as no text does: what is read of it would be text by chance */
export function checkBeginning({ name }: RowSource, start: Uint8Array): void {
  const found = BEGINNINGS.find(([bytes]) => bytes.every((byte, at) => start[at] === byte))?.[1];
  if (found !== undefined) throw new JobFileError(name, found);
}
