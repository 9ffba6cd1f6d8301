/* eslint-disable @typescript-eslint/no-deprecated -- `generateObject` and `streamObject` are what users have still */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import {
  generateObject,
  generateText,
  NoObjectGeneratedError,
  Output,
  stepCountIs,
  streamObject,
  streamText,
  tool,
} from 'ai';
import { z } from 'zod';
import {
  AISDKError,
  InvalidArgumentError,
  InvalidPromptError,
  type LanguageModelV4CallOptions,
  type LanguageModelV4StreamPart,
  NoSuchModelError,
  UnsupportedFunctionalityError,
} from '@ai-sdk/provider';
import { createSpillway, type SpillwayProvider } from '../../src/aiSdk/createSpillway.js';
import { Engine } from '../../src/Engine.js';
import { RowError } from '../../src/errors/RowError.js';
import { TEMPLATES } from '../engine/tools/templates.js';
import { testGrammars } from '../support/grammars.js';
import { tinyChatModel } from '../support/tinyChatModel.js';

let model: Awaited<ReturnType<typeof tinyChatModel>>;
let calling: Awaited<ReturnType<typeof tinyChatModel>>;
let provider: SpillwayProvider;
let opened = 0;

beforeAll(async () => {
  model = await tinyChatModel();
  const hermes = TEMPLATES.find(({ form }) => form === 'hermes');
  calling = await tinyChatModel(hermes && { template: hermes.template, control: hermes.control });
  provider = createSpillway({
    open: (path, signal) => {
      opened += 1;
      return Engine.open({ model: path, signal });
    },
  });
});

afterAll(async () => {
  await provider.close();
  await model[Symbol.asyncDispose]();
  await calling[Symbol.asyncDispose]();
});

const HELLO: LanguageModelV4CallOptions = { prompt: [{ role: 'user', content: [{ type: 'text', text: 'Hello' }] }] };

async function partsOf(options: LanguageModelV4CallOptions, path = model.path): Promise<LanguageModelV4StreamPart[]> {
  const { stream } = await provider(path).doStream(options);
  const parts: LanguageModelV4StreamPart[] = [];
  for await (const part of stream) parts.push(part);
  return parts;
}

test('an answer is the one that the engine gives, with what it took', async () => {
  const { text, usage, finishReason, finalStep } = await generateText({
    model: provider(model.path),
    instructions: 'Be brief.',
    prompt: 'Hello',
    maxOutputTokens: 12,
    temperature: 0.9,
    topP: 0.9,
    topK: 20,
    seed: 7,
  });
  await using engine = await Engine.open({ model: model.path });
  const messages = [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Hello' },
  ];
  const rows = [{ messages, maxNewTokens: 12, temperature: 0.9, topP: 0.9, topK: 20, seed: 7 }];
  for await (const own of engine.generate(rows)) {
    expect(text).toBe(own.text);
    expect(usage).toMatchObject({
      inputTokens: own.usage.promptTokens,
      outputTokens: own.usage.completionTokens,
      totalTokens: own.usage.promptTokens + own.usage.completionTokens,
    });
    expect(finishReason).toBe(own.finishReason);
  }
  expect(finalStep.response.modelId).toBe(model.path);
});

test('a stream has the same text in pieces, and ends as the answer does', async () => {
  const asked = { model: provider(model.path), prompt: 'Tell me', maxOutputTokens: 24 };
  const whole = await generateText(asked);
  const stream = streamText(asked);
  const pieces: string[] = [];
  for await (const piece of stream.textStream) pieces.push(piece);
  expect(pieces.join('')).toBe(whole.text);
  expect(pieces.length).toBeGreaterThan(1);
  expect(await stream.finishReason).toBe(whole.finishReason);
  expect((await stream.usage).outputTokens).toBe(whole.usage.outputTokens);
});

test('calls share one engine, and are answered together as alone', async () => {
  const ask = (at: number): Promise<string> =>
    generateText({ model: provider(model.path), prompt: `Number ${at}`, maxOutputTokens: 8 }).then(({ text }) => text);
  const together = await Promise.all(Array.from({ length: 12 }, (_, at) => ask(at)));
  for (const at of [0, 5, 11]) expect(await ask(at)).toBe(together[at]);
  expect(opened).toBe(1);
});

test('stop sequences and biases do what they do', async () => {
  const { text } = await generateText({ model: provider(model.path), prompt: 'Tell me', maxOutputTokens: 24 });
  const stop = text.slice(4, 6);
  const cut = await generateText({
    model: provider(model.path),
    prompt: 'Tell me',
    maxOutputTokens: 24,
    stopSequences: [stop],
    providerOptions: { spillway: { logprobs: 1 } },
  });
  expect(cut.text).toBe(text.slice(0, text.indexOf(stop)));
  expect(cut.finishReason).toBe('stop');
  expect((cut.finalStep.providerMetadata?.['spillway']?.['logprobs'] as unknown[]).length).toBe(cut.usage.outputTokens);
});

testGrammars('objects are what their schema says', async () => {
  const schema = z.object({ name: z.string().max(6), age: z.int().min(0).max(99) });
  const asked = { model: provider(model.path), prompt: 'A person', maxOutputTokens: 64 };
  const { object } = await generateObject({ ...asked, schema });
  expect(schema.parse(object)).toEqual(object);
  const { output } = await generateText({ ...asked, output: Output.object({ schema }) });
  expect(output).toEqual(object);
  const stream = streamObject({ ...asked, schema });
  let last: unknown;
  for await (const partial of stream.partialObjectStream) last = partial;
  expect(await stream.object).toEqual(object);
  expect(last).toEqual(object);
  const { output: chosen } = await generateText({ ...asked, output: Output.choice({ options: ['red', 'green'] }) });
  expect(['red', 'green']).toContain(chosen);
});

testGrammars('an object that is cut off is none, and says how far it came', async () => {
  const schema = z.object({ text: z.string() });
  const cut = generateObject({ model: provider(model.path), prompt: 'Write', schema, maxOutputTokens: 5 });
  const error: unknown = await cut.catch((thrown: unknown) => thrown);
  expect(NoObjectGeneratedError.isInstance(error)).toBe(true);
  expect((error as NoObjectGeneratedError).finishReason).toBe('length');
  expect((error as NoObjectGeneratedError).text).toMatch(/^\{"/);
});

testGrammars('tools are called with inputs of their schema, step by step', async () => {
  const inputs: unknown[] = [];
  const weather = tool({
    description: 'Tells the weather.',
    inputSchema: z.object({ city: z.enum(['Bern', 'Oslo']), days: z.int().min(1).max(3) }),
    execute: async (input) => {
      inputs.push(input);
      return { celsius: 20, ...input };
    },
  });
  const asked = {
    model: provider(calling.path),
    prompt: 'Weather?',
    tools: { weather },
    maxOutputTokens: 96,
    stopWhen: stepCountIs(3),
    prepareStep: ({ stepNumber }: { stepNumber: number }) => ({
      toolChoice: stepNumber < 2 ? ('required' as const) : ('none' as const),
    }),
    providerOptions: { spillway: { parallelToolCalls: false } },
  };
  const { steps } = await generateText(asked);
  expect(steps.map(({ finishReason }) => finishReason).slice(0, 2)).toEqual(['tool-calls', 'tool-calls']);
  expect(steps).toHaveLength(3);
  expect(inputs).toHaveLength(2);
  const stream = streamText(asked);
  const calls: unknown[] = [];
  const growing = new Map<string, string>();
  for await (const part of stream.stream) {
    if (part.type === 'tool-input-delta') growing.set(part.id, (growing.get(part.id) ?? '') + part.delta);
    if (part.type === 'tool-call') {
      calls.push(part.input);
      expect(JSON.parse(growing.get(part.toolCallId) ?? '')).toEqual(part.input);
    }
  }
  expect(calls).toEqual(inputs.slice(0, 2));
});

test('reasoning comes apart from the text', async () => {
  const thinking = new Map<string, string>();
  const engine = {
    generate: () => ({
      stats: Promise.resolve({ sharing: { promptTokensSaved: 3, rowsEqual: 0, rowsReused: 0 } }),
      async *events() {
        yield { type: 'delta', delta: { id: '0', index: 0, text: '', reasoning: 'Let me ', tokens: [1] } } as const;
        yield { type: 'delta', delta: { id: '0', index: 0, text: '', reasoning: 'see.', tokens: [2] } } as const;
        yield { type: 'delta', delta: { id: '0', index: 0, text: 'Yes', tokens: [3] } } as const;
        yield { type: 'result', result: RESULT } as const;
      },
      async *[Symbol.asyncIterator]() {
        yield RESULT;
      },
    }),
  };
  const RESULT = {
    id: '0',
    index: 0,
    text: 'Yes',
    reasoning: 'Let me see.',
    tokens: [1, 2, 3],
    finishReason: 'stop' as const,
    usage: { promptTokens: 9, completionTokens: 3 },
  };
  await using stub = createSpillway({ open: async () => engine });
  const { text, finalStep, usage } = await generateText({ model: stub('stub'), prompt: 'Hm', reasoning: 'low' });
  expect([text, finalStep.reasoningText]).toEqual(['Yes', 'Let me see.']);
  expect(usage.inputTokenDetails.cacheReadTokens).toBe(3);
  const { stream } = streamText({ model: stub('stub'), prompt: 'Hm' });
  for await (const part of stream)
    if (part.type === 'reasoning-delta' || part.type === 'text-delta')
      thinking.set(part.type, (thinking.get(part.type) ?? '') + part.text);
  expect(Object.fromEntries(thinking)).toEqual({ 'reasoning-delta': 'Let me see.', 'text-delta': 'Yes' });
});

test('what is aborted ends as fetch does, and its row with it', async () => {
  const own = new AbortController();
  const asked = { model: provider(model.path), prompt: 'Go on', maxOutputTokens: 1500 };
  const stream = streamText({
    ...asked,
    abortSignal: own.signal,
    providerOptions: { spillway: { logitBias: { 2: -100, 0: -100 } } },
  });
  const types: string[] = [];
  for await (const { type } of stream.stream) {
    types.push(type);
    if (type === 'text-delta') own.abort();
  }
  expect(types.at(-1)).toBe('abort');
  const late = generateText({ ...asked, abortSignal: AbortSignal.abort() });
  await expect(late).rejects.toMatchObject({ name: 'AbortError' });
  const { stream: cancelled } = await provider(model.path).doStream({ ...HELLO, maxOutputTokens: 1500 });
  const reader = cancelled.getReader();
  await reader.read();
  await reader.cancel();
  // The engine has nothing left to do: a call that comes now is answered at once.
  expect((await generateText({ ...asked, maxOutputTokens: 1 })).usage.outputTokens).toBe(1);
});

const part = (type: string, more: object = {}): LanguageModelV4CallOptions =>
  ({ prompt: [{ role: 'user', content: [{ type, ...more }] }] }) as unknown as LanguageModelV4CallOptions;

test.each<[string, LanguageModelV4CallOptions, (error: unknown) => boolean, RegExp]>([
  [
    'a picture',
    part('file', { mediaType: 'image/png', data: { type: 'data', data: 'aGk=' } }),
    UnsupportedFunctionalityError.isInstance,
    /prompt\[0\]\.content\[0\]: found a part "file" of "image\/png".*unsupported-content/,
  ],
  ['a custom part', part('custom', { kind: 'x.y' }), UnsupportedFunctionalityError.isInstance, /unsupported-content/],
  ['a part without text', part('text'), InvalidPromptError.isInstance, /content\[0\]\.text: found undefined/],
  [
    'no prompt',
    { prompt: 'hi' } as unknown as LanguageModelV4CallOptions,
    InvalidPromptError.isInstance,
    /expected an array of messages/,
  ],
  ['no messages', { prompt: [] }, InvalidPromptError.isInstance, /messages/],
  [
    'another role',
    { prompt: [{ role: 'robot', content: [] }] } as unknown as LanguageModelV4CallOptions,
    InvalidPromptError.isInstance,
    /role: found "robot"/,
  ],
  [
    'too long',
    { prompt: [{ role: 'user', content: [{ type: 'text', text: 'x'.repeat(5000) }] }] },
    InvalidPromptError.isInstance,
    /2048/,
  ],
  ['a temperature', { ...HELLO, temperature: -1 }, InvalidArgumentError.isInstance, /temperature: found -1/],
  ['no tokens', { ...HELLO, maxOutputTokens: 0 }, InvalidArgumentError.isInstance, /found 0/],
  ['a seed', { ...HELLO, seed: 0.5 }, InvalidArgumentError.isInstance, /seed: found 0.5/],
  ['a penalty', { ...HELLO, presencePenalty: 3 }, InvalidArgumentError.isInstance, /found 3/],
  [
    'another option',
    { ...HELLO, providerOptions: { spillway: { minp: 1 } } },
    InvalidArgumentError.isInstance,
    /did you mean minP/,
  ],
  ['an effort', { ...HELLO, reasoning: 'much' as 'low' }, InvalidArgumentError.isInstance, /found "much"/],
  [
    'a tool without a name',
    { ...HELLO, tools: [{ type: 'function', name: '', inputSchema: {} }] },
    InvalidArgumentError.isInstance,
    /name/,
  ],
  [
    'a choice of no tool',
    {
      ...HELLO,
      tools: [{ type: 'function', name: 'a', inputSchema: {} }],
      toolChoice: { type: 'tool', toolName: 'b' },
    },
    InvalidArgumentError.isInstance,
    /found "b"/,
  ],
  [
    'a schema',
    { ...HELLO, responseFormat: { type: 'json', schema: { type: 'nothing' as 'object' } } },
    UnsupportedFunctionalityError.isInstance,
    /nothing/,
  ],
])('%s is refused with an error of the AI SDK', async (_, options, is, message) => {
  const asked = provider(model.path);
  for (const call of [() => asked.doGenerate(options), () => asked.doStream(options)]) {
    const error: unknown = await Promise.resolve(call()).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    expect(is(error)).toBe(true);
    expect(AISDKError.isInstance(error)).toBe(true);
    expect((error as Error).message).toMatch(message);
  }
});

test('errors of rows are the causes of what is thrown', async () => {
  const error: unknown = await Promise.resolve(provider(model.path).doGenerate(part('image'))).catch(
    (thrown: unknown) => thrown,
  );
  expect((error as Error).cause).toBeInstanceOf(RowError);
  expect((error as { cause: RowError }).cause.rowCode).toBe('unsupported-content');
});

test('tools of providers and examples of inputs are left out with a warning', async () => {
  const { warnings } = await provider(model.path).doGenerate({
    ...HELLO,
    maxOutputTokens: 1,
    reasoning: 'max',
    tools: [{ type: 'provider', id: 'other.search', name: 'search', args: {} }],
  });
  expect(warnings.map(({ type }) => type)).toEqual(['unsupported', 'compatibility']);
});

test('results of tools are told in all their forms', async () => {
  const seen: unknown[] = [];
  const engine = {
    generate: (rows: unknown) => {
      seen.push(...(rows as Iterable<unknown>));
      throw new RowError('too-long', 'enough');
    },
  };
  await using stub = createSpillway({ open: async () => engine });
  const forms = [
    { type: 'text', value: 'a' },
    { type: 'json', value: { b: 1 } },
    { type: 'error-text', value: 'c' },
    { type: 'error-json', value: ['d'] },
    { type: 'execution-denied', reason: 'no' },
    { type: 'execution-denied' },
    {
      type: 'content',
      value: [
        { type: 'text', text: 'e' },
        { type: 'text', text: 'f' },
      ],
    },
  ] as const;
  const prompt: LanguageModelV4CallOptions['prompt'] = [
    { role: 'system', content: 's' },
    {
      role: 'assistant',
      content: [
        { type: 'reasoning', text: 'r' },
        { type: 'text', text: 't' },
        ...forms.map((_, at) => ({ type: 'tool-call' as const, toolCallId: `${at}`, toolName: 'f', input: { at } })),
      ],
    },
    {
      role: 'tool',
      content: forms.map((output, at) => ({
        type: 'tool-result' as const,
        toolCallId: `${at}`,
        toolName: 'f',
        output: structuredClone(output) as never,
      })),
    },
  ];
  await expect(stub('stub').doGenerate({ prompt })).rejects.toBeInstanceOf(InvalidPromptError);
  const [{ messages }] = seen as [{ messages: readonly Record<string, unknown>[] }];
  expect(messages[1]).toMatchObject({ role: 'assistant', content: 't', reasoning_content: 'r' });
  expect(messages[1]?.['tool_calls']).toHaveLength(forms.length);
  expect(messages.slice(2).map(({ content }) => content)).toEqual([
    'a',
    '{"b":1}',
    'c',
    '["d"]',
    'no',
    'Execution of the tool was denied.',
    'ef',
  ]);
  expect(messages[2]).toMatchObject({ role: 'tool', tool_call_id: '0', name: 'f' });
});

test('parts of a stream are begun, grown and ended, each in its turn', async () => {
  const parts = await partsOf({ ...HELLO, maxOutputTokens: 8, includeRawChunks: true });
  const types = parts.map(({ type }) => type).filter((type) => type !== 'raw' && type !== 'text-delta');
  expect(types).toEqual(['stream-start', 'response-metadata', 'text-start', 'text-end', 'finish']);
  expect(parts.some(({ type }) => type === 'raw')).toBe(true);
});

test('a model that is none is named', async () => {
  expect(() => provider('')).toThrow(NoSuchModelError);
  expect(() => provider(3 as unknown as string)).toThrow(/found 3/);
  expect(() => provider.imageModel('x')).toThrow(NoSuchModelError);
  await expect(generateText({ model: provider('smollm2-135'), prompt: 'x' })).rejects.toThrow(/did you mean smollm2/);
  expect(() => createSpillway({ engin: {} } as never)).toThrow(/did you mean engine/);
});

test('a provider that was closed opens its models anew', async () => {
  const path = model.path;
  let opens = 0;
  const other = createSpillway({
    open: (id, signal) => {
      opens += 1;
      return Engine.open({ model: id, signal });
    },
  });
  const ask = (): PromiseLike<unknown> => other(path).doGenerate({ ...HELLO, maxOutputTokens: 1 });
  await ask();
  await other.close();
  await other.close();
  await ask();
  await other[Symbol.asyncDispose]();
  expect(opens).toBe(2);
});
