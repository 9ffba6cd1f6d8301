import { writeFileSync } from 'node:fs';

/** Rows of token ids, all of one length, each row different, the same in every run. */
export function syntheticRows({ rows, promptTokens, vocabularySize }) {
  const tokens = (row) =>
    Array.from({ length: promptTokens }, (_, at) => (row * 7919 + at * 104_729 + 17) % vocabularySize);
  return Array.from({ length: rows }, (_, row) => ({ id: row + 1, tokens: tokens(row) }));
}

/** Writes them as lines of JSON. @returns the file */
export function writeSyntheticRows(file, shape) {
  writeFileSync(
    file,
    syntheticRows(shape)
      .map((row) => `${JSON.stringify(row)}\n`)
      .join(''),
  );
  return file;
}
