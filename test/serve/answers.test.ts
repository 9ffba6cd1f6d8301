import { describe, expect, test } from '@jest/globals';
import { wordsOf } from './support/StubEngine.js';
import { eventsOf, stubServer, until } from './support/served.js';

const CHAT = '/v1/chat/completions';
const hello = { model: 'stub', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 4 };
const WORDS = wordsOf(JSON.stringify(hello.messages), 4);

describe('answers', () => {
  test('a chat has the shape that OpenAI gives it', async () => {
    const { post } = await stubServer();
    const response = await post(CHAT, hello);
    expect(response.status).toBe(200);
    expect(await response.json()).toEqual({
      id: expect.stringMatching(/^chatcmpl-[0-9a-f]{32}$/),
      object: 'chat.completion',
      created: expect.any(Number),
      model: 'stub',
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: WORDS.join(''), refusal: null },
          logprobs: null,
          finish_reason: 'length',
        },
      ],
      usage: {
        prompt_tokens: JSON.stringify(hello.messages).length,
        completion_tokens: 4,
        total_tokens: JSON.stringify(hello.messages).length + 4,
        prompt_tokens_details: { cached_tokens: 1 },
      },
    });
  });

  test('a body may begin with a byte order mark, as files of Windows do', async () => {
    const { post } = await stubServer();
    const response = await post(CHAT, `\ufeff${JSON.stringify(hello)}`);
    expect(response.status).toBe(200);
  });

  test('a stream has the role first, the text in pieces, how it ended, and what it took', async () => {
    const { post } = await stubServer();
    const response = await post(CHAT, { ...hello, stream: true, stream_options: { include_usage: true } });
    expect(response.headers.get('content-type')).toMatch('text/event-stream');
    const events = await eventsOf(response);
    expect(events.at(-1)).toBe('[DONE]');
    const chunks = events
      .slice(0, -1)
      .map(
        (event) =>
          JSON.parse(event) as { choices: { delta: Record<string, string>; finish_reason: unknown }[]; usage: unknown },
      );
    expect(chunks[0]?.choices[0]?.delta).toEqual({ role: 'assistant', content: '' });
    expect(chunks.map((chunk) => chunk.choices[0]?.delta['content'] ?? '').join('')).toBe(WORDS.join(''));
    expect(chunks.at(-2)?.choices[0]).toMatchObject({ delta: {}, finish_reason: 'length' });
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: 4 } });
    expect(chunks.slice(0, -1).every(({ usage }) => usage === null)).toBe(true);
  });

  test('several prompts with several answers each are numbered in order', async () => {
    const { post } = await stubServer();
    const response = await post('/v1/completions', { prompt: ['a', [5, 6]], n: 2, max_tokens: 2 });
    const { choices, usage } = (await response.json()) as {
      choices: { index: number; text: string }[];
      usage: unknown;
    };
    expect(choices.map(({ index, text }) => [index, text])).toEqual([
      [0, wordsOf('a', 2).join('')],
      [1, wordsOf('a', 2).join('')],
      [2, wordsOf('[5,6]', 2).join('')],
      [3, wordsOf('[5,6]', 2).join('')],
    ]);
    // Each prompt counts once.
    expect(usage).toMatchObject({ prompt_tokens: 6, completion_tokens: 8 });
  });

  test.each([
    [{ ...hello, model: 'other' }, 404, 'model_not_found'],
    [{ ...hello, messages: 5 }, 400, 'invalid-row'],
    [{ ...hello, temperature: 'warm' }, 400, 'invalid-row'],
    [{ ...hello, n: 1000 }, 400, 'limit'],
    [{ ...hello, stream: 'yes' }, 400, 'invalid-parameter'],
    [{ ...hello, top_logprobs: 3 }, 400, 'invalid-parameter'],
    [{ ...hello, functions: [{}] }, 400, 'invalid-parameter'],
    [{ ...hello, temprature: 1 }, 400, 'invalid-parameter'],
    [[hello], 400, 'invalid-row'],
    ['{"model":', 400, 'invalid-json'],
    ['\xff', 400, 'invalid-json'],
  ])('%j is refused', async (body, status, code) => {
    const { post } = await stubServer();
    const response = await post(CHAT, body);
    expect(response.status).toBe(status);
    expect(await response.json()).toMatchObject({ error: { type: 'invalid_request_error', code } });
  });

  test.each([
    [{ max_tokens: 'many' }, 'max_tokens: found the string "many"', 'max_tokens'],
    [{ top_p: '1' }, 'top_p: found the string "1"', 'top_p'],
    [{ response_format: { type: 'xml' } }, 'response_format.type: found "xml"', 'response_format'],
    [{ functions: [{}] }, 'body.functions: found an array', 'functions'],
    [{ temprature: 1 }, 'body: found the field "temprature"', null],
  ])('an error calls a parameter as the request does: %j', async (more, message, param) => {
    const { post } = await stubServer();
    const { error } = (await (await post(CHAT, { ...hello, ...more })).json()) as { error: { message: string } };
    expect(error.message).toContain(message);
    expect(error).toMatchObject({ param });
  });

  test('what is refused before a stream has begun has a status of its own', async () => {
    const { post } = await stubServer();
    const response = await post(CHAT, { ...hello, stream: true, messages: 5 });
    expect(response.status).toBe(400);
  });
});

describe('clients and limits', () => {
  test('a client that goes away gives back its place', async () => {
    const { post, engine } = await stubServer({ stub: { tokenMilliseconds: 5 } });
    const leaving = new AbortController();
    const streamed = post(CHAT, { ...hello, max_tokens: 10_000, stream: true }, { signal: leaving.signal });
    await (await streamed).body?.getReader().read();
    const whole = post(CHAT, { ...hello, max_tokens: 10_000 }, { signal: leaving.signal }).catch(() => undefined);
    await until(() => engine.active === 2);
    leaving.abort();
    await whole;
    await until(() => engine.active === 0);
    expect(engine.dropped).toBe(2);
  });

  test('a client that takes nothing is given up, and nobody waits for it', async () => {
    const { url, post, engine } = await stubServer({ stallSeconds: 0.2 });
    const { connect } = await import('node:net');
    const socket = connect(Number(new URL(url).port), '127.0.0.1');
    const body = JSON.stringify({ ...hello, max_tokens: 1_000_000, stream: true });
    socket.write(
      `POST ${CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
    socket.pause();
    socket.on('error', () => undefined);
    await until(() => engine.active === 1);
    expect((await post(CHAT, hello)).status).toBe(200);
    await until(() => engine.dropped === 1);
    socket.destroy();
  });

  test('more requests than may be answered at once are told to come again', async () => {
    const { post } = await stubServer({ openRequests: 2, stub: { tokenMilliseconds: 20 } });
    const responses = await Promise.all(Array.from({ length: 5 }, () => post(CHAT, hello)));
    const statuses = responses.map(({ status }) => status).sort();
    expect(statuses).toEqual([200, 200, 429, 429, 429]);
    const refused = responses.find(({ status }) => status === 429);
    expect(refused?.headers.get('retry-after')).toBe('1');
    expect(await refused?.json()).toMatchObject({ error: { type: 'rate_limit_error', code: 'overloaded' } });
    expect((await post(CHAT, hello)).status).toBe(200);
  });

  test('bodies have a limit each, and one together', async () => {
    const { post } = await stubServer({ bodyBytes: 4096, heldBytes: 6000 });
    const long = { ...hello, messages: [{ role: 'user', content: 'x'.repeat(5000) }] };
    expect((await post(CHAT, long)).status).toBe(413);
    expect((await post(CHAT, hello)).status).toBe(200);
  });

  test('an answer that takes too long ends, a stream with an error among its events', async () => {
    const { post } = await stubServer({ requestSeconds: 0.2, stub: { tokenMilliseconds: 20 } });
    const slow = { ...hello, max_tokens: 1000 };
    expect((await post(CHAT, slow)).status).toBe(504);
    const events = await eventsOf(await post(CHAT, { ...slow, stream: true }));
    expect(JSON.parse(events.at(-1) ?? '')).toMatchObject({ error: { code: 'timeout' } });
  });

  test('a server that is stopped lets answers end, tells those that do not, and answers nobody else', async () => {
    const server = await stubServer({ drainSeconds: 5, stub: { tokenMilliseconds: 50 } });
    const { post, engine, url } = server;
    const short = post(CHAT, hello);
    const long = post(CHAT, { ...hello, max_tokens: 1000, stream: true });
    await until(() => engine.active === 2);
    const closed = server.close();
    expect((await short).status).toBe(200);
    const events = await eventsOf(await long);
    expect(JSON.parse(events.at(-1) ?? '')).toMatchObject({ error: { code: 'server_stopping' } });
    await closed;
    expect(engine.closed).toBe(true);
    await expect(fetch(`${url}/health`)).rejects.toThrow();
  });

  test('what there is can be looked at', async () => {
    const { json, post, url } = await stubServer();
    expect(await json('/health')).toEqual({ status: 'ok' });
    expect(await json('/v1/models')).toMatchObject({ object: 'list', data: [{ id: 'stub', object: 'model' }] });
    expect(await json('/v1/models/stub')).toMatchObject({ id: 'stub' });
    await post(CHAT, hello);
    const response = await fetch(`${url}/metrics`);
    expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
    const text = await response.text();
    expect(text).toMatch('spillway_rows_total{source="request",outcome="done"} 1\n');
    expect(text).toMatch('spillway_tokens_total{kind="generated"} 4\n');
    expect(text).toMatch('spillway_model_in_memory{model="stub"} 1\n');
    expect(text).toMatch('spillway_http_requests_total{route="/v1/chat/completions",status="200"} 1\n');
  });
});
