import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, jest, test } from '@jest/globals';
import type { Batch } from '../../src/serve/batches/Batch.js';
import { dataFolder, type StubServer, stubServer, until } from './support/served.js';
import { wordsOf } from './support/StubEngine.js';

const CHAT = '/v1/chat/completions';

function requests(count: number, more: object = {}, url = CHAT): string {
  return Array.from({ length: count }, (_, at) =>
    JSON.stringify({
      custom_id: `r${at}`,
      method: 'POST',
      url,
      body: { model: 'stub', max_tokens: 3, messages: [{ role: 'user', content: `Number ${at}` }], ...more },
    }).concat('\n'),
  ).join('');
}

async function sent(
  { url }: StubServer,
  text: string,
  fields: Record<string, string> = { purpose: 'batch' },
): Promise<Response> {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.append(name, value);
  form.append('file', new Blob([text]), 'requests.jsonl');
  return fetch(`${url}/v1/files`, { method: 'POST', body: form });
}

async function begun(server: StubServer, text: string, more: object = {}): Promise<Batch> {
  const { id } = (await (await sent(server, text)).json()) as { id: string };
  const response = await server.post('/v1/batches', {
    input_file_id: id,
    endpoint: CHAT,
    completion_window: '24h',
    ...more,
  });
  expect(response.status).toBe(200);
  return (await response.json()) as Batch;
}

async function over(server: StubServer, id: string): Promise<Batch> {
  let batch: Batch | undefined;
  await until(async () => {
    batch = (await server.json(`/v1/batches/${id}`)) as unknown as Batch;
    return ['completed', 'failed', 'cancelled', 'expired'].includes(batch.status);
  });
  return batch as Batch;
}

async function linesOf({ url }: StubServer, file: string | null): Promise<Record<string, never>[]> {
  if (file === null) return [];
  const text = await (await fetch(`${url}/v1/files/${file}/content`)).text();
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Record<string, never>);
}

afterEach(() => {
  jest.restoreAllMocks();
});

describe('files', () => {
  test('one is kept as it was sent, listed, and gone when it is deleted', async () => {
    const server = await stubServer();
    const file = (await (await sent(server, 'some text')).json()) as { id: string };
    expect(file).toEqual({
      id: expect.stringMatching(/^file-[0-9a-f]{32}$/),
      object: 'file',
      bytes: 9,
      created_at: expect.any(Number),
      filename: 'requests.jsonl',
      purpose: 'batch',
      status: 'processed',
    });
    expect(await server.json(`/v1/files/${file.id}`)).toEqual(file);
    expect(await server.json('/v1/files?purpose=batch')).toMatchObject({ data: [file], has_more: false });
    expect(await server.json('/v1/files?purpose=vision')).toMatchObject({ data: [] });
    expect(await (await fetch(`${server.url}/v1/files/${file.id}/content`)).text()).toBe('some text');
    expect(await server.json(`/v1/files/${file.id}`, { method: 'DELETE' })).toEqual({
      id: file.id,
      object: 'file',
      deleted: true,
    });
    expect((await fetch(`${server.url}/v1/files/${file.id}`)).status).toBe(404);
    expect(readdirSync(join(server.data, 'files'))).toEqual([]);
  });

  test.each([
    [{}, 400, 'purpose'],
    [{ purpose: 'other' }, 400, 'purpose'],
    [{ purpose: 'batch', 'expires_after[seconds]': '5' }, 400, 'expires_after'],
  ])('fields %j are refused, and nothing is left', async (fields, status, param) => {
    const server = await stubServer();
    const response = await sent(server, 'text', fields);
    expect(response.status).toBe(status);
    expect(await response.json()).toMatchObject({ error: { param } });
    expect(readdirSync(join(server.data, 'files'))).toEqual([]);
  });

  test('files have a limit each, and one together', async () => {
    const server = await stubServer({ uploadBytes: 2048, storedBytes: 5000 });
    expect((await sent(server, 'x'.repeat(3000))).status).toBe(413);
    expect((await sent(server, 'x'.repeat(100_000))).status).toBe(413);
    expect((await sent(server, 'x'.repeat(2000))).status).toBe(200);
    expect((await sent(server, 'x'.repeat(2000))).status).toBe(200);
    expect((await sent(server, 'x'.repeat(2000))).status).toBe(507);
    expect(readdirSync(join(server.data, 'files'))).toHaveLength(4);
  });

  test.each(['..%2f..%2fetc%2fpasswd', '%2e%2e', 'file-..', 'file-0/../../x', '%00', 'file-%zz', ' '])(
    'the id %j is none',
    async (id) => {
      const server = await stubServer();
      for (const path of [`/v1/files/${id}`, `/v1/files/${id}/content`, `/v1/batches/${id}`]) {
        const { status } = await fetch(server.url + path);
        expect([400, 404]).toContain(status);
      }
    },
  );
});

describe('batches', () => {
  test('requests are answered, those that fail in a file of their own', async () => {
    const server = await stubServer();
    const { id } = await begun(
      server,
      `${requests(20)}no JSON\n${requests(1, { temperature: 'x' }).replace('r0', 'bad')}`,
      { metadata: { of: 'test' } },
    );
    const batch = await over(server, id);
    expect(batch).toMatchObject({
      status: 'completed',
      model: 'stub',
      metadata: { of: 'test' },
      request_counts: { total: 22, completed: 20, failed: 2 },
    });
    const answers = await linesOf(server, batch.output_file_id);
    expect(answers.map((line) => line['custom_id'])).toEqual(Array.from({ length: 20 }, (_, at) => `r${at}`));
    expect(answers[3]).toMatchObject({
      response: {
        status_code: 200,
        body: {
          choices: [
            { message: { content: wordsOf(JSON.stringify([{ role: 'user', content: 'Number 3' }]), 3).join('') } },
          ],
        },
      },
      error: null,
    });
    expect((await linesOf(server, batch.error_file_id)).map((line) => line['custom_id'])).toEqual([null, 'bad']);
    expect(await server.json('/v1/batches')).toMatchObject({ object: 'list', data: [{ id }], has_more: false });
    // What the batch needed on its way is gone.
    await until(() => readdirSync(join(server.data, 'batches', id)).join() === 'batch.json');
  });

  test.each([
    ['', 'empty_file'],
    ['no JSON\n', 'empty_file'],
    [requests(2, { model: 'other' }), 'model_not_found'],
    [requests(2, {}, '/v1/completions'), 'mismatched_endpoint'],
    [requests(6), 'too_many_requests'],
  ])('a file of %j fails as a whole: %s', async (text, code) => {
    const server = await stubServer({ batchRows: 5 });
    const batch = await over(server, (await begun(server, text)).id);
    expect(batch).toMatchObject({ status: 'failed', output_file_id: null, errors: { object: 'list' } });
    expect(batch.errors?.data[0]?.code).toBe(code);
  });

  test.each([
    [{ endpoint: '/v1/rerank' }, 'endpoint'],
    [{ completion_window: 'soon' }, 'completion_window'],
    [{ completion_window: '9999999h' }, 'completion_window'],
    [{ metadata: { a: 1 } }, 'metadata'],
    [{ input_file_id: 5 }, 'input_file_id'],
    [{ input_file_id: '../../x' }, 'file_id'],
  ])('a batch of %j is refused', async (more, param) => {
    const server = await stubServer();
    const { id } = (await (await sent(server, requests(1))).json()) as { id: string };
    const response = await server.post('/v1/batches', {
      input_file_id: id,
      endpoint: CHAT,
      completion_window: '24h',
      ...more,
    });
    expect([400, 404]).toContain(response.status);
    expect(await response.json()).toMatchObject({ error: { param } });
  });

  test.each([
    ['cancelled', '24h'],
    ['expired', '1h'],
  ] as const)(
    'one that is %s has what was answered, and says of each other request that it was not',
    async (status, window) => {
      const server = await stubServer({ stub: { tokenMilliseconds: 100, places: 4 } });
      const { id } = await begun(server, requests(400), { completion_window: window });
      await until(
        async () => ((await server.json(`/v1/batches/${id}`)) as unknown as Batch).request_counts.completed > 3,
      );
      if (status === 'cancelled') {
        const response = await server.post(`/v1/batches/${id}/cancel`, {});
        expect(await response.json()).toMatchObject({ status: 'cancelling', cancelling_at: expect.any(Number) });
      } else {
        const now = Date.now;
        jest.spyOn(Date, 'now').mockImplementation(() => now() + 3_600_000);
      }
      const batch = await over(server, id);
      expect(batch.status).toBe(status);
      const [answers, errors] = [
        await linesOf(server, batch.output_file_id),
        await linesOf(server, batch.error_file_id),
      ];
      expect(answers.length).toBeGreaterThan(3);
      expect(errors.length).toBeGreaterThan(3);
      expect(batch.request_counts).toEqual({ total: 400, completed: answers.length, failed: errors.length });
      const ids = [...answers, ...errors].map((line) => String(line['custom_id']));
      expect(new Set(ids).size).toBe(400);
      expect(errors.at(-1)).toMatchObject({ response: null, error: { code: `batch_${status}` } });
      const again = await server.post(`/v1/batches/${id}/cancel`, {});
      expect(again.status).toBe(status === 'cancelled' ? 200 : 409);
    },
  );

  test('one goes on with the next server of the same data; its input may be deleted meanwhile', async () => {
    const data = dataFolder();
    const before = await stubServer({ data, stub: { tokenMilliseconds: 10, places: 4 } });
    const { id, input_file_id: input } = await begun(before, requests(100));
    await until(
      async () => ((await before.json(`/v1/batches/${id}`)) as unknown as Batch).request_counts.completed > 3,
    );
    await before.json(`/v1/files/${input}`, { method: 'DELETE' });
    await before.close();
    const after = await stubServer({ data });
    const batch = await over(after, id);
    expect(batch).toMatchObject({ status: 'completed', request_counts: { total: 100, completed: 100, failed: 0 } });
    expect(after.engine.results).toBeLessThan(97);
    const alone = await stubServer();
    const whole = await over(alone, (await begun(alone, requests(100))).id);
    expect(await linesOf(after, batch.output_file_id)).toEqual(await linesOf(alone, whole.output_file_id));
  });

  test('two servers do not share a folder; what is no batch is left alone, and said', async () => {
    const server = await stubServer();
    await expect(stubServer({ data: server.data })).rejects.toThrow(/in use by process/);
    await server.close();
    writeFileSync(join(server.data, 'batches', 'notes.txt'), 'x');
    const again = await stubServer({ data: server.data });
    expect(again.said.join()).toMatch(/notes\.txt: found what is no batch/);
  });

  test('requests come before the rows of a batch', async () => {
    const server = await stubServer({ stub: { tokenMilliseconds: 200, places: 1 } });
    await begun(server, requests(50));
    await until(() => server.engine.results > 0);
    const done = server.engine.results;
    const response = await server.post(CHAT, { messages: [{ role: 'user', content: 'Hello' }], max_tokens: 1 });
    expect(response.status).toBe(200);
    expect(server.engine.results).toBeLessThan(done + 5);
  });
});
