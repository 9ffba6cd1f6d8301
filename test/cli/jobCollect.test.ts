import { readdirSync, readFileSync, writeFileSync, existsSync, mkdirSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { temporaryFolder, writeLines } from '../jobs/support/files.js';
import { runHere } from './runHere.js';
import { resultOf, runCli, startCli, TINY_MODEL, tinyModelWithTokenizer, until, withFlags } from './support.js';

const path = temporaryFolder();
const folder = path('run');
mkdirSync(folder);
const input = path('in.jsonl');
writeLines(
  input,
  Array.from({ length: 60 }, (_, at) => (at % 25 === 24 ? 'broken' : { id: `row-${at}`, tokens: [1, 3 + at, 7] })),
);
const environment = { XDG_CACHE_HOME: path('cache') };

function generate(output: string, ...flags: string[]): string[] {
  return [
    'generate',
    '--model',
    TINY_MODEL,
    '--input',
    input,
    '--output',
    output,
    '--max-new-tokens',
    '6',
    '--ignore-eos',
    '--policy',
    'default',
    ...flags,
  ];
}

describe('generate --shard and job collect', () => {
  test('samples drawn by chance, in shards of several rows, on a worker that is killed and resumed: the output of one process', async () => {
    const output = `${folder}/out.jsonl`;
    const sampled = ['--temperature', '1', '--samples', '2', '--shard-rows', '4'];
    /** So many tokens that the worker is not through before it is killed. */
    const long = (to: string, ...flags: readonly string[]): string[] =>
      withFlags(generate(to, ...flags), '--max-new-tokens', '100');
    expect(await runCli(long(path('whole.jsonl'), ...sampled.slice(0, 4)), '', environment)).toMatchObject({
      code: 4,
    });
    const part = `${folder}/out-00001-of-00003.jsonl`;
    const child = startCli(long(output, ...sampled, '--shard', '1/3', '--batch-size', '2'), environment);
    const ended = resultOf(child);
    await until(() => child.exitCode !== null || (existsSync(part) && readFileSync(part).length > 0));
    child.kill('SIGKILL');
    expect((await ended).code).toBe(137);
    for (const shard of ['2/3', '0/3', '1/3']) {
      const { stderr } = await runCli(long(output, ...sampled, '--resume', '--shard', shard), '', environment);
      expect(stderr).toContain(
        `shard ${shard.replace('/', ' of ')}, counted from 0: results go to ${folder}/out-0000${shard[0]}-of-00003.jsonl`,
      );
    }
    const collected = await runHere(['job', 'collect', '--output', output]);
    expect(collected).toMatchObject({
      code: 4,
      stdout: '',
      stderr: '60 rows, 118 results (2 with an error) of 3 shards\n',
    });
    expect(readFileSync(output, 'utf8')).toBe(readFileSync(path('whole.jsonl'), 'utf8'));
    expect(readdirSync(folder).filter((file) => !file.startsWith('out-'))).toEqual(['out.jsonl']);
  });

  test('env: Kubernetes, Slurm and AWS Batch say which shard; errors and statistics of each are its own', async () => {
    const output = path('env.csv');
    const flags = ['--errors', path('failed.csv'), '--stats', path('stats.json')];
    expect(
      await runCli(generate(path('env-whole.csv'), '--errors', path('failed-whole.csv')), '', environment),
    ).toMatchObject({ code: 4 });
    for (const [shard, variables] of [
      ['env/3', { JOB_COMPLETION_INDEX: '0' }],
      [
        'env',
        { SLURM_ARRAY_TASK_ID: '1', SLURM_ARRAY_TASK_COUNT: '3', SLURM_ARRAY_TASK_MIN: '0', SLURM_ARRAY_TASK_MAX: '2' },
      ],
      ['env', { AWS_BATCH_JOB_ARRAY_INDEX: '2', AWS_BATCH_JOB_ARRAY_SIZE: '3' }],
    ] as const)
      expect([0, 4]).toContain(
        (await runCli(generate(output, ...flags, '--shard', shard), '', { ...environment, ...variables })).code,
      );
    expect(await runHere(['job', 'collect', '--output', output, '--errors', path('failed.csv')])).toMatchObject({
      code: 4,
    });
    expect(readFileSync(output, 'utf8')).toBe(readFileSync(path('env-whole.csv'), 'utf8'));
    expect(readFileSync(path('failed.csv'), 'utf8')).toBe(readFileSync(path('failed-whole.csv'), 'utf8'));
    expect(existsSync(path('stats.json'))).toBe(false);
    expect(JSON.parse(readFileSync(path('stats-00001-of-00003.json'), 'utf8'))).toMatchObject({
      rows: { done: 19, failed: 1 },
    });
  });

  test.each([
    ['classify', ['--labels', 'a,b']],
    ['embed', ['--encoding', 'base64']],
  ])('%s, from CSV to CSV', async (task, flags) => {
    const model = tinyModelWithTokenizer(path('model'));
    const [table, output] = [path(`${task}-in.csv`), path(`${task}.csv`)];
    writeFileSync(
      table,
      `prompt,completions\n${['one', 'two', 'three', 'four', 'five'].map((word) => `${word},"[""x"",""${word}""]"\n`).join('')}`,
    );
    const args = (file: string, ...more: string[]): string[] => [
      task,
      '--model',
      model,
      '--input',
      table,
      '--output',
      file,
      '--policy',
      'default',
      ...flags,
      ...more,
    ];
    expect(await runHere(args(path(`${task}-whole.csv`)))).toMatchObject({ code: 0 });
    for (const shard of ['1/2', '0/2'])
      expect(await runHere(args(output, '--shard', shard))).toMatchObject({ code: 0 });
    if (task === 'classify')
      expect(
        await runHere(['job', 'collect', '--output', output, '--input', table, '--output-format', 'openai-batch']),
      ).toMatchObject({ code: 1, stderr: expect.stringContaining('found openai-batch for classify') });
    expect(await runHere(['job', 'collect', '--output', output, '--input', table])).toMatchObject({
      code: 0,
      stderr: '5 rows of 2 shards\n',
    });
    expect(readFileSync(output, 'utf8')).toBe(readFileSync(path(`${task}-whole.csv`), 'utf8'));
  });

  test('a shard to standard output', async () => {
    const whole = (await runCli(generate('-'), '', environment)).stdout.trimEnd().split('\n');
    const { stdout } = await runCli(generate('-', '--shard', '1/2'), '', environment);
    expect(stdout.trimEnd().split('\n')).toEqual([...whole.filter((_, at) => at % 2 === 1)]);
  });
});

describe('wrong usage', () => {
  test.each([
    [
      generate('out.jsonl', '--shard', '2/2'),
      1,
      "argument '2/2' is invalid. K: found 2, expected a whole number from 0 to 1, as there are 2 shards, counted from 0.",
    ],
    [generate('out.jsonl', '--shard', '1of2'), 1, 'Expected K/N, env or env/N, e.g. 0/8.'],
    [generate('out.jsonl', '--shard', '0/0'), 1, 'Expected a whole number from 1 to 100000 shards.'],
    [generate('out.jsonl', '--shard', 'env/999999'), 1, 'Expected a whole number from 1 to 100000 shards.'],
    [
      generate('out.jsonl', '--shard', 'env'),
      1,
      'found none of JOB_COMPLETION_INDEX, SLURM_ARRAY_TASK_ID, AWS_BATCH_JOB_ARRAY_INDEX in the environment',
    ],
    [generate('out.jsonl', '--shard-rows', '8'), 1, 'error: --shard-rows goes with --shard'],
    [['job'], 1, 'Usage: spillway job'],
    [['job', 'colect'], 1, 'Did you mean collect?'],
    [['job', 'collect'], 1, 'missing: --output'],
    [['job', 'collect', '--output', '-'], 1, 'error: --output: found standard output, expected a file'],
    [['job', 'collect', '--output', '/nowhere/out.jsonl'], 2, 'no such file or folder'],
    [
      ['job', 'collect', '--output', path('nothing.jsonl')],
      2,
      'found no part of it, expected files such as nothing-00000-of-00002.jsonl beside it; --parts says where they are',
    ],
  ])('%j', async (args, code, message) => {
    const result = await runHere(args);
    expect(result).toMatchObject({ code, stdout: '' });
    expect(result.stderr).toContain(message);
  });

  test('help', async () => {
    const { code, stdout } = await runHere(['job', 'collect', '--help']);
    expect(code).toBe(0);
    expect(stdout).toContain('Usage: spillway job collect');
    for (const flag of ['--output', '--parts', '--input', '--output-format', '--errors', '--overwrite'])
      expect(stdout).toContain(`\n  ${flag}`);
  });
});
