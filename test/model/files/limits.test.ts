import { readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';

function read(file: string): string {
  return readFileSync(new URL(`../../../${file}`, import.meta.url), 'utf8');
}

/** Name, value and words of each limit, as `limits.ts` has them: a comment before each. */
function limits(): string[][] {
  const found = read('src/model/files/limits.ts').matchAll(
    /^ {2}\/\*\*(?:\n {3}\*)? (.+(?:\n {3}\* .+)*)\s+\*\/\n {2}(\w+): (.+),$/gm,
  );
  return Array.from(found, ([, words = '', name = '', value = '']) => [
    name,
    product(value.replaceAll('_', '')).toLocaleString('en-US'),
    words.replace(/\n {3}\*/g, ''),
  ]);
}

/** The value of a constant such as `64 * 2 ** 20` or `2 ** 22 - 1`. */
function product(text: string): number {
  const [sum = '', less = '0'] = text.split(' - ');
  return (
    sum.split(' * ').reduce(
      (total, factor) =>
        total *
        factor
          .split(' ** ')
          .map(Number)
          .reduce((base, exponent) => base ** exponent),
      1,
    ) - Number(less)
  );
}

test('the tables of limits in SECURITY.md are what the code has', () => {
  const [, section = ''] = /^## Limits\n([^]*?)(?=^## |$(?![^]))/m.exec(read('SECURITY.md')) ?? [];
  const rows = Array.from(section.matchAll(/^\| `(\w+)` \| (\S+) \| (.+) \|$/gm), ([, ...cells]) => cells);
  expect(rows.length).toBeGreaterThan(20);
  expect(rows).toEqual(limits());
});

test('every limit has its words', () => {
  expect(limits()).toHaveLength(read('src/model/files/limits.ts').match(/^ {2}\w+: /gm)?.length ?? -1);
});
