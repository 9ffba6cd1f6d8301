import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Engine } from '../../src/Engine.js';
import { UsageError } from '../../src/errors/UsageError.js';
import { runJob } from '../../src/jobs/runJob.js';
import type { GenerateOptions } from '../../src/Row.js';
import { TEMPLATES } from '../engine/tools/templates.js';
import { describeGrammars } from '../support/grammars.js';
import { tinyChatModel } from '../support/tinyChatModel.js';

const TOOLS = [
  {
    type: 'function',
    function: {
      name: 'pick',
      parameters: { type: 'object', properties: { n: { type: 'integer', minimum: 1, maximum: 9 } }, required: ['n'] },
    },
  },
];
const CALL = {
  id: expect.stringMatching(/^call_[0-9a-f]{24}$/) as unknown,
  type: 'function',
  function: { name: 'pick', arguments: expect.stringMatching(/^\{"n": ?[1-9]\}$/) as unknown },
};

describeGrammars('jobs whose rows call tools', () => {
  let model: Awaited<ReturnType<typeof tinyChatModel>>;
  let engine: Engine;
  let folder: string;

  beforeAll(async () => {
    model = await tinyChatModel({ template: TEMPLATES[0]?.template ?? '' });
    engine = await Engine.open({ model: model.path });
    folder = await mkdtemp(join(tmpdir(), 'spillway-calls-'));
  });
  afterAll(async () => {
    await engine.close();
    await model[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true });
  });

  const generate: GenerateOptions = {
    toolChoice: 'required',
    parallelToolCalls: false,
    temperature: 1,
    maxNewTokens: 200,
  };
  async function job(name: string, rows: readonly object[], options: GenerateOptions): Promise<string> {
    const input = join(folder, `${name}.in.jsonl`);
    const output = join(folder, name);
    await writeFile(input, rows.map((row) => JSON.stringify(row)).join('\n'));
    await runJob({ engine, input, output, generate: options, overwrite: true });
    return readFile(output, 'utf8');
  }
  const messages = [{ role: 'user', content: 'a' }];

  test('lines have them as results have', async () => {
    const text = await job('lines.jsonl', [{ messages }, { messages, tool_choice: 'none' }], {
      ...generate,
      tools: TOOLS,
    });
    const [called, none] = text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(called).toMatchObject({ text: '', toolCalls: [CALL], finishReason: 'tool_calls' });
    expect(none).not.toHaveProperty('toolCalls');
  });

  test('tables have a column for them where the job has tools, else the text says all', async () => {
    const column = await job('column.csv', [{ id: 'a', messages }], { ...generate, tools: TOOLS });
    const [header = '', row = ''] = column.split(/\r?\n/);
    expect(header.split(',')).toContain('tool_calls');
    expect(row).toContain('""name"":""pick""');
    const text = await job('text.csv', [{ id: 'a', messages, tools: TOOLS, toolChoice: 'required' }], {
      parallelToolCalls: false,
      temperature: 1,
    });
    const [names = '', only = ''] = text.split(/\r?\n/);
    expect(names.split(',')).not.toContain('tool_calls');
    expect(only).toContain('{""content"":null,""tool_calls"":[{""id"":');
  });

  test('what is no choice is refused before a file is opened', async () => {
    await expect(job('none.jsonl', [{ messages }], { ...generate, toolChoice: 'any' as 'auto' })).rejects.toThrow(
      UsageError,
    );
    await expect(
      job('none.jsonl', [{ messages }], {
        tools: TOOLS,
        toolChoice: { type: 'function', function: { name: 'other' } },
      }),
    ).rejects.toThrow('toolChoice: found "other", expected the name of one of the tools, pick');
  });
});
