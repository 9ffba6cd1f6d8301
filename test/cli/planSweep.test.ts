import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { temporaryFolder } from '../jobs/support/files.js';
import { runHere } from './runHere.js';
import { runCli } from './support.js';

const path = temporaryFolder();
const T4 = ['plan', '--model', 'opt-6.7b', '--prompt-tokens', '64', '--max-new-tokens', '8', '--rows', '32'];

/** Three new tokens a sweep are no schedule of ours: rows by rows. */
const OWN = `
import { zigZagBlock } from 'spillway/schedules';
export default () => ({ ...zigZagBlock(), name: 'mine' });
`;

function cells(line: string): string[] {
  return [...line.matchAll(/("(?:[^"]|"")*"|[^,]*)(?:,|$)/g)].map(([, cell = '']) => cell).slice(0, -1);
}

function table(stdout: string): Record<string, string>[] {
  const [header = '', ...lines] = stdout.trimEnd().split('\n');
  return lines.map((line) => Object.fromEntries(header.split(',').map((name, at) => [name, cells(line)[at] ?? ''])));
}

describe('plan --sweep', () => {
  test('every schedule with every policy on every machine: figures, or why there are none', async () => {
    const policy = { batchSize: 8, batches: 2, weights: { cpu: 1 }, cache: { cpu: 1 }, activations: { cpu: 1 } };
    writeFileSync(path('policy.json'), JSON.stringify(policy));
    writeFileSync(
      path('mine.mjs'),
      OWN.replace('spillway/schedules', new URL('../../dist/api/schedules.js', import.meta.url).href),
    );
    writeFileSync(
      path('sweep.json'),
      JSON.stringify({
        schedules: ['zigzag', 'row', path('mine.mjs')],
        policies: ['search', path('policy.json')],
        hardware: ['flexgen-t4', 'lm-offload-a100'],
        costModels: ['spillway', 'flexgen-paper'],
      }),
    );
    const { code, stdout, stderr } = await runCli([...T4, '--sweep', path('sweep.json'), '--simulate']);
    expect([code, stderr]).toEqual([0, '']);
    const lines = table(stdout);
    expect(lines).toHaveLength(3 * 2 * 2 * 2);
    for (const line of lines) {
      if (line['hardware'] === 'lm-offload-a100' && line['costModel'] === 'flexgen-paper') {
        expect(line['error']).toContain("no constants of FlexGen's cost model");
        continue;
      }
      expect(line['error']).toBe('');
      expect(Number(line['simulatedTokensPerSecond'])).toBeGreaterThan(0);
      const own = line['schedule'] === path('mine.mjs');
      expect(line['predictedSeconds'] === '').toBe(own);
      if (!own && line['costModel'] === 'spillway')
        expect(Number(line['simulatedSeconds']) / Number(line['predictedSeconds'])).toBeGreaterThan(0.7);
    }
    const [searched] = lines;
    expect(searched).toMatchObject({ hardware: 'flexgen-t4', policy: 'search', schedule: 'zigzag', fits: 'true' });
    const [zigzag, mine] = ['zigzag', path('mine.mjs')].map((schedule) =>
      lines.find((line) => line['schedule'] === schedule && line['policy'] === path('policy.json')),
    );
    expect(mine?.['simulatedSeconds']).toBe(zigzag?.['simulatedSeconds']);
  });

  test('compares machines by tokens a dollar and joules a token, where their files have a price and watts', async () => {
    const t4 = new URL('../../hardware/flexgen-t4.json', import.meta.url);
    const priced = { ...(JSON.parse(readFileSync(t4, 'utf8')) as object), dollarsPerHour: 0.36, watts: 200 };
    writeFileSync(path('priced.json'), JSON.stringify(priced));
    writeFileSync(
      path('two.json'),
      JSON.stringify({ schedules: ['zigzag'], hardware: [path('priced.json'), 'flexgen-t4'] }),
    );
    const { stdout } = await runCli([...T4, '--sweep', path('two.json')]);
    const [known, unknown] = table(stdout);
    const speed = Number(known?.['predictedTokensPerSecond']);
    expect(Number(known?.['tokensPerDollar'])).toBeCloseTo(speed * 10_000, 3);
    expect(Number(known?.['joulesPerToken'])).toBeCloseTo(200 / speed, 9);
    expect(unknown).toMatchObject({ tokensPerDollar: '', joulesPerToken: '' });
  });

  test.each([
    ['{"schedules": ["diagonl"]}', 'schedules: found diagonl, expected row, zigzag, diagonal, or a module'],
    ['{"costModels": ["best"]}', 'costModels.0: found "best", expected one of spillway, flexgen'],
    ['{"models": []}', 'the unknown field models'],
    ['{"schedules": ["none.mjs"]}', 'found none.mjs, which cannot be loaded'],
  ])('refuses %s', async (text, words) => {
    writeFileSync(path('bad.json'), text);
    const { code, stderr } = await runHere([...T4, '--sweep', path('bad.json')]);
    expect([[1, 2].includes(code ?? 0), stderr.includes(words) ? words : stderr]).toEqual([true, words]);
  });

  test('refuses flags that its file says', async () => {
    writeFileSync(path('empty.json'), '{}');
    const { code, stderr } = await runHere([...T4, '--hardware', 'flexgen-t4', '--sweep', path('empty.json')]);
    expect(code).toBe(1);
    expect(stderr).toContain('--hardware: found flexgen-t4 beside --sweep');
  });
});

describe('plan --schedule FILE', () => {
  test('simulates a schedule of your own beside the plan', async () => {
    writeFileSync(
      path('own.mjs'),
      OWN.replace('spillway/schedules', new URL('../../dist/api/schedules.js', import.meta.url).href),
    );
    const flags = [...T4, '--hardware', 'flexgen-t4', '--simulate', '--schedule', path('own.mjs')];
    const { code, stdout } = await runCli([...flags, '--json']);
    expect(code).toBe(0);
    const plan = JSON.parse(stdout) as { ownSchedule: object; simulated: object };
    expect(plan.ownSchedule).toMatchObject({ name: 'mine', rows: 32, newTokens: 256 });
    expect(plan.simulated).toMatchObject({ rows: 32 });
    const words = await runCli(flags);
    expect(words.stdout).toContain('simulated, mine');
  });

  test.each([
    ['export default 5;', 'no schedule as the default export'],
    ['export const a = 1;', 'no schedule as the default export'],
    ['throw new Error("no");', 'cannot be loaded: no'],
    ['export default () => { throw new Error("not today"); };', 'cannot be loaded: not today'],
  ])('refuses a module: %s', async (text, words) => {
    writeFileSync(path('bad.mjs'), text);
    const { code, stderr } = await runCli([...T4, '--hardware', 'flexgen-t4', '--schedule', path('bad.mjs')]);
    expect([code, stderr.includes(words) ? words : stderr]).toEqual([1, words]);
  });

  test('a word that is no schedule is told which there are', async () => {
    const { code, stderr } = await runHere([...T4, '--schedule', 'zigzg']);
    expect(code).toBe(1);
    expect(stderr).toContain('Expected row, zigzag, diagonal, or a module (.mjs)');
  });
});
