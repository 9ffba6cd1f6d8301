/** What may stand in a text of JSON whose numbers JavaScript's cannot hold. */
const LARGE = /\d{16}|[eE]\+?\d{3}/;
const STRING_OR_NUMBER = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/**
 * A text of JSON with numbers that JSON.parse would change as texts of their digits: whole ones that no number of
 * JavaScript's is, and those beyond all. Fractions are rounded to the nearest, as everywhere.
 * @param json sound JSON
 * @returns undefined where there are none
 */
export function withTextsOfNumbers(json: string): string | undefined {
  if (!LARGE.test(json)) return undefined;
  let found = false;
  const changed = json.replace(STRING_OR_NUMBER, (token) => {
    if (token.startsWith('"') || isHeld(token)) return token;
    found = true;
    return `"${token}"`;
  });
  return found ? changed : undefined;
}

/**
 * Whether a schema's choices (`enum`, `const`) lose digits by being read: no answer could be held to what stands there.
 * @param read as JSON.parse reads it
 * @param written the same of `withTextsOfNumbers`
 */
export function losesChoices(read: unknown, written: unknown): boolean {
  if (typeof read !== 'object' || read === null || typeof written !== 'object' || written === null) return false;
  return Object.entries(read).some(([name, value]) => {
    const as = (written as Readonly<Record<string, unknown>>)[name];
    return name === 'enum' || name === 'const' ? JSON.stringify(value) !== JSON.stringify(as) : losesChoices(value, as);
  });
}

export const LOST_CHOICES =
  'found a choice (enum, const) with a number that loses digits when it is read, expected whole numbers up to 2^53; longer ones as strings';

function isHeld(token: string): boolean {
  const number = Number(token);
  if (!/^-?\d+$/.test(token)) return Number.isFinite(number);
  return Number.isSafeInteger(number) || (Number.isFinite(number) && BigInt(token) === BigInt(number));
}
