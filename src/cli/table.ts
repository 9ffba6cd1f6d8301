/**
 * What terminals act on instead of showing it: control characters but for tabs and line ends, and those that turn the
 * direction of writing.
 */
const ACTED_ON = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/**
 * Text for people, with names and words that may come from a model's file or a row in it, which must not steer their
 * terminal.
 */
export function visible(text: string): string {
  return text.replace(ACTED_ON, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** Columns padded to their widest cell, two blanks between; each row ends in an LF. */
export function formatTable(cells: readonly (readonly string[])[]): string {
  const rows = cells.map((row) => row.map(visible));
  const widths: number[] = [];
  for (const row of rows) row.forEach((cell, at) => (widths[at] = Math.max(widths[at] ?? 0, cell.length)));
  return rows
    .map(
      (row) =>
        `${row
          .map((cell, at) => cell.padEnd(widths[at] ?? 0))
          .join('  ')
          .trimEnd()}\n`,
    )
    .join('');
}
