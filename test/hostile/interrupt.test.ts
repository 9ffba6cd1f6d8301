import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { resultOf, startCli, tinyModelWithTokenizer } from '../cli/support.js';
import { temporaryFolder } from '../jobs/support/files.js';

const path = temporaryFolder();
/** Against hanging for ever. */
const HANGS_MILLISECONDS = 570_000;

/** The tiny model with parts of its tokenizer replaced. */
function modelWith(name: string, parts: Readonly<Record<string, unknown>>): string {
  const model = tinyModelWithTokenizer(path(name));
  const file = join(model, 'tokenizer.json');
  const tokenizer = JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown>;
  writeFileSync(file, JSON.stringify({ ...tokenizer, ...parts }));
  return model;
}

/** Rows that a pattern of the model's works on for some tenths of a second each, and no end of them. */
function slowModel(): { model: string; text: string } {
  return {
    model: modelWith('model', { pre_tokenizer: { type: 'Split', pattern: { Regex: '(a+)+$' }, behavior: 'Isolated' } }),
    text: `${'a'.repeat(22)}b`,
  };
}

const replace = (content: string): Record<string, unknown> => ({ type: 'Replace', pattern: { String: 'a' }, content });
const times = (count: number, step: Record<string, unknown>): unknown[] => Array.from({ length: count }, () => step);

/** Sends the signal once the first answer is there, and says how the process ended. */
async function interrupted(args: readonly string[], input: string, signal: 'SIGINT' | 'SIGTERM'): Promise<number> {
  const child = startCli(args);
  const timer = setTimeout(() => child.kill('SIGKILL'), HANGS_MILLISECONDS);
  child.stdin?.on('error', () => undefined).write(input);
  if (child.stdout) await once(child.stdout, 'readable');
  child.kill(signal);
  const { code } = await resultOf(child);
  clearTimeout(timer);
  return code;
}

test.each([
  ['tokenize', 'SIGINT', 130],
  ['tokenize', 'SIGTERM', 143],
] as const)('%s: %s is heard between rows that each take their time', async (command, signal, code) => {
  const { model, text } = slowModel();
  // All of them in one piece of input: between them nothing waits for the disk or a pipe.
  expect(await interrupted([command, '--model', model], `${JSON.stringify({ text })}\n`.repeat(2000), signal)).toBe(
    code,
  );
});

test('generate: SIGINT is heard while rows are refused one after the other', async () => {
  const { model, text } = slowModel();
  const rows = `${JSON.stringify({ prompt: 'a', maxNewTokens: 1 })}\n${`${JSON.stringify({ prompt: `${text}${'é'.repeat(200)}` })}\n`.repeat(2000)}`;
  const args = [
    'generate',
    '--model',
    model,
    '--input',
    '-',
    '--output',
    '-',
    '--batch-size',
    '1',
    '--batches',
    '1',
    '--threads',
    '1',
    '--cpu-memory',
    '512MiB',
  ];
  expect(await interrupted(args, rows, 'SIGINT')).toBe(130);
});

test('tokenize: SIGINT is heard between ordinary rows that a normalizer of literal steps makes long', async () => {
  const model = modelWith('normalizer', {
    normalizer: { type: 'Sequence', normalizers: [replace('a'.repeat(64)), ...times(20, replace('a'))] },
  });
  const rows = `{"text":"b"}\n${`${JSON.stringify({ text: 'a'.repeat(65_000) })}\n`.repeat(100)}`;
  expect(await interrupted(['tokenize', '--model', model], rows, 'SIGINT')).toBe(130);
});

test('generate: SIGINT is heard while a decoder of literal steps makes answers long', async () => {
  const vocab = Object.fromEntries(Array.from({ length: 256 }, (_, id) => [`a${String(id).padStart(3, '0')}`, id]));
  const decoder = {
    type: 'Sequence',
    decoders: [...times(6, replace('aaaa')), ...times(57, replace('a')), replace('')],
  };
  const model = modelWith('decoder', {
    model: { type: 'BPE', vocab, merges: [] },
    added_tokens: [],
    post_processor: null,
    decoder,
  });
  const rows = `${JSON.stringify({ tokens: [5], maxNewTokens: 1 })}\n${`${JSON.stringify({ tokens: [5, 6, 7], maxNewTokens: 100 })}\n`.repeat(500)}`;
  const args = [
    'generate',
    '--model',
    model,
    '--input',
    '-',
    '--output',
    '-',
    '--batch-size',
    '1',
    '--batches',
    '1',
    '--threads',
    '1',
    '--cpu-memory',
    '512MiB',
    '--ignore-eos',
  ];
  expect(await interrupted(args, rows, 'SIGINT')).toBe(130);
});

test('tokenize: SIGINT ends the work on one row that takes long', async () => {
  const { model, text } = slowModel();
  const child = startCli(['tokenize', '--model', model]);
  const timer = setTimeout(() => child.kill('SIGKILL'), HANGS_MILLISECONDS);
  // The longer the row, the more time it has: this one would be worked on for a minute, and then be a second line.
  child.stdin
    ?.on('error', () => undefined)
    .write(`{"text":"b"}\n{"text":"${'a'.repeat(60)}${text}${'é'.repeat(2_500_000)}"}\n`);
  if (child.stdout) await once(child.stdout, 'readable');
  // As people do: one that comes while the row is still being read waits for it.
  const again = setInterval(() => child.kill('SIGINT'), 300);
  const { code, stdout } = await resultOf(child);
  clearTimeout(timer);
  clearInterval(again);
  expect({ code, rows: stdout.trim().split('\n').length }).toEqual({ code: 130, rows: 1 });
});

test.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)(
  'plan: %s ends a search, which keeps the event loop, at once',
  async (signal) => {
    const child = startCli([
      ...['plan', '--model', 'opt-175b', '--hardware', 'flexgen-t4', '--prompt-tokens', '512'],
      ...['--compress-weights', 'auto', '--compress-cache', 'auto', '--html', path('never.html')],
    ]);
    const ended = once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>;
    // Long after it has begun to search, and before it has searched all that the page shows.
    await sleep(3000);
    child.kill(signal);
    // On a machine that had not begun by then the command's own end.
    expect([
      [null, signal],
      [{ SIGHUP: 129, SIGINT: 130, SIGTERM: 143 }[signal], null],
    ]).toContainEqual(await ended);
    expect(existsSync(path('never.html'))).toBe(false);
  },
);
