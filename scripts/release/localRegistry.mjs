// A package registry of this machine's own, in which packages stand that have been packed and not published: what
// installs them from there does all that it will do with the published ones. Everything else it fetches from the real
// registry, and counts.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/**
 * Serves the packages of these files on a port of this machine.
 * @param real the registry of everything else; by default the one that npm uses here
 * @returns its address, `downloaded`: bytes of the packages that were fetched, by file name, and `close`
 */
export async function localRegistry(files, real = run('npm', ['config', 'get', 'registry'])) {
  const upstream = real.trim().replace(/\/$/, '');
  const packages = new Map(files.map((file) => packageOf(readFileSync(file), file)).map((each) => [each.name, each]));
  const downloaded = new Map();
  let url = '';
  const server = createServer((request, response) => {
    answer(decodeURIComponent(request.url), request.headers.accept).then(
      ({ status = 200, type, body }) => response.writeHead(status, { 'content-type': type }).end(body),
      (error) => response.writeHead(502).end(error.message),
    );
  });

  async function answer(path, accept) {
    const own = packages.get(path.slice(1));
    if (own) return { type: 'application/json', body: JSON.stringify(own.document(url)) };
    const packed = [...packages.values()].find(({ tarballPath }) => tarballPath === path);
    const { status, type, body } = packed
      ? { status: 200, type: 'application/octet-stream', body: packed.bytes }
      : await fetched(path, accept);
    if (status === 200 && path.endsWith('.tgz')) downloaded.set(path.split('/').at(-1), body.length);
    return { status, type, body };
  }

  /** Documents name the addresses of packages, which shall be fetched by way of here as well. */
  async function fetched(path, accept = '*/*') {
    const [, name, rest] = /^\/(@[^/]+\/[^/]+|[^/]+)(.*)$/.exec(path) ?? [undefined, '', ''];
    const reply = await fetch(`${upstream}/${name.replace('/', '%2f')}${rest}`, { headers: { accept } });
    const type = reply.headers.get('content-type') ?? '';
    const body = type.includes('json')
      ? (await reply.text()).replaceAll(`${upstream}/`, `${url}/`)
      : Buffer.from(await reply.arrayBuffer());
    return { status: reply.status, type, body };
  }

  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${server.address().port}`;
  return {
    url,
    downloaded,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

function packageOf(bytes, file) {
  const manifest = JSON.parse(run('tar', ['-xzOf', file, 'package/package.json']));
  const { name, version } = manifest;
  const tarballPath = `/${name}/-/${name.split('/').at(-1)}-${version}.tgz`;
  const hash = (algorithm, encoding) => createHash(algorithm).update(bytes).digest(encoding);
  const dist = { shasum: hash('sha1', 'hex'), integrity: `sha512-${hash('sha512', 'base64')}` };
  // As of long ago: package managers that wait with new versions do not wait for these.
  const past = '2026-01-01T00:00:00.000Z';
  return {
    name,
    bytes,
    tarballPath,
    document: (url) => ({
      name,
      'dist-tags': { latest: version },
      time: { created: past, modified: past, [version]: past },
      versions: { [version]: { ...manifest, dist: { ...dist, tarball: `${url}${tarballPath}` } } },
    }),
  };
}

/** A package with nothing in it but its manifest, in the place of one that was not built: @returns its file, and `remove` */
export function emptyPackage(manifest) {
  const folder = mkdtempSync(join(tmpdir(), 'spillway-empty-'));
  mkdirSync(join(folder, 'package'));
  writeFileSync(join(folder, 'package', 'package.json'), JSON.stringify(manifest));
  const file = join(folder, 'empty.tgz');
  run('tar', ['-czf', file, '-C', folder, 'package']);
  return { file, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

function run(program, args) {
  const { status, stdout, stderr } = spawnSync(program, args, { encoding: 'utf8', maxBuffer: 2 ** 28 });
  if (status !== 0) throw new Error(`${program} ${args.join(' ')}: ${stderr}`);
  return stdout;
}
