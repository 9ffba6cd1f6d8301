import { describe, expect, test } from '@jest/globals';
import { Gate, isLoopback } from '../../src/serve/http/Gate.js';
import { answerTo, knownHostile, mutatedRequest, requestText, seededRandom } from './support/hostileRequests.js';
import { stubServer, until } from './support/served.js';

const KEY = 'a-key-of-16-bytes';

describe.each([
  ['without a key', ''],
  ['with a key', KEY],
])('hostile requests, %s', (_, key) => {
  test('each known kind is refused as it should be', async () => {
    const server = await stubServer({ ...(key !== '' && { apiKey: key }), bodyBytes: 4 * 2 ** 20 });
    const port = Number(new URL(server.url).port);
    for (const request of knownHostile(key)) {
      const { status } = await answerTo(port, request, 60);
      expect([request.name, request.statuses?.includes(status ?? 0) === true ? 'right' : status]).toEqual([
        request.name,
        'right',
      ]);
    }
    expect(server.said).toEqual([]);
    expect((await fetch(`${server.url}/health`)).status).toBe(200);
  });

  test('mutated requests are answered with no error of the server’s, and it goes on', async () => {
    const server = await stubServer({ ...(key !== '' && { apiKey: key }) });
    const port = Number(new URL(server.url).port);
    const random = seededRandom(57);
    for (let round = 0; round < 15; round++) {
      const requests = Array.from({ length: 20 }, () => mutatedRequest(random, key));
      const answers = await Promise.all(requests.map((request) => answerTo(port, request, 60)));
      for (const [at, { status = 400 }] of answers.entries())
        expect([requests[at]?.name, status >= 200 && status < 500 ? 'right' : status]).toEqual([
          requests[at]?.name,
          'right',
        ]);
    }
    await until(() => server.engine.active === 0);
    expect(server.said).toEqual([]);
  });
});

describe('time and place', () => {
  test('a head, a body or a file that does not come in time is given up', async () => {
    const server = await stubServer({ headerSeconds: 0.3, bodySeconds: 0.3, uploadSeconds: 0.5 });
    const port = Number(new URL(server.url).port);
    const head = { name: 'slow head', pieces: ['POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n'] };
    const whole = requestText('/v1/chat/completions', '{"model":"stub"}'.padEnd(1000));
    const form = requestText('/v1/files', '--x\r\n'.padEnd(1000), { type: 'multipart/form-data; boundary=x' });
    for (const slow of [
      head,
      { name: 'slow body', pieces: [whole.slice(0, -900)] },
      { name: 'slow form', pieces: [form.slice(0, -900)] },
    ]) {
      const begun = performance.now();
      const held = answerStaying(port, slow.pieces[0] ?? '');
      expect([slow.name, (await held).slice(0, 12)]).toEqual([slow.name, 'HTTP/1.1 408']);
      // Where nobody says how long, a head has 30 seconds, and bodies have more.
      expect(performance.now() - begun).toBeLessThan(25_000);
    }
  });

  test.each([
    ['its head', '--x\r\n'],
    ['some of it', '--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nsome'],
  ])('a file of which nothing comes any more after %s is refused in words', async (_, begun) => {
    const server = await stubServer({ stallSeconds: 0.3 });
    const form = requestText('/v1/files', begun.padEnd(2000), { type: 'multipart/form-data; boundary=x' });
    const told = await answerStaying(Number(new URL(server.url).port), form.slice(0, -1000));
    expect(told).toMatch(/^HTTP\/1\.1 408 [^]*nothing came of the file for 0\.3 s/);
  });

  test('an address that others reach demands a key', async () => {
    await expect(stubServer({ host: '0.0.0.0' })).rejects.toThrow(/apiKey/);
    const server = await stubServer({ host: '0.0.0.0', apiKey: KEY });
    const port = new URL(server.url).port;
    expect((await fetch(`http://127.0.0.1:${port}/v1/models`)).status).toBe(401);
    const authorized = { headers: { authorization: `Bearer ${KEY}` } };
    expect((await fetch(`http://127.0.0.1:${port}/v1/models`, authorized)).status).toBe(200);
  });

  test('names and pages that are allowed are', async () => {
    const server = await stubServer({ allowedHosts: ['box.example'], allowedOrigins: ['https://app.example'] });
    const port = Number(new URL(server.url).port);
    const ask = (headers: Record<string, string>, host = 'localhost', method = 'GET') =>
      answerTo(port, { name: '', pieces: [requestText('/v1/models', '', { method, host, type: '', headers })] });
    expect((await ask({}, 'box.example')).status).toBe(200);
    const page = await ask({ origin: 'https://app.example' });
    expect(page.status).toBe(200);
    expect(page.text).toMatch(/access-control-allow-origin: https:\/\/app\.example/i);
    // The headers of OpenAI's client, which has one for each of its ways to ask.
    const headers = 'authorization,content-type,x-stainless-helper-method,x-stainless-lang';
    const asked = { origin: 'https://app.example', 'access-control-request-headers': headers };
    const told = await ask(asked, 'localhost', 'OPTIONS');
    expect([told.status, told.text.toLowerCase()]).toEqual([
      204,
      expect.stringContaining(`\r\naccess-control-allow-headers: ${headers}\r\n`),
    ]);
    // Its own pages.
    expect((await ask({ origin: `http://localhost:${port}` }, `localhost:${port}`)).status).toBe(200);
  });

  test('what is loopback', () => {
    expect(['localhost', '127.0.0.1', '127.8.8.8', '::1'].every(isLoopback)).toBe(true);
    expect(['0.0.0.0', '::', '10.0.0.1', 'example', '127.0.0.1.evil.example'].some(isLoopback)).toBe(false);
    expect(new Gate({ host: 'localhost' }).allowsOrigin('http://evil.example', 'localhost')).toBe(false);
  });
});

/** What comes back for bytes after which nothing more is sent, and nothing is closed. */
async function answerStaying(port: number, text: string): Promise<string> {
  const { connect } = await import('node:net');
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  socket.write(text);
  let back = '';
  await new Promise<void>((resolve) => {
    socket.on('data', (part) => (back += part.toString('latin1')));
    socket.on('error', () => undefined);
    for (const end of ['end', 'close']) socket.once(end, () => resolve());
  });
  socket.destroy();
  return back;
}
