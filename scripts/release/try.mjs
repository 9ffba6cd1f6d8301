// Installs the packages of release/ (release:pack, release:addon) as users do, with each package manager, and answers a
// row from each kind of module, through a bundler, on each Node. What came is the table in docs/installation.md.
//   npm run release:try -- [--only WORD]
// The packages come from a registry on this machine (localRegistry.mjs), all else from the real one. With --only those
// are tried that have the word in their names, and nothing is written. Exits with 1 where one of them fails.
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { emptyPackage, localRegistry } from './localRegistry.mjs';
import { packageManifest, packedName, PLATFORMS } from './platforms.mjs';
import { bundlers } from './tries/bundlers.mjs';
import { modules } from './tries/modules.mjs';
import { nodeVersions } from './tries/nodeVersions.mjs';
import { packageManagers } from './tries/packageManagers.mjs';
import { UserFolders } from './UserFolders.mjs';

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const page = join(root, 'docs', 'installation.md');
const { values: options } = parseArgs({ options: { only: { type: 'string', default: '' } } });
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const here = `${process.platform}-${process.arch}`;

const release = (name) => join(root, 'release', `${name}-${version}.tgz`);
// Of other platforms a package manager reads no more than that they are.
const others = Object.keys(PLATFORMS)
  .filter((platform) => platform !== here)
  .map((platform) => emptyPackage(packageManifest(platform, { version })));
const files = [release('spillway'), release(packedName(here)), ...others.map(({ file }) => file)];
const registry = await localRegistry(files);
const folders = new UserFolders(registry.url);

const rows = [];
let download;
try {
  for (const { what, name, ...each } of [...packageManagers, ...modules, ...bundlers, ...nodeVersions]) {
    if (!`${what} ${name}`.includes(options.only)) continue;
    const began = Date.now();
    const [mark, came] = await each.try(folders).then(
      (words) => ['✓', words],
      (error) => ['✗', error.message],
    );
    console.error(`${mark} ${what}, ${name}: ${came} (${((Date.now() - began) / 1000).toFixed(0)} s)`);
    rows.push({ what, name, mark, came });
    // What the first one fetched, into an empty cache.
    download ??= [...registry.downloaded].map(([file, bytes]) => ({ file, bytes }));
  }
} finally {
  registry.close();
  folders.remove();
  for (const { remove } of others) remove();
}
const failed = rows.filter(({ mark }) => mark !== '✓');
if (options.only === '' && failed.length === 0) write();
process.exitCode = failed.length === 0 ? 0 : 1;

/** Between the page's marks. */
function write() {
  const bytes = (files) => files.reduce((sum, file) => sum + file.bytes, 0);
  const mib = (files) => `${(bytes(files) / 2 ** 20).toFixed(1)} MiB`;
  const named = (name) => download.filter(({ file }) => file.startsWith(name));
  const [own, addon] = [named(`spillway-${version}`), named(`${here}-${version}`)];
  const text = [
    `${new Date().toISOString().slice(0, 10)}, ${here}, Node ${process.versions.node}. TypeScript ${folders.versions.typescript.slice(1)}, esbuild ${folders.versions.esbuild}.`,
    `\`npm install spillway\` fetches ${mib(download)} in ${download.length} packages: ${mib(own)} are Spillway's own, ${mib(addon)} the addon's.`,
    '',
    '| | | what came |',
    '|-|-|-|',
    ...rows.map(({ what, name, came }, at) => `| ${rows[at - 1]?.what === what ? '' : what} | ${name} | ${came} |`),
  ].join('\n');
  const [before, after] = ['<!-- release:try -->\n', '\n<!-- /release:try -->'];
  const old = readFileSync(page, 'utf8');
  const [begin, end] = [old.indexOf(before) + before.length, old.indexOf(after)];
  writeFileSync(page, old.slice(0, begin) + text + old.slice(end));
}
