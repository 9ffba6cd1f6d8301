import { ELSEWHERE } from './elsewhere.js';

/** The length beyond which words are not compared: no name is as long. */
const MOST_UNITS = 64;

/**
 * The name that somebody probably meant: one that differs in its spelling alone (`max_tokens` and `maxTokens`), that
 * other tools spell as the word is, that begins with the word or with which the word begins, or that is few letters
 * away. Undefined where none is near. Pure.
 */
export function nearest(word: string, names: readonly string[]): string | undefined {
  const plain = spelt(word);
  const ours = nameElsewhere(word, names);
  if (ours !== undefined) return ours;
  if (plain.length < 2 || plain.length > MOST_UNITS) return undefined;
  const near = Math.max(1, Math.floor(plain.length / 3));
  const far = (name: string): number => {
    const other = spelt(name);
    if (other === plain) return 0;
    if (plain.length >= 4 && (other.startsWith(plain) || plain.startsWith(other))) return 1;
    // As many letters are missing at least.
    return Math.abs(plain.length - other.length) > near ? Infinity : distance(plain, other);
  };
  let [nearestName, least]: [string | undefined, number] = [undefined, near + 1];
  for (const name of names) {
    const away = far(name);
    if (away < least) [nearestName, least] = [name, away];
    if (least === 0) break;
  }
  return nearestName;
}

/** Finds the one of these names that other tools spell so. */
export function nameElsewhere(word: string, names: readonly string[]): string | undefined {
  const plain = spelt(word);
  const meant = Object.hasOwn(ELSEWHERE, plain) ? (ELSEWHERE[plain] ?? []) : [];
  return meant
    .map((name) => names.find((each) => spelt(each) === spelt(name)))
    .find((name) => name !== undefined && spelt(name) !== plain);
}

/** ` (did you mean threads?)`, or nothing. */
export function didYouMean(word: string, names: readonly string[]): string {
  const name = nearest(word, names);
  return name === undefined ? '' : ` (did you mean ${name}?)`;
}

function spelt(word: string): string {
  return word.toLowerCase().replace(/[-_ ]/g, '');
}

/** Letters to insert, remove, replace or swap with their neighbour (optimal string alignment). */
function distance(a: string, b: string): number {
  let [beforeLast, last, row] = [
    new Uint8Array(b.length + 1),
    Uint8Array.from({ length: b.length + 1 }, (_, at) => at),
    new Uint8Array(b.length + 1),
  ];
  for (let i = 1; i <= a.length; i++) {
    row[0] = i;
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1];
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      row[j] = Math.min(
        (last[j] ?? 0) + 1,
        (row[j - 1] ?? 0) + 1,
        (last[j - 1] ?? 0) + (same ? 0 : 1),
        swapped ? (beforeLast[j - 2] ?? 0) + 1 : Infinity,
      );
    }
    [beforeLast, last, row] = [last, row, beforeLast];
  }
  return last[b.length] ?? 0;
}
