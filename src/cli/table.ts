/**
 * The characters that terminals act on instead of showing them: control characters but for tabs and line ends, those
 * that turn the direction of writing, and those that take no room, so that one name looks like another. The joiners
 * stay where writing needs them: in emoji, and after letters of scripts that join.
 */
const ACTED_ON =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]|(?<![\p{Extended_Pictographic}\ufe0f\p{Emoji_Modifier}\p{M}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Mongolian}\p{Script=Devanagari}\p{Script=Bengali}\p{Script=Malayalam}\p{Script=Sinhala}])[\u200c\u200d]/gu;

/**
 * Text for people, with names and words that may come from a model's file or a row in it, which must not steer their
 * terminal: all that goes to one passes here. The escapes are JSON's, so that a document says the same.
 */
export function visible(text: string): string {
  return text.replace(ACTED_ON, (character) =>
    Array.from(
      { length: character.length },
      (_, at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, '0')}`,
    ).join(''),
  );
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
