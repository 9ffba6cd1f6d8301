import { writeFileSync } from 'node:fs';

/** Writes rows {id, tokens} of ids, all of one length, each row different, the same in every run. @returns the file */
export function writeSyntheticRows(file, { rows, promptTokens, vocabularySize }) {
  const tokens = (row) =>
    Array.from({ length: promptTokens }, (_, at) => (row * 7919 + at * 104_729 + 17) % vocabularySize);
  writeFileSync(
    file,
    Array.from({ length: rows }, (_, row) => `${JSON.stringify({ id: row + 1, tokens: tokens(row) })}\n`).join(''),
  );
  return file;
}
