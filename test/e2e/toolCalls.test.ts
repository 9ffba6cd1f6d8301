import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Ajv2020 } from 'ajv/dist/2020.js';
import fc from 'fast-check';
import { Readable } from 'node:stream';
import { Engine } from '../../src/Engine.js';
import { formIn } from '../../src/engine/tools/forms/index.js';
import { encodeResults, readRows } from '../../src/api/jobs.js';
import type { GenerateOptions, Row, RowDelta, RowResult } from '../../src/Row.js';
import { TEMPLATES } from '../engine/tools/templates.js';
import { describeGrammars } from '../support/grammars.js';
import { tinyChatModel } from '../support/tinyChatModel.js';
import { inTurn, tries } from '../support/tries.js';

const all = async <T>(rows: AsyncIterable<T>): Promise<T[]> => {
  const results: T[] = [];
  for await (const row of rows) results.push(row);
  return results;
};
const ajv = new Ajv2020({ strict: false, formats: { date: /^[0-9]{4}-[0-9]{2}-[0-9]{2}$/ } });

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

/** What satisfies it may begin as calls of some forms do. */
const PERSON = {
  type: 'object',
  properties: { name: { type: 'string', maxLength: 4 }, age: { type: 'integer', minimum: 0, maximum: 99 } },
  required: ['name', 'age'],
  additionalProperties: false,
};

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
  describe.each(TEMPLATES.map((each, nth) => ({ ...each, nth })))('$form', ({ form, template, control, nth }) => {
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

    test('texts that stand as they are keep to their patterns, formats and lengths', async () => {
      const parameters = {
        type: 'object',
        properties: {
          code: { type: 'string', pattern: '^[A-Z]{2}-[0-9]{3}$' },
          day: { type: 'string', format: 'date' },
          name: { type: 'string', minLength: 2, maxLength: 5 },
        },
        required: ['code', 'day', 'name'],
        additionalProperties: false,
      };
      const rows: Row[] = Array.from({ length: 4 }, (_, at) => ({
        messages: [{ role: 'user', content: `Which ${at}?` }],
        tools: [{ type: 'function', function: { name: 'get', parameters } }],
        temperature: 1,
        seed: at,
        maxNewTokens: 600,
      }));
      const options = { toolChoice: 'required', parallelToolCalls: false, reasoning: 'drop' } as const;
      for (const { error, toolCalls, usage } of await all(engine.generate(rows, options))) {
        // Reasoning may go on to the limit.
        if (error && usage.completionTokens === 600) continue;
        expect(error).toBeUndefined();
        expect(
          toolCalls?.map(({ function: called }) => ajv.validate(parameters, JSON.parse(called.arguments))),
        ).toEqual([true]);
      }
    });

    test.each([...inTurn(CHOICES, nth)])('%j: what is called is valid', async (options) => {
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

    const FORMATS = [
      { type: 'json_schema', schema: PERSON },
      { type: 'regex', regex: '(a/b|[c-f]{2})' },
      { type: 'choices', choices: ['yes', '{"name": "no"}', 'näher'] },
    ] as const;

    test('what calls nothing is held to the format beside the tools', async () => {
      const rows: Row[] = Array.from({ length: 12 }, (_, at) => ({
        id: at,
        messages: [{ role: 'user', content: `Who ${at}?` }],
        tools: TOOLS,
        responseFormat: FORMATS[at % FORMATS.length] ?? FORMATS[0],
        temperature: 1,
        seed: at,
        maxNewTokens: 600,
      }));
      const texts = new Map<unknown, string>();
      const onDelta = ({ id, text }: RowDelta): void => void texts.set(id, (texts.get(id) ?? '') + text);
      const results = await all(engine.generate(rows, { reasoning: 'drop', onDelta }));
      for (const [at, result] of results.entries()) {
        const { error, text, toolCalls, value, finishReason } = result;
        if (error && result.usage.completionTokens === 600) continue;
        expect(error).toBeUndefined();
        expect(texts.get(at) ?? '').toBe(text);
        if (toolCalls) {
          expectValid(result);
          expect([text, value, finishReason]).toEqual(['', undefined, 'tool_calls']);
        } else if (at % 3 === 0) {
          expect(JSON.parse(text)).toEqual(value);
          expect([text, ajv.validate(PERSON, value)]).toEqual([text, true]);
        } else {
          expect(value).toBe(text);
          expect(text).toMatch(at % 3 === 1 ? /^(a\/b|[c-f]{2})$/ : /^(yes|\{"name": "no"\}|näher)$/);
        }
      }
      expect(results.filter(({ error }) => error === undefined).length).toBeGreaterThan(2);
    });
  });
});

/** Schemas of values that a tiny random model comes to the end of. */
const { schema: DRAWN } = fc.letrec<{ schema: object }>((tie) => ({
  schema: fc.oneof(
    { depthSize: 'small' },
    fc.constant({ type: 'boolean' }),
    fc.record({ type: fc.constant('integer'), minimum: fc.nat(9), maximum: fc.integer({ min: 10, max: 999 }) }),
    fc.record({
      enum: fc.uniqueArray(fc.oneof(fc.string({ unit: 'grapheme', maxLength: 5 }), fc.nat(9), fc.constant(null)), {
        minLength: 1,
        maxLength: 4,
      }),
    }),
    fc.record({ type: fc.constant('string'), maxLength: fc.nat(6) }),
    fc.constant({ type: 'string', pattern: '^[a-z]{1,4}$' }),
    fc.record({ type: fc.constant('array'), items: tie('schema'), maxItems: fc.nat(2) }),
    fc.array(tie('schema'), { maxLength: 3 }).map((members) => ({
      type: 'object',
      properties: Object.fromEntries(members.map((member, at) => [`p${at}`, member])),
      required: members.flatMap((_, at) => (at % 2 === 0 ? [`p${at}`] : [])),
      additionalProperties: false,
    })),
  ),
}));
const DRAWN_TOOLS = fc.array(fc.array(DRAWN, { maxLength: 4 }), { minLength: 1, maxLength: 3 }).map((tools) =>
  tools.map((members, at) => ({
    type: 'function',
    function: {
      name: `tool_${at}`,
      parameters: {
        type: 'object',
        properties: Object.fromEntries(members.map((member, nth) => [`a${nth}`, member])),
        required: members.map((_, nth) => `a${nth}`),
      },
    },
  })),
);

describeGrammars('drawn tools', () => {
  const ROWS = tries(6, 25);
  test('numbers of parameters may be spelled in any way; choices that lose digits are refused', async () => {
    const { template = '' } = TEMPLATES[0] ?? {};
    await using model = await tinyChatModel({ template });
    const engine = await Engine.open({ model: model.path });
    const line = (n: string): string =>
      `{"messages":[{"role":"user","content":"a"}],"toolChoice":"required","parallelToolCalls":false,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"n":${n}},"required":["n"]}}}]}`;
    try {
      const lines = [line('{"type":"integer","minimum":1.0,"maximum":9e0}'), line('{"enum":[12345678901234567891]}')];
      const rows = readRows(Readable.from([lines.join('\n')]), { format: 'jsonl' });
      const [spelled, lost] = await all(engine.generate(rows, { temperature: 1 }));
      expect(spelled?.error).toBeUndefined();
      expect(JSON.parse(spelled?.toolCalls?.[0]?.function.arguments ?? '')).toEqual({ n: expect.any(Number) });
      expect(lost?.error?.code).toBe('unsupported-schema');
      expect(lost?.error?.message).toMatch(/^tools: found a choice/);
    } finally {
      await engine.close();
    }
  });

  test.each(['hermes', 'mistral', 'mistral-args', 'deepseek-v3.1', 'llama3', 'kimi-k2', 'gpt-oss', 'plain'])(
    '%s: calls of drawn rows are valid, however the rows stand together',
    async (name) => {
      const { template = '{% for message in messages %}{{ message.content }}{% endfor %}', control = [] } =
        TEMPLATES.find(({ form }) => form === name) ?? {};
      await using model = await tinyChatModel({ template, control });
      const engine = await Engine.open({ model: model.path });
      try {
        const rows: Row[] = fc.sample(DRAWN_TOOLS, { numRuns: ROWS, seed: 7 }).map((tools, at) => ({
          id: `row ${at}`,
          messages: [{ role: 'user', content: `${at}` }],
          tools,
          toolChoice: at % 2 === 0 ? 'required' : { type: 'function', function: { name: 'tool_0' } },
          parallelToolCalls: at % 3 === 0,
          temperature: 1,
          seed: at,
          maxNewTokens: 1500,
        }));
        const options = { reasoning: 'drop' } as const;
        const grown = new Map<unknown, { text: string; calls: { id?: string; name?: string; arguments: string }[] }>();
        const onDelta = ({ id, text, toolCalls = [] }: RowDelta): void => {
          const row = grown.get(id) ?? { text: '', calls: [] };
          grown.set(id, row);
          row.text += text;
          for (const { index, ...more } of toolCalls)
            row.calls[index] = {
              ...row.calls[index],
              ...more,
              arguments: (row.calls[index]?.arguments ?? '') + more.arguments,
            };
        };
        const results = await all(engine.generate(rows, { ...options, onDelta }));
        for (const { id, error, text, toolCalls = [] } of results)
          if (!error)
            expect(grown.get(id)).toEqual({
              text,
              calls: toolCalls.map((each) => ({ id: each.id, ...each.function })),
            });
        let called = 0;
        for (const [at, { error, toolCalls = [] }] of results.entries()) {
          if (error) expect([error.code, error.message]).toEqual(['schema', expect.stringContaining('cut off')]);
          for (const { function: call } of toolCalls) {
            const tools = (rows[at]?.tools ?? []) as { function: { name: string; parameters: object } }[];
            const schema = tools.find((tool) => tool.function.name === call.name)?.function.parameters ?? false;
            expect([call.arguments, ajv.validate(schema, JSON.parse(call.arguments))]).toEqual([call.arguments, true]);
            if (at % 2 === 1) expect(call.name).toBe('tool_0');
            called++;
          }
        }
        // What a random model thinks before may have no end.
        const least = ROWS * (name === 'gpt-oss' ? 0.6 : 0.88);
        expect(results.filter(({ error }) => error === undefined).length).toBeGreaterThanOrEqual(least);
        expect(called).toBeGreaterThanOrEqual(least);
        // Ids are the row's, whatever stands before it.
        const alone = await all(engine.generate(rows.slice(4, 6), options));
        expect(alone.map(({ toolCalls }) => toolCalls)).toEqual(results.slice(4, 6).map(({ toolCalls }) => toolCalls));
      } finally {
        await engine.close();
      }
    },
  );

  test('a control token begins a call where the model will, and no text goes with it', async () => {
    const { template = '', control = [] } = TEMPLATES.find(({ form }) => form === 'mistral-args') ?? {};
    await using model = await tinyChatModel({ template, control });
    const engine = await Engine.open({ model: model.path });
    try {
      const begins = engine.tokenizer.controlToken('[TOOL_CALLS]');
      const rows: Row[] = [0, 1, 2].map((at) => ({
        messages: [{ role: 'user', content: `${at}` }],
        tools: TOOLS,
        logitBias: { [`${begins}`]: 100 },
        parallelToolCalls: false,
        maxNewTokens: 400,
        temperature: 1,
        seed: at,
      }));
      for (const result of await all(engine.generate(rows))) {
        expect(result.error).toBeUndefined();
        expect(result.finishReason).toBe('tool_calls');
        expect(result.toolCalls).toHaveLength(1);
        expect(result.toolCalls?.[0]?.id).toMatch(/^[0-9a-f]{9}$/);
        expectValid(result);
      }
      // Cut off within the call it is an error, and never a text.
      const [cut] = await all(engine.generate(rows.slice(0, 1).map((row) => ({ ...row, maxNewTokens: 5 }))));
      expect(cut?.error).toEqual({ code: 'schema', message: expect.stringContaining('cut off') as unknown });
      expect(cut?.toolCalls).toBeUndefined();
    } finally {
      await engine.close();
    }
  });

  test('auto is refused with a template whose form of calls is not known, and says what is not', async () => {
    await using model = await tinyChatModel();
    const engine = await Engine.open({ model: model.path });
    try {
      const row = {
        messages: [{ role: 'user', content: 'a' }],
        tools: TOOLS,
        maxNewTokens: 600,
        temperature: 1,
        parallelToolCalls: false,
      } as const;
      const [auto, required, none] = await all(
        engine.generate([row, { ...row, toolChoice: 'required' }, { ...row, toolChoice: 'none', maxNewTokens: 3 }]),
      );
      expect(auto?.error?.code).toBe('invalid-parameter');
      expect(auto?.error?.message).toMatch(/^toolChoice: found "auto", .*hermes.*expected required/);
      if (required) expectValid(required);
      expect(required?.toolCalls?.length).toBeGreaterThan(0);
      // It has been told of them in words, for its template has none.
      expect(required?.usage.promptTokens).toBeGreaterThan((none?.usage.promptTokens ?? 0) + 200);
      expect(none?.error).toBeUndefined();
    } finally {
      await engine.close();
    }
  });

  test('batch files have calls as OpenAI has them', async () => {
    const { template = '', control = [] } = TEMPLATES.find(({ form }) => form === 'hermes') ?? {};
    await using model = await tinyChatModel({ template, control });
    const engine = await Engine.open({ model: model.path });
    try {
      const body = {
        model: 'm',
        messages: [
          { role: 'user', content: 'a' },
          {
            role: 'assistant',
            content: null,
            tool_calls: [
              { id: 'c', type: 'function', function: { name: 'get', arguments: '{"nested":{"kind":"x"}}' } },
            ],
          },
          { role: 'tool', tool_call_id: 'c', content: 'b' },
        ],
        tools: TOOLS,
        tool_choice: { type: 'function', function: { name: 'get' } },
        parallel_tool_calls: true,
        temperature: 1,
        max_tokens: 600,
      };
      const line = JSON.stringify({ custom_id: 'q', method: 'POST', url: '/v1/chat/completions', body });
      const rows = readRows(Readable.from([line]), { format: 'openai-batch', carryFields: true });
      const parts: Uint8Array[] = [];
      for await (const part of encodeResults(engine.generate(rows), { format: 'openai-batch' })) parts.push(part);
      const { response } = JSON.parse(Buffer.concat(parts).toString()) as {
        response: {
          status_code: number;
          body: { choices: { message: Record<string, unknown>; finish_reason: string }[] };
        };
      };
      expect(response.status_code).toBe(200);
      const [choice] = response.body.choices;
      expect(choice?.finish_reason).toBe('tool_calls');
      expect(choice?.message).toEqual({
        role: 'assistant',
        content: null,
        refusal: null,
        tool_calls: [
          {
            id: expect.stringMatching(/^call_[0-9a-f]{24}$/),
            type: 'function',
            function: { name: 'get', arguments: expect.any(String) },
          },
        ],
      });
    } finally {
      await engine.close();
    }
  });
});
