import { mkdirSync, writeFileSync } from 'node:fs';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { readResults, temporaryFolder, writeLines } from '../jobs/support/files.js';
import { overwrittenModel } from '../support/model/overwrittenModel.js';
import { runCli, tinyModelWithTokenizer } from './support.js';

const path = temporaryFolder();
let model: string;
beforeAll(async () => {
  mkdirSync(path('odd'));
  // Each byte is a token of its own: that of "~" has an embedding that is not finite.
  model = await overwrittenModel(tinyModelWithTokenizer(path('sound')), path('odd'), [
    { role: 'token_embedding', row: '~'.charCodeAt(0) + 3, value: NaN },
  ]);
});

describe('logits that are not finite', () => {
  test('generate: exit 4, that row is an error row, the others are as without it', async () => {
    const run = async (name: string, prompts: readonly string[]): Promise<unknown[]> => {
      writeLines(
        path(`${name}.jsonl`),
        prompts.map((prompt) => ({ prompt })),
      );
      const { code, stderr } = await runCli([
        'generate',
        '--model',
        model,
        '--input',
        path(`${name}.jsonl`),
        '--output',
        path(`${name}.out`),
        '--max-new-tokens',
        '5',
        '--logprobs',
        '1',
      ]);
      expect({ code, stderr }).toEqual({
        code: prompts.some((prompt) => prompt.includes('~')) ? 4 : 0,
        stderr: expect.stringContaining(`${prompts.length} rows`),
      });
      return readResults(path(`${name}.out`));
    };
    const sound = await run('sound-rows', ['one', 'two', 'three']);
    const [first, odd, third] = await run('odd-rows', ['one', 'a ~ b', 'three']);
    expect([first, third]).toEqual([sound[0], sound[2]]);
    expect(odd).toEqual({
      id: 2,
      index: 1,
      text: '',
      tokens: [],
      finishReason: 'error',
      usage: { promptTokens: 0, completionTokens: 0 },
      error: {
        code: 'numeric',
        message: expect.stringMatching(
          /^the logits after position 5 are not finite, nor is the hidden state after layer 0: found .*, expected .*/,
        ),
      },
    });
  });

  test('perplexity: exit 2 and the position, nothing on standard output', async () => {
    writeFileSync(path('text.txt'), 'so far all is well, and then ~ comes');
    const { code, stdout, stderr } = await runCli([
      'perplexity',
      '--model',
      model,
      '--text',
      path('text.txt'),
      '--window',
      '16',
      '--json',
    ]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(/^error: the logits after position 29 are not finite: /m);
  });
});
