import { createHash } from 'node:crypto';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { InterruptedError } from '../../../src/errors/InterruptedError.js';
import { DownloadError, ModelFileError } from '../../../src/errors/ModelFileError.js';
import { UsageError } from '../../../src/errors/UsageError.js';
import { cachedModels } from '../../../src/model/cachedModels.js';
import { pullHub, type PullHubOptions } from '../../../src/model/hub/pullHub.js';
import { readModel } from '../../../src/model/readModel.js';
import { built } from '../../jobs/support/built.js';
import { Random } from '../../fuzz/Random.js';
import { StubHub, type Fault } from '../../support/StubHub.js';
import { tries } from '../../support/tries.js';

const MODEL = readFileSync('test/fixtures/models/llama-Q8_0.gguf');
const PATIENCE = { answer: 10, stall: 10, pause: 0.01 };

let hub: StubHub;
let home: string;

beforeEach(async () => {
  hub = await StubHub.start();
  home = mkdtempSync(join(tmpdir(), 'spillway-hub-'));
  hub.add('tiny-Q4_K_M.gguf', MODEL);
  hub.add('tiny-Q8_0.gguf', Buffer.from('another quant'));
  hub.add('README.md', Buffer.from('# tiny\n'), false);
});

afterEach(async () => {
  await hub[Symbol.asyncDispose]();
  rmSync(home, { recursive: true, force: true });
});

function pull(
  name: string,
  options: PullHubOptions = {},
  environment: Readonly<Record<string, string>> = {},
): Promise<string> {
  return pullHub(name, {
    patience: PATIENCE,
    ...options,
    environment: { HF_ENDPOINT: hub.endpoint, HF_HOME: home, ...environment },
  });
}

async function failureOf(promise: Promise<unknown>): Promise<Error> {
  const failure = await promise.then(
    () => undefined,
    (error: unknown) => error as Error,
  );
  if (failure === undefined) throw new Error('it should have failed');
  return failure;
}

/** Files in the cache that are neither blobs whose names are their hashes, nor links, nor references. */
function strays(): string[] {
  return readdirSync(home, { recursive: true, encoding: 'utf8' }).filter((path) =>
    /\.(tmp|partial|work|incomplete)$/.test(path),
  );
}

describe('hf:owner/repo', () => {
  test("fetches the usual quant into the cache that all of Hugging Face's tools share; the next time nothing is asked", async () => {
    const progress: number[] = [];
    const path = await pull('hf:someone/tiny', {
      onProgress: ({ bytes, totalBytes }) => progress.push(bytes / totalBytes),
    });
    const repository = join(home, 'hub', 'models--someone--tiny');
    expect(path).toBe(join(repository, 'snapshots', hub.commit, 'tiny-Q4_K_M.gguf'));
    expect(readFileSync(path).equals(MODEL)).toBe(true);
    expect(readFileSync(join(repository, 'refs', 'main'), 'utf8')).toBe(hub.commit);
    expect(readlinkSync(path)).toBe(join('..', '..', 'blobs', createHash('sha256').update(MODEL).digest('hex')));
    expect(progress.at(0)).toBe(0);
    expect(progress.at(-1)).toBe(1);
    expect((await readModel(path)).decoder.family).toBe('llama');
    hub.requests.length = 0;
    expect(await pull('hf:someone/tiny')).toBe(path);
    expect(hub.requests).toEqual([]);
  });

  test('a quant, a file and a commit by name', async () => {
    expect(readFileSync(await pull('hf:someone/tiny:q8_0'), 'utf8')).toBe('another quant');
    expect(await pull(`hf:someone/tiny@${hub.commit}:tiny-Q8_0.gguf`)).toContain(
      `snapshots/${hub.commit}/tiny-Q8_0.gguf`,
    );
    const missing = await failureOf(pull('hf:someone/tiny:Q5_K_M'));
    expect(missing).toBeInstanceOf(ModelFileError);
    expect(missing.message).toBe(
      'hf:someone/tiny:Q5_K_M: repository: found no file or quant "Q5_K_M", expected tiny-Q4_K_M.gguf, tiny-Q8_0.gguf',
    );
  });

  test('which quant is the usual one does not depend on what happens to be in the cache', async () => {
    await pull('hf:someone/tiny:Q8_0');
    expect(await pull('hf:someone/tiny')).toContain('tiny-Q4_K_M.gguf');
    hub.requests.length = 0;
    expect(await pull('hf:someone/tiny')).toContain('tiny-Q4_K_M.gguf');
    expect(await pull('hf:someone/tiny:Q8_0')).toContain('tiny-Q8_0.gguf');
    expect(hub.requests).toEqual([]);
    // What another tool has fetched: of that alone nobody knows what else there is.
    rmSync(join(home, 'hub', 'models--someone--tiny', '.spillway'), { recursive: true });
    await pull('hf:someone/tiny:tiny-Q8_0.gguf');
    expect(hub.requests).toEqual([]);
    await pull('hf:someone/tiny', {}, { HF_HUB_OFFLINE: '1' });
    expect(hub.requests).toEqual([]);
    await pull('hf:someone/tiny');
    expect(hub.requests).not.toEqual([]);
  });

  test('all files of a split model, and a folder of safetensors with its settings', async () => {
    for (const number of [1, 2, 3]) hub.add(`big/m-Q6_K-0000${number}-of-00003.gguf`, Buffer.from(`part ${number}`));
    const first = await pull('hf:someone/tiny:Q6_K');
    expect(first).toMatch(/big\/m-Q6_K-00001-of-00003\.gguf$/);
    expect(readdirSync(join(first, '..'))).toHaveLength(3);
    hub.files.clear();
    for (const name of readdirSync('test/fixtures/models/llama'))
      hub.add(name, readFileSync(join('test/fixtures/models/llama', name)), name.endsWith('.safetensors'));
    hub.add('onnx/model.onnx', Buffer.from('not wanted'));
    hub.commit = 'd'.repeat(40);
    const folder = await pull('hf:someone/tiny', { verify: true });
    expect((await readModel(folder)).format).toBe('safetensors');
    expect(readdirSync(folder)).not.toContain('onnx');
  });

  test('a revision that has moved is fetched when it is asked after, and only what changed of it', async () => {
    await pull('hf:someone/tiny');
    hub.commit = 'e'.repeat(40);
    hub.requests.length = 0;
    expect(await pull('hf:someone/tiny')).toContain('c'.repeat(40));
    expect(await pull('hf:someone/tiny', { verify: true })).toContain('e'.repeat(40));
    expect(hub.requests.filter((request) => request.startsWith('GET file'))).toEqual([]);
  });

  test.each([
    'hf:',
    'hf:tiny',
    'hf:a/b/c',
    'hf:../x',
    'hf:a/..',
    'hf:a/b@',
    'hf:a/b@../x',
    'hf:a/b:',
    'hf:a/b:/etc/passwd',
    'hf:a/b:x/../../y.gguf',
    'hf:a/b:x\\y.gguf',
    'hf:a b/c',
    'hf:a/b@x y',
    `hf:a/${'b'.repeat(200)}`,
  ])('%s is no name', async (name) => {
    expect(await failureOf(pull(name))).toBeInstanceOf(UsageError);
    expect(hub.requests).toEqual([]);
  });
});

describe('what the hub refuses, with its remedy', () => {
  test.each<[string, number, string | undefined, RegExp]>([
    [
      'gated, without a token',
      401,
      'GatedRepo',
      /is gated \(status 401\): accept its terms at http.*\/someone\/tiny, then set HF_TOKEN/,
    ],
    ['gated, with one', 403, 'GatedRepo', /is gated \(status 403\)/],
    ['not there', 404, 'RepoNotFound', /there is no someone\/tiny, or it is private/],
    ['not for everybody', 401, 'RepoNotFound', /there is no someone\/tiny, or it is private: .* set HF_TOKEN/],
    ['too often', 429, undefined, /too many requests \(status 429\): wait 3600 s/],
    ['broken', 503, undefined, /status 503: try again later/],
  ])('%s: status %d', async (_, status, code, words) => {
    for (const start of ['/api/models', `/${hub.repo}/resolve`]) {
      hub.refusals.clear();
      hub.refusals.set(start, { kind: 'status', status, ...(code !== undefined && { code }), retryAfter: 3600 });
      if (status === 503 && start !== '/api/models') continue;
      const error = await failureOf(pull('hf:someone/tiny', { verify: true }));
      expect(error).toBeInstanceOf(DownloadError);
      expect(error.message).toMatch(words);
      expect(strays()).toEqual([]);
    }
  });

  test('a revision that it does not have; a file that is gone meanwhile; nobody there', async () => {
    expect((await failureOf(pull('hf:someone/tiny@v9'))).message).toContain('someone/tiny has no revision v9');
    hub.refusals.set(`/${hub.repo}/resolve`, { kind: 'status', status: 404, code: 'EntryNotFound' });
    expect((await failureOf(pull('hf:someone/tiny'))).message).toContain('it changed meanwhile, try again');
    await hub[Symbol.asyncDispose]();
    expect((await failureOf(pull('hf:someone/tiny'))).message).toMatch(/ECONNREFUSED/);
  });

  test('a token goes to the hub and to nobody else; one that is refused is told', async () => {
    await pull('hf:someone/tiny', {}, { HF_TOKEN: 'hf_secret' });
    expect([...hub.tokens.hub]).toEqual(['Bearer hf_secret']);
    expect([...hub.tokens.files]).toEqual([]);
    writeFileSync(join(home, 'token'), 'hf_kept\n');
    hub.refusals.set('/api', { kind: 'status', status: 401, code: 'RepoNotFound' });
    expect((await failureOf(pull('hf:someone/tiny', { verify: true }))).message).toContain(
      'the token was refused (status 401)',
    );
    expect(hub.tokens.hub.has('Bearer hf_kept')).toBe(true);
  });
});

describe('offline', () => {
  test('what is in the cache is used, also when asked to verify; what is not is told', async () => {
    const path = await pull('hf:someone/tiny');
    hub.requests.length = 0;
    expect(await pull('hf:someone/tiny', { verify: true }, { HF_HUB_OFFLINE: '1' })).toBe(path);
    const error = await failureOf(pull('hf:someone/tiny:Q8_0', {}, { HF_HUB_OFFLINE: '1' }));
    expect(error.message).toMatch(/the cache: it is not there .*, and HF_HUB_OFFLINE forbids to ask/);
    expect(hub.requests).toEqual([]);
  });
});

describe('what it says is not trusted', () => {
  test('paths that lead elsewhere, sizes and hashes that are none, are left out', async () => {
    const hash = 'a'.repeat(64);
    for (const path of [
      '../../evil-Q4_0.gguf',
      '/evil-Q4_0.gguf',
      'a/../../evil-Q4_0.gguf',
      'a\\evil-Q4_0.gguf',
      'evil\u0000-Q4_0.gguf',
    ])
      hub.entries.push({ type: 'file', path, size: 4, oid: 'b'.repeat(40), lfs: { oid: hash } });
    hub.entries.push(
      { type: 'file', path: 'n-Q4_0.gguf', size: -1, oid: 'b'.repeat(40) },
      { type: 'file', path: 'o-Q4_0.gguf', size: 4, oid: '../../x' },
      { type: 'file', path: 'p-Q4_0.gguf', size: 4, oid: 'b'.repeat(40), lfs: { oid: '../../../x' } },
      null,
      3,
      { type: 'file' },
    );
    expect((await failureOf(pull('hf:someone/tiny:Q4_0'))).message).toContain(
      'expected tiny-Q4_K_M.gguf, tiny-Q8_0.gguf',
    );
    expect(await pull('hf:someone/tiny')).toContain('tiny-Q4_K_M.gguf');
  });

  test('a list that is none, is too long, or goes on at another host', async () => {
    for (const listing of ['{"error":1}', '[', '"x"', '']) {
      hub.listing = listing;
      expect(await failureOf(pull('hf:someone/tiny'))).toBeInstanceOf(Error);
    }
    hub.listing = JSON.stringify('x'.repeat(17 * 2 ** 20));
    expect((await failureOf(pull('hf:someone/tiny'))).message).toContain('more than 16777216 bytes');
    hub.listing = '[]';
    hub.next = 'http://127.0.0.1:9/api/models/x';
    expect((await failureOf(pull('hf:someone/tiny', {}, { HF_TOKEN: 'hf_x' }))).message).toContain(
      'its list goes on at another host',
    );
    hub.next = `${hub.endpoint}/api/models/${hub.repo}/tree/${hub.commit}?again`;
    expect((await failureOf(pull('hf:someone/tiny'))).message).toContain('more than 100 pages');
    hub.listing = undefined;
    hub.next = undefined;
    hub.commit = '../../../x';
    expect((await failureOf(pull('hf:someone/tiny'))).message).toContain('it names no commit');
  });

  test('bytes that do not have the hash that it names are not taken, however often', async () => {
    hub.lies.set('tiny-Q4_K_M.gguf', { lfs: { oid: 'f'.repeat(64), size: MODEL.length, pointerSize: 130 } });
    const error = await failureOf(pull('hf:someone/tiny'));
    expect(error).toBeInstanceOf(DownloadError);
    expect(error.message).toContain('its bytes have another sha256 than it says');
    expect(strays()).toEqual([]);
    expect(readdirSync(join(home, 'hub', 'models--someone--tiny', 'blobs'))).toEqual([]);
  });

  test('a size that it does not keep', async () => {
    hub.lies.set('tiny-Q4_K_M.gguf', { size: 10 });
    expect((await failureOf(pull('hf:someone/tiny'))).message).toContain(
      `its file has ${MODEL.length} bytes, expected 10`,
    );
    hub.lies.set('tiny-Q4_K_M.gguf', { size: 2 ** 52 });
    expect((await failureOf(pull('hf:someone/tiny'))).message).toMatch(
      /TiB are to come, and its disk has .* free: .*; HF_HUB_CACHE names another folder/,
    );
  });
});

const FAULTS = tries(80, 200);

test('drawn faults: never a wrong file, and what had come is not asked for again', async () => {
  const random = new Random(27);
  const kinds = [
    'cut',
    'cut',
    'cut',
    'stall',
    'flip',
    'short',
    'long',
    'whole',
    'shifted',
    'silent',
    'html',
    'status',
    'status',
  ] as const;
  const drawn = (): Fault => {
    const kind = kinds[random.below(kinds.length)] ?? 'cut';
    if (kind === 'status') return { kind, status: [429, 500, 502, 503][random.below(4)] ?? 500, retryAfter: 0 };
    if (kind === 'cut' || kind === 'stall') return { kind, after: random.below(MODEL.length) };
    return kind === 'flip' ? { kind, at: random.below(MODEL.length) } : { kind };
  };
  let [faults, failed, resumed] = [0, 0, 0];
  while (faults < FAULTS) {
    const count = 1 + random.below(5);
    hub.faults.splice(0, Infinity, ...Array.from({ length: count }, drawn));
    faults += count;
    rmSync(join(home, 'hub'), { recursive: true, force: true });
    let path: string | undefined;
    for (let attempt = 0; path === undefined && attempt < 20; attempt++) {
      hub.requests.length = 0;
      path = await pull('hf:someone/tiny', { patience: { answer: 0.3, stall: 0.3, pause: 0.001 } }).catch(
        (error: unknown) => {
          expect(error).toBeInstanceOf(DownloadError);
          failed++;
          return undefined;
        },
      );
      resumed += hub.requests.filter((request) => /bytes=[1-9]/.test(request)).length;
    }
    expect(readFileSync(path ?? '').equals(MODEL)).toBe(true);
    expect(strays()).toEqual([]);
  }
  expect(resumed).toBeGreaterThan(0.15 * FAULTS);
  expect(failed).toBeGreaterThanOrEqual(0);
});

test('a connection that breaks off loses no byte: the next request begins where it ended', async () => {
  // Time to take what was sent: what had not been read when the connection broke off never came.
  hub.faults.push({ kind: 'cut', after: 20_000, milliseconds: 500 }, { kind: 'cut', after: 10_000, milliseconds: 500 });
  const blobs = join(home, 'hub', 'models--someone--tiny', 'blobs');
  const [asked, kept]: [number[], number[]] = [[], []];
  hub.onFile = (first) => {
    asked.push(first);
    kept.push(...readdirSync(blobs).map((name) => statSync(join(blobs, name)).size));
  };
  await pull('hf:someone/tiny');
  expect(asked).toHaveLength(3);
  expect(asked).toEqual(kept);
  expect(asked.at(-1)).toBeGreaterThan(0);
});

test('stopped in the middle, and gone on with', async () => {
  hub.faults.push({ kind: 'stall', after: 20_000 });
  const stop = new AbortController();
  const stopped = failureOf(
    pull('hf:someone/tiny', { signal: stop.signal, patience: { ...PATIENCE, answer: 600, stall: 600 } }),
  );
  const blobs = join(home, 'hub', 'models--someone--tiny', 'blobs');
  const came = (): number =>
    existsSync(blobs) ? readdirSync(blobs).reduce((sum, name) => sum + statSync(join(blobs, name)).size, 0) : 0;
  while (came() < 20_000) await new Promise((resolve) => setTimeout(resolve, 5));
  stop.abort();
  expect(await stopped).toBeInstanceOf(InterruptedError);
  hub.requests.length = 0;
  await pull('hf:someone/tiny');
  expect(hub.requests.some((request) => request.endsWith('bytes=20000-'))).toBe(true);
});

test('what a callback throws ends it', async () => {
  expect(
    (
      await failureOf(
        pull('hf:someone/tiny', {
          onProgress: () => {
            throw new Error('mine');
          },
        }),
      )
    ).message,
  ).toBe('mine');
});

test('two processes that pull one file at once: both have it, whole, and nothing is left', async () => {
  const big = Buffer.alloc(3_000_000, 'abcdefg');
  hub.add('tiny-Q4_K_M.gguf', big);
  const program = `import { pullHub } from ${JSON.stringify(built('model/hub/pullHub.js'))}; process.stdout.write(await pullHub('hf:someone/tiny'));`;
  const paths = await Promise.all(
    [1, 2].map(async () => {
      const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
        env: { ...process.env, HF_ENDPOINT: hub.endpoint, HF_HOME: home },
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      let out = '';
      child.stdout.setEncoding('utf8').on('data', (text: string) => (out += text));
      expect(await once(child, 'close')).toEqual([0, null]);
      return out;
    }),
  );
  for (const path of paths) expect(readFileSync(path).equals(big)).toBe(true);
  expect(strays()).toEqual([]);
});

test('a full disk is told, and what had come is kept for the next time', async () => {
  const big = Buffer.alloc(3_000_000, 'abcdefg');
  hub.add('tiny-Q4_K_M.gguf', big);
  const program = `import { pullHub } from ${JSON.stringify(built('model/hub/pullHub.js'))}; process.on('SIGXFSZ', () => {}); await pullHub('hf:someone/tiny').catch((error) => process.stdout.write(error.message));`;
  const child = spawn(
    'bash',
    ['-c', 'ulimit -f 1000; exec "$0" --input-type=module -e "$1"', process.execPath, program],
    { env: { ...process.env, HF_ENDPOINT: hub.endpoint, HF_HOME: home }, stdio: ['ignore', 'pipe', 'inherit'] },
  );
  let out = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (out += text));
  await once(child, 'close');
  expect(out).toMatch(/a file may not become so long there \(EFBIG\): .*; HF_HUB_CACHE names another folder/);
  hub.requests.length = 0;
  expect(readFileSync(await pull('hf:someone/tiny')).equals(big)).toBe(true);
  expect(hub.requests.some((request) => /bytes=[1-9]\d*-/.test(request))).toBe(true);
});

test('the cache is listed with what it holds', async () => {
  await pull('hf:someone/tiny');
  const before = { ...process.env };
  process.env['HF_HOME'] = home;
  delete process.env['HF_HUB_CACHE'];
  try {
    expect((await cachedModels()).filter(({ name }) => name.startsWith('hf:'))).toEqual([
      { name: 'hf:someone/tiny', bytes: expect.any(Number), path: join(home, 'hub', 'models--someone--tiny') },
    ]);
  } finally {
    process.env['HF_HOME'] = before['HF_HOME'] ?? '';
    if (before['HF_HOME'] === undefined) delete process.env['HF_HOME'];
  }
});
