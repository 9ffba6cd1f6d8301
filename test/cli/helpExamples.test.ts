import { writeFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { temporaryFolder, writeLines } from '../jobs/support/files.js';
import { tinyChatModel } from '../support/tinyChatModel.js';
import { runHere } from './runHere.js';

const path = temporaryFolder();
let model: Awaited<ReturnType<typeof tinyChatModel>>;
beforeAll(async () => {
  model = await tinyChatModel();
  const tables = { 'tickets.csv': 'question', 'questions.csv': 'prompt', 'reviews.csv': 'text' };
  for (const [file, column] of Object.entries(tables)) writeFileSync(path(file), `id,${column}\n1,Why?\n2,It works.\n`);
  writeFileSync(path('questions.txt'), 'Does it work?\nWhy?\n');
});
afterAll(async () => {
  await model[Symbol.asyncDispose]();
});

/** Runs of the model that most people begin with, in the help of the program and of its commands. */
async function examplesOf(...command: readonly string[]): Promise<string[][]> {
  const { stdout } = await runHere([...command, '--help']);
  const [, examples = ''] = /\nExamples?:\n([^]*?)(?:\n\n|$)/.exec(stdout) ?? [];
  return examples
    .replace(/ \\\n/g, ' ')
    .split('\n')
    .map((line) => [...line.trim().matchAll(/'([^']*)'|\S+/g)].map(([word, quoted]) => quoted ?? word))
    .filter(
      (words) =>
        words.includes('smollm2-135m-instruct') && ['generate', 'classify', 'score', 'embed'].includes(words[1] ?? ''),
    )
    .map((words) => words.slice(1));
}

/** The same with the tiny model, files of this test, and few tokens. */
function runnable(words: readonly string[]): string[] {
  const place = (flag: string, word: string): string =>
    flag === '--model' ? model.path : ['--input', '--output'].includes(flag) ? path(word) : word;
  const args = words.map((word, at) => place(words[at - 1] ?? '', word));
  const few = args.includes('--max-new-tokens') || args[0] !== 'generate' ? [] : ['--max-new-tokens', '8'];
  return [...args, ...few, '--policy', 'default', '--overwrite'];
}

test.each([
  ['spillway', [], 1],
  ['generate', ['generate'], 2],
  ['classify', ['classify'], 1],
  ['job collect', ['job', 'collect'], 1],
] as const)('the examples in the help of %s run, and draw no hint that they are wrong', async (_, command, count) => {
  const examples = await examplesOf(...command);
  expect(examples.length).toBe(count);
  for (const words of examples) {
    const { code, stderr } = await runHere(runnable(words));
    expect({ words, code, stderr }).toEqual({ words, code: 0, stderr: expect.not.stringMatching(/hint|raw text/) });
  }
});

test('requests of /v1/completions to a chat model are raw text, and are not told that they should be messages', async () => {
  const body = { model: 'm', prompt: 'It was', max_tokens: 4 };
  writeLines(
    path('batch.jsonl'),
    ['a', 'b'].map((custom_id) => ({ custom_id, method: 'POST', url: '/v1/completions', body })),
  );
  const args = ['--model', model.path, '--input', path('batch.jsonl'), '--output', path('batch.out.jsonl')];
  const { code, stderr } = await runHere(['generate', ...args, '--policy', 'default']);
  expect({ code, stderr }).toEqual({ code: 0, stderr: expect.not.stringMatching(/hint|raw text/) });
});
