import { afterAll, beforeAll, expect, test } from '@jest/globals';
import OpenAI, { toFile } from 'openai';
import { zodFunction, zodResponseFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import { Engine } from '../../src/Engine.js';
import { serve, type SpillwayServer } from '../../src/serve/serve.js';
import { TEMPLATES } from '../engine/tools/templates.js';
import { tinyChatModel } from '../support/tinyChatModel.js';
import { temporaryFolder } from '../jobs/support/files.js';

// The package `openai` as people use it, over a tiny model whose words mean nothing.
const MODEL = 'tiny';
const path = temporaryFolder();
let server: SpillwayServer;
let client: OpenAI;
let model: Awaited<ReturnType<typeof tinyChatModel>>;

beforeAll(async () => {
  const [{ template, control } = { template: '', control: [] }] = TEMPLATES;
  model = await tinyChatModel({ template, control });
  server = await serve({
    models: [{ name: MODEL, open: () => Engine.open({ model: model.path, policy: 'default', threads: 1 }) }],
    port: 0,
    data: path('data'),
    apiKey: 'a-key-of-16-bytes',
    generate: { maxNewTokens: 64 },
  });
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'a-key-of-16-bytes', maxRetries: 0 });
});

afterAll(async () => {
  await server.close();
  await model[Symbol.asyncDispose]();
});

const messages = [{ role: 'user' as const, content: 'Hello' }];

test('chats: whole, streamed, several, with log-probabilities', async () => {
  const whole = await client.chat.completions.create({ model: MODEL, messages, max_completion_tokens: 12 });
  const [choice] = whole.choices;
  expect(choice?.finish_reason).toBe('length');
  expect(whole.usage?.completion_tokens).toBe(12);
  const stream = client.chat.completions.stream({
    model: MODEL,
    messages,
    max_completion_tokens: 12,
    stream_options: { include_usage: true },
  });
  const final = await stream.finalChatCompletion();
  expect(final.choices[0]?.message.content).toBe(choice?.message.content);
  expect(final.usage).toMatchObject({ completion_tokens: 12, total_tokens: whole.usage?.total_tokens });
  const several = await client.chat.completions.create({
    model: MODEL,
    messages,
    max_completion_tokens: 4,
    n: 3,
    temperature: 1,
    logprobs: true,
    top_logprobs: 2,
  });
  expect(several.choices.map(({ index }) => index)).toEqual([0, 1, 2]);
  expect(several.choices[1]?.logprobs?.content).toHaveLength(4);
  expect(several.choices[1]?.logprobs?.content?.[0]?.top_logprobs).toHaveLength(2);
});

test('texts, embeddings and models', async () => {
  const text = await client.completions.create({ model: MODEL, prompt: ['Once', 'Twice'], max_tokens: 3, logprobs: 1 });
  expect(text.choices).toHaveLength(2);
  expect(text.choices[0]?.logprobs?.tokens).toHaveLength(3);
  const { data } = await client.embeddings.create({ model: MODEL, input: ['one', 'two'] });
  const plain = await client.embeddings.create({ model: MODEL, input: ['one', 'two'], encoding_format: 'float' });
  expect(data.map(({ embedding }) => embedding.length)).toEqual(plain.data.map(({ embedding }) => embedding.length));
  expect(data[0]?.embedding[0]).toBeCloseTo(plain.data[0]?.embedding[0] ?? NaN, 6);
  expect((await client.models.list()).data.map(({ id }) => id)).toEqual([MODEL]);
});

test('an answer is held to a schema, and calls tools, whole and streamed', async () => {
  const schema = {
    type: 'object',
    properties: { a: { enum: ['x', 'y'] } },
    required: ['a'],
    additionalProperties: false,
  };
  const held = await client.chat.completions.create({
    model: MODEL,
    messages,
    response_format: { type: 'json_schema', json_schema: { name: 'a', schema, strict: true } },
  });
  expect(['x', 'y']).toContain((JSON.parse(held.choices[0]?.message.content ?? '') as { a: string }).a);
  const asked = {
    model: MODEL,
    messages,
    max_completion_tokens: 200,
    tools: [
      {
        type: 'function' as const,
        function: {
          name: 'get',
          parameters: {
            type: 'object',
            properties: { n: { enum: [1, 2] } },
            required: ['n'],
            additionalProperties: false,
          },
        },
      },
    ],
    tool_choice: 'required' as const,
    parallel_tool_calls: false,
  };
  const called = await client.chat.completions.create(asked);
  const [call] = called.choices[0]?.message.tool_calls ?? [];
  expect(called.choices[0]?.finish_reason).toBe('tool_calls');
  expect(call).toMatchObject({
    type: 'function',
    function: { name: 'get', arguments: expect.stringMatching(/^\{"n": ?[12]\}$/) },
  });
  const streamed = await client.chat.completions.stream(asked).finalChatCompletion();
  expect(streamed.choices[0]?.message.tool_calls).toMatchObject([
    { function: (call as { function: object }).function },
  ]);
});

test('an answer of a format that its limit cuts off has length as its reason, as any that is too long', async () => {
  const schema = {
    type: 'object',
    properties: { a: { type: 'string' } },
    required: ['a'],
    additionalProperties: false,
  };
  const asked = {
    model: MODEL,
    messages,
    max_completion_tokens: 8,
    response_format: { type: 'json_schema' as const, json_schema: { name: 'a', schema, strict: true } },
  };
  const whole = await client.chat.completions.create(asked);
  expect(whole.choices[0]?.finish_reason).toBe('length');
  expect(whole.choices[0]?.message.content).toMatch(/^\{"a": ?"/);
  expect(whole.usage?.completion_tokens).toBe(8);
  let text = '';
  let reason: string | null | undefined;
  for await (const { choices } of await client.chat.completions.create({ ...asked, stream: true })) {
    text += choices[0]?.delta.content ?? '';
    reason = choices[0]?.finish_reason ?? reason;
  }
  expect([text, reason]).toEqual([whole.choices[0]?.message.content, 'length']);
  await expect(client.chat.completions.parse(asked)).rejects.toThrow(/length/);
});

test('parse makes an object of an answer, and of the inputs of tools', async () => {
  const Shape = z.object({
    kind: z.enum(['x', 'y']),
    list: z.array(z.enum(['p', 'q'])).max(2),
    more: z.int().min(0).max(9).nullable(),
  });
  const { choices } = await client.chat.completions.parse({
    model: MODEL,
    messages,
    max_completion_tokens: 400,
    response_format: zodResponseFormat(Shape, 'shape'),
  });
  expect(Shape.parse(choices[0]?.message.parsed)).toEqual(choices[0]?.message.parsed);
  const parsed = await client.chat.completions.parse({
    model: MODEL,
    messages: [{ role: 'developer', content: 'Call.' }, ...messages],
    max_completion_tokens: 400,
    tools: [zodFunction({ name: 'shape', parameters: Shape })],
    tool_choice: { type: 'function', function: { name: 'shape' } },
  });
  const [called] = parsed.choices[0]?.message.tool_calls ?? [];
  const input: unknown = called?.type === 'function' ? called.function.parsed_arguments : undefined;
  expect(Shape.parse(input)).toEqual(input);
});

test('runTools calls functions and goes on with what they give', async () => {
  const cities: string[] = [];
  const runner = client.chat.completions.runTools(
    {
      model: MODEL,
      messages,
      max_completion_tokens: 200,
      parallel_tool_calls: false,
      tool_choice: { type: 'function', function: { name: 'weather' } },
      tools: [
        {
          type: 'function',
          function: {
            name: 'weather',
            description: 'Tells the weather.',
            parameters: {
              type: 'object',
              properties: { city: { enum: ['Bern', 'Oslo'] } },
              required: ['city'],
              additionalProperties: false,
            },
            parse: (text: string) => JSON.parse(text) as { city: string },
            function: ({ city }: { city: string }) => {
              cities.push(city);
              return 'sun';
            },
          },
        },
      ],
    },
    { maxChatCompletions: 2 },
  );
  await runner.done().catch(() => undefined);
  expect(['Bern', 'Oslo']).toContain(cities[0]);
});

test('errors are those that the package knows', async () => {
  await expect(client.chat.completions.create({ model: 'other', messages })).rejects.toBeInstanceOf(
    OpenAI.NotFoundError,
  );
  await expect(client.chat.completions.create({ model: MODEL, messages, temperature: 99 })).rejects.toBeInstanceOf(
    OpenAI.BadRequestError,
  );
  const picture = [{ type: 'image_url' as const, image_url: { url: 'data:image/png;base64,aGk=' } }];
  const seeing = client.chat.completions.create({ model: MODEL, messages: [{ role: 'user', content: picture }] });
  await expect(seeing).rejects.toMatchObject({ status: 400, code: 'unsupported-content' });
  await expect(client.files.retrieve('file-none')).rejects.toMatchObject({
    status: 404,
    requestID: expect.stringMatching(/^req_[0-9a-f]{24}$/),
  });
  const stranger = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'another-key-of-some', maxRetries: 0 });
  await expect(stranger.models.list()).rejects.toBeInstanceOf(OpenAI.AuthenticationError);
});

test('a batch of 500, from end to end', async () => {
  const lines = Array.from({ length: 500 }, (_, at) =>
    JSON.stringify({
      custom_id: `r${at}`,
      method: 'POST',
      url: '/v1/chat/completions',
      body: { model: MODEL, max_tokens: 2, messages: [{ role: 'user', content: String(at) }] },
    }),
  );
  const file = await client.files.create({
    purpose: 'batch',
    file: await toFile(Buffer.from(`${lines.join('\n')}\n`), 'requests.jsonl'),
  });
  let batch = await client.batches.create({
    input_file_id: file.id,
    endpoint: '/v1/chat/completions',
    completion_window: '24h',
  });
  while (batch.status !== 'completed') {
    expect(['validating', 'in_progress', 'finalizing']).toContain(batch.status);
    await new Promise((resolve) => setTimeout(resolve, 50));
    batch = await client.batches.retrieve(batch.id);
  }
  expect(batch.request_counts).toEqual({ total: 500, completed: 500, failed: 0 });
  const content = await (await client.files.content(batch.output_file_id ?? '')).text();
  const answers = content
    .split('\n')
    .slice(0, -1)
    .map(
      (line) =>
        JSON.parse(line) as { custom_id: string; response: { body: { choices: { message: { content: string } }[] } } },
    );
  expect(answers.map(({ custom_id: id }) => id)).toEqual(lines.map((_, at) => `r${at}`));
  // As a request is answered.
  const live = await client.chat.completions.create({
    model: MODEL,
    max_completion_tokens: 2,
    messages: [{ role: 'user', content: '7' }],
  });
  expect(answers[7]?.response.body.choices[0]?.message.content).toBe(live.choices[0]?.message.content);
  const listed = [];
  for await (const each of client.batches.list({ limit: 1 })) listed.push(each.id);
  expect(listed).toEqual([batch.id]);
});
