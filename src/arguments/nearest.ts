import { ELSEWHERE } from './elsewhere.js';

/** Of longer words nothing is compared: no name is as long. */
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
  const far = (name: string): number => {
    const other = spelt(name);
    if (other === plain) return 0;
    if (plain.length >= 4 && (other.startsWith(plain) || plain.startsWith(other))) return 1;
    return distance(plain, other);
  };
  const near = Math.max(1, Math.floor(plain.length / 3));
  return names
    .map((name) => ({ name, away: far(name) }))
    .filter(({ away }) => away <= near)
    .sort((a, b) => a.away - b.away)[0]?.name;
}

/** Of these names the one that other tools spell so. */
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
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, at) => at)];
  const cell = (row: number, column: number): number => rows[row]?.[column] ?? Infinity;
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    rows.push(row);
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1];
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      row.push(
        Math.min(
          cell(i - 1, j) + 1,
          cell(i, j - 1) + 1,
          cell(i - 1, j - 1) + (same ? 0 : 1),
          swapped ? cell(i - 2, j - 2) + 1 : Infinity,
        ),
      );
    }
  }
  return cell(a.length, b.length);
}
