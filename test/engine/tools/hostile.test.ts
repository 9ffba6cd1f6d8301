import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Engine } from '../../../src/Engine.js';
import type { GenerateOptions, RowResult } from '../../../src/Row.js';
import { describeGrammars } from '../../support/grammars.js';
import { cpuSeconds } from '../../model/support/expectBounded.js';
import { tinyChatModel } from '../../support/tinyChatModel.js';
import { TEMPLATES } from './templates.js';

const MESSAGES = [{ role: 'user', content: 'a' }] as const;
const tool = (name: unknown, parameters?: unknown): unknown => ({ type: 'function', function: { name, parameters } });

describeGrammars('tools that mean no good', () => {
  let model: Awaited<ReturnType<typeof tinyChatModel>>;
  let engine: Engine;

  beforeAll(async () => {
    model = await tinyChatModel({ template: TEMPLATES[0]?.template ?? '' });
    engine = await Engine.open({ model: model.path });
  });
  afterAll(async () => {
    await engine.close();
    await model[Symbol.asyncDispose]();
  });

  async function answers(rows: readonly object[], options: GenerateOptions = {}): Promise<RowResult[]> {
    const results: RowResult[] = [];
    const whole = rows.map((row) => ({ messages: MESSAGES, maxNewTokens: 400, ...row }));
    for await (const result of engine.generate(whole, options)) results.push(result);
    return results;
  }

  test.each([
    [
      { tools: [tool('get</tool_call>')] },
      'tools[0].function.name: found "get</tool_call>", expected 1 to 128 letters',
    ],
    [{ tools: [tool('<|im_end|>')] }, 'tools[0].function.name: found "<|im_end|>"'],
    [{ tools: [tool('')] }, 'tools[0].function.name: found ""'],
    [{ tools: [tool(5)] }, 'tools[0].function.name: found 5'],
    [{ tools: [tool('a'), tool('a')] }, 'tools[1].function.name: found "a", expected a name that no other tool has'],
    [{ tools: [{ type: 'function' }] }, 'tools[0]: found'],
    [{ tools: [{ type: 'web_search' }] }, 'tools[0]: found'],
    [
      { tools: [tool('a', 'string')] },
      'tools[0].function.parameters: found "string", expected a JSON Schema of an object',
    ],
    [{ tools: [tool('a')], toolChoice: 'any' }, 'toolChoice: found "any", expected none, auto, required'],
    [
      { tools: [tool('a')], toolChoice: { type: 'function', function: { name: 'b' } } },
      'toolChoice: found "b", expected the name of one of the tools, a',
    ],
    [{ tools: [tool('a')], toolChoice: { type: 'custom' } }, 'toolChoice.type: found "custom"'],
    [{ tools: [tool('a')], parallelToolCalls: 1 }, 'parallelToolCalls: found 1, expected true or false'],
    [{ toolChoice: 'required' }, 'toolChoice: found "required", expected none or auto where there are no tools'],
    [
      { tools: [tool('a')], responseFormat: { type: 'grammar', grammar: 'start: "a"' } },
      'responseFormat: found a grammar beside tools',
    ],
    [{ tools: [tool('a')], minNewTokens: 3 }, 'minNewTokens: found it beside tools'],
    [{ tools: [tool('a')], messages: undefined, prompt: 'raw' }, 'tools: found them beside a prompt that is raw text'],
  ])('%j', async (row, message) => {
    const [bad, good] = await answers([row, { id: 'good', maxNewTokens: 3 }]);
    expect(bad?.error?.code).toBe('invalid-parameter');
    expect(bad?.error?.message).toContain(message);
    expect(good?.error).toBeUndefined();
  });

  test('parameters that arguments cannot be held to are refused with their tool and place', async () => {
    const parameters = { type: 'object', properties: { a: { $ref: 'https://elsewhere/x' } } };
    const [row] = await answers([{ tools: [tool('fine'), tool('odd', parameters)] }]);
    expect(row?.error?.code).toBe('unsupported-schema');
    expect(row?.error?.message).toMatch(/^tools\[1\]\.function\.parameters of odd: schema, at \/properties\/a/);
  });

  test('none: the model is not told of them', async () => {
    const [told, none, without] = await answers([
      { tools: [tool('a')], maxNewTokens: 1 },
      { tools: [tool('a')], toolChoice: 'none', maxNewTokens: 1 },
      { maxNewTokens: 1 },
    ]);
    expect(none?.usage).toEqual(without?.usage);
    expect(told?.usage.promptTokens).toBeGreaterThan(none?.usage.promptTokens ?? Infinity);
  });

  describe('bounds', () => {
    const properties = (count: number): object =>
      Object.fromEntries(Array.from({ length: count }, (_, at) => [`p${at}`, { enum: [at, at + 1] }]));

    test('a thousand tools, of which one is called', async () => {
      const tools = Array.from({ length: 1000 }, (_, at) =>
        tool(`tool_${at}`, { type: 'object', properties: { a: { enum: [at] } }, required: ['a'] }),
      );
      const begin = process.cpuUsage();
      const [row] = await answers([
        { messages: undefined, tokens: [5], tools, toolChoice: 'required', parallelToolCalls: false, temperature: 1 },
      ]);
      expect(row?.error).toBeUndefined();
      const [call] = row?.toolCalls ?? [];
      expect(JSON.parse(call?.function.arguments ?? '')).toEqual({ a: Number(call?.function.name.slice(5)) });
      expect(cpuSeconds(begin)).toBeLessThan(30);
    });

    test.each([
      ['more tools than there may be', Array.from({ length: 1025 }, (_, at) => tool(`t${at}`)), 'limit'],
      [
        'a thousand tools of a hundred properties',
        Array.from({ length: 1000 }, (_, at) => tool(`t${at}`, { type: 'object', properties: properties(100) })),
        'limit',
      ],
      [
        'parameters nested without end',
        [tool('a', JSON.parse(`${'{"properties":{"a":'.repeat(100)}{}${'}}'.repeat(100)}`))],
        'unsupported-schema',
      ],
    ] as const)('%s', async (_, tools, code) => {
      const begin = process.cpuUsage();
      const [row] = await answers([{ messages: undefined, tokens: [5], tools, toolChoice: 'required' }]);
      expect(row?.error?.code).toBe(code);
      expect(cpuSeconds(begin)).toBeLessThan(30);
    });
  });
});
