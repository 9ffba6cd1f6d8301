import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { DownloadError } from '../../../src/errors/ModelFileError.js';
import { UsageError } from '../../../src/errors/UsageError.js';
import { pullHub } from '../../../src/model/hub/pullHub.js';
import { fetchOf, proxyWords } from '../../../src/model/pull/proxy.js';
import { StubHub } from '../../support/StubHub.js';
import { StubProxy } from '../../support/StubProxy.js';

const MODEL = readFileSync('test/fixtures/models/llama-Q8_0.gguf');

let hub: StubHub;
let home: string;
beforeEach(async () => {
  hub = await StubHub.start();
  hub.add('tiny-Q8_0.gguf', MODEL);
  home = mkdtempSync(join(tmpdir(), 'spillway-proxy-'));
});
afterEach(async () => {
  await hub[Symbol.asyncDispose]();
  rmSync(home, { recursive: true, force: true });
});

function pull(environment: Readonly<Record<string, string>>): Promise<string> {
  return pullHub('hf:someone/tiny', {
    patience: { answer: 5, stall: 5, pause: 0.01 },
    environment: { HF_ENDPOINT: hub.endpoint, HF_HOME: home, ...environment },
  });
}

async function failureOf(promise: Promise<unknown>): Promise<Error> {
  return promise.then(
    () => new Error('it should have failed'),
    (error: unknown) => error as Error,
  );
}

describe('lists and files come through the proxy', () => {
  test.each(['HTTP_PROXY', 'http_proxy'])('that %s names, with what it is opened by', async (variable) => {
    await using proxy = await StubProxy.start('me:p@ss/word');
    const path = await pull({ [variable]: `http://me:p%40ss%2Fword@127.0.0.1:${proxy.port}` });
    expect(readFileSync(path)).toEqual(MODEL);
    expect(proxy.hosts.length).toBeGreaterThan(0);
    expect(new Set(proxy.hosts)).toContain(new URL(hub.endpoint).host);
  });

  test('without a scheme, and by the small letters where both are there', async () => {
    await using proxy = await StubProxy.start();
    await pull({ HTTP_PROXY: 'http://127.0.0.1:9', http_proxy: `127.0.0.1:${proxy.port}` });
    expect(proxy.hosts.length).toBeGreaterThan(0);
  });

  test.each(['127.0.0.1', 'elsewhere.example,127.0.0.1', '*'])('but for the hosts of NO_PROXY: %s', async (hosts) => {
    await using proxy = await StubProxy.start();
    await pull({ HTTP_PROXY: `http://127.0.0.1:${proxy.port}`, NO_PROXY: hosts });
    expect(proxy.hosts).toEqual([]);
  });

  test('a tunnel is dug for an address of TLS', async () => {
    await using proxy = await StubProxy.start();
    const through = await fetchOf({ HTTPS_PROXY: `http://127.0.0.1:${proxy.port}` });
    // Whoever answers there speaks no TLS.
    await expect(through(hub.endpoint.replace('http:', 'https:'))).rejects.toThrow();
    expect(proxy.hosts).toEqual([new URL(hub.endpoint).host]);
  });
});

describe('a download that fails names the proxy, and never what opens it', () => {
  test('one that nobody answers at', async () => {
    const failure = await failureOf(pull({ HTTP_PROXY: 'http://me:SECRET123@127.0.0.1:9' }));
    expect(failure).toBeInstanceOf(DownloadError);
    expect(failure.message).toContain('the proxy is that of HTTP_PROXY http://127.0.0.1:9');
    expect(failure.message).not.toContain('SECRET123');
  });

  test('one that wants another password', async () => {
    await using proxy = await StubProxy.start('me:right');
    const failure = await failureOf(pull({ HTTP_PROXY: `http://me:SECRET123@127.0.0.1:${proxy.port}` }));
    expect(failure.message).toContain('407');
    expect(failure.message).toContain(`the proxy is that of HTTP_PROXY http://127.0.0.1:${proxy.port}`);
    expect(failure.message).not.toContain('SECRET123');
  });

  test('none, and one that is none', async () => {
    expect(proxyWords({})).toContain('HTTPS_PROXY names it');
    for (const HTTPS_PROXY of ['socks5://me:SECRET123@h:1', 'http://me:SECRET123@', '://me:SECRET123']) {
      const failure = await failureOf(pull({ HTTPS_PROXY }));
      expect(failure).toBeInstanceOf(UsageError);
      expect(failure.message).toBe('HTTPS_PROXY: found no address of a proxy, expected http://HOST:PORT');
    }
  });
});
