import { randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, test } from '@jest/globals';
import { readResults, temporaryFolder, writeLines } from '../jobs/support/files.js';
import { resultOf, runCli, startCli, until } from './support.js';

const path = temporaryFolder();
/** Four layers. */
const MODEL = join(fileURLToPath(new URL('../fixtures/models/', import.meta.url)), 'gemma3-mixed.gguf');
const input = path('in.jsonl');
writeLines(
  input,
  Array.from({ length: 24 }, (_, at) => ({ tokens: [1, 5 + at, 9], maxNewTokens: 1 + (at % 6) })),
);
const key = path('ring.key');
writeFileSync(key, `${randomBytes(32).toString('hex')}\n`);

const started: ChildProcess[] = [];
afterEach(() => {
  for (const child of started.splice(0)) child.kill('SIGKILL');
});

/** An engine that follows, once it listens. */
async function follower(layers: string, ...more: string[]): Promise<{ child: ChildProcess; address: string }> {
  const child = startCli(['follow', '--model', MODEL, '--layers', layers, '--listen', '127.0.0.1:0', ...more]);
  started.push(child);
  let said = '';
  child.stdout?.on('data', (text: Buffer) => (said += text.toString()));
  await until(() => said.includes('\n') || child.exitCode !== null);
  const { address } = JSON.parse(said) as { address: string };
  return { child, address };
}

function generate(output: string, ...more: string[]): string[] {
  return ['generate', '--model', MODEL, '--input', input, '--output', path(output), '--ignore-eos', ...more];
}

test('two processes of layers give the output of one; stopped, they end well', async () => {
  expect(await runCli(generate('one.jsonl'))).toMatchObject({ code: 0 });
  const keyed = ['--shared-key-file', key];
  const followers = [await follower('1-2', ...keyed), await follower('3-3', ...keyed)];
  const peers = ['--peers', followers.map(({ address }) => address).join(','), ...keyed];
  expect(await runCli(generate('ring.jsonl', ...peers))).toMatchObject({ code: 0 });
  expect(readFileSync(path('ring.jsonl'))).toEqual(readFileSync(path('one.jsonl')));
  for (const { child } of followers) {
    const ended = resultOf(child);
    child.kill('SIGTERM');
    expect(await ended).toMatchObject({ code: 0 });
  }
});

test('prompts come in chunks as the first engine is told, and in no longer ones than the others take', async () => {
  expect(await runCli(generate('whole-prompts.jsonl'))).toMatchObject({ code: 0 });
  const { address } = await follower('2-3', '--batch-size', '2', '--tokens-per-square', '64');
  const told = (tokens: string): string[] => ['--peers', address, '--batch-size', '2', '--tokens-per-square', tokens];
  expect(await runCli(generate('chunks.jsonl', ...told('2')))).toMatchObject({ code: 0 });
  expect(readFileSync(path('chunks.jsonl'))).toEqual(readFileSync(path('whole-prompts.jsonl')));
  // A batch has no more rows than a square has tokens, whatever the follower's has.
  expect(await runCli(generate('ones.jsonl', '--peers', address, '--tokens-per-square', '1'))).toMatchObject({
    code: 0,
  });
  expect(readFileSync(path('ones.jsonl'))).toEqual(readFileSync(path('whole-prompts.jsonl')));
  const { code, stderr } = await runCli(generate('long.jsonl', ...told('128')));
  expect(code).not.toBe(0);
  expect(stderr).toMatch(/tokensPerSquare: found 128 .*, expected at most the 64/);
});

test('a follower that is killed ends the run with exit code 2; it goes on with another, and with none', async () => {
  expect(await runCli(generate('whole.jsonl'))).toMatchObject({ code: 0 });
  const dies = await follower('2-3');
  const slow = ['--batch-size', '1', '--batches', '1'];
  const running = startCli(generate('cut.jsonl', '--peers', dies.address, ...slow));
  started.push(running);
  const ended = resultOf(running);
  await until(() => running.exitCode !== null || linesOf('cut.jsonl') >= 3);
  dies.child.kill('SIGKILL');
  const { code, stderr } = await ended;
  // It may have been through.
  if (linesOf('cut.jsonl') < 24) {
    expect(code).toBe(2);
    expect(stderr).toMatch(/error: .*(closed|gone|failed)/);
    expect(stderr).toMatch(/^\d+ of 24 rows in .*cut\.jsonl; go on with --resume$/m);
  }
  const finished = readResults(path('cut.jsonl'));
  expect(finished).toEqual(readResults(path('whole.jsonl')).slice(0, finished.length));
  const other = await follower('1-3');
  const more = ['--resume', '--peers', other.address, ...slow];
  expect(await runCli(generate('cut.jsonl', ...more))).toMatchObject({ code: 0 });
  expect(await runCli(generate('cut.jsonl', '--resume'))).toMatchObject({ code: 0 });
  expect(readFileSync(path('cut.jsonl'))).toEqual(readFileSync(path('whole.jsonl')));
});

test('hidden states in bfloat16: all engines say so, and what was begun so is gone on with by engines cut alike', async () => {
  const rounding = ['--hidden-states', 'bfloat16'];
  const [half, quarter] = [await follower('2-3', ...rounding), await follower('1-3', ...rounding)];
  const over = ({ address }: { address: string }): string[] => ['--peers', address];
  expect(await runCli(generate('rounded.jsonl', ...over(half), ...rounding))).toMatchObject({ code: 0 });
  const whole = readFileSync(path('rounded.jsonl'));
  writeFileSync(path('rounded.jsonl'), whole.subarray(0, whole.indexOf('\n') + 1));
  const refused = await runCli(generate('x.jsonl', ...over(half)));
  expect(refused.code).not.toBe(0);
  expect(refused.stderr).toMatch(/hiddenStates: found .*bfloat16.*, expected .*float32/);
  for (const others of [[], [...over(quarter), ...rounding]]) {
    const { code, stderr } = await runCli(generate('rounded.jsonl', '--resume', ...others));
    expect(code).toBe(1);
    expect(stderr).toMatch(/differs .*hiddenStates \(was \{"sentAs":"bfloat16","before":\[2\]\}/);
  }
  expect(await runCli(generate('rounded.jsonl', '--resume', ...over(half), ...rounding))).toMatchObject({ code: 0 });
  expect(readFileSync(path('rounded.jsonl'))).toEqual(whole);
});

test('processes with a share of each layer: a run is gone on with by as many of them, and by no others', async () => {
  const shared = fileURLToPath(new URL('../fixtures/models/llama-Q8_0.gguf', import.meta.url));
  const child = startCli([
    ...['follow', '--model', shared, '--tensor-parallel', '1/2', '--listen', `unix:${path('share.sock')}`],
  ]);
  started.push(child);
  let said = '';
  child.stdout?.on('data', (text: Buffer) => (said += text.toString()));
  await until(() => said.includes('\n') || child.exitCode !== null);
  expect(JSON.parse(said)).toEqual({ address: `unix:${path('share.sock')}`, tensorParallel: { index: 1, of: 2 } });
  const over = ['--peers', `unix:${path('share.sock')}`];
  const run = (...more: string[]): ReturnType<typeof runCli> =>
    runCli([
      'generate',
      '--model',
      shared,
      '--input',
      input,
      '--output',
      path('shared.jsonl'),
      '--ignore-eos',
      ...more,
    ]);
  expect(await run(...over)).toMatchObject({ code: 0 });
  const whole = readFileSync(path('shared.jsonl'));
  expect(readResults(path('shared.jsonl'))).toHaveLength(24);
  writeFileSync(path('shared.jsonl'), whole.subarray(0, whole.indexOf('\n') + 1));
  const alone = await run('--resume');
  expect(alone.code).toBe(1);
  expect(alone.stderr).toMatch(/differs .*shares/);
  expect(await run('--resume', ...over)).toMatchObject({ code: 0 });
  expect(readFileSync(path('shared.jsonl'))).toEqual(whole);
  expect((await run('--resume', ...over, '--micro-batches', '2')).stderr).toMatch(/micro-?[bB]atches: found 2/);
});

test('a process that computes prompts: the output is that of one, and is gone on with by one', async () => {
  const whole = fileURLToPath(new URL('../fixtures/models/llama-Q8_0.gguf', import.meta.url));
  const child = startCli(['follow', '--model', whole, '--prompts', '--listen', `unix:${path('prompts.sock')}`]);
  started.push(child);
  let said = '';
  child.stdout?.on('data', (text: Buffer) => (said += text.toString()));
  await until(() => said.includes('\n') || child.exitCode !== null);
  const { address, prompts } = JSON.parse(said) as { address: string; prompts: boolean };
  expect(prompts).toBe(true);
  const run = (output: string, ...more: string[]): ReturnType<typeof runCli> =>
    runCli(['generate', '--model', whole, '--input', input, '--output', path(output), '--ignore-eos', ...more]);
  expect(await run('here.jsonl')).toMatchObject({ code: 0 });
  expect(await run('apart.jsonl', '--peers', address)).toMatchObject({ code: 0 });
  const expected = readFileSync(path('here.jsonl'));
  expect(readFileSync(path('apart.jsonl'))).toEqual(expected);
  writeFileSync(path('apart.jsonl'), expected.subarray(0, expected.indexOf('\n') + 1));
  expect(await run('apart.jsonl', '--resume')).toMatchObject({ code: 0 });
  expect(readFileSync(path('apart.jsonl'))).toEqual(expected);
  const two = await run('two.jsonl', '--peers', `${address},${address}`);
  expect(two.stderr).toMatch(/--peers: found 2, one of which computes prompts, expected that one alone/);
});

test('what cannot be right is refused before anything is written', async () => {
  const { address } = await follower('2-3');
  const outcomes = await Promise.all(
    [
      generate('x.jsonl', '--peers', 'nonsense'),
      generate('x.jsonl', '--peers', address, '--reuse', path('answers')),
      generate('x.jsonl', '--peers', `${address},${address}`),
      generate('x.jsonl', '--peers', address, '--tls-key', key),
      ['follow', '--model', MODEL, '--layers', '0-1', '--listen', '127.0.0.1:0'],
      ['follow', '--model', MODEL, '--layers', '2-1', '--listen', '127.0.0.1:0'],
      ['follow', '--model', MODEL, '--layers', '2-3', '--listen', '0.0.0.0:0'],
      ['follow', '--model', MODEL, '--listen', '127.0.0.1:0'],
      ['follow', '--model', MODEL, '--tensor-parallel', '0/2', '--listen', '127.0.0.1:0'],
      ['follow', '--model', MODEL, '--tensor-parallel', '1/2', '--layers', '2-3', '--listen', '127.0.0.1:0'],
      ['follow', '--model', MODEL, '--tensor-parallel', '1/3', '--listen', '127.0.0.1:0'],
      ['follow', '--model', MODEL, '--prompts', '--layers', '2-3', '--listen', '127.0.0.1:0'],
    ].map((args) => runCli(args)),
  );
  expect(outcomes.map(({ code, stdout }) => ({ code, stdout }))).toEqual(outcomes.map(() => ({ code: 1, stdout: '' })));
  for (const [index, words] of [
    /HOST:PORT/,
    /--reuse/,
    /expected layer 4 of 4/,
    /--tls-ca/,
    /first layers/,
    /A-B/,
    /expected 127.0.0.1/,
    /missing: --layers, --tensor-parallel or --prompts/,
    /K\/N or K\/N:rows, K from 1 to N - 1/,
    /--layers: found it beside --tensor-parallel/,
    /found 3, expected a number into which the model's 2 heads/,
    /--layers: found it beside --prompts/,
  ].entries())
    expect(outcomes[index]?.stderr).toMatch(words);
});

test('files of TLS that are none, or do not belong together, are named', async () => {
  const { address } = await follower('2-3');
  writeFileSync(path('none.pem'), 'no PEM');
  const none = path('none.pem');
  const tls = (key_: string, cert_: string, ca_: string): string[] =>
    generate('y.jsonl', '--peers', address, '--tls-key', key_, '--tls-cert', cert_, '--tls-ca', ca_);
  for (const args of [
    tls(none, none, none),
    [
      'follow',
      '--model',
      MODEL,
      '--layers',
      '2-3',
      '--listen',
      '127.0.0.1:0',
      '--tls-key',
      none,
      '--tls-cert',
      none,
      '--tls-ca',
      none,
    ],
  ]) {
    const { code, stderr } = await runCli(args);
    expect([code, stderr]).toEqual([2, expect.stringContaining(`${none}: found what cannot be read so`)]);
    expect(stderr).not.toContain('should not (please report it)');
  }
});

function linesOf(output: string): number {
  try {
    return readFileSync(path(output), 'utf8').split('\n').length - 1;
  } catch {
    return 0;
  }
}
