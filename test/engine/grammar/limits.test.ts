import { expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { GRAMMARS_KEPT } from '../../../src/engine/grammar/Grammars.js';

const read = (file: string): string => readFileSync(new URL(`../../../${file}`, import.meta.url), 'utf8');

/** `4 << 20`, `10_000`. */
function value(text: string): number {
  const [base = NaN, shift = 0] = text.replaceAll('_', '').split('<<').map(Number);
  return base * 2 ** shift;
}

test('the limits of response formats in SECURITY.md are what the code has', () => {
  const [, section = ''] = /^## Limits of response formats\n([^]*?)(?=^## |$(?![^]))/m.exec(read('SECURITY.md')) ?? [];
  const rows = Array.from(
    section.matchAll(/^\| `(\w+)` \| (\S+) \|/gm),
    ([, name, most]) => `${String(name)} ${String(most)}`,
  ).sort();
  const [bounds, grammar] = [read('native/grammar/src/bounds.rs'), read('native/grammar/src/limits.rs')];
  const constants = Array.from(
    bounds.matchAll(/const (MOST_\w+): \w+ = (.+);/g),
    ([, name, most = '']) => `${String(name)} ${value(most).toLocaleString('en-US')}`,
  );
  const steps = Array.from(
    grammar.matchAll(/^ {8}(\w+): ([\d_]+),$/gm),
    ([, name, most = '']) => `${String(name)} ${value(most).toLocaleString('en-US')}`,
  );
  expect(rows.length).toBeGreaterThan(10);
  expect(rows).toEqual([...constants, ...steps].sort());
  expect(section).toContain(
    `the last ${GRAMMARS_KEPT.count} compiled formats, of ${GRAMMARS_KEPT.bytes / 2 ** 20} MiB of text`,
  );
});
