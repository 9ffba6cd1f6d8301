/** Tells whether Python counts a character as white space. */
export function isSpace(character: string): boolean {
  const code = character.charCodeAt(0);
  if (code < 128) return code === 32 || (code >= 9 && code <= 13) || (code >= 28 && code <= 31);
  return SPACES.includes(character);
}
const SPACES =
  '\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000';

export function rstrip(text: string): string {
  let end = text.length;
  while (end > 0 && isSpace(text.charAt(end - 1))) end--;
  return text.slice(0, end);
}

export function lstrip(text: string): string {
  let at = 0;
  while (at < text.length && isSpace(text.charAt(at))) at++;
  return text.slice(at);
}

/** Tells whether a text has characters that are two units of UTF-16. */
export function hasPairs(text: string): boolean {
  return /[\ud800-\udbff][\udc00-\udfff]/.test(text);
}

/** How many characters a text has, as Python counts them. */
export function lengthOf(text: string): number {
  if (!hasPairs(text)) return text.length;
  let count = 0;
  for (let at = 0; at < text.length; at++) if (!isPair(text, at)) count++;
  return count;
}

/** Tells whether a pair's second half stands there. */
function isPair(text: string, at: number): boolean {
  const code = text.charCodeAt(at);
  if (code < 0xdc00 || code > 0xdfff || at === 0) return false;
  const before = text.charCodeAt(at - 1);
  return before >= 0xd800 && before <= 0xdbff;
}

/** Texts in the order of their code points. */
export function compareTexts(a: string, b: string): number {
  if (a === b) return 0;
  const most = Math.min(a.length, b.length);
  let at = 0;
  while (at < most && a.charCodeAt(at) === b.charCodeAt(at)) at++;
  if (at === most) return a.length - b.length;
  const first = at > 0 && isPair(a, at) && isPair(b, at) ? at - 1 : at;
  return (a.codePointAt(first) ?? 0) - (b.codePointAt(first) ?? 0);
}

/** Characters whose form at a word's beginning is another than their upper case. */
const TITLES: ReadonlyMap<string, string> = new Map([
  ['ß', 'Ss'], ['Ǆ', 'ǅ'], ['ǅ', 'ǅ'], ['ǆ', 'ǅ'], ['Ǉ', 'ǈ'], ['ǈ', 'ǈ'], ['ǉ', 'ǈ'], ['Ǌ', 'ǋ'], ['ǋ', 'ǋ'],
  ['ǌ', 'ǋ'], ['Ǳ', 'ǲ'], ['ǲ', 'ǲ'], ['ǳ', 'ǲ'], ['և', 'Եւ'], ['ﬀ', 'Ff'], ['ﬁ', 'Fi'], ['ﬂ', 'Fl'], ['ﬃ', 'Ffi'],
  ['ﬄ', 'Ffl'], ['ﬅ', 'St'], ['ﬆ', 'St'], ['ﬓ', 'Մն'], ['ﬔ', 'Մե'], ['ﬕ', 'Մի'], ['ﬖ', 'Վն'], ['ﬗ', 'Մխ'],
]); // prettier-ignore

/** A character as it is at the beginning of a word. */
export function titleOf(character: string): string {
  const known = TITLES.get(character);
  if (known !== undefined) return known;
  const code = character.codePointAt(0) ?? 0;
  // Georgian letters are their own; Greek ones keep their iota below.
  if ((code >= 0x10d0 && code <= 0x10ff) || (code >= 0x1f80 && code <= 0x1faf && (code & 8) === 8)) return character;
  if (code >= 0x1f80 && code <= 0x1faf) return String.fromCodePoint(code + 8);
  if (code === 0x1fb3 || code === 0x1fc3 || code === 0x1ff3) return String.fromCodePoint(code + 9);
  if (code === 0x1fbc || code === 0x1fcc || code === 0x1ffc) return character;
  const iota = {
    0x1fb2: 'Ὰͅ',
    0x1fb4: 'Άͅ',
    0x1fb7: 'ᾼ͂',
    0x1fc2: 'Ὴͅ',
    0x1fc4: 'Ήͅ',
    0x1fc7: 'ῌ͂',
    0x1ff2: 'Ὼͅ',
    0x1ff4: 'Ώͅ',
    0x1ff7: 'ῼ͂',
  }[code];
  return iota ?? character.toUpperCase();
}
