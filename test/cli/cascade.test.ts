import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, test } from '@jest/globals';
import type { RowResult } from '../../src/Row.js';
import { readResults, temporaryFolder, writeLines } from '../jobs/support/files.js';
import { resultOf, runCli, startCli, tinyModelWithTokenizer, TINY_MODEL, until } from './support.js';

const path = temporaryFolder();
/** Of the same shape with other weights, and smaller: the model that begins. */
const SMALL = fileURLToPath(new URL('../fixtures/models/llama-Q2_K.gguf', import.meta.url));
const ROWS = 96;
const input = path('in.jsonl');
const generate = ['generate', '--input', input, '--max-new-tokens', '6', '--ignore-eos'];
/** Too little for both at once: they are opened in turn. */
const IN_TURN = ['--cpu-memory', '1GiB'];

function lines(file: string): number {
  return existsSync(file) ? readFileSync(file, 'utf8').split('\n').length - 1 : 0;
}

describe('a cascade on the command line', () => {
  let expected: readonly Partial<RowResult>[] = [];
  let line = '';

  beforeAll(async () => {
    writeLines(
      input,
      Array.from({ length: ROWS }, (_, at) => (at % 40 === 39 ? 'broken' : { tokens: [1, 3 + (at % 200), 7, at % 9] })),
    );
    const alone = async (model: string, name: string): Promise<RowResult[]> => {
      const output = path(name);
      const { code } = await runCli([...generate, '--model', model, '--confidence', 'on', '--output', output]);
      expect(code).toBe(4);
      return readResults(output);
    };
    const small = await alone(SMALL, 'small.jsonl');
    const large = await alone(TINY_MODEL, 'large.jsonl');
    // Half of the rows go on.
    const sorted = small.flatMap(({ confidence }) => (confidence === undefined ? [] : [confidence])).sort();
    line = String(sorted[ROWS / 2]);
    expected = small.map((result, at) => {
      if (result.error) return { ...result };
      const stands = (result.confidence ?? 0) >= Number(line);
      return { ...(stands ? result : large[at]), model: stands ? SMALL : TINY_MODEL };
    });
  });

  test.each([
    ['open together', []],
    ['opened in turn', IN_TURN],
  ])('models that are %s answer what each alone would, also where the run is killed', async (name, flags) => {
    const output = path(`${name}.jsonl`);
    const args = [...generate, '--cascade', `${SMALL}@${line},${TINY_MODEL}`, ...flags, '--output', output];
    for (const [kill, order] of [
      [1, 'completion'],
      [45, 'input'],
    ] as const) {
      const child = startCli([...args, '--resume', '--order', order]);
      const ended = resultOf(child);
      await until(() => lines(output) >= kill || child.exitCode !== null);
      child.kill('SIGKILL');
      await ended;
    }
    const { code, stderr } = await runCli([...args, '--resume', '--stats', path(`${name}.stats`)]);
    expect(code).toBe(4);
    expect(stderr).toMatch(/answers of .*Q2_K.gguf stand from [\d.]+ on, .*Q8_0.gguf answers all that come to it/);
    expect(readResults(output)).toEqual(expected);
    const other = args.map((arg) => (arg === `${SMALL}@${line},${TINY_MODEL}` ? `${SMALL}@0.999,${TINY_MODEL}` : arg));
    const refused = await runCli([...other, '--resume']);
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringMatching(/in cascade \(was \[\{"threshold":/) });
  });

  test('lines are learnt from drawn rows, once, and labels are compared with a column', async () => {
    const model = tinyModelWithTokenizer(path('tiny'));
    const other = path('other');
    tinyModelWithTokenizer(other);
    const table = path('in.csv');
    const words = Array.from({ length: 120 }, (_, at) => `text ${(at * 37) % 101}`);
    writeFileSync(table, `prompt,right\n${words.map((text, at) => `${text},${at % 2 ? 'a' : 'b'}\n`).join('')}`);
    const output = path('labels.csv');
    const args = [
      'classify',
      '--model',
      model,
      '--cascade',
      other,
      '--input',
      table,
      '--labels',
      'a,b',
      '--truth',
      'right',
    ];
    const target = ['--cascade-target', '90%', '--cascade-sample', '100', '--output', output];
    const first = await runCli([...args, ...target, '--limit', '50', '--stats', path('learn.stats')]);
    expect(first).toMatchObject({ code: 0 });
    // The same model twice: all agree, so all may stand.
    expect(first.stderr).toMatch(/all models answer 100 drawn rows/);
    expect(first.stderr).toMatch(/of 100 drawn rows 100 have an answer of .* that stands, 0 of them another/);
    const stats = JSON.parse(readFileSync(path('learn.stats'), 'utf8')) as {
      cascade: readonly { answered: number }[];
      truth: { rows: number; accuracy: number; confusion: object; calibration: object };
    };
    expect(stats.truth).toMatchObject({ rows: 50, accuracy: expect.any(Number), calibration: expect.any(Object) });
    expect(stats.cascade.reduce((sum, { answered }) => sum + answered, 0)).toBe(50);
    const rest = await runCli([...args, ...target, '--resume']);
    expect(rest).toMatchObject({ code: 0 });
    expect(rest.stderr).not.toMatch(/drawn rows/);
    const text = readFileSync(output, 'utf8').trim().split('\n');
    expect(text).toHaveLength(121);
    expect(text[0]).toMatch(/^prompt,right,label,probability,.*,model$/);
    expect(text.slice(1).every((row) => row.endsWith(model) || row.endsWith(other))).toBe(true);
    const changed = await runCli([...args, ...target, '--resume', '--cascade-seed', '1']);
    expect(changed.code).toBe(1);
  });

  test('what does not go together is refused before a model is read', async () => {
    const none = join(path('x'), 'none.gguf');
    const refused = await runCli(['generate', '--input', input, '--output', path('no'), '--cascade', `${none}@0.5`]);
    expect(refused).toMatchObject({ code: 1, stdout: '' });
    expect(refused.stderr).toMatch(/expected another model/);
  });
});
