/**
 * The rules that BERT's normalizer and pre-tokenizer go by, as Hugging Face's library has them: its tables are those of
 * Unicode 8, and what has come since is neither a mark, nor punctuation, nor control.
 */

/** Marks, punctuation and formats that Unicode has added since. */
const SINCE = String.raw`\u061d\u07fd\u0890-\u08e2\u09fd-\u09fe\u0a76\u0afa-\u0aff\u0b55\u0c04-\u0c3c\u0c77\u0c84\u0d00\u0d3b-\u0d3c\u0d81\u0eba\u0ece\u180f-\u1886\u1abf-\u1aeb\u1b4e-\u1b4f\u1b7d-\u1b7f\u1df6-\u1dfb\u2e43-\u2e5d\ua82c\ua8c5\ua8ff\ua9bd\u{10d24}-\u{10f89}\u{11070}-\u{11074}\u{110c2}-\u{110cd}\u{111c9}\u{111cf}\u{1123e}-\u{11241}\u{1133b}\u{113bb}-\u{1145e}\u{11660}-\u{1166c}\u{116b9}\u{1182f}-\u{11fff}\u{12ff1}-\u{1612f}\u{16d6d}-\u{16f4f}\u{16fe2}-\u{16fe4}\u{1cf00}-\u{1cf46}\u{1e000}-\u{1e6f5}\u{1e944}-\u{1e95f}`;

/** ASCII's punctuation, the symbols `$+<=>^\`|~` among it, and Unicode's; two letters were punctuation once. */
export const PUNCTUATION = new RegExp(`(?![${SINCE}])\\p{P}|[!-/:-@[-\`{-~\\u166d\\u{111c9}]`, 'gu');

const NO_TEXT = new RegExp(`(?![\\t\\n\\r${SINCE}])[\\p{Cc}\\p{Cf}\\p{Co}\\ufffd]`, 'gu');
const BLANK = /[\t\n\r\p{White_Space}]/gu;
const ACCENT = new RegExp(`(?![${SINCE}])\\p{Mn}|[\\u1734\\u{1171e}]`, 'gu');
/** Marks of all kinds that Unicode has added since Hugging Face's normalizer `StripAccents` got its table. */
const MARKS_SINCE = String.raw`\u07fd\u0897-\u08d3\u09fe\u0afa-\u0aff\u0b55\u0c04-\u0c3c\u0cf3-\u0d00\u0d3b-\u0d3c\u0d81\u0eba\u0ece\u1715\u180f\u1abf-\u1aeb\u1cf7\u1df6-\u1dfa\ua82c\ua8ff\u{10d24}-\u{10f85}\u{11070}-\u{11074}\u{110c2}\u{11145}-\u{11146}\u{111c9}\u{111ce}-\u{111cf}\u{11241}\u{1133b}\u{113b8}-\u{113e2}\u{1145e}\u{1182c}-\u{11b67}\u{11d31}-\u{1612f}\u{16f4f}\u{16f7f}-\u{16f87}\u{16fe4}-\u{16ff1}\u{1cf00}-\u{1cf46}\u{1e08f}-\u{1e6f5}`;
const MARK = new RegExp(`(?![${MARKS_SINCE}])\\p{M}|[\\u1cf2\\u1cf3]`, 'gu');
/** The blocks as the library has them, its slip in the last but one included. */
const IDEOGRAPH =
  /[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u{20000}-\u{2a6df}\u{2a700}-\u{2b81f}\u{2b920}-\u{2ceaf}\u{2f800}-\u{2fa1f}]/gu;
const FINAL_SIGMA = /\u03a3/;
/** Most texts, and most of their pieces: none of the rules but those of blanks and punctuation are about them. */
const ASCII = /^[ -~]*$/;
const ASCII_WORD = /^[A-Za-z0-9]+$/;
const ASCII_PIECES = /[A-Za-z0-9]+|[!-~]/g;

/** Without control characters, each blank a plain one. */
export function cleaned(text: string): string {
  return ASCII.test(text) ? text : text.replace(NO_TEXT, '').replace(BLANK, ' ');
}

/** Blanks round ideographs, which are words of their own. */
export function spacedIdeographs(text: string): string {
  return ASCII.test(text) ? text : text.replace(IDEOGRAPH, ' $& ');
}

/** Without marks of any kind: enclosing ones and those that take room, too. */
export function withoutMarks(text: string): string {
  return text.replace(MARK, '');
}

/** Removes accents from a decomposed text (NFD). */
export function withoutAccents(text: string): string {
  return ASCII.test(text) ? text : text.replace(ACCENT, '');
}

/** The words and signs of a text of ASCII; undefined of any other. */
export function asciiPieces(text: string): readonly string[] | undefined {
  if (ASCII_WORD.test(text)) return [text];
  return ASCII.test(text) ? (text.match(ASCII_PIECES) ?? []) : undefined;
}

/** Character by character: where a word ends is nothing to it, as it is to JavaScript at a sigma. */
export function lowerCased(text: string): string {
  if (!FINAL_SIGMA.test(text)) return text.toLowerCase();
  return text.replace(/[^\u03a3]+|\u03a3/gu, (part) => (part === '\u03a3' ? '\u03c3' : part.toLowerCase()));
}
