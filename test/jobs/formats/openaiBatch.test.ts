import { createReadStream, readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import type {
  ChatCompletion,
  ChatCompletionCreateParamsNonStreaming,
  Completion,
  CompletionCreateParamsNonStreaming,
  CreateEmbeddingResponse,
  EmbeddingCreateParams,
} from 'openai/resources';
import { answerLine } from '../../../src/jobs/formats/openaiAnswer.js';
import { isOpenaiBatch } from '../../../src/jobs/formats/openaiBatch.js';
import { readRows } from '../../../src/jobs/input/readRows.js';
import { runJob } from '../../../src/jobs/runJob.js';
import type { RowGenerator } from '../../../src/jobs/JobOptions.js';
import type { SpelledNumber } from '../../../src/arguments/jsonNumbers.js';
import type { Row, RowResult } from '../../../src/Row.js';
import { collect, writeLines } from '../support/files.js';
import { StubEngine } from '../support/stubEngine.js';
import { jobsOnFiles } from './support.js';

const { path, job } = jobsOnFiles();

const chat = (custom_id: string, body: object = {}): object => ({
  custom_id,
  method: 'POST',
  url: '/v1/chat/completions',
  body: { model: 'gpt', messages: [{ role: 'user', content: 'hi' }], ...body },
});
const completion = (custom_id: string, body: object = {}): object => ({
  custom_id,
  method: 'POST',
  url: '/v1/completions',
  body: { model: 'gpt', prompt: 'hello', ...body },
});
const linesOf = (text: string): Record<string, unknown>[] =>
  text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Record<string, unknown>);

test('a batch file is known by its keys, and comes out as an output file and an error file', async () => {
  const [input, output, errors] = [path('batch.jsonl'), path('output.jsonl'), path('errors.jsonl')];
  writeLines(input, [
    chat('a'),
    completion('b'),
    { ...chat('c'), url: '/v1/embeddings' },
    completion('b'),
    chat('d', { stream: true }),
    'no json',
  ]);
  expect(await runJob({ engine: new StubEngine(), input, output, errors })).toMatchObject({ rows: 6, failed: 4 });
  const done = linesOf(readFileSync(output, 'utf8'));
  expect(done).toEqual([
    {
      id: expect.stringMatching(/^batch_req_[0-9a-f]{32}$/),
      custom_id: 'a',
      error: null,
      response: {
        status_code: 200,
        request_id: expect.stringMatching(/^req_/),
        body: {
          id: expect.stringMatching(/^chatcmpl-/),
          object: 'chat.completion',
          created: 0,
          model: 'gpt',
          choices: [
            {
              index: 0,
              message: { role: 'assistant', content: '[{"ROLE":"USER","CONTENT":"HI"}]', refusal: null },
              logprobs: null,
              finish_reason: 'stop',
            },
          ],
          usage: { prompt_tokens: 1, completion_tokens: 32, total_tokens: 33 },
        },
      },
    },
    {
      id: expect.stringMatching(/^batch_req_/),
      custom_id: 'b',
      error: null,
      response: {
        status_code: 200,
        request_id: expect.any(String),
        body: {
          id: expect.stringMatching(/^cmpl-/),
          object: 'text_completion',
          created: 0,
          model: 'gpt',
          choices: [{ index: 0, text: 'HELLO', logprobs: null, finish_reason: 'stop' }],
          usage: { prompt_tokens: 1, completion_tokens: 5, total_tokens: 6 },
        },
      },
    },
  ]);
  const failed = linesOf(readFileSync(errors, 'utf8')) as unknown as {
    custom_id: string | null;
    response: { status_code: number; body: { error: { code: string; message: string } } };
  }[];
  expect(failed.map(({ custom_id, response }) => [custom_id, response.status_code, response.body.error.code])).toEqual([
    ['c', 400, 'invalid-row'],
    ['b', 400, 'duplicate-id'],
    ['d', 400, 'invalid-parameter'],
    [null, 400, 'invalid-json'],
  ]);
  expect(failed[0]?.response.body.error.message).toBe(
    'url: found "/v1/embeddings", expected /v1/chat/completions or /v1/completions; spillway embed answers /v1/embeddings',
  );
  // The same requests have the same lines.
  const again = path('again.jsonl');
  await runJob({ engine: new StubEngine(), input, output: again, errors: path('again-errors.jsonl') });
  expect(readFileSync(again)).toEqual(readFileSync(output));
});

test("requests of the openai client's types come out as answers that it reads", async () => {
  const requests = [
    {
      custom_id: 'chat',
      method: 'POST',
      url: '/v1/chat/completions',
      body: {
        model: 'm',
        messages: [
          { role: 'system', content: 'Be brief.' },
          { role: 'user', content: [{ type: 'text', text: 'hi' }] },
        ],
        max_completion_tokens: 5,
        n: 1,
        response_format: { type: 'text' },
      } satisfies ChatCompletionCreateParamsNonStreaming,
    },
    {
      custom_id: 'text',
      method: 'POST',
      url: '/v1/completions',
      body: { model: 'm', prompt: ['hello'], max_tokens: 5, stop: ['.'] } satisfies CompletionCreateParamsNonStreaming,
    },
    {
      custom_id: 'bad',
      method: 'POST',
      url: '/v1/completions',
      body: { model: 'm', prompt: ['one', 'two'] } satisfies CompletionCreateParamsNonStreaming,
    },
  ] as const;
  const [input, output, errors] = [path('typed.jsonl'), path('typed-output.jsonl'), path('typed-errors.jsonl')];
  writeLines(input, requests);
  await runJob({ engine: new StubEngine(), input, output, errors });
  const [chatted, texted] = linesOf(readFileSync(output, 'utf8')).map(
    ({ response }) => (response as { body: unknown }).body,
  ) as [ChatCompletion, Completion];
  const message: string | null | undefined = chatted.choices[0]?.message.content;
  expect([message, chatted.object, chatted.usage?.total_tokens]).toEqual([
    '[{"ROLE":"SYSTEM","CONTENT":"BE BRIEF."},{"ROLE":"USER","CONTENT":"HI"}]',
    'chat.completion',
    73,
  ]);
  expect([texted.choices[0]?.text, texted.object, texted.choices[0]?.finish_reason]).toEqual([
    'HELLO',
    'text_completion',
    'stop',
  ]);
  expect(linesOf(readFileSync(errors, 'utf8'))).toMatchObject([
    {
      custom_id: 'bad',
      response: { status_code: 400, body: { error: { type: 'invalid_request_error' } } },
      error: null,
    },
  ]);
});

test('without an error file all lines go into the output; other formats are asked for by name', async () => {
  const content = `${JSON.stringify(chat('a'))}\n${JSON.stringify(chat('b', { tools: [{}] }))}\n`;
  expect(linesOf((await job('batch.jsonl', content, 'out.jsonl')).text).map(({ custom_id }) => custom_id)).toEqual([
    'a',
    'b',
  ]);
  expect(linesOf((await job('batch.jsonl', content, 'out.jsonl', { outputFormat: 'jsonl' })).text)[0]).toMatchObject({
    id: 'a',
    index: 0,
    finishReason: 'stop',
  });
  expect((await job('batch.jsonl', content, 'out.csv')).text).toMatch(/^id,text,finish_reason,.*\na,/);
  expect(
    linesOf(
      (await job('rows.jsonl', '{"id":"x","prompt":"p"}\n', 'out.jsonl', { outputFormat: 'openai-batch' })).text,
    )[0],
  ).toMatchObject({ custom_id: 'x', response: { status_code: 200 } });
});

test('parameters are those that they stand for; what is a request of another kind is an error row that says so', async () => {
  const file = path('parameters.jsonl');
  const wrong: [object, string][] = [
    [chat('1', { messages: 'x' }), 'messages: found the string "x", expected an array'],
    [
      chat('2', { messages: [{ role: 'user', content: [{ type: 'image_url' }] }] }),
      'messages[0].content[0]: found a picture',
    ],
    [completion('3', { prompt: ['a', 'b'] }), 'prompt: found 2 texts, expected one'],
    [{ ...chat('4'), method: 'GET' }, 'method: found "GET", expected POST'],
    [{ ...chat('5'), url: '/v1/x' }, 'url: found "/v1/x", expected /v1/chat/completions or /v1/completions'],
    [{ ...chat('6'), body: 3 }, 'body: found 3, expected an object'],
    [{ ...chat('7'), custom_id: 7 }, 'custom_id: found 7, expected a string'],
    [chat('8', { max_tokens: 'many' }), 'maxNewTokens: found the string "many", expected a number'],
    [chat('9', { response_format: { type: 'xml' } }), 'responseFormat.type: found "xml", expected json_schema'],
    [
      chat('10', { guided_choice: ['yes', 'no'] }),
      'body: found the field "guided_choice", which may change the answer',
    ],
    [chat('11', { max_token: 3 }), 'did you mean max_tokens'],
    [chat('12', { verbosity: 'high', min_tokens: 0 }), 'found the field "verbosity"'],
  ];
  writeLines(file, [
    chat('a', {
      max_completion_tokens: 7,
      temperature: 0.5,
      top_p: 0.9,
      seed: 3,
      stop: ['x'],
      n: 2,
      user: 'u',
      frequency_penalty: 0.5,
      presence_penalty: -1,
      logit_bias: { 50256: -100 },
      min_tokens: 2,
      stop_token_ids: [7],
      bad_words: ['no'],
      response_format: { type: 'text' },
      tools: [],
    }),
    chat('b', {
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'p' },
            { type: 'text', text: 'q' },
          ],
        },
      ],
      n: 1,
    }),
    completion('c', { prompt: [1, 2, 3], max_tokens: null }),
    completion('d', { prompt: [[4]] }),
    completion('e', { prompt: ['x'] }),
    chat('f', {
      messages: [
        { role: 'assistant', content: null, tool_calls: [{ id: 't' }] },
        { role: 'tool', content: '1', tool_call_id: 't' },
      ],
      chat_template_kwargs: { enable_thinking: false },
    }),
    ...wrong.map(([request]) => request),
  ]);
  const rows = await collect(readRows(file));
  expect(rows.slice(0, 6)).toEqual([
    {
      id: 'a',
      messages: [{ role: 'user', content: 'hi' }],
      maxNewTokens: 7,
      temperature: 0.5,
      topP: 0.9,
      seed: 3,
      stop: ['x'],
      samples: 2,
      frequencyPenalty: 0.5,
      presencePenalty: -1,
      logitBias: { 50256: -100 },
      minNewTokens: 2,
      stopTokenIds: [7],
      badWords: ['no'],
      responseFormat: { type: 'text' },
    },
    { id: 'b', messages: [{ role: 'user', content: 'pq' }] },
    { id: 'c', tokens: [1, 2, 3] },
    { id: 'd', tokens: [4] },
    { id: 'e', prompt: 'x' },
    {
      id: 'f',
      messages: [
        { role: 'assistant', content: null, tool_calls: [{ id: 't' }] },
        { role: 'tool', content: '1', tool_call_id: 't' },
      ],
      templateArgs: { enable_thinking: false },
    },
  ]);
  for (const [at, [, words]] of wrong.entries())
    expect(rows[at + 6]).toMatchObject({ error: { message: expect.stringContaining(words) } });
});

describe('answers', () => {
  const result = (sample: number, text: string): RowResult => ({
    id: 'a',
    index: 0,
    sample,
    text,
    tokens: [1, 2],
    finishReason: 'length',
    usage: { promptTokens: 5, completionTokens: 2 },
  });

  test('samples are the choices of one line', () => {
    const choices = [result(0, 'x'), result(1, 'y')].map((each) => ({ result: each, carry: undefined }));
    const line = JSON.parse(answerLine(choices[0] as (typeof choices)[number], choices)) as {
      response: { body: { choices: object[]; usage: object } };
    };
    expect(line.response.body).toMatchObject({
      choices: [
        { index: 0, message: { content: 'x' }, finish_reason: 'length' },
        { index: 1, message: { content: 'y' } },
      ],
      usage: { prompt_tokens: 5, completion_tokens: 4, total_tokens: 9 },
    });
  });

  test('reasoning stands beside the answer', () => {
    for (const [url, choice] of [
      [
        '/v1/chat/completions',
        { message: { role: 'assistant', content: 'x', reasoning_content: 'why', refusal: null } },
      ],
      ['/v1/completions', { text: 'x', reasoning_content: 'why' }],
    ] as const) {
      const row = { result: { ...result(0, 'x'), reasoning: 'why' }, carry: { url, body: {} } };
      expect(JSON.parse(answerLine(row, [row]))).toMatchObject({ response: { body: { choices: [choice] } } });
    }
  });

  test.each([
    ['{"custom_id":"a","method":"POST","url":"/v1","body":{}}\n{"prompt":1', true],
    ['\n {"url":"u","body":{},"custom_id":"a"}', true],
    ['{"custom_id":"a","url":"u","body":{"prompt":"goes on', true],
    ['{"prompt":"custom_id url body"}\n', false],
    ['{"id":"a"}\n{"custom_id":"a","url":"u","body":{}}', false],
    ['', false],
    ['[1]\n', false],
  ])('%j: %s', (start, known) => expect(isOpenaiBatch(start)).toBe(known));
});

test('a name that says another format is believed', async () => {
  writeFileSync(path('batch.txt'), `${JSON.stringify(chat('a'))}\n`);
  expect(await collect(readRows(path('batch.txt')))).toEqual([
    { id: 1, duplicate: false, prompt: JSON.stringify(chat('a')), chat: 'auto' },
  ]);
});

describe('embeddings', () => {
  const embeddings = (custom_id: string, body: object = {}): object => ({
    custom_id,
    method: 'POST',
    url: '/v1/embeddings',
    body: { model: 'e', input: 'hello', ...body } satisfies EmbeddingCreateParams,
  });
  const vector = [0.5, 0.100000001];
  const engine = (embedding: readonly number[] | string = vector): RowGenerator => ({
    generate: () => {
      throw new Error('nobody asked for text');
    },
    async *embed(rows) {
      let index = 0;
      for await (const row of rows) {
        const common = {
          id: row.id ?? index,
          index,
          ...(row.carry && { carry: row.carry }),
          usage: { promptTokens: 3, completionTokens: 0 },
        };
        yield 'error' in row
          ? { ...common, error: row.error }
          : { ...common, embedding: typeof embedding === 'string' ? embedding : embedding.slice(0, row.dimensions) };
        index += 1;
      }
    },
  });
  const bodies = async (requests: readonly object[], embedding?: readonly number[] | string): Promise<unknown[]> => {
    const [input, output] = [path('embeddings.jsonl'), path('embedded.jsonl')];
    writeLines(input, requests);
    await runJob({
      engine: engine(embedding),
      input,
      output,
      embed: typeof embedding === 'string' ? { encoding: 'base64' } : {},
      overwrite: true,
    });
    return linesOf(readFileSync(output, 'utf8')).map(({ response }) => (response as { body: unknown }).body);
  };
  const answer = (embedding: number[] | string): object =>
    ({
      object: 'list',
      data: [{ object: 'embedding', index: 0, embedding }],
      model: 'e',
      usage: { prompt_tokens: 3, total_tokens: 3 },
    }) satisfies Omit<CreateEmbeddingResponse, 'data'> & { data: unknown };
  const base64 = Buffer.from(Float32Array.from(vector).buffer).toString('base64');

  test('of a text, a list of one, and tokens; with fewer dimensions; as numbers or base64, whatever the run makes', async () => {
    const requests = [
      embeddings('a'),
      embeddings('b', { input: ['hello'] }),
      embeddings('c', { input: [1, 2], dimensions: 1, encoding_format: null, user: null }),
      embeddings('d', { encoding_format: 'base64' }),
    ];
    expect(await bodies(requests)).toEqual([
      answer(vector),
      answer(vector),
      answer(vector.slice(0, 1)),
      answer(base64),
    ]);
    expect(await bodies([embeddings('a'), embeddings('b', { encoding_format: 'base64' })], base64)).toEqual([
      answer(vector),
      answer(base64),
    ]);
  });

  test('what is asked otherwise is an error that says what to do', async () => {
    const messages = (
      await bodies([
        chat('a'),
        embeddings('b', { input: ['one', 'two'] }),
        embeddings('c', { encoding_format: 'int8' }),
        embeddings('d', { input: 7 }),
        { ...chat('e'), url: '/v1/moderations' },
      ])
    ).map((body) => (body as { error: { message: string } }).error.message);
    expect(messages).toEqual([
      'url: found "/v1/chat/completions", expected /v1/embeddings; spillway generate answers /v1/chat/completions',
      'input: found 2 texts, expected one: each has a request of its own',
      'body.encoding_format: found "int8", expected float or base64',
      'body.input: found 7, expected a text, a list of one, or token ids',
      'url: found "/v1/moderations", expected /v1/embeddings',
    ]);
  });
});

test('a request whose custom_id is no string has an error with it; what has none has null', async () => {
  const [input, output] = [path('numeric.jsonl'), path('numeric.out.jsonl')];
  writeLines(input, [chat('a'), { ...chat('b'), custom_id: 7 }, { ...chat('c'), custom_id: ['x'] }, 'no request']);
  for (const again of ['file', 'stream']) {
    const rows =
      again === 'file' ? input : readRows(createReadStream(input), { format: 'openai-batch', carryFields: true });
    await runJob({ engine: new StubEngine(), input: rows, output, outputFormat: 'openai-batch', overwrite: true });
    const lines = readFileSync(output, 'utf8').trim().split('\n');
    const ids = lines.map((line) => (JSON.parse(line) as { custom_id: unknown }).custom_id);
    expect(ids).toEqual(['a', 7, ['x'], null]);
  }
});

test('numbers that go to the chat template keep their spelling, also where a line carries its fields', async () => {
  const file = path('spelled.jsonl');
  const calls =
    '[{"type":"function","function":{"name":"f","arguments":{"x":1.0,"y":1e-05,"z":12345678901234567890}}}]';
  const line = `{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"model":"m","temperature":1.0,"messages":[{"role":"assistant","content":null,"tool_calls":${calls}}],"chat_template_kwargs":{"limit":2.0}}}\n`;
  writeFileSync(file, line);
  for (const carryFields of [false, true]) {
    const [row] = (await collect(readRows(file, { carryFields }))) as Row[];
    const [message] = row?.messages ?? [];
    const [call] = (message?.tool_calls ?? []) as { function: { arguments: Record<string, unknown> } }[];
    const { x, y, z } = call?.function.arguments ?? {};
    // What is no whole number a template writes as Python does anyway.
    expect(y).toBe(1e-5);
    expect([x, z, row?.templateArgs?.['limit']].map((each) => (each as SpelledNumber).spelling)).toEqual([
      '1.0',
      '12345678901234567890',
      '2.0',
    ]);
    expect(row?.temperature).toBe(1);
  }
});
