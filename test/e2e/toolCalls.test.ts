import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { Engine } from '../../src/Engine.js';
import { formIn } from '../../src/engine/tools/forms/index.js';
import type { GenerateOptions, Row, RowResult } from '../../src/Row.js';
import { TEMPLATES } from '../engine/tools/templates.js';
import { describeGrammars } from '../support/grammars.js';
import { tinyChatModel } from '../support/tinyChatModel.js';

const all = async <T>(rows: AsyncIterable<T>): Promise<T[]> => {
  const results: T[] = [];
  for await (const row of rows) results.push(row);
  return results;
};
const ajv = new Ajv2020({ strict: false });

const TOOLS = [
  {
    name: 'get_weather',
    description: 'Of today.',
    parameters: {
      type: 'object',
      properties: {
        city: { type: 'string', enum: ['Köln', '東京', 'a "b"'] },
        days: { type: 'integer', minimum: 1, maximum: 9 },
        exact: { type: 'boolean' },
      },
      required: ['city', 'days'],
    },
  },
  {
    name: 'get',
    parameters: {
      type: 'object',
      properties: {
        unit: { enum: ['a', 5, null] },
        list: { type: 'array', items: { type: 'boolean' }, maxItems: 2 },
        nested: {
          type: 'object',
          properties: { flag: { type: 'boolean' }, kind: { enum: ['x', 'y'] } },
          required: ['kind'],
          additionalProperties: false,
        },
      },
      required: ['nested'],
    },
  },
  { name: 'math.now' },
].map((each) => ({ type: 'function', function: each }));

const CHOICES: readonly GenerateOptions[] = [
  { toolChoice: 'required', parallelToolCalls: false },
  { toolChoice: 'required' },
  { toolChoice: { type: 'function', function: { name: 'get' } } },
  { toolChoice: 'auto' },
];

function expectValid({ toolCalls = [] }: RowResult): void {
  for (const { id, type, function: called } of toolCalls) {
    const tool = TOOLS.find((each) => each.function.name === called.name);
    expect([typeof id, type, tool?.function.name]).toEqual(['string', 'function', called.name]);
    const schema = tool?.function.parameters ?? { type: 'object', additionalProperties: false };
    const value: unknown = JSON.parse(called.arguments);
    expect([called.arguments, ajv.validate(schema, value)]).toEqual([called.arguments, true]);
  }
  expect(new Set(toolCalls.map(({ id }) => id)).size).toBe(toolCalls.length);
}

describeGrammars('calls of tools', () => {
  describe.each(TEMPLATES)('$form', ({ form, template, control }) => {
    let model: Awaited<ReturnType<typeof tinyChatModel>>;
    let engine: Engine;

    beforeAll(async () => {
      model = await tinyChatModel({ template, control });
      engine = await Engine.open({ model: model.path });
    });
    afterAll(async () => {
      await engine.close();
      await model[Symbol.asyncDispose]();
    });

    test('is told by the template', () => {
      expect(formIn(template)?.name).toBe(form);
    });

    test.each(CHOICES)('%j: what is called is valid', async (options) => {
      const rows: Row[] = Array.from({ length: 6 }, (_, at) => ({
        id: `r${at}`,
        messages: [{ role: 'user', content: `What ${at}?` }],
        tools: TOOLS,
        temperature: 1,
        seed: at,
        maxNewTokens: 600,
      }));
      const results = await all(engine.generate(rows, { ...options, reasoning: 'drop' }));
      for (const result of results) {
        if (result.error && result.usage.completionTokens === 600) continue;
        expect(result.error).toBeUndefined();
        expectValid(result);
        if (options.toolChoice === 'auto') continue;
        expect(result.toolCalls?.length).toBeGreaterThan(0);
        if (result.finishReason !== 'length') expect(result.finishReason).toBe('tool_calls');
        expect(result.text).toBe('');
      }
      expect(results.filter(({ error }) => error === undefined).length).toBeGreaterThan(2);
    });
  });
});
