import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { DownloadError } from '../../../src/errors/ModelFileError.js';
import { InterruptedError } from '../../../src/errors/InterruptedError.js';
import { hubSource } from '../../../src/model/pull/downloadSources.js';
import { pullModel } from '../../../src/model/pull/pullModel.js';
import { CONTENTS, MODEL, temporaryFolder } from './pullFixtures.js';

/**
 * A hub on the loopback interface: it answers ranged requests for one file. `cut` ends each longer answer after so many
 * bytes.
 */
class LoopbackHub {
  readonly requests: string[] = [];
  contents: Buffer = CONTENTS;
  cut = Infinity;
  silent = false;
  /** Whoever stands between answers with a page of its own. */
  page = false;
  #server: Server | undefined;

  async start(): Promise<string> {
    const server = createServer((request, response) => {
      this.#answer(request, response);
    });
    this.#server = server;
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    this.#server?.closeAllConnections();
    await new Promise((resolve) => this.#server?.close(resolve));
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    this.requests.push(`${String(request.url)} ${String(request.headers.range)}`);
    if (this.silent) return;
    if (this.page) {
      response.writeHead(200, { 'Content-Type': 'text/html' });
      response.write('<html>');
      return;
    }
    if (request.url !== `/${MODEL.hub.repo}/resolve/${MODEL.hub.revision}/${MODEL.hub.path}`) {
      response.writeHead(404, { 'X-Error-Code': 'EntryNotFound' }).end();
      return;
    }
    const size = this.contents.length;
    const range = /^bytes=(\d+)-$/.exec(request.headers.range ?? '');
    const first = Number(range?.[1] ?? 0);
    const body = this.contents.subarray(first);
    response.writeHead(range === null ? 200 : 206, {
      ETag: '"abc"',
      'Content-Length': body.length,
      ...(range === null ? {} : { 'Content-Range': `bytes ${first}-${size - 1}/${size}` }),
    });
    if (body.length > this.cut)
      response.write(body.subarray(0, this.cut), () => setTimeout(() => response.destroy(), 50));
    else response.end(body);
  }
}

describe('hubSource', () => {
  const before = process.env['HF_ENDPOINT'];
  let hub: LoopbackHub;

  beforeEach(async () => {
    hub = new LoopbackHub();
    process.env['HF_ENDPOINT'] = await hub.start();
  });

  afterEach(async () => {
    await hub.stop();
    if (before === undefined) delete process.env['HF_ENDPOINT'];
    else process.env['HF_ENDPOINT'] = before;
  });

  test('fetches the file at its revision', async () => {
    await using folder = await temporaryFolder();
    const path = await pullModel(MODEL, { folder: folder.path, sources: [hubSource] });
    expect((await readFile(path)).equals(CONTENTS)).toBe(true);
  });

  test('a page that is no file leaves what is there', async () => {
    await using folder = await temporaryFolder();
    const fetched = (): Promise<string> => pullModel(MODEL, { folder: folder.path, sources: [hubSource] });
    hub.cut = 1000;
    await expect(fetched()).rejects.toThrow(DownloadError);
    hub.page = true;
    await expect(fetched()).rejects.toThrow(`its answer does not say how long it is, expected ${MODEL.bytes} bytes`);
    [hub.page, hub.cut] = [false, Infinity];
    expect((await readFile(await fetched())).equals(CONTENTS)).toBe(true);
    expect(hub.requests.at(-1)).toMatch(/ bytes=1000-$/);
  });

  test('is not asked offline', async () => {
    await using folder = await temporaryFolder();
    process.env['HF_HUB_OFFLINE'] = '1';
    try {
      await expect(pullModel(MODEL, { folder: folder.path, sources: [hubSource] })).rejects.toThrow('HF_HUB_OFFLINE');
    } finally {
      delete process.env['HF_HUB_OFFLINE'];
    }
    expect(hub.requests).toEqual([]);
  });

  test('resumes with a ranged request after a broken connection', async () => {
    await using folder = await temporaryFolder();
    hub.cut = 100_000;
    await expect(pullModel(MODEL, { folder: folder.path, sources: [hubSource] })).rejects.toThrow('Hugging Face hub');
    hub.cut = Infinity;
    hub.requests.length = 0;
    const path = await pullModel(MODEL, { folder: folder.path, sources: [hubSource] });
    expect((await readFile(path)).equals(CONTENTS)).toBe(true);
    const resumed = /bytes=(\d+)-$/.exec(hub.requests.at(-1) ?? '');
    expect(Number(resumed?.[1])).toBeGreaterThan(0);
  });

  test('refuses a file of another size before reading it', async () => {
    await using folder = await temporaryFolder();
    hub.contents = CONTENTS.subarray(0, 1000);
    await expect(pullModel(MODEL, { folder: folder.path, sources: [hubSource] })).rejects.toThrow(
      'its file has 1000 bytes, expected 300000',
    );
    expect(hub.requests).toHaveLength(1);
  });

  test('says which file is not there', async () => {
    await using folder = await temporaryFolder();
    const missing = { ...MODEL, hub: { ...MODEL.hub, path: 'absent.gguf' } };
    await expect(pullModel(missing, { folder: folder.path, sources: [hubSource] })).rejects.toThrow(
      'has no file absent.gguf',
    );
  });

  test('names the cause when nobody listens', async () => {
    await using folder = await temporaryFolder();
    await hub.stop();
    await expect(pullModel(MODEL, { folder: folder.path, sources: [hubSource] })).rejects.toThrow(
      /Hugging Face hub: .*ECONNREFUSED/,
    );
  });

  test('gives up on a hub that does not answer', async () => {
    await using folder = await temporaryFolder();
    hub.silent = true;
    await expect(pullModel(MODEL, { folder: folder.path, sources: [hubSource] })).rejects.toThrow('no answer within');
  });

  test('stops at once when the signal fires while the hub is silent', async () => {
    await using folder = await temporaryFolder();
    hub.silent = true;
    const pull = pullModel(MODEL, { folder: folder.path, sources: [hubSource], signal: AbortSignal.timeout(100) });
    await expect(pull).rejects.toBeInstanceOf(InterruptedError);
    expect(hub.requests.length).toBeLessThanOrEqual(1);
  });
});
