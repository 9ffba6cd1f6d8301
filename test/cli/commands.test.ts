import { truncateSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { temporaryFolder } from '../jobs/support/files.js';
import { runHere } from './runHere.js';
import { resultOf, runCli, startCli, tinyModelWithTokenizer, TINY_MODEL, until } from './support.js';

const path = temporaryFolder();
const model = tinyModelWithTokenizer(path('tiny'));
const lines = (stdout: string): unknown[] =>
  stdout
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as unknown);
const bytes = (text: string): number[] => [...Buffer.from(text)].map((byte) => byte + 3);

describe('tokenize', () => {
  test('rows in, rows out; ids default to line numbers; special tokens as asked', async () => {
    const input = '{"id":"a","text":"hé"}\n\n{"text":"x</s>y"}\r\n{"id":7,"text":""}';
    const plain = await runCli(['tokenize', '--model', model], input);
    expect(plain).toMatchObject({ code: 0, stderr: '' });
    expect(lines(plain.stdout)).toEqual([
      { id: 'a', tokens: [1, ...bytes('hé')] },
      { id: 3, tokens: [1, ...bytes('x'), 2, ...bytes('y')] },
      { id: 7, tokens: [1] },
    ]);
    const escaped = await runCli(
      ['tokenize', '--model', model, '--no-special-tokens', '--escape-special-tokens'],
      input,
    );
    expect(lines(escaped.stdout)).toEqual([
      { id: 'a', tokens: bytes('hé') },
      { id: 3, tokens: bytes('x</s>y') },
      { id: 7, tokens: [] },
    ]);
  });

  test('a bad line becomes an error of its own, and the exit code is 4', async () => {
    const { code, stdout } = await runCli(
      ['tokenize', '--model', model],
      'no\n{"id":"a"}\n{"id":"b","text":3}\n[]\n{"id":{},"text":"x"}\n{"text":"ok"}\n',
    );
    expect(code).toBe(4);
    expect(lines(stdout)).toMatchObject([
      { id: 1, error: { code: 'invalid-json' } },
      { id: 'a', error: { code: 'invalid-row' } },
      { id: 'b', error: { code: 'invalid-row' } },
      { id: 4, error: { code: 'invalid-row' } },
      { id: 5, error: { code: 'invalid-row' } },
      { id: 6, tokens: [1, ...bytes('ok')] },
    ]);
  });

  test('streams: a line is answered while stdin is open, and SIGINT ends the wait', async () => {
    const child = startCli(['tokenize', '--model', model]);
    let seen = '';
    child.stdout?.on('data', (chunk: Buffer) => (seen += chunk.toString()));
    child.stdin?.write('{"text":"a"}\n');
    await until(() => seen.includes('\n') || child.exitCode !== null);
    expect(JSON.parse(seen)).toEqual({ id: 1, tokens: [1, ...bytes('a')] });
    child.kill('SIGINT');
    expect(await resultOf(child)).toMatchObject({ code: 130 });
  });

  test('a model without a tokenizer is told so', async () => {
    const { code, stderr } = await runCli(['tokenize', '--model', TINY_MODEL], '{"text":"a"}\n');
    expect(code).toBe(2);
    expect(stderr).toContain('tokenizer');
  });
});

describe('perplexity', () => {
  const text = path('text.txt');
  writeFileSync(text, 'The quick brown fox jumps over the lazy dog, \u00e9 and all.\n'.repeat(5));
  const count = Buffer.byteLength('The quick brown fox jumps over the lazy dog, \u00e9 and all.\n'.repeat(5));

  test('scores all but the first token of each window', async () => {
    for (const window of [2, 7, 64, 128]) {
      const { code, stdout } = await runHere([
        'perplexity',
        '--model',
        model,
        '--text',
        text,
        '--window',
        String(window),
        '--json',
        '--precision',
        'float32',
      ]);
      expect(code).toBe(0);
      const result = JSON.parse(stdout) as { tokens: number; negativeLogLikelihood: number; perplexity: number };
      expect(Object.keys(result)).toEqual(['tokens', 'negativeLogLikelihood', 'perplexity']);
      expect(result.tokens).toBe(count - Math.ceil(count / window));
      expect(result.perplexity).toBeCloseTo(Math.exp(result.negativeLogLikelihood / result.tokens), 9);
    }
  });

  test('--prompt-tokens: the first tokens of each window are given, not scored', async () => {
    const score = async (...more: string[]): Promise<{ tokens: number; negativeLogLikelihood: number }> => {
      const { code, stdout } = await runHere([
        'perplexity',
        '--model',
        model,
        '--text',
        text,
        '--window',
        '64',
        '--json',
        ...more,
      ]);
      expect(code).toBe(0);
      return JSON.parse(stdout) as { tokens: number; negativeLogLikelihood: number };
    };
    const all = await score();
    expect(await score('--prompt-tokens', '1')).toEqual(all);
    const some = await score('--prompt-tokens', '40');
    expect(some.tokens).toBe(Math.floor(count / 64) * 24 + Math.max(0, (count % 64) - 40));
    expect(some.negativeLogLikelihood).toBeLessThan(all.negativeLogLikelihood);
    expect(await score('--prompt-tokens', '40', '--sparse-attention', '0.1')).not.toEqual(some);
    for (const wrong of ['0', '64', '1.5']) {
      const { code, stderr } = await runHere([
        'perplexity',
        '--model',
        model,
        '--text',
        text,
        '--window',
        '64',
        '--prompt-tokens',
        wrong,
      ]);
      expect([code, stderr]).toEqual([1, expect.stringContaining('--prompt-tokens')]);
    }
  });

  test('words without --json', async () => {
    const { stdout } = await runHere(['perplexity', '--model', model, '--text', text, '--window', '32']);
    expect(stdout).toMatch(/^perplexity [\d.]+ over \d+ tokens/);
  });

  test('what cannot be scored', async () => {
    const attempt = async (file: string, window: string): Promise<[number, string]> => {
      const { code, stderr } = await runHere([
        'perplexity',
        '--model',
        model,
        '--text',
        file,
        '--window',
        window,
        '--json',
      ]);
      return [code, stderr];
    };
    writeFileSync(path('empty.txt'), '');
    writeFileSync(path('latin1.txt'), Buffer.from([0x61, 0xe9, 0x62]));
    expect(await attempt(path('empty.txt'), '8')).toEqual([
      2,
      expect.stringContaining('found 0 tokens, expected at least 2'),
    ]);
    expect(await attempt(path('latin1.txt'), '8')).toEqual([2, expect.stringContaining('no UTF-8')]);
    writeFileSync(path('large.txt'), '');
    truncateSync(path('large.txt'), 2 ** 30);
    expect(await attempt(path('large.txt'), '8')).toEqual([
      2,
      expect.stringContaining('large.txt: found more than 67108864 bytes, expected at most'),
    ]);
    expect(await attempt('/dev/zero', '8')).toEqual([
      2,
      expect.stringContaining('/dev/zero: found more than 67108864 bytes'),
    ]);
    expect(await attempt(path('none.txt'), '8')).toEqual([2, expect.stringContaining('none.txt: cannot be read')]);
    expect(await attempt(text, '1')).toEqual([1, expect.stringContaining('at least 2')]);
    expect(await attempt(text, '129')).toEqual([1, expect.stringContaining('from 2 to 128')]);
  });
});

describe('inspect', () => {
  test('--json: architecture, sizes, tokenizer, tensors', async () => {
    const { code, stdout } = await runHere(['inspect', '--model', model, '--json']);
    expect(code).toBe(0);
    const facts = JSON.parse(stdout) as {
      tensors: { name: string; type: string; shape: number[]; bytes: number }[];
      sizes: { parameters: number; weightBytes: number };
    };
    expect(facts).toMatchObject({
      format: 'safetensors',
      architecture: 'llama',
      sizes: {
        layers: 2,
        hiddenSize: 64,
        heads: 4,
        kvHeads: 2,
        headDim: 16,
        feedForwardSize: 96,
        vocabularySize: 256,
        contextTokens: 128,
      },
      tokenizer: { kind: 'tokenizer.json', beginToken: 1, endTokens: [2], hasChatTemplate: true },
    });
    expect(facts.tensors.find(({ name }) => name === 'model.embed_tokens.weight')).toMatchObject({ shape: [256, 64] });
    expect(facts.sizes.weightBytes).toBe(facts.tensors.reduce((sum, { bytes: size }) => sum + size, 0));
    expect(facts.sizes.parameters).toBe(
      facts.tensors.reduce((sum, { shape }) => sum + shape.reduce((product, extent) => product * extent, 1), 0),
    );
    expect(JSON.parse((await runHere(['inspect', '--model', TINY_MODEL, '--json'])).stdout)).toMatchObject({
      format: 'gguf',
      tokenizer: { kind: 'none' },
    });
  });

  test('tables for people', async () => {
    const { code, stdout } = await runHere(['inspect', '--model', TINY_MODEL]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^architecture +llama$/m);
    expect(stdout).toMatch(/^blk\.0\.attn_q\.weight +Q8_0 +64 x 64 +\S+ \S+$/m);
  });

  test('an empty name, as of a variable that is not set, is refused in words', async () => {
    const { code, stderr } = await runHere(['inspect', '']);
    expect([code, stderr]).toEqual([1, 'error: inspect: found an empty name, expected that of a model\n']);
  });

  test('a folder without a model is refused', async () => {
    const { code, stderr } = await runHere(['inspect', '--model', path('.')]);
    expect(code).toBe(2);
    expect(stderr).toContain('config.json');
  });
});

test('pull --list', async () => {
  const { code, stdout } = await runHere(['pull', '--list']);
  expect(code).toBe(0);
  expect(stdout).toMatch(/^smollm2-135m-instruct +[\d.]+ MiB +Apache-2.0/m);
});
