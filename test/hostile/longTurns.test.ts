import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { expect, test } from '@jest/globals';
import { tinyModelWithTokenizer } from '../cli/support.js';
import { built } from '../jobs/support/built.js';
import { temporaryFolder } from '../jobs/support/files.js';
import { tries } from '../support/tries.js';

const path = temporaryFolder();
const TURNS = pathToFileURL(fileURLToPath(new URL('../../scripts/nightly/lib/longestTurn.mjs', import.meta.url))).href;
/** Of processor time: a turn may take 100 ms, on a machine that has much else to do somewhat more. */
const MOST_MILLISECONDS = 300;

const WORDS = ['the ', 'museum ', 'closed ', 'Monday ', 'because ', 'heating ', 'déjà ', '漢字 '];
const honest = Array.from({ length: 150_000 }, (_, at) => WORDS[(at * at + 3 * at) % 7] ?? '').join('');

let models = 0;

/** The tiny model with parts of its tokenizer replaced. */
function modelWith(parts: Readonly<Record<string, unknown>>): string {
  const model = tinyModelWithTokenizer(path(`model-${(models += 1)}`));
  const file = join(model, 'tokenizer.json');
  const tokenizer = JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown>;
  writeFileSync(file, JSON.stringify({ ...tokenizer, ...parts }));
  return model;
}

function start(args: readonly string[]): { child: ReturnType<typeof spawn>; ended: Promise<unknown[]>; turns: string } {
  const turns = path('turns.json');
  const child = spawn(process.execPath, ['--import', TURNS, built('cli/main.js'), ...args], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...process.env, SPILLWAY_TURNS: turns },
  });
  return { child, ended: once(child, 'close'), turns };
}

/** The model, a row's text, and what the run may end with. */
const CASES: readonly (readonly [string, Readonly<Record<string, unknown>>, string])[] = [
  ['an honest text of a million units', {}, honest],
  [
    'a text on which a pattern goes through long runs of digits again and again',
    {
      pre_tokenizer: {
        type: 'Split',
        pattern: { Regex: String.raw`\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))|\p{L}+|\s+|[^\s\p{L}\p{N}]+` },
        behavior: 'Isolated',
        invert: false,
      },
    },
    '7'.repeat(900_000),
  ],
  ['a text of one word', { pre_tokenizer: null }, 'abcdefghij'.repeat(90_000)],
  [
    'marks that a normalizer would put in order without end',
    { normalizer: { type: 'NFC' } },
    `a${'\u0301\u0316'.repeat(300_000)}`,
  ],
];

test.each(CASES)('%s: the event loop has its turn', async (_, parts, text) => {
  const model = modelWith(parts);
  writeFileSync(
    path('rows.jsonl'),
    `${JSON.stringify({ prompt: text, maxNewTokens: 1 })}\n{"prompt":"a","maxNewTokens":1}\n`,
  );
  const run = start([
    ...['generate', '--model', model, '--input', path('rows.jsonl'), '--output', path('out.jsonl')],
    ...['--policy', 'default', '--cpu-memory', '512MiB', '--learn', 'off', '--threads', '1', '--overwrite'],
  ]);
  const [code] = await run.ended;
  // The first row is beyond the model's context, or a limit; the second one is answered.
  expect(code).toBe(4);
  const results = readFileSync(path('out.jsonl'), 'utf8').trim().split('\n');
  expect(results.map((line) => (JSON.parse(line) as { error?: unknown }).error !== undefined)).toEqual([true, false]);
  const { longestTurnMs } = JSON.parse(readFileSync(run.turns, 'utf8')) as { longestTurnMs: number };
  expect(longestTurnMs).toBeLessThan(MOST_MILLISECONDS);
});

test('thousands of samples of one row: the event loop has its turn', async () => {
  const properties = Object.fromEntries(Array.from({ length: 300 }, (_, at) => [`p${at}`, { type: 'string' }]));
  const responseFormat = { type: 'json_schema', schema: { type: 'object', properties } };
  const row = { prompt: 'a', responseFormat, samples: 10_000, maxNewTokens: 3 };
  writeFileSync(path('rows.jsonl'), `${JSON.stringify(row)}\n`);
  const run = start([
    ...['generate', '--model', modelWith({}), '--input', path('rows.jsonl'), '--output', path('out.jsonl')],
    ...['--policy', 'default', '--cpu-memory', '512MiB', '--learn', 'off', '--threads', '1', '--overwrite'],
  ]);
  // Whether or not the answer is whole within its tokens.
  expect([0, 4]).toContain((await run.ended)[0]);
  expect(readFileSync(path('out.jsonl'), 'utf8').split('\n')).toHaveLength(row.samples + 1);
  const { longestTurnMs } = JSON.parse(readFileSync(run.turns, 'utf8')) as { longestTurnMs: number };
  expect(longestTurnMs).toBeLessThan(MOST_MILLISECONDS / 2);
});

const ROWS = 600;

// By day SIGTERM alone; SIGINT ends runs in the same way (cli/generate).
test.each((['SIGTERM', 'SIGINT'] as const).slice(0, tries(1, 2)))(
  '%s is heard during the work on long rows',
  async (signal) => {
    const [, parts, text] = CASES[1] ?? ['', {}, ''];
    const model = modelWith(parts);
    // Shorter than what is refused at once, and long enough for a second of work.
    writeFileSync(
      path('rows.jsonl'),
      `${JSON.stringify({ prompt: text.slice(0, 200_000), maxNewTokens: 1 })}\n`.repeat(ROWS),
    );
    // Its own: that it is there says that the run has begun.
    const output = path(`${signal}.jsonl`);
    const { child, ended } = start([
      ...['generate', '--model', model, '--input', path('rows.jsonl'), '--output', output],
      ...['--policy', 'default', '--cpu-memory', '512MiB', '--learn', 'off', '--threads', '1', '--overwrite'],
    ]);
    while (!existsSync(output)) await sleep(50);
    await sleep(500);
    child.kill(signal);
    expect((await ended)[0]).toBe(signal === 'SIGINT' ? 130 : 143);
    // The work would go on for minutes; how long a turn is, is held above.
    expect(readFileSync(output, 'utf8').split('\n').length).toBeLessThan(ROWS / 2);
  },
);
