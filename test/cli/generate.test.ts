import { spawn } from 'node:child_process';
import { copyFileSync, existsSync, readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { built } from '../jobs/support/built.js';
import { byIndex, readResults, temporaryFolder, writeLines } from '../jobs/support/files.js';
import type { RowResult } from '../../src/Row.js';
import { tinyChatModel } from '../support/tinyChatModel.js';
import { tries } from '../support/tries.js';
import { runHere } from './runHere.js';
import { resultOf, runCli, startCli, tinyModelWithTokenizer, TINY_MODEL, until, withFlags } from './support.js';

const path = temporaryFolder();
let names = 0;

function flags(lines: readonly unknown[], model = TINY_MODEL): { input: string; output: string; args: string[] } {
  names += 1;
  const [input, output] = [path(`in-${names}.jsonl`), path(`out-${names}.jsonl`)];
  writeLines(input, lines);
  return { input, output, args: ['generate', '--model', model, '--input', input, '--output', output] };
}

const rows = (count: number): object[] =>
  Array.from({ length: count }, (_, at) => ({ id: `row-${at}`, tokens: [1, 3 + (at % 250), 7] }));
const ALL_FIELDS = ['id', 'index', 'text', 'tokens', 'finishReason', 'usage'];

describe('generate', () => {
  test('answers rows of tokens; silent but for a summary where stderr is no terminal', async () => {
    const { output, args } = flags(rows(20));
    const { code, stdout, stderr } = await runCli([...args, '--max-new-tokens', '6', '--ignore-eos']);
    expect({ code, stdout }).toEqual({ code: 0, stdout: '' });
    // Whether rows that begin with the same token share it depends on who is there when.
    expect(stderr).toMatch(/^20 rows, 120 tokens in [\d.]+ s .*tokens\/s(, \d+% of the prompts shared)?\n$/);
    const results = readResults(output);
    expect(results.map(({ id, index }) => [id, index])).toEqual(
      rows(20).map((row, at) => [(row as { id: string }).id, at]),
    );
    for (const result of results) {
      expect(Object.keys(result)).toEqual(ALL_FIELDS);
      expect(result).toMatchObject({ finishReason: 'length', usage: { promptTokens: 3, completionTokens: 6 } });
      expect(result.tokens).toHaveLength(6);
    }
    expect(readdirSync(path('.')).filter((name) => name.startsWith('out-1.'))).toEqual([
      'out-1.jsonl',
      'out-1.jsonl.job.json',
    ]);
  });

  test('the first rows, or drawn ones, are tried, and what was tried is part of the whole job', async () => {
    const { output, args } = flags(rows(30));
    const few = [...args, '--max-new-tokens', '4', '--ignore-eos'];
    const first = await runHere([...few, '--limit', '5']);
    expect(first).toMatchObject({ code: 0 });
    expect(first.stderr).toMatch(/^5 rows, .*\n--limit: --resume without it goes on with all other rows\n$/);
    expect(readResults(output).map(({ index }) => index)).toEqual([0, 1, 2, 3, 4]);
    expect(await runHere([...few, '--resume', '--sample', '20%', '--sample-seed', '7'])).toMatchObject({ code: 0 });
    expect(readResults(output).length).toBeGreaterThan(5);
    expect((await runHere([...few, '--resume'])).stderr).toMatch(/ from before/);
    const alone = path('alone.jsonl');
    expect(await runHere(withFlags([...few], '--output', alone))).toMatchObject({ code: 0 });
    expect(readResults(output)).toEqual(readResults(alone));
    expect(await runHere([...few, '--limit', '5', '--sample', '3'])).toMatchObject({
      code: 1,
      stderr: 'error: --sample: found 3 beside a limit of 5 rows, expected one of them\n',
    });
    expect((await runHere([...few, '--sample', 'many'])).stderr).toContain(
      'or a share of the rows above 0% and up to 100%',
    );
  });

  test('bad rows alone end with 4, more of them than --max-errors allows with 5', async () => {
    const { args } = flags([...rows(3), { id: 'bad', tokens: [1, 9999] }]);
    const few = [...args, '--max-new-tokens', '2'];
    expect((await runHere([...few, '--max-errors', '1'])).code).toBe(4);
    const { code, stderr } = await runHere([...few, '--overwrite', '--max-errors', '0']);
    expect(code).toBe(5);
    expect(stderr).toContain('more rows failed than --max-errors allows, so the run ended early');
  });

  test('a dry run says what a run would take, with its exit code, and writes nothing', async () => {
    const { input, output, args } = flags([...rows(3), { id: 'bad', tokens: [1, 9999] }]);
    const dry = [...args, '--dry-run', '--max-new-tokens', '4'];
    const { code, stdout, stderr } = await runHere(dry);
    expect({ code, stderr }).toEqual({ code: 4, stderr: '' });
    expect(stdout).toContain('rows          4, 1 of them errors\n');
    expect(stdout).toContain('prompts       9 tokens, median 3, longest 3 (row 0, id "row-0")\n');
    expect(stdout).toContain('answers have  at most 12 tokens\n');
    expect(stdout).toMatch(/token-out-of-range: 1 +row 3: /);
    expect(existsSync(output)).toBe(false);
    const report = path('dry.json');
    const stopped = await runHere([
      'generate',
      '--model',
      TINY_MODEL,
      '--input',
      input,
      '--dry-run',
      '--max-errors',
      '0',
      '--stats',
      report,
    ]);
    expect(stopped.code).toBe(5);
    expect(JSON.parse(readFileSync(report, 'utf8'))).toMatchObject({
      rows: 4,
      failed: { 'token-out-of-range': 1 },
      stopped: true,
    });
    const json = JSON.parse((await runHere([...dry, '--json'])).stdout) as object;
    expect(json).toMatchObject({
      rows: 4,
      bad: [{ id: 'bad', index: 3, code: 'token-out-of-range' }],
      promptTokens: { total: 9, median: 3, max: 3, estimated: false },
      plan: { origin: 'default' },
    });
    expect((await runHere([...args, '--json'])).stderr).toBe(
      'error: --json goes with --dry-run, whose report it prints; results are in --output\n',
    );
    expect(await runHere([...dry, '--shard', '0/2'])).toMatchObject({
      code: 1,
      stderr: 'error: --shard: found 0/2 beside --dry-run, which says what all rows would take\n',
    });
  });

  test('a run ends when its time is over, as with SIGTERM, and goes on later', async () => {
    const { output, args } = flags(rows(20_000));
    const slow = [
      ...args,
      '--max-new-tokens',
      '60',
      '--ignore-eos',
      '--batch-size',
      '2',
      '--batches',
      '1',
      '--share-prefixes',
      'off',
    ];
    const rowsDone = (): number => (existsSync(output) ? readResults(output).length : 0);
    /** Gives a run more and more time, as much as it takes on this machine to finish a row. */
    const stopped = async (flags: (seconds: number) => string[], words: RegExp): Promise<void> => {
      const before = rowsDone();
      for (let seconds = 2; rowsDone() === before; seconds *= 2) {
        const ended = await runCli([...slow, '--resume', ...flags(seconds)]);
        if (ended.stderr.includes('which is past')) continue;
        expect(ended).toMatchObject({ code: 143, stderr: expect.stringMatching(words) });
        if (rowsDone() > before) expect(ended.stderr).toMatch(/; go on with --resume\n$/);
      }
      expect(rowsDone()).toBeLessThan(20_000);
    };
    await stopped((seconds) => ['--max-seconds', String(seconds)], /^stopping: --max-seconds \d+ are over\n/m);
    await stopped(
      (seconds) => ['--stop-at', new Date(Date.now() + seconds * 1000).toISOString()],
      /^stopping: it is .*, as --stop-at says\n/m,
    );
    const past = await runCli([...slow, '--resume', '--stop-at', '2020-01-31T06:00']);
    expect(past.code).toBe(1);
    expect(past.stderr).toContain('which is past, expected a time to come');
    expect((await runCli([...slow, '--stop-at', '25:00'])).stderr).toContain('Expected HH:MM, or a date and time');
  });

  test('the policy that a run had is one for the next run, and for plan, which says what it does not know', async () => {
    const { output, args } = flags(
      rows(8).map((row) => ({ ...row, tokens: Array.from({ length: 40 }, (_, at) => 3 + at) })),
    );
    const [stats, again] = [path('had.json'), path('had-again.json')];
    const run = async (...more: string[]): Promise<RowResult[]> => {
      const all = [...args, '--max-new-tokens', '16', '--ignore-eos', '--logprobs', '0', '--overwrite', ...more];
      expect(await runHere(all)).toMatchObject({ code: 0 });
      return byIndex(readResults(output));
    };
    const policyOf = (file: string): unknown => (JSON.parse(readFileSync(file, 'utf8')) as { policy: unknown }).policy;
    const sparse = await run('--sparse-attention', '0.1', '--batch-size', '5', '--stats', stats);
    expect(await run('--policy', stats, '--stats', again)).toEqual(sparse);
    expect(policyOf(stats)).toMatchObject({ sparseAttention: 0.1, precision: 'default', batchSize: 5 });
    expect(policyOf(again)).toEqual(policyOf(stats));
    const dense = await run();
    expect(dense).not.toEqual(sparse);
    expect(await run('--policy', stats, '--sparse-attention', 'off')).toEqual(dense);
    const plan = [
      'plan',
      '--model',
      TINY_MODEL,
      '--hardware',
      'flexgen-t4',
      '--prompt-tokens',
      '40',
      '--max-new-tokens',
      '16',
      '--policy',
      stats,
    ];
    const { code, stdout, stderr } = await runHere([...plan, '--json']);
    expect({ code, policy: (JSON.parse(stdout) as { policy: unknown }).policy }).toEqual({
      code: 0,
      policy: policyOf(stats),
    });
    expect(stderr).not.toContain('no cost model');
    expect((await runCli([...plan, '--json', '--cost-model', 'flexgen'])).stderr).toContain(
      "warning: no cost model knows the policy's sparseAttention 0.1, and the figures are without",
    );
  });

  test('the same output whatever batch, schedule, threads or order', async () => {
    const lines = Array.from({ length: 24 }, (_, at) => ({
      tokens: Array.from({ length: 1 + (at % 9) * 3 }, (_, token) => 3 + ((at * 37 + token * 11) % 250)),
      maxNewTokens: 1 + (at % 5) * 4,
    }));
    const run = async (...more: string[]): Promise<RowResult[]> => {
      const { output, args } = flags(lines);
      expect(
        await runHere(withFlags([...args, '--temperature', '0.8', '--seed', '3', '--logprobs', '2'], ...more)),
      ).toMatchObject({
        code: 0,
      });
      return byIndex(readResults(output));
    };
    const expected = await run();
    expect(expected[0]?.logprobs?.[0]?.top).toHaveLength(2);
    expect(await run('--batch-size', '1')).toEqual(expected);
    expect(await run('--batch-size', '3', '--batches', '3', '--schedule', 'zigzag')).toEqual(expected);
    expect(await run('--schedule', 'row', '--batch-size', '5', '--threads', '1')).toEqual(expected);
    expect(await run('--order', 'completion', '--batch-size', '4')).toEqual(expected);
    const other = await run('--seed', '4');
    expect(other.map(({ tokens }) => tokens)).not.toEqual(expected.map(({ tokens }) => tokens));
  });

  test('a compressed cache and sparse attention change results, not their independence of the batch; statistics name them', async () => {
    const lines = Array.from({ length: 12 }, (_, at) => ({
      tokens: Array.from({ length: 20 + at * 3 }, (_, token) => 3 + ((at * 37 + token * 11) % 250)),
    }));
    const run = async (...more: string[]): Promise<RowResult[]> => {
      const { output, args } = flags(lines);
      expect(
        await runHere([
          ...args,
          '--max-new-tokens',
          '16',
          '--ignore-eos',
          '--logprobs',
          '0',
          '--stats',
          `${output}.stats`,
          '--overwrite',
          ...more,
        ]),
      ).toMatchObject({ code: 0 });
      const compressCache = more[0] === '--compress-cache' ? more[1] : 'none';
      const sparseAttention = more[0] === '--sparse-attention' && more[1] !== 'off' ? Number(more[1]) : 1;
      expect(JSON.parse(readFileSync(`${output}.stats`, 'utf8'))).toMatchObject({
        policy: { compressCache, sparseAttention },
      });
      return byIndex(readResults(output));
    };
    const plain = await run();
    for (const compression of [
      ['--compress-cache', '4bit'],
      ['--compress-cache', '8bit'],
      ['--sparse-attention', '0.1'],
    ]) {
      const together = await run(...compression);
      expect(await run(...compression, '--batch-size', '1', '--threads', '1')).toEqual(together);
      expect(together).not.toEqual(plain);
    }
    expect(await run('--sparse-attention', 'off')).toEqual(plain);
    expect(await run('--sparse-attention', '1')).toEqual(plain);
  });

  test('bad rows become rows with an error, the others are unaffected, and the exit code is 4', async () => {
    const lines = [
      { id: 'good', tokens: [1, 9] },
      'no json',
      '',
      '[]',
      { id: 'none' },
      { id: 'empty', tokens: [] },
      { id: 'range', tokens: [1, 256] },
      { id: 'negative', tokens: [-1] },
      { id: 'long', tokens: Array(200).fill(5) },
      { id: 'hot', tokens: [1], temperature: -1 },
      { id: 'type', tokens: [1], topP: 'x' },
      { id: 'good', tokens: [1, 9] },
      { id: 'text', prompt: 'no tokenizer' },
      { id: 'both', prompt: 'a', tokens: [1] },
      { tokens: [1, 9] },
    ];
    const { output, args } = flags(lines);
    const { code, stderr } = await runHere([...args, '--max-new-tokens', '4', '--ignore-eos']);
    expect(code).toBe(4);
    expect(stderr).toContain('14 rows (12 with an error)');
    const results = readResults(output);
    expect(results.map(({ id, error }) => [id, error?.code])).toEqual([
      ['good', undefined],
      [2, 'invalid-json'],
      [4, 'invalid-row'],
      ['none', 'no-prompt'],
      ['empty', 'empty-prompt'],
      ['range', 'token-out-of-range'],
      ['negative', 'token-out-of-range'],
      ['long', 'too-long'],
      ['hot', 'invalid-parameter'],
      ['type', 'invalid-row'],
      ['good', 'duplicate-id'],
      ['text', expect.any(String)],
      ['both', 'no-prompt'],
      [15, undefined],
    ]);
    expect(results.map(({ index }) => index)).toEqual(results.map((_, at) => at));
    for (const result of results.filter(({ error }) => error !== undefined)) {
      expect(result).toMatchObject({ text: '', tokens: [], finishReason: 'error', usage: { completionTokens: 0 } });
      expect(result.error?.message).not.toBe('');
    }
    expect(results[13]?.tokens).toEqual(results[0]?.tokens);
  });

  test('a row that asks for more than the context holds fills it, and ends', async () => {
    const { output, args } = flags([{ tokens: [1, 5, 7] }, { tokens: Array(127).fill(9) }]);
    expect(await runHere([...args, '--ignore-eos', '--max-new-tokens', '1000'])).toMatchObject({ code: 0 });
    // The last token is sampled from the last position and never computed itself.
    expect(
      readResults(output).map(({ finishReason, usage }) => [finishReason, usage.promptTokens + usage.completionTokens]),
    ).toEqual([
      ['length', 129],
      ['length', 129],
    ]);
  });

  test('prompts, messages, text input, carried fields, stop strings', async () => {
    const model = tinyModelWithTokenizer(path('tiny'));
    const chat = flags(
      [
        { id: 1, messages: [{ role: 'user', content: 'hi' }], source: 'a' },
        { id: 2, prompt: 'hi', source: { page: 2 } },
      ],
      model,
    );
    expect(await runHere([...chat.args, '--max-new-tokens', '3', '--carry-fields', '--ignore-eos'])).toMatchObject({
      code: 0,
    });
    expect(readResults(chat.output)).toMatchObject([
      { id: 1, row: { source: 'a' }, usage: { promptTokens: '<'.length + 'user:hi\n'.length } },
      { id: 2, row: { source: { page: 2 } }, usage: { promptTokens: 3 } },
    ]);
    names += 1;
    const [text, output] = [path(`in-${names}.txt`), path(`out-${names}.jsonl`)];
    writeFileSync(text, 'hi\r\n\n{"prompt":1}\n');
    const args = [
      'generate',
      '--model',
      model,
      '--input',
      text,
      '--output',
      output,
      '--input-format',
      'text',
      '--chat',
      'off',
      '--max-new-tokens',
      '12',
      '--ignore-eos',
    ];
    expect(await runHere(args)).toMatchObject({ code: 0 });
    const [first, second] = readResults(output);
    expect([first?.id, second?.id, second?.usage.promptTokens]).toEqual([1, 3, 13]);
    expect(first?.tokens.slice(0, 3)).toEqual(readResults(chat.output)[1]?.tokens);

    const whole = first?.text ?? '';
    const stop = whole.slice(3, 5);
    expect(stop).not.toBe('');
    expect(await runHere([...args, '--overwrite', '--stop', stop, '--stop', 'never in there'])).toMatchObject({
      code: 0,
    });
    expect(readResults(output)[0]).toMatchObject({ text: whole.slice(0, whole.indexOf(stop)), finishReason: 'stop' });
  });

  test('stdin to stdout, row by row: a result comes while the input is still open', async () => {
    const child = startCli([
      'generate',
      '--model',
      TINY_MODEL,
      '--input',
      '-',
      '--output',
      '-',
      '--max-new-tokens',
      '2',
      '--ignore-eos',
    ]);
    let seen = '';
    child.stdout?.on('data', (chunk: Buffer) => (seen += chunk.toString()));
    child.stdin?.write('{"tokens":[1,4]}\n');
    await until(() => seen.includes('\n') || child.exitCode !== null);
    expect(JSON.parse(seen)).toMatchObject({ id: 1, index: 0, finishReason: 'length' });
    child.stdin?.end('bad\n');
    expect(await resultOf(child)).toMatchObject({ code: 4 });
  });

  test('--stats and --trace', async () => {
    const { args } = flags(rows(10));
    const [stats, trace] = [path('stats.json'), path('trace.json')];
    expect(
      await runHere([...args, '--max-new-tokens', '5', '--ignore-eos', '--stats', stats, '--trace', trace]),
    ).toMatchObject({ code: 0 });
    const document = JSON.parse(readFileSync(stats, 'utf8')) as Record<string, unknown>;
    expect(document).toMatchObject({ rows: { done: 10, failed: 0 }, tokens: { prompt: 30, generated: 50 } });
    for (const key of [
      'model',
      'policy',
      'seconds',
      'tokensPerSecond',
      'bytes',
      'queues',
      'memory',
      'residentPeakBytes',
      'orchestration',
    ])
      expect(document).toHaveProperty(key);
    const events = JSON.parse(readFileSync(trace, 'utf8')) as { name: string; ph: string }[];
    expect(new Set(events.filter(({ ph }) => ph === 'X').map(({ name }) => name))).toContain('compute L0 embed');
  });

  test('--log-format json: all words are documents, progress and errors among them', async () => {
    const { args } = flags(rows(10));
    const run = [...args, '--max-new-tokens', '5', '--log-format', 'json'];
    const linesOf = (text: string): { readonly time: string; readonly level: string; readonly message: string }[] =>
      text
        .split('\n')
        .slice(0, -1)
        .map((line) => JSON.parse(line) as { time: string; level: string; message: string });
    const said = linesOf((await runCli([...run, '--progress', 'on'])).stderr);
    for (const { time, level } of said) expect([new Date(time).toISOString(), level]).toEqual([time, 'info']);
    expect(said).toContainEqual(
      expect.objectContaining({ progress: { of: 'rows', done: expect.any(Number), total: 10 } }),
    );
    const refused = await runCli(run);
    expect(refused.code).toBe(1);
    expect(linesOf(refused.stderr).at(-1)).toMatchObject({ level: 'error', message: expect.stringMatching(/exists/) });
  });

  test('--progress on without a terminal writes lines', async () => {
    const { args } = flags(rows(10));
    expect((await runHere([...args, '--max-new-tokens', '5', '--progress', 'on'])).stderr).toMatch(
      /^rows: \d+\/10, (\d+:\d+ left, )?\d+ tokens\/s/m,
    );
  });
});

describe('resume', () => {
  test('goes on after a cut at any place, ends byte for byte the same, and keeps error rows unless told otherwise', async () => {
    const { output, args } = flags([...rows(8), 'bad', { id: 'last', tokens: [1, 2, 3] }]);
    const run = [...args, '--max-new-tokens', '5'];
    expect(await runHere(run)).toMatchObject({ code: 4 });
    const whole = readFileSync(output);
    for (const cut of [
      0,
      1,
      whole.indexOf(0x0a),
      whole.indexOf(0x0a) + 1,
      Math.floor(whole.length / 2),
      whole.length - 1,
    ]) {
      truncateSync(output, cut);
      expect(await runHere([...run, '--resume'])).toMatchObject({ code: 4 });
      expect(readFileSync(output).equals(whole)).toBe(true);
    }
    const complete = await runHere([...run, '--resume']);
    expect(complete.stderr).toContain('0 rows, 10 from before (1 with an error)');
    expect(complete.code).toBe(4);
    expect(await runHere([...run, '--resume', '--retry-errors'])).toMatchObject({ code: 4 });
    expect(byIndex(readResults(output))).toEqual(
      whole
        .toString()
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as unknown),
    );
  });

  test('an existing output is refused, --overwrite begins anew', async () => {
    const { output, args: given } = flags(rows(3));
    const args = [...given, '--max-new-tokens', '5'];
    expect(await runHere(args)).toMatchObject({ code: 0 });
    const before = readFileSync(output);
    const refused = await runHere(args);
    expect(refused).toMatchObject({ code: 1 });
    expect(refused.stderr).toContain('--resume goes on with it, --overwrite begins anew');
    expect(readFileSync(output).equals(before)).toBe(true);
    expect(await runHere([...args, '--overwrite'])).toMatchObject({ code: 0 });
    expect(readFileSync(output).equals(before)).toBe(true);
  });

  test('another model, flag or input: exit 1, and the output is left as it is', async () => {
    const model = path('model.gguf');
    copyFileSync(TINY_MODEL, model);
    const { input, output, args } = flags(rows(4), model);
    expect(await runHere([...args, '--max-new-tokens', '5'])).toMatchObject({ code: 0 });
    truncateSync(output, readFileSync(output).indexOf(0x0a) + 9);
    const before = readFileSync(output);
    const refused = async (words: string, ...more: string[]): Promise<void> => {
      const { code, stderr } = await runHere([...args, '--resume', ...more]);
      expect({ code, stderr: stderr.includes(words) ? words : stderr }).toEqual({ code: 1, stderr: words });
      expect(readFileSync(output).equals(before)).toBe(true);
    };
    await refused('maxNewTokens (was 5, is 128)');
    await refused('temperature (was 0, is 1)', '--max-new-tokens', '5', '--temperature', '1');
    await refused('precision (was "default", is "float32")', '--max-new-tokens', '5', '--precision', 'float32');
    await refused('compressCache (was "none", is "4bit")', '--max-new-tokens', '5', '--compress-cache', '4bit');
    await refused('sparseAttention (was 1, is 0.1)', '--max-new-tokens', '5', '--sparse-attention', '0.1');
    const rowsBefore = readFileSync(input);
    writeLines(input, rows(5).slice(1));
    await refused('the input', '--max-new-tokens', '5');
    writeFileSync(input, rowsBefore);
    copyFileSync(TINY_MODEL.replace('Q8_0', 'F32'), model);
    await refused('the model (model.gguf)', '--max-new-tokens', '5');
    copyFileSync(TINY_MODEL, model);
    expect(
      await runHere([...args, '--resume', '--max-new-tokens', '5', '--order', 'completion', '--threads', '1']),
    ).toMatchObject({ code: 0 });
    expect(readResults(output)).toHaveLength(4);
  });

  test('kill -9 in mid-run, more than once, then to the end: each row once, with the answer it would have had', async () => {
    const lines = rows(3000);
    const reference = flags(lines);
    const more = ['--max-new-tokens', '60', '--ignore-eos'];
    expect(await runCli([...reference.args, ...more])).toMatchObject({ code: 0 });
    const { output, args } = flags(lines);
    const size = (): number => (existsSync(output) ? statSync(output).size : 0);
    let killed = 0;
    for (let kill = 0; kill < 5 && killed < tries(2, 5); kill += 1) {
      const before = size();
      const child = startCli([
        ...args,
        ...more,
        '--resume',
        '--batch-size',
        '8',
        '--order',
        kill % 2 === 0 ? 'completion' : 'input',
      ]);
      const ended = resultOf(child);
      await until(() => size() > before || child.exitCode !== null);
      await sleep(Math.random() * 30);
      child.kill('SIGKILL');
      const { code } = await ended;
      // One that is killed late may be through.
      expect([0, 137]).toContain(code);
      killed += code === 137 ? 1 : 0;
    }
    expect(killed).toBeGreaterThan(0);
    const last = await runCli([...args, ...more, '--resume']);
    expect(last.code).toBe(0);
    expect(last.stderr).toMatch(/^\d+ rows, \d+ from before/m);
    expect(byIndex(readResults(output))).toEqual(readResults(reference.output));
  });
});

describe('interrupted', () => {
  test.each([
    ['SIGHUP', 129],
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const)('%s: exit %d, what was finished is intact, and --resume goes on', async (signal, code) => {
    const { output, args } = flags(rows(4000));
    const more = ['--max-new-tokens', '60', '--ignore-eos'];
    const child = startCli([...args, ...more, '--batch-size', '8'], {}, dirname(output));
    const ended = resultOf(child);
    await until(() => (existsSync(output) && statSync(output).size > 0) || child.exitCode !== null);
    child.kill(signal);
    const result = await ended;
    expect(result).toMatchObject({ code });
    const done = readResults(output);
    expect(result.stderr).toMatch(
      new RegExp(
        `^stopping \\(again to stop at once\\)\n${done.length} of 4000 rows in ${basename(output)}; go on with --resume\n$`,
        'm',
      ),
    );
    expect(done.length).toBeGreaterThan(0);
    expect(done.length).toBeLessThan(4000);
    expect(existsSync(`${output}.lock`)).toBe(false);
    // What was finished is the same whatever the signal; by day it is gone on with after one of them.
    if (signal !== 'SIGTERM' && tries(0, 1) === 0) return;
    expect(await runCli([...args, ...more, '--resume'])).toMatchObject({ code: 0 });
    expect(readResults(output).map(({ index }) => index)).toEqual(Array.from({ length: 4000 }, (_, at) => at));
  });

  test('while it waits for rows on stdin', async () => {
    const child = startCli([
      'generate',
      '--model',
      TINY_MODEL,
      '--input',
      '-',
      '--output',
      path('waiting.jsonl'),
      '--max-new-tokens',
      '2',
    ]);
    child.stdin?.write('{"tokens":[1,4]}\n');
    await until(
      () => (existsSync(path('waiting.jsonl')) && statSync(path('waiting.jsonl')).size > 0) || child.exitCode !== null,
    );
    child.kill('SIGTERM');
    expect(await resultOf(child)).toMatchObject({ code: 143 });
    expect(readResults(path('waiting.jsonl'))).toHaveLength(1);
  });

  test('a reader that has seen enough ends the run without a word', async () => {
    const { input } = flags(rows(3000));
    const shell = spawn(
      'sh',
      [
        '-c',
        '"$0" "$@" | head -n 1',
        process.execPath,
        built('cli/main.js'),
        'generate',
        '--model',
        TINY_MODEL,
        '--input',
        input,
        '--output',
        '-',
        '--max-new-tokens',
        '30',
      ],
      { stdio: 'pipe' },
    );
    const { stdout, stderr } = await resultOf(shell);
    expect(stderr).toBe('');
    expect(stdout.split('\n')).toHaveLength(2);
  });
});

describe('files that cannot be used: exit 2, or 3 for memory', () => {
  test('a missing input, output folder, model', async () => {
    const { input, output } = flags(rows(1));
    const attempt = async (args: string[]): Promise<string> => {
      const { code, stdout, stderr } = await runCli(['generate', ...args]);
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
      expect(existsSync(output)).toBe(false);
      return stderr;
    };
    expect(await attempt(['--model', TINY_MODEL, '--input', path('none.jsonl'), '--output', output])).toContain(
      'none.jsonl: cannot be read: no such file',
    );
    expect(await attempt(['--model', TINY_MODEL, '--input', input, '--output', path('none/out.jsonl')])).toContain(
      'none',
    );
    expect(await attempt(['--model', path('none.gguf'), '--input', input, '--output', output])).toContain('none.gguf');
    expect(
      await attempt(['--model', TINY_MODEL, '--input', input, '--output', output, '--stats', path('none/stats.json')]),
    ).toContain('stats.json: cannot be written');
  });

  test('a truncated model names the file, and what was found and expected', async () => {
    const { input, output } = flags(rows(1));
    const model = path('cut.gguf');
    const bytes = readFileSync(TINY_MODEL);
    for (const size of [0, 3, 100, 1000, bytes.length - 1]) {
      writeFileSync(model, bytes.subarray(0, size));
      const { code, stderr } = await runHere(['generate', '--model', model, '--input', input, '--output', output]);
      expect(code).toBe(2);
      expect(stderr).toMatch(/cut\.gguf.*found.*expected/s);
      expect(stderr).not.toContain('should not');
    }
    expect(existsSync(output)).toBe(false);
  });

  test('a memory budget that is too small names one that works', async () => {
    const { output, args: given } = flags(rows(2));
    const args = [...given, '--max-new-tokens', '5'];
    const { code, stderr } = await runCli([...args, '--cpu-memory', '1MiB']);
    expect(code).toBe(3);
    expect(existsSync(output)).toBe(false);
    const needed = /--cpu-memory (\d+)/.exec(stderr)?.[1] ?? '';
    // Another process begins a little larger or smaller than this one.
    for (let start = 0; start < 3; start++)
      expect(await runCli([...args, '--overwrite', '--cpu-memory', needed])).toMatchObject({ code: 0 });
  });

  (existsSync('/dev/full') ? test : test.skip)('a full disk', async () => {
    const { input } = flags(rows(50));
    const full = await runCli([
      'generate',
      '--model',
      TINY_MODEL,
      '--input',
      input,
      '--output',
      '/dev/full',
      '--max-new-tokens',
      '2',
    ]);
    expect(full.code).toBe(2);
    expect(full.stderr).toContain('/dev/full: cannot be written: no space left on the device');
  });
});

describe('prompts for a chat model', () => {
  let model: Awaited<ReturnType<typeof tinyChatModel>>;
  beforeAll(async () => {
    model = await tinyChatModel();
  });
  afterAll(async () => {
    await model[Symbol.asyncDispose]();
  });
  const question = 'What is the capital of France?';
  const tokensOf = async (
    name: string,
    line: string,
    ...more: string[]
  ): Promise<{ promptTokens: number | undefined; stderr: string }> => {
    const [input, output] = [path(name), path(`${name}.out.jsonl`)];
    writeFileSync(input, `${line}\n`);
    const { code, stderr } = await runHere([
      'generate',
      '--model',
      model.path,
      '--input',
      input,
      '--output',
      output,
      '--overwrite',
      '--max-new-tokens',
      '2',
      '--policy',
      'default',
      ...more,
    ]);
    expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' });
    return { promptTokens: readResults(output)[0]?.usage.promptTokens, stderr };
  };

  test("a line of text is a message, a row's prompt is not, and --chat says otherwise", async () => {
    const row = JSON.stringify({ prompt: question });
    const raw = Buffer.byteLength(question);
    const text = await tokensOf('chat.txt', question);
    expect(text.promptTokens).toBeGreaterThan(raw);
    expect(text.stderr).not.toContain('hint: 1 prompts');
    expect((await tokensOf('chat.txt', question, '--chat', 'off')).promptTokens).toBe(raw);
    const rows = await tokensOf('chat.jsonl', row);
    expect(rows.promptTokens).toBe(raw);
    expect(rows.stderr).toContain('hint: 1 prompt went to a chat model as raw text; --chat on');
    const on = await tokensOf('chat.jsonl', row, '--chat', 'on');
    expect(on.promptTokens).toBe(text.promptTokens);
    expect(on.stderr).not.toContain('hint: 1 prompts');
  });
});

test('a finished job that is resumed keeps the statistics and the trace of the run that did it', async () => {
  const [input, output, stats, trace] = [
    path('again.jsonl'),
    path('again.out.jsonl'),
    path('again.stats.json'),
    path('again.trace.json'),
  ];
  writeLines(input, [{ tokens: [1, 5] }, { tokens: [1, 6] }]);
  const args = [
    'generate',
    '--model',
    TINY_MODEL,
    '--input',
    input,
    '--output',
    output,
    '--max-new-tokens',
    '2',
    '--stats',
    stats,
    '--trace',
    trace,
    '--resume',
  ];
  expect(await runHere(args)).toMatchObject({ code: 0 });
  const reports = [stats, trace].map((file) => readFileSync(file, 'utf8'));
  expect(JSON.parse(reports[0] ?? '')).toMatchObject({ rows: { done: 2 } });
  expect((JSON.parse(reports[1] ?? '') as unknown[]).length).toBeGreaterThan(2);
  expect(await runHere(args)).toMatchObject({ code: 0 });
  expect([stats, trace].map((file) => readFileSync(file, 'utf8'))).toEqual(reports);
});

test('a table that is taken for lines of JSON: the first errors, and what it may be', async () => {
  const { code, stderr } = await runCli(
    ['generate', '--model', TINY_MODEL, '--input', '-', '--output', '-', '--max-new-tokens', '2'],
    'id,question\n1,Why?\n2,How?\n3,When?\n',
  );
  expect(code).toBe(4);
  expect(stderr).toMatch(
    /^row 1: invalid-json: line 1: .*; it may be csv rather than jsonl: say so \(--input-format\)$/m,
  );
  expect(stderr).toContain('and 1 more with an error');
});
