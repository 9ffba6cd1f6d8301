import { readFileSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { temporaryFolder, writeLines } from '../jobs/support/files.js';
import { openQueue, type OpenQueue, QUEUES } from '../jobs/work/support.js';
import { natsServer, natsServerPath } from '../support/databaseServers.js';
import { runHere } from './runHere.js';
import { resultOf, runCli, startCli, TINY_MODEL, tinyModelWithTokenizer } from './support.js';

const path = temporaryFolder();
const input = path('in.csv');
const rows = Array.from({ length: 30 }, (_, at) => `row-${at},"[1,${3 + at},7]",n${at}\n`);
writeFileSync(input, `id,tokens,note\n${rows.join('')}`);
const environment = { XDG_CACHE_HOME: path('cache') };
// So many tokens that a worker is not through before it is killed.
const TASK = ['--max-new-tokens', '120', '--ignore-eos', '--temperature', '1'];
const SECRET = 'pa55word';
/** Begun before all tests, beside which they try for some seconds. */
const withoutServer = Promise.all(
  [`nats://u:${SECRET}@127.0.0.1:9`, `postgres://u:${SECRET}@127.0.0.1:9/db`].map((queue) =>
    runCli(['job', 'status', '--queue', queue, '--job', 'j'], '', environment),
  ),
);

const servers = QUEUES.filter(({ start }) => start !== undefined);
const withTasks = servers.find(({ missing }) => missing === undefined);

describe.each(servers)('a queue in $name', (kind) => {
  const there = kind.missing === undefined ? test : test.skip;
  let queue: OpenQueue;
  beforeAll(async () => {
    if (kind.missing === undefined) queue = await openQueue(kind);
  });
  afterAll(async () => {
    if (kind.missing === undefined) await queue[Symbol.asyncDispose]();
  });
  const here = (args: readonly string[]): ReturnType<typeof runHere> => runHere([...args, '--queue', queue.url]);

  there(
    'submit, work, status, collect: the output of one process, also where a worker is killed and one is stopped',
    async () => {
      const [output, whole] = [path(`${kind.name}.csv`), path(`${kind.name}-whole.csv`)];
      const place = { ...environment, SPILLWAY_QUEUE: queue.url };
      const files = ['--model', TINY_MODEL, '--input', input, '--output'];
      expect(await runHere(['generate', ...files, whole, ...TASK, '--policy', 'default'])).toMatchObject({
        code: 0,
      });
      const submit = [
        'job',
        'submit',
        '--job',
        'cli',
        ...files,
        output,
        ...TASK,
        '--shard-rows',
        '4',
        '--lease-seconds',
        '2',
      ];
      expect(await here(submit)).toMatchObject({
        code: 0,
        stdout: '',
        stderr: expect.stringMatching(
          new RegExp(
            `^${/^nats:/.test(queue.url) ? 'note: a power failure .*`sync_interval: always`.*\n' : ''}30 rows in 8 shards; parts go to `,
          ),
        ),
      });
      expect(await here(submit)).toMatchObject({ code: 1 });
      const early = await here(['job', 'collect', '--job', 'cli', '--output', output]);
      expect(early).toMatchObject({ code: 2, stdout: '' });
      expect(early.stderr).toContain('of 8 are not done: wait for the workers, or start some');

      const work = ['job', 'work', '--job', 'cli', '--policy', 'default', '--batch-size', '1', '--threads', '1'];
      for (const [signal, code] of [
        ['SIGKILL', 137],
        ['SIGTERM', 143],
      ] as const) {
        const child = startCli(work, place);
        const ended = resultOf(child);
        await new Promise<void>((resolve) => {
          child.stderr?.on('data', (text: string) => {
            if (text.includes('begun')) resolve();
          });
          child.once('close', () => resolve());
        });
        child.kill(signal);
        expect((await ended).code).toBe(code);
      }
      const last = await runCli(work, '', place);
      expect(last).toMatchObject({ code: 0, stdout: '' });
      expect(last.stderr).toMatch(/\d of 8 shards, \d+ results\n$/);

      const status = await here(['job', 'status', '--job', 'cli', '--json']);
      expect(JSON.parse(status.stdout)).toMatchObject({
        rows: 30,
        rowsDone: 30,
        ended: true,
        shards: { count: 8, committed: 8, open: 0, leased: 0, failed: 0 },
        output,
      });
      const table = await here(['job', 'status', '--job', 'cli']);
      expect(table.stdout).toMatch(
        /^rows +done +left +shards +open +leased +committed +given up +output\n30 +30 +- +8 +0 +0 +8 +0 /,
      );
      expect(await here(['job', 'collect', '--job', 'cli', '--output', output])).toMatchObject({
        code: 0,
        stdout: '',
        stderr: '30 rows of 8 shards\n',
      });
      expect(readFileSync(output, 'utf8')).toBe(readFileSync(whole, 'utf8'));
      expect(await here([...submit, '--overwrite'])).toMatchObject({ code: 0 });
      expect((await here(['job', 'status', '--job', 'cli'])).stdout).toMatch(/\n30 +0 +- +8 +8 /);

      const list = async (): Promise<unknown> => {
        const { stdout } = await here(['job', 'list', '--json']);
        return (JSON.parse(stdout) as { job: string }[]).find(({ job }) => job === 'cli');
      };
      expect(await list()).toEqual({ job: 'cli', state: 'open', rows: 30, rowsDone: 0, workers: 0, output });
      expect(await here(['job', 'cancel', '--job', 'cli'])).toMatchObject({
        code: 0,
        stdout: '',
        stderr: expect.stringMatching(/job cli is cancelled: 8 shards were not done\n$/),
      });
      expect(await list()).toMatchObject({ job: 'cli', state: 'failed' });
      expect((await here(['job', 'list'])).stdout).toMatch(
        /^job +state +rows +done +left +workers +output\n(.*\n)*cli +failed +30 +0 +- +0 /,
      );
      const late = await runCli(work, '', place);
      expect(late.code).toBe(2);
      expect(late.stderr).toMatch(/8 shards were given up/);
      const again = await here(['job', 'cancel', '--job', 'cli', '--json']);
      expect(JSON.parse(again.stdout)).toEqual({ job: 'cli', cancelled: 0 });
    },
  );

  // What the tasks are no queue knows.
  (kind === withTasks ? there : test.skip).each([
    ['classify', '--labels', 'yes,no', '--label-prior', '0.25,0.75'],
    ['score', '--token-logprobs', 'on'],
    ['embed', '--pooling', 'mean', '--encoding', 'base64'],
  ])('%s: the output of the command of that name', async (task, ...flags) => {
    const [lines, output, whole] = [
      path(`${task}-in.jsonl`),
      path(`${kind.name}-${task}.jsonl`),
      path(`${task}.jsonl`),
    ];
    writeLines(
      lines,
      Array.from({ length: 7 }, (_, at) => ({ tokens: [1, 3 + at, 7], completions: [[5, 6], [8]] })),
    );
    const files = ['--model', tinyModelWithTokenizer(path(`${kind.name}-${task}`)), '--input', lines];
    const alone = [task, ...files, '--output', whole, ...flags, '--policy', 'default', '--overwrite'];
    expect(await runHere(alone)).toMatchObject({ code: 0 });
    const place = { ...environment, SPILLWAY_QUEUE: queue.url };
    const submit = ['job', 'submit', '--job', task, '--task', task, ...files, '--output', output, ...flags];
    expect(await here([...submit, '--shards', '3'])).toMatchObject({ code: 0 });
    expect(await runCli(['job', 'work', '--job', task, '--policy', 'default'], '', place)).toMatchObject({ code: 0 });
    expect(await here(['job', 'collect', '--job', task, '--output', output])).toMatchObject({ code: 0 });
    expect(readFileSync(output, 'utf8')).toBe(readFileSync(whole, 'utf8'));
    expect(readFileSync(output, 'utf8').split('\n')).toHaveLength(8);
  });

  there('no such job, and rows with an error', async () => {
    const place = { ...environment, SPILLWAY_QUEUE: queue.url };
    const none = await runCli(['job', 'work', '--job', 'none'], '', place);
    expect(none).toMatchObject({ code: 1, stdout: '' });
    expect(none.stderr).toContain('job none: found no such job, expected one that was submitted');
    const [broken, output] = [path(`${kind.name}-broken.jsonl`), path(`${kind.name}-out.jsonl`)];
    writeLines(broken, [{ tokens: [1, 2] }, 'broken']);
    const submit = [
      'job',
      'submit',
      '--job',
      'b',
      '--model',
      TINY_MODEL,
      '--input',
      broken,
      '--output',
      output,
      '--shards',
      '2',
    ];
    expect(await here([...submit, '--max-new-tokens', '2'])).toMatchObject({ code: 0 });
    expect(await runCli(['job', 'work', '--job', 'b', '--policy', 'default'], '', place)).toMatchObject({ code: 4 });
    expect(await here(['job', 'collect', '--job', 'b', '--output', output])).toMatchObject({
      code: 4,
      stderr: '2 rows (1 with an error) of 2 shards\n',
    });
  });
});

const withServer = natsServerPath() === undefined ? test.skip : test;

withServer('credentials: of the URL or of the environment, and in no word of it', async () => {
  await using server = await natsServer(natsServerPath() ?? '', ['--user', 'ada', '--pass', SECRET]);
  const status = (queue: string, more: Readonly<Record<string, string>> = {}): ReturnType<typeof runCli> =>
    runCli(['job', 'status', '--queue', queue, '--job', 'j'], '', { ...environment, ...more });
  const host = `127.0.0.1:${server.port}`;
  for (const [queue, more] of [
    [`nats://ada:${SECRET}@${host}`, {}],
    [`nats://${host}`, { NATS_USER: 'ada', NATS_PASSWORD: SECRET }],
  ] as const) {
    const { code, stderr } = await status(queue, more);
    expect([code, stderr]).toEqual([
      1,
      `error: nats://${host} job j: found no such job, expected one that was submitted\n`,
    ]);
  }
  for (const queue of [`nats://ada:${SECRET}x@${host}`, `nats://${SECRET}@${host}`, `nats://${host}`]) {
    const { code, stdout, stderr } = await status(queue);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(/^error: nats:\/\/127\.0\.0\.1:\d+: cannot connect: .*[Aa]uthorization/);
    expect(stderr).not.toContain(SECRET);
  }
});

test('no server: said after some seconds of attempts, without the password', async () => {
  const words = await withoutServer;
  expect(words).toEqual(
    ['nats://127.0.0.1:9: cannot connect: ', 'postgres://127.0.0.1:9/db job j: cannot connect: '].map((message) => ({
      code: 2,
      stdout: '',
      stderr: expect.stringContaining(`error: ${message}`),
    })),
  );
  for (const { stderr } of words) expect(stderr).not.toContain(SECRET);
});

describe('wrong usage', () => {
  const submit = (...more: string[]): string[] => [
    'job',
    'submit',
    '--queue',
    'nats://127.0.0.1:9',
    '--job',
    'j',
    ...more,
  ];
  const files = ['--model', TINY_MODEL, '--input', input, '--output', path('out.csv')];
  test.each([
    [['job', 'work', '--job', 'j'], 'missing: --queue'],
    [['job', 'status', '--queue', 'nats://127.0.0.1:9'], 'missing: --job'],
    [
      ['job', 'status', '--queue', 'nats://127.0.0.1:9', '--job', 'a.b'],
      'error: --job: found "a.b", expected a name of 1 to 64 letters, digits, _ and -',
    ],
    [
      ['job', 'status', '--queue', `redis://u:${SECRET}@h`, '--job', 'j'],
      'error: --queue: found a URL of redis:, expected nats://HOST:PORT',
    ],
    [['job', 'status', '--queue', `nats://u:${SECRET}@[`, '--job', 'j'], 'error: --queue: found a text that is no URL'],
    [
      ['job', 'status', '--queue', `nats://u:${SECRET}%@127.0.0.1:9`, '--job', 'j'],
      'error: --queue: found a user or a password with a % that stands for no character, expected %25 for it, or NATS_PASSWORD',
    ],
    [['job', 'collect', '--queue', 'nats://127.0.0.1:9', '--output', path('out.csv')], 'missing: --job'],
    [submit(...files.slice(0, 4)), 'missing: --output'],
    [submit(...files.slice(0, 2), '--input', '-', ...files.slice(4)), '--input: found rows that come once'],
    [submit(...files, '--max-deliver', '0'), 'Expected a whole number from 1 to 1000.'],
    [submit(...files, '--lease-seconds', '0'), 'Expected a number from 1 to 86400.'],
    [submit(...files, '--disk', '/tmp'), "unknown option '--disk'"],
    [submit(...files, '--labels', 'a,b'), 'error: --labels: found it beside --task generate, expected --task classify'],
    [
      submit(...files, '--task', 'embed', '--temperature', '1'),
      'error: --temperature: found it beside --task embed, expected --task generate',
    ],
    ...['classify', 'score', 'embed'].map((task): [string[], string] => [
      submit(...files, '--task', task, '--reasoning', 'drop'),
      `error: --reasoning: found it beside --task ${task}, expected --task generate`,
    ]),
    ...['--chunk-tokens', '--chunk-overlap'].flatMap((flag) =>
      ['classify', 'score', 'rerank'].map((task): [string[], string] => [
        submit(...files, '--task', task, flag, '64'),
        `error: ${flag}: found it beside --task ${task}, expected --task generate or embed`,
      ]),
    ),
    [
      submit(...files, '--task', 'embed', '--merge', 'one'),
      'error: --merge: found it beside --task embed, expected --task generate',
    ],
    [submit(...files, '--task', 'classify', '--labels', 'a,a'), 'error: labels[1]: found "a" a second time'],
    [submit(...files, '--task', 'rank'), 'Allowed choices are generate, classify, score, rerank, embed.'],
  ])('%j', async (args, message) => {
    const result = await runHere(args);
    expect(result).toMatchObject({ code: 1, stdout: '' });
    expect(result.stderr).toContain(message);
    expect(result.stderr).not.toContain(SECRET);
  });

  test.each(['submit', 'work', 'status', 'cancel', 'collect'])('help of %s', async (command) => {
    const { code, stdout } = await runHere(['job', command, '--help']);
    expect(code).toBe(0);
    for (const flag of ['--queue', '--job']) expect(stdout).toContain(`\n  ${flag}`);
  });
});
