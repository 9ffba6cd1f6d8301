import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { temporaryFolder } from '../jobs/support/files.js';
import type { PartitionDocument } from '../../src/plan/partitioning/planPartitioning.js';
import { drawnBy } from './drawnBy.js';
import { runHere } from './runHere.js';
import { withFlags } from './support.js';

const path = temporaryFolder();
const PALM = [
  'plan',
  '--chips',
  'auto',
  '--hardware',
  'tpu-v4',
  '--model',
  'palm-62b',
  '--prompt-tokens',
  '1984',
  '--max-new-tokens',
  '64',
];

describe('plan --chips', () => {
  test('prints the document of planPartitioning, and draws its frontiers on a page that fetches nothing', async () => {
    const args = [...PALM, '--compress-weights', 'auto', '--json', '--html', path('chips.html')];
    const { code, stdout, stderr } = await runHere(args);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const { plan, frontiers, ...rest } = JSON.parse(stdout) as PartitionDocument;
    expect(rest).toMatchObject({
      model: 'palm-62b',
      hardware: 'tpu-v4',
      interconnect: 'torus',
      workload: { promptTokens: 1984, newTokens: 64 },
    });
    expect(plan.chips).toBe(plan.mesh.x * plan.mesh.y * plan.mesh.z);
    for (const frontier of Object.values(frontiers)) expect(frontier.length).toBeGreaterThan(5);
    const formats = new Set(frontiers.both.map(({ weights }) => weights));
    expect(formats.has('int8')).toBe(true);

    const page = readFileSync(path('chips.html'), 'utf8');
    expect(page).not.toMatch(/(src|href)=/);
    const drawn = drawnBy(page, 800);
    expect(drawn.map(({ title }) => title)).toEqual([
      'Prompts and new tokens: latency and cost',
      'Prefill: latency and cost',
      'Decoding: latency and cost',
    ]);
    expect(drawn[0]?.data).toEqual([
      frontiers.both.map(({ seconds }) => seconds),
      frontiers.both.map(({ chipSecondsPerToken }) => chipSecondsPerToken),
    ]);
    for (const title of ['Where the time of the plan goes', 'Frontier: prefill alone'])
      expect(page).toContain(`<h2>${title}</h2>`);
  });

  test('says it in words; the cheapest within a latency', async () => {
    const { code, stdout } = await runHere([...PALM, '--max-latency', '2']);
    expect(code).toBe(0);
    const [, seconds] = /: ([\d.]+) s from the first prompt to the last token/.exec(stdout) ?? [];
    expect(Number(seconds)).toBeLessThanOrEqual(2);
    for (const words of [
      'palm-62b on tpu-v4 over torus',
      'MFU',
      'communication',
      'weight-stationary',
      'frontier: prefill alone',
    ])
      expect(stdout).toContain(words);
  });

  test.each([
    [[...PALM, '--threads', '2', '--simulate'], '--chips: found --simulate, --threads beside it'],
    [[...PALM, '--compress-weights', '4bit'], '--compress-weights: found 4bit, expected none (bfloat16), 8bit (int8)'],
    [[...PALM, '--interconnect', 'nvlink'], '--interconnect: found "nvlink", expected one that tpu-v4 has: torus'],
    [[...PALM, '--max-latency', '0.01'], '--max-latency: found 0.01, expected at least'],
    [withFlags(PALM, '--chips', 'few'), "'few' is invalid. Expected a whole number from 1 to 65536."],
    [withFlags(PALM, '--chips', '1'), '--chips: found 1, but palm-62b with one row does not fit on so many of tpu-v4'],
    [withFlags(PALM, '--hardware', 'this'), '--hardware: found "this", expected a chip: a100,'],
    [['plan', '--model', 'palm-8b', '--prompt-tokens', '1', '--interconnect', 'torus'], 'missing: --chips'],
  ])('%j ends with 1 and a sentence', async (args, sentence) => {
    const { code, stdout, stderr } = await runHere(args);
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toContain(sentence);
  });
});
