import type { Random } from '../Random.js';
import { word } from './values.js';

const ATOMS = [
  'a',
  'b',
  ' ',
  '.',
  '\\s',
  '\\S',
  '\\w',
  '\\d',
  '\\p{L}',
  '\\p{N}',
  '\\P{L}',
  '\\p{Lu}',
  '\\p{Han}',
  '[^\\s\\p{L}\\p{N}]',
  '[a-z]',
  '[^a]',
  '[\\r\\n]',
  "(?i:'s|'t)",
  '\\b',
  '^',
  '$',
  '\\A',
  '\\z',
  '\\h',
  '\\x{41}',
  '\\u0041',
  '\\n',
  '▁',
  '\\G',
];
/** Of real tokenizers, and such as backtrack without end. */
const WHOLE = [
  "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
  '\\p{N}{1,3}',
  '\\s+$',
  '(a+)+$',
  '(a|a)*b',
  '(\\s*\\S*)*x',
  '(?:a*)*c',
  '(.*)(.*)(.*)(.*)(.*)y',
  '(x+x+)+y',
  '\\s*[\\r\\n]+',
  '(?=a)*',
  '(a{0,1000}){0,1000}b',
  '(',
  '[',
  'a{2,1}',
  '(?<n>a)\\k<n>',
  '\\1',
  '(?<=a+)b',
  '(?>a+)b',
  'a*+',
  '[[:alpha:]]+',
  '[a&&b]',
  '(?#c)',
  '(?m:^a)',
  '(?x: a )',
];

/** A regular expression in Oniguruma's syntax, as tokenizer.json has them; now and then none that can be read. */
export function pattern(random: Random, depth = 0): string {
  if (depth === 0 && random.chance(0.35)) return random.pick(WHOLE);
  const inner = (): string => (depth > 3 ? random.pick(ATOMS) : pattern(random, depth + 1));
  return random.weighted([
    [6, () => random.pick(ATOMS)],
    [3, () => inner() + inner()],
    [2, () => `${inner()}|${inner()}`],
    [
      3,
      () =>
        `(${random.pick(['', '?:', '?=', '?!', '?<=', '?<!', '?>', '?i:'])}${inner()})${random.pick(['', '*', '+', '?', '{2}', '{0,3}', '*?', '+?', '++', '{1,}'])}`,
    ],
    [2, () => `${random.pick(ATOMS)}${random.pick(['*', '+', '?', '{1,3}', '{2,}', '{1000}', '{0,100000}'])}`],
    [1, () => word(random)],
  ])();
}
