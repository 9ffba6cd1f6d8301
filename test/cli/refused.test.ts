import { writeFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { outcomeOf } from '../../src/cli/exitCodes.js';
import { createProgram, flagsOf } from '../../src/cli/program.js';
import { temporaryFolder, writeLines } from '../jobs/support/files.js';
import { TINY_MODEL } from './support.js';

const path = temporaryFolder();
const input = path('in.jsonl');
writeLines(input, [{ tokens: [1, 5] }]);

/** What a command, run in this process, is refused with. */
async function refused(...args: readonly string[]): Promise<{ readonly code: number; readonly words: string }> {
  const program = createProgram({
    signal: new AbortController().signal,
    exitCode: 0,
    endAfter: () => undefined,
    endingAtOnce: async (work) => work(),
    say: () => undefined,
    print: () => Promise.resolve(),
  });
  const error: unknown = await program.parseAsync([...args], { from: 'user' }).then(
    () => undefined,
    (failure: unknown) => failure,
  );
  const { exitCode, message = '' } = outcomeOf(error, 130, flagsOf(program));
  return { code: exitCode, words: message };
}

const generate = (...more: string[]): ReturnType<typeof refused> =>
  refused('generate', '--model', TINY_MODEL, '--input', input, '--output', path('out.jsonl'), ...more);

test.each([
  [['generate', '--columns', 'prompt=a', '--columns', 'id=b'], '--columns'],
  [['generate', '--result-columns', 'text=a', '--result-columns', 'id=b'], '--result-columns'],
  [['generate', '--stop', 'a', '--stop', 'b', '--seed', '1', '--seed', '1'], '--seed'],
  [['plan', '--hardware=this', '--hardware=this'], '--hardware'],
  [['job', 'collect', '--parts', 'a', '--parts', 'b', '--output', 'a', '--output', 'b'], '--output'],
])('%j: a flag with one value is given once', async (args, flag) => {
  expect(await refused(...args)).toEqual({
    code: 1,
    words: `error: ${flag}: found it several times, expected it once`,
  });
});

test('switches, and flags that gather values, may be given several times', async () => {
  expect((await refused('generate', '--stop', 'a', '--stop', 'b', '--resume', '--resume')).words).toContain(
    'missing: --model, --input, --output',
  );
});

test('what is of no use without what it goes with', async () => {
  expect((await generate('--delimiter', ';')).words).toBe(
    'error: --delimiter: found ";" beside files of jsonl, expected one of csv',
  );
  for (const flag of ['--connect-timeout', '--silence-timeout', '--stall-timeout'])
    expect((await generate(flag, '3')).words).toBe(
      `error: ${flag}: found 3 without --peers, expected engines to speak to`,
    );
  expect((await refused('job', 'status', '--job', 'a', '--queue', 'nats://127.0.0.1:9?replica=9')).words).toBe(
    'error: --queue: found the unknown parameter "replica" in the URL, expected replicas or none; a ? of a user or a password is written %3F',
  );
});

test('a file that cannot be read, by the flag that names it', async () => {
  const missing = 'cannot be read: no such file or folder (ENOENT)';
  expect(await generate('--prompt-template', '{subject}')).toEqual({
    code: 2,
    words: `error: {subject}: ${missing}; --prompt-template takes a file, or a text with {{field}}`,
  });
  expect((await generate('--peers', '127.0.0.1:9', '--shared-key-file', path('none'))).words).toBe(
    `error: ${path('none')}: ${missing}; --shared-key-file takes a file`,
  );
  writeFileSync(path('bytes'), Buffer.of(0xff));
  expect((await generate('--grammar', path('bytes'))).words).toContain(
    'found bytes that are no UTF-8, expected UTF-8 text; --grammar takes a file',
  );
});

test('what the library says of options whose flags are called otherwise', async () => {
  writeFileSync(path('key'), 'short');
  const key = ['--shared-key-file', path('key')];
  expect((await generate('--peers', '127.0.0.1:9', ...key)).words).toContain('error: --shared-key-file: found 5 bytes');
  const follow = ['follow', '--model', TINY_MODEL, '--layers', '1-1', '--listen'];
  expect((await refused(...follow, `unix:${path('nowhere')}/socket`)).words).toBe(
    `error: --listen: found no folder ${path('nowhere')} for unix:${path('nowhere')}/socket, expected one that is there`,
  );
  const plan = ['plan', '--model', TINY_MODEL, '--hardware', 'flexgen-t4'];
  expect((await refused(...plan, '--prompt-tokens', '120', '--max-new-tokens', '20')).words).toBe(
    "error: --prompt-tokens and --max-new-tokens: found 120 + 20, but the model's context is 128 tokens",
  );
});

test('a GPU that is not there', async () => {
  expect((await generate('--device', 'cuda')).words).toMatch(
    /^error: --device: found "cuda", but there is no GPU here .*: expected auto or cpu$/,
  );
});
