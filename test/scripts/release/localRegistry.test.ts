import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from '@jest/globals';

/** The scripts have no types; what is used of them is declared here. */
const load = async <T>(path: string): Promise<T> => (await import(`../../../scripts/release/${path}`)) as T;
interface Registry {
  readonly url: string;
  readonly downloaded: ReadonlyMap<string, number>;
  close(): void;
}
const { emptyPackage, localRegistry } = await load<{
  emptyPackage(manifest: object): { file: string; remove(): void };
  localRegistry(files: readonly string[], real: string): Promise<Registry>;
}>('localRegistry.mjs');
const { packageManifest, packedName, PLATFORMS } = await load<{
  packageManifest(platform: string, description: object): Record<string, unknown>;
  packedName(platform: string): string;
  PLATFORMS: Record<string, { readonly cuda?: boolean }>;
}>('platforms.mjs');

interface Document {
  readonly 'dist-tags'?: unknown;
  readonly versions: Record<string, { os?: unknown; dist: { tarball: string; integrity: string } }>;
}
const get = async (url: string): Promise<Document> => (await (await fetch(url)).json()) as Document;
const bytes = async (url: string): Promise<Buffer> => Buffer.from(await (await fetch(url)).arrayBuffer());

const TARBALL = Buffer.from('a package of others');
const own = emptyPackage(packageManifest('darwin-arm64', { version: '1.2.3' }));
let real: Server;
let registry: Registry;
beforeAll(async () => {
  real = createServer((request, response) => {
    const url = `http://127.0.0.1:${(real.address() as AddressInfo).port}`;
    if (request.url === '/others') {
      const versions = { '4.0.0': { dist: { tarball: `${url}/others/-/others-4.0.0.tgz`, integrity: 'as it is' } } };
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ versions }));
    } else if (request.url === '/others/-/others-4.0.0.tgz') response.writeHead(200).end(TARBALL);
    else response.writeHead(404).end();
  });
  await new Promise<void>((resolve) => real.listen(0, '127.0.0.1', resolve));
  registry = await localRegistry([own.file], `http://127.0.0.1:${(real.address() as AddressInfo).port}/\n`);
});
afterAll(() => {
  registry.close();
  real.closeAllConnections();
  real.close();
  own.remove();
});

test('a package that was packed is there under its name, with its manifest, hash and bytes', async () => {
  const document = await get(`${registry.url}/@spillway%2fdarwin-arm64`);
  expect(document['dist-tags']).toEqual({ latest: '1.2.3' });
  const { os, dist } = document.versions['1.2.3'] ?? { dist: { tarball: '', integrity: '' } };
  expect(os).toEqual(['darwin']);
  const packed = await bytes(dist.tarball);
  expect(packed.equals(readFileSync(own.file))).toBe(true);
  expect(dist.integrity).toBe(`sha512-${createHash('sha512').update(packed).digest('base64')}`);
  expect(registry.downloaded.get('darwin-arm64-1.2.3.tgz')).toBe(packed.length);
});

test('everything else comes from the real registry, by way of this one, and is counted', async () => {
  const { tarball } = (await get(`${registry.url}/others`)).versions['4.0.0']?.dist ?? { tarball: '' };
  expect(tarball).toBe(`${registry.url}/others/-/others-4.0.0.tgz`);
  expect((await bytes(tarball)).equals(TARBALL)).toBe(true);
  expect(registry.downloaded.get('others-4.0.0.tgz')).toBe(TARBALL.length);
  expect((await fetch(`${registry.url}/nobodys`)).status).toBe(404);
});

test('each platform has a package of its own, which package managers choose by its manifest', () => {
  // The one with CUDA is nobody's choice but the user's.
  const manifests = Object.keys(PLATFORMS)
    .filter((platform) => PLATFORMS[platform]?.cuda !== true)
    .map((platform) => packageManifest(platform, { version: '1.2.3' }));
  const kinds = manifests.map(({ os, cpu, libc }) => JSON.stringify({ os, cpu, libc }));
  expect(new Set(kinds).size).toBe(kinds.length);
  expect(packageManifest('linux-x64', { version: '1.2.3' })).toMatchObject({
    name: '@spillway/linux-x64',
    version: '1.2.3',
    os: ['linux'],
    cpu: ['x64'],
    libc: ['glibc'],
    main: 'spillway.node',
  });
  expect(packedName('linux-x64')).toBe('spillway-linux-x64');
});
