import type { Random } from '../Random.js';
import type { Json } from '../images/ModelImage.js';

/** Numbers at which readers break: around powers of two, signs, what no float or integer holds. */
const NUMBERS = [
  0,
  1,
  2,
  3,
  7,
  8,
  15,
  16,
  31,
  32,
  33,
  63,
  64,
  65,
  96,
  127,
  128,
  129,
  255,
  256,
  257,
  511,
  512,
  1000,
  1023,
  1024,
  4096,
  65_535,
  65_536,
  2 ** 18,
  2 ** 20,
  2 ** 22 - 1,
  2 ** 22,
  2 ** 24,
  2 ** 26,
  2 ** 31 - 1,
  2 ** 31,
  2 ** 32 - 1,
  2 ** 32,
  2 ** 53,
  2 ** 63,
  1e9,
  1e15,
  1e30,
  1e300,
  3.4e38,
  1e-45,
  1e-300,
  0.5,
  0.1,
  1.5,
  1e-6,
  1e-12,
  -0,
  -1,
  -2,
  -0.5,
  -32,
  -1e9,
  -(2 ** 31),
  -1e300,
];

export function number(random: Random): number {
  return random.weighted([
    [6, () => random.pick(NUMBERS)],
    [2, () => random.below(300)],
    [1, () => random.pick(NUMBERS) + random.pick([-1, 1])],
    [1, () => random.pick(NUMBERS) * random.pick([-1, 0.5, 2])],
  ])();
}

/** A whole number of up to 64 bits, not negative. */
export function wholeNumber(random: Random): bigint {
  return random.weighted([
    [3, () => BigInt(random.below(1024))],
    [4, () => 2n ** BigInt(random.below(64)) - BigInt(random.below(2))],
    [1, () => 2n ** 64n - 1n - BigInt(random.below(64))],
    [1, () => (BigInt(random.next()) << 32n) | BigInt(random.next())],
  ])();
}

const WORDS = [
  '',
  ' ',
  '  ',
  '\n',
  '\r\n',
  '\t',
  '\0',
  'a',
  'b',
  'ab',
  'é',
  'ß',
  'İ',
  'ﬁ',
  'ﷺ',
  '㍿',
  '😀',
  '👩‍👩‍👧',
  '\ud800',
  '\udc00',
  '\ufeff',
  '\ufffd',
  'e\u0301',
  '\u0300',
  '\u200d',
  '\u2028',
  '\u00a0',
  '▁',
  '▁▁',
  'Ġ',
  'Ċ',
  'Ġa',
  '<0x00>',
  '<0xFF>',
  '<0x0A>',
  '<0xZZ>',
  '##',
  '##a',
  '</w>',
  '<s>',
  '</s>',
  '<unk>',
  '<pad>',
  '<|im_start|>',
  '<|im_end|>',
  '<|endoftext|>',
  '<|eot_id|>',
  '[UNK]',
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
  'length',
  'null',
  'NaN',
  '0',
  '-1',
  '1e999',
  '.',
  '*',
  '\\',
  '$&',
  '$1',
  '(',
  '[',
  '{',
  '{{',
  '{%',
  '}}',
  '../../x',
  '/etc/passwd',
  '~',
];

export function word(random: Random): string {
  return random.pick(WORDS);
}

/** A short text, or one that is long, of one thing again and again. */
export function text(random: Random): string {
  return random.weighted([
    [8, () => word(random)],
    [6, () => random.list(1, 6, () => word(random)).join('')],
    [2, () => String.fromCodePoint(...random.list(1, 8, () => random.below(random.chance(0.8) ? 0x250 : 0x10_ffff)))],
    [1, () => word(random).repeat(random.pick([40, 300, 2000]))],
    [
      1,
      () =>
        random
          .pick(['a', ' ', 'ab', '\n', 'é', '{', '(', '0'])
          .repeat(random.pick([50, 50, 500, 500, 5000, 5000, 50_000, 1_000_000])),
    ],
  ])();
}

/** Any small JSON value. */
export function anyJson(random: Random, depth = 0): Json {
  return random.weighted<() => Json>([
    [6, () => number(random)],
    [5, () => text(random)],
    [2, () => random.chance(0.5)],
    [2, () => null],
    [depth < 3 ? 2 : 0, () => random.list(0, 4, () => anyJson(random, depth + 1))],
    [
      depth < 3 ? 2 : 0,
      () => Object.fromEntries(random.list(0, 3, () => [word(random), anyJson(random, depth + 1)] as const)),
    ],
  ])();
}
