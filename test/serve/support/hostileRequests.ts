import { connect } from 'node:net';

/** Bytes that go to a server, and what it may answer. */
export interface HostileRequest {
  readonly name: string;
  /** What is sent, piece by piece. */
  readonly pieces: readonly (string | Buffer)[];
  /** Which statuses are right; undefined: any from 200 to 499. */
  readonly statuses?: readonly number[];
  /** The client is gone so long after it. Default: it waits. */
  readonly leavesAfterMilliseconds?: number;
}

type Random = () => number;

/** Random numbers that a seed repeats (mulberry32). */
export function seededRandom(seed: number): Random {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const CHAT = '/v1/chat/completions';
const BODY = { messages: [{ role: 'user', content: 'Hello' }], max_tokens: 2 };
const PATHS = [
  CHAT,
  '/v1/completions',
  '/v1/embeddings',
  '/v1/rerank',
  '/v1/files',
  '/v1/batches',
  '/v1/batches/batch_0/cancel',
  '/v1/models',
  '/health',
  '/metrics',
];

export function requestText(
  path: string,
  body: string | Buffer,
  {
    method = 'POST',
    host = 'localhost',
    headers = {},
    type = 'application/json',
    key = '',
  }: {
    readonly method?: string;
    readonly host?: string;
    readonly headers?: Readonly<Record<string, string>>;
    readonly type?: string;
    readonly key?: string;
  } = {},
): string {
  const lines = [
    `${method} ${path} HTTP/1.1`,
    `Host: ${host}`,
    ...(type === '' ? [] : [`Content-Type: ${type}`]),
    `Content-Length: ${Buffer.byteLength(body)}`,
    ...(key === '' ? [] : [`Authorization: Bearer ${key}`]),
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    'Connection: close',
  ];
  return `${lines.join('\r\n')}\r\n\r\n${body.toString('latin1')}`;
}

/** Requests of known kinds, each with what it must be answered with. */
export function knownHostile(key: string): readonly HostileRequest[] {
  const chat = JSON.stringify(BODY);
  const one = (name: string, text: string | readonly (string | Buffer)[], ...statuses: number[]): HostileRequest => ({
    name,
    pieces: typeof text === 'string' ? [text] : text,
    statuses,
  });
  const head = `POST ${CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer ${key}\r\n`;
  return [
    one('rebinding', requestText(CHAT, chat, { host: 'evil.example', key }), 403),
    one('rebinding with a port', requestText(CHAT, chat, { host: 'evil.example:80', key }), 403),
    one('rebinding, localhost within', requestText(CHAT, chat, { host: 'localhost.evil.example', key }), 403),
    one('rebinding, user part', requestText(CHAT, chat, { host: 'localhost@evil.example', key }), 400),
    one('two hosts', requestText(CHAT, chat, { headers: { host: 'evil.example' }, key }), 400),
    one('no host', `GET /health HTTP/1.1\r\nConnection: close\r\n\r\n`, 400),
    one('no host, HTTP/1.0', `GET /v1/models HTTP/1.0\r\n\r\n`, 400),
    one('cross-site', requestText(CHAT, chat, { headers: { origin: 'https://evil.example' }, key }), 403),
    one('cross-site, null', requestText(CHAT, chat, { headers: { origin: 'null' }, key }), 403),
    one(
      'cross-site, nearly',
      requestText(CHAT, chat, { headers: { origin: 'http://localhost.evil.example' }, key }),
      403,
    ),
    one(
      'cross-site cancel',
      requestText('/v1/batches/batch_0/cancel', '', { headers: { origin: 'https://evil.example' }, type: '', key }),
      403,
    ),
    one('form', requestText(CHAT, chat, { type: 'text/plain', key }), 415),
    one('form, urlencoded', requestText(CHAT, 'a=b', { type: 'application/x-www-form-urlencoded', key }), 415),
    one('form as multipart', requestText(CHAT, chat, { type: 'multipart/form-data; boundary=x', key }), 415),
    one('no type', requestText(CHAT, chat, { type: '', key }), 415),
    one('packed', requestText(CHAT, chat, { headers: { 'content-encoding': 'gzip' }, key }), 415),
    one(
      'preflight',
      requestText(CHAT, '', {
        method: 'OPTIONS',
        headers: { origin: 'https://evil.example', 'access-control-request-method': 'POST' },
        type: '',
      }),
      403,
    ),
    one('no key', requestText(CHAT, chat), ...(key === '' ? [200] : [401])),
    ...(key === ''
      ? []
      : [
          one('a wrong key', requestText(CHAT, chat, { key: `${key}x` }), 401),
          one('a key of another scheme', requestText(CHAT, chat, { headers: { authorization: `Basic ${key}` } }), 401),
          one('no key for metrics', requestText('/metrics', '', { method: 'GET', type: '' }), 401),
          one('no key for files', requestText('/v1/files', '', { method: 'GET', type: '' }), 401),
        ]),
    one(
      'two keys',
      requestText(CHAT, chat, { headers: { authorization: 'Bearer other' }, key }),
      key === '' ? 200 : 400,
    ),
    one(
      'smuggling: length and chunks',
      `${head}Content-Length: 5\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\nGET /v1/models HTTP/1.1\r\n\r\n`,
      400,
    ),
    one(
      'smuggling: two lengths',
      `${head}Content-Length: 5\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello!`,
      400,
    ),
    one('smuggling: length with a sign', `${head}Content-Length: +5\r\nConnection: close\r\n\r\nhello`, 400),
    one('smuggling: another coding', `${head}Transfer-Encoding: xchunked\r\nConnection: close\r\n\r\nhello`, 400, 501),
    one(
      'smuggling: chunked twice',
      `${head}Transfer-Encoding: chunked, chunked\r\nConnection: close\r\n\r\n0\r\n\r\n`,
      400,
    ),
    one(
      'smuggling: a chunk of no size',
      `${head}Transfer-Encoding: chunked\r\nConnection: close\r\n\r\nzz\r\nhello\r\n0\r\n\r\n`,
      400,
    ),
    one('smuggling: bare line feeds', head.replaceAll('\r\n', '\n').concat('Content-Length: 2\n\n{}'), 400),
    one('smuggling: a blank before the colon', `${head}Content-Length : 2\r\nConnection: close\r\n\r\n{}`, 400),
    one('smuggling: a folded header', `${head}X: a\r\n b\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}`, 400),
    one('smuggling: a null in a header', `${head}X: a\0b\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}`, 400),
    one('an endless header', [head, `X: ${'a'.repeat(100_000)}`], 431),
    one(
      'headers without number',
      [head, ...Array.from({ length: 3000 }, (_, at) => `X-${at}: a\r\n`), '\r\n'],
      431,
      400,
    ),
    one('a body with a GET', requestText('/v1/models', '{}', { method: 'GET', key }), 400),
    one(
      'another site as the path',
      `GET http://evil.example/v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`,
      400,
    ),
    one('a tunnel', `OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`, 400),
    one('a tunnel elsewhere', `CONNECT evil.example:443 HTTP/1.1\r\nHost: localhost\r\n\r\n`, 400),
    one('a method that is none', requestText(CHAT, chat, { method: 'BREW', key }), 400),
    one('a method that is not meant', requestText(CHAT, chat, { method: 'PUT', key }), 405),
    one('a version that is none', 'GET / HTTP/9.9\r\nHost: localhost\r\n\r\n', 400, 505),
    one('TLS', [Buffer.from('16030100a5010000a10303', 'hex')], 400),
    ...[
      '../../../../etc/passwd',
      '..%2f..%2fetc%2fpasswd',
      '%2e%2e%2f%2e%2e',
      'file-%00',
      '....//....//etc',
      'file-..\\..\\x',
      '%c0%ae%c0%ae%2f',
    ].map((id) =>
      one(`traversal ${id}`, requestText(`/v1/files/${id}/content`, '', { method: 'GET', type: '', key }), 400, 404),
    ),
    one('deep JSON', requestText(CHAT, `{"messages":${'['.repeat(100_000)}${']'.repeat(100_000)}}`, { key }), 400, 413),
    one(
      'deep JSON beside a number with a spelling of its own',
      requestText(CHAT, `{"messages":[],"n":1.0,"deep":${'['.repeat(5000)}${']'.repeat(5000)}}`, { key }),
      400,
    ),
    one('JSON of many values', requestText(CHAT, `{"messages":[${'{},'.repeat(400_000)}{}]}`, { key }), 400, 413),
    one(
      'a long string',
      requestText(CHAT, JSON.stringify({ ...BODY, messages: [{ role: 'user', content: 'x'.repeat(2_000_000) }] }), {
        key,
      }),
      200,
      400,
      413,
    ),
    one('__proto__', requestText(CHAT, '{"__proto__":{"messages":[]},"constructor":{"prototype":{}}}', { key }), 400),
    one(
      'a length that is a lie',
      [requestText(CHAT, chat, { key }).replace(/Content-Length: \d+/, 'Content-Length: 99999999999')],
      413,
    ),
    one('more than a length says', [requestText(CHAT, chat, { key }), 'x'.repeat(1000)], 200, 400),
    one('a form without a boundary', requestText('/v1/files', 'x', { type: 'multipart/form-data', key }), 400),
    one(
      'a form without an end',
      requestText('/v1/files', '--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nabc', {
        type: 'multipart/form-data; boundary=x',
        key,
      }),
      400,
    ),
    one(
      'a form of many parts',
      requestText(
        '/v1/files',
        `${'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\nb\r\n'.repeat(5000)}--x--\r\n`,
        { type: 'multipart/form-data; boundary=x', key },
      ),
      400,
    ),
    one(
      'a form with a path',
      requestText(
        '/v1/files',
        '--x\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--x\r\nContent-Disposition: form-data; name="file"; filename="../../../evil"\r\n\r\nabc\r\n--x--\r\n',
        { type: 'multipart/form-data; boundary=x', key },
      ),
      200,
    ),
  ];
}

/** A request that is nearly one: some of its bytes, its JSON or its headers are others. */
export function mutatedRequest(random: Random, key: string): HostileRequest {
  const pick = <T>(of: readonly T[]): T => of[Math.floor(random() * of.length)] as T;
  const path = pick(PATHS);
  const json = mutatedJson(
    JSON.stringify(
      path === '/v1/batches'
        ? { input_file_id: 'file-0', endpoint: CHAT, completion_window: '24h' }
        : { ...BODY, input: 'a', query: 'a', documents: ['b'], prompt: 'a' },
    ),
    random,
  );
  let text = requestText(path, json, {
    method: pick(['POST', 'POST', 'POST', 'GET', 'DELETE', 'PUT', 'OPTIONS']),
    host: pick(['localhost', 'localhost', '127.0.0.1', '[::1]', 'evil.example', '', 'a'.repeat(300)]),
    type: pick([
      'application/json',
      'application/json',
      'application/json; charset=utf-8',
      'multipart/form-data; boundary=x',
      'text/plain',
      '',
    ]),
    key: random() < 0.8 ? key : '',
  });
  const kind = Math.floor(random() * 5);
  if (kind === 0) text = mutatedBytes(text, random);
  else if (kind === 1) text = text.slice(0, Math.floor(random() * text.length));
  else if (kind === 2) {
    const at = text.indexOf('\r\n') + 2;
    text =
      text.slice(0, at) +
      pick([
        'Transfer-Encoding: chunked\r\n',
        'Content-Length: 3\r\n',
        'Expect: 100-continue\r\n',
        'Upgrade: websocket\r\n',
        'X: \x01\r\n',
        ': y\r\n',
        'Range: bytes=0-\r\n',
        'Origin: http://localhost\r\n',
        'TE: trailers\r\n',
      ]) +
      text.slice(at);
  }
  return {
    name: `mutated ${JSON.stringify(text.slice(0, 300))}`,
    pieces: [Buffer.from(text, 'latin1')],
    leavesAfterMilliseconds: 200,
  };
}

function mutatedJson(json: string, random: Random): string {
  if (random() < 0.3) return json;
  const value: unknown = random() < 0.5 ? undefined : JSON.parse(json);
  if (value === undefined) return mutatedBytes(json, random);
  const object = value as Record<string, unknown>;
  const names = [
    ...Object.keys(object),
    'stream',
    'n',
    'tools',
    'response_format',
    'logit_bias',
    'stop',
    'temperature',
    'seed',
  ];
  const name = names[Math.floor(random() * names.length)] as string;
  const values = [
    null,
    true,
    -1,
    1e308,
    '',
    'x'.repeat(1000),
    [],
    [[]],
    {},
    { a: {} },
    [null],
    [1.5],
    2 ** 53,
    { type: 'json_schema', json_schema: { schema: { $ref: '#' } } },
  ];
  object[name] = values[Math.floor(random() * values.length)];
  return JSON.stringify(object);
}

function mutatedBytes(text: string, random: Random): string {
  const bytes = Buffer.from(text, 'latin1');
  for (let times = 1 + Math.floor(random() * 4); times > 0; times--)
    bytes[Math.floor(random() * bytes.length)] = Math.floor(random() * 256);
  return bytes.toString('latin1');
}

/** What comes back for a request, to its end; undefined where nothing does. */
export async function answerTo(
  port: number,
  { pieces, leavesAfterMilliseconds }: HostileRequest,
  seconds = 10,
): Promise<{ readonly status: number | undefined; readonly text: string }> {
  const socket = connect(port, '127.0.0.1');
  const parts: Buffer[] = [];
  await new Promise<void>((resolve) => {
    const timer = setTimeout(() => socket.destroy(), seconds * 1000);
    socket.on('data', (part) => parts.push(part));
    socket.on('error', () => undefined);
    socket.on('close', () => {
      clearTimeout(timer);
      resolve();
    });
    void (async () => {
      for (const piece of pieces)
        if (!socket.destroyed && !socket.write(piece))
          await new Promise<void>((go) => void socket.once('drain', go).once('close', go));
      if (leavesAfterMilliseconds !== undefined) setTimeout(() => socket.end(), leavesAfterMilliseconds);
    })();
  });
  const text = Buffer.concat(parts).toString('latin1');
  const [, status] = /^HTTP\/1\.1 (\d{3})/.exec(text.replace(/^HTTP\/1\.1 100[^]*?\r\n\r\n/, '')) ?? [];
  return { status: status === undefined ? undefined : Number(status), text };
}
