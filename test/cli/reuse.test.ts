import { cpSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { beforeAll, describe, expect, test } from '@jest/globals';
import type { RunStats } from '../../src/RunStats.js';
import { temporaryFolder, writeLines } from '../jobs/support/files.js';
import { overwrittenModel } from '../support/model/overwrittenModel.js';
import { runHere } from './runHere.js';
import { tinyModelWithTokenizer, TINY_MODEL, withFlags } from './support.js';

const path = temporaryFolder();
let runs = 0;

interface Outcome {
  readonly output: string;
  readonly reused: number;
  readonly equal: number;
  readonly prompted: number;
  readonly generated: number;
  readonly stderr: string;
}

/** A run of `generate` with a file of answers. */
const run = (
  rows: readonly unknown[],
  flags: readonly string[] = [],
  file = 'kept',
  model = TINY_MODEL,
): Promise<Outcome> => runCommand('generate', rows, withFlags(['--max-new-tokens', '4'], ...flags), file, model);

async function runCommand(
  command: string,
  rows: readonly unknown[],
  flags: readonly string[],
  file: string,
  model: string,
): Promise<Outcome> {
  runs += 1;
  const [input, output, stats] = [path(`in-${runs}.jsonl`), path(`out-${runs}.jsonl`), path(`stats-${runs}.json`)];
  writeLines(input, rows);
  const { code, stderr } = await runHere([
    command,
    '--model',
    model,
    '--input',
    input,
    '--output',
    output,
    '--stats',
    stats,
    '--policy',
    'default',
    '--reuse',
    path(file),
    ...flags,
  ]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: expect.stringContaining(`${rows.length} rows`) });
  const { sharing, tokens } = JSON.parse(readFileSync(stats, 'utf8')) as RunStats;
  return {
    output: readFileSync(output, 'utf8'),
    reused: sharing.rowsReused,
    equal: sharing.rowsEqual,
    prompted: tokens.prompt,
    generated: tokens.generated,
    stderr,
  };
}

const rows = Array.from({ length: 12 }, (_, at) => ({
  id: `row-${at}`,
  tokens: [1, 3 + at, 40 - at],
  ...(at % 3 === 1 && { temperature: 1, seed: at }),
  ...(at % 4 === 2 && { stop: ['q'] }),
}));

describe('--reuse', () => {
  test('a job that runs again computes only the rows that changed, to the same bytes', async () => {
    const without = await run(rows, ['--logprobs', '2', '--carry-fields'], 'first');
    expect(without.reused).toBe(0);
    const again = await run(rows, ['--logprobs', '2', '--carry-fields'], 'first');
    expect(again).toMatchObject({ output: without.output, reused: 12, generated: 0 });
    expect(again.stderr).toContain('12 from earlier runs');
    // Other names, another order, and two rows that are new.
    const changed = [
      ...rows.slice(2).reverse(),
      { id: 'new', tokens: [9] },
      { ...rows[1], tokens: [1, 4, 38] },
      { ...rows[0], id: 'as before', samples: 1 },
    ];
    const third = await run(changed, ['--logprobs', '2', '--carry-fields'], 'first');
    expect(third.reused).toBe(11);
    expect(third.output).toBe((await run(changed, ['--logprobs', '2', '--carry-fields'], 'fresh')).output);
  });

  test.each([
    ['fewer tokens', ['--max-new-tokens', '3']],
    ['past the end', ['--ignore-eos']],
    ['float32', ['--precision', 'float32']],
    ['a cache of 4 bits', ['--compress-cache', '4bit']],
  ] as const)('%s: nothing of another answer', async (_, flags) => {
    const plain = [
      { id: 'a', tokens: [1, 5, 9] },
      { id: 'b', tokens: [1, 6] },
    ];
    await run(plain, [], 'flags');
    const other = await run(plain, flags, 'flags');
    expect(other.reused).toBe(0);
    expect(other.output).toBe((await run(plain, flags, `none-${runs}`)).output);
    // Another's answers stay.
    expect((await run(plain, [], 'flags')).reused).toBe(2);
  });

  test('another model, under the same name, gets no old answer', async () => {
    mkdirSync(path('other'));
    const model = tinyModelWithTokenizer(path('text-model'));
    const prompts = [{ prompt: 'one' }, { prompt: 'two' }];
    const first = await run(prompts, ['--logprobs', '0'], 'model', model);
    const changed = await overwrittenModel(model, path('other'), [
      { role: 'token_embedding', row: 'o'.charCodeAt(0) + 3, value: 0.25 },
    ]);
    cpSync(changed, model, { recursive: true });
    const second = await run(prompts, ['--logprobs', '0'], 'model', model);
    expect(second.reused).toBe(0);
    expect(second.output).not.toBe(first.output);
  });

  test('an error is not kept', async () => {
    const broken = [
      { id: 'a', tokens: [1, 5] },
      { id: 'b', tokens: [] },
    ];
    writeLines(path('broken.jsonl'), broken);
    for (const reused of [0, 1]) {
      const { code } = await runHere([
        'generate',
        '--model',
        TINY_MODEL,
        '--input',
        path('broken.jsonl'),
        '--output',
        path('broken.out'),
        '--overwrite',
        '--stats',
        path('broken.stats'),
        '--max-new-tokens',
        '2',
        '--reuse',
        path('broken.kept'),
      ]);
      expect(code).toBe(4);
      expect((JSON.parse(readFileSync(path('broken.stats'), 'utf8')) as RunStats).sharing.rowsReused).toBe(reused);
    }
  });
});

const COMMANDS: readonly (readonly [string, readonly string[], readonly (readonly string[])[]])[] = [
  [
    'classify',
    ['--labels', 'yes,no'],
    [
      ['--labels', 'no,yes'],
      ['--label-end', 'on'],
      ['--label-prior', '0.2,0.8'],
      ['--label-prior', 'N/A'],
      ['--prompt-template', 'Say {{prompt}}'],
      ['--precision', 'float32'],
    ],
  ],
  [
    'score',
    [],
    [
      ['--completion-end', 'on'],
      ['--token-logprobs', 'on'],
      ['--prompt-template', 'Say {{prompt}}'],
      ['--compress-cache', '4bit'],
    ],
  ],
  [
    'embed',
    [],
    [
      ['--pooling', 'mean'],
      ['--dimensions', '5'],
      ['--normalize', 'off'],
      ['--encoding', 'base64'],
      ['--escape-special-tokens'],
    ],
  ],
];

describe.each(COMMANDS)('%s --reuse', (command, flags, others) => {
  const model = (): string => tinyModelWithTokenizer(path('text-model'));
  const prompts = Array.from({ length: 9 }, (_, at) => ({
    id: `row-${at}`,
    prompt: `<s> ${['one', 'two', 'three'][at % 3]}`,
    completions: ['yes', 'no'],
  }));

  test('equal rows are computed once, a job that runs again computes only what changed, to the same bytes', async () => {
    const first = await runCommand(command, prompts, flags, `${command}-first`, model());
    expect(first).toMatchObject({ reused: 0, equal: 6 });
    expect(
      await runCommand(command, prompts, [...flags, '--share-prefixes', 'off'], `${command}-alone`, model()),
    ).toMatchObject({ output: first.output, equal: 0 });
    const again = await runCommand(command, prompts, flags, `${command}-first`, model());
    expect(again).toMatchObject({ output: first.output, reused: 9, prompted: 0 });
    expect(again.stderr).toContain('9 from earlier runs');
    const changed = [{ ...prompts[0], id: 'new', prompt: 'four' }, ...prompts.slice(1)];
    const third = await runCommand(command, changed, flags, `${command}-first`, model());
    expect(third.reused).toBe(8);
    expect(third.output).toBe((await runCommand(command, changed, flags, `${command}-fresh`, model())).output);
  });

  test('with other flags: nothing of another answer', async () => {
    const some = prompts.slice(0, 2);
    await runCommand(command, some, flags, `${command}-flags`, model());
    for (const other of others) {
      const { reused } = await runCommand(command, some, withFlags(flags, ...other), `${command}-flags`, model());
      expect({ other, reused }).toEqual({ other, reused: 0 });
    }
    expect((await runCommand(command, some, flags, `${command}-flags`, model())).reused).toBe(2);
  });

  test('of a damaged file: a warning, and every answer is right', async () => {
    const first = await runCommand(command, prompts, flags, `${command}-damaged`, model());
    const bytes = readFileSync(path(`${command}-damaged`));
    bytes[bytes.length - 5] = (bytes.at(-5) ?? 0) ^ 0x10;
    writeFileSync(path(`${command}-damaged`), bytes);
    const second = await runCommand(command, prompts, flags, `${command}-damaged`, model());
    expect(second.output).toBe(first.output);
    expect(second.reused).toBeLessThan(9);
    expect(second.stderr).toContain('no whole records');
  });
});

describe('a file that is none', () => {
  beforeAll(() => {
    writeLines(path('some.jsonl'), [{ tokens: [1] }]);
    writeFileSync(path('notes.txt'), 'what I wrote down');
  });

  test.each([
    ["somebody's notes", (): string => path('notes.txt'), 'notes.txt'],
    ['the input', (): string => path('some.jsonl'), '--input and --reuse name the same file'],
    ['the output', (): string => path('some.out'), '--output and --reuse name the same file'],
    ['a folder', (): string => path('.'), 'found a folder, expected no file'],
    ['a device', (): string => '/dev/null', '/dev/null'],
  ] as const)('%s: exit 1, nothing is written', async (_, file, words) => {
    const before = existsSync(file()) && statSync(file()).isFile() ? readFileSync(file(), 'utf8') : undefined;
    const { code, stderr } = await runHere([
      'generate',
      '--model',
      TINY_MODEL,
      '--input',
      path('some.jsonl'),
      '--output',
      path('some.out'),
      '--reuse',
      file(),
    ]);
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining(words) });
    if (before !== undefined) expect(readFileSync(file(), 'utf8')).toBe(before);
    expect(existsSync(path('some.out'))).toBe(false);
  });

  test('a damaged one: a warning, and every answer is right', async () => {
    const plain = rows.slice(0, 6);
    const first = await run(plain, [], 'damaged');
    const bytes = readFileSync(path('damaged'));
    for (let at = 100; at < bytes.length; at += 150) bytes[at] = (bytes[at] ?? 0) ^ 0x10;
    writeFileSync(path('damaged'), bytes);
    const second = await run(plain, [], 'damaged');
    expect(second.output).toBe(first.output);
    expect(second.reused).toBeLessThan(6);
    expect(second.stderr).toContain('damaged');
  });
});
