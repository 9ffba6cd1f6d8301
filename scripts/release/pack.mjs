// Makes the package as it is published: release/spillway-VERSION.tgz.
//   npm run release:pack -- [--output release]
// It differs from a checkout in this: nothing runs at install, and the addon comes by a package for the platform
// (prebuild.mjs). Building from source stays: scripts/install.mjs.
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { packageName, PLATFORMS } from './platforms.mjs';

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const { values } = parseArgs({ options: { output: { type: 'string', default: 'release' } } });
const output = resolve(values.output);
mkdirSync(output, { recursive: true });

const scratch = mkdtempSync(join(tmpdir(), 'spillway-pack-'));
process.on('exit', () => rmSync(scratch, { recursive: true, force: true }));
npm(root, 'run', '--silent', 'build');
// npm says what belongs to the package; what it has packed is changed and packed again.
const { filename } = JSON.parse(npm(root, 'pack', '--json', '--ignore-scripts', '--pack-destination', scratch))[0];
const unpacked = spawnSync('tar', ['-xzf', filename], { cwd: scratch, encoding: 'utf8' });
if (unpacked.status !== 0) throw new Error(`tar: ${unpacked.stderr}`);
const folder = join(scratch, 'package');
const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
delete manifest.scripts;
delete manifest.devDependencies;
delete manifest.overrides;
const packages = (cuda) =>
  Object.keys(PLATFORMS)
    .filter((platform) => (PLATFORMS[platform].cuda ?? false) === cuda)
    .map((platform) => [packageName(platform), manifest.version]);
manifest.optionalDependencies = Object.fromEntries(packages(false));
// Found beside, by package managers too that show a package nothing but what it names, and never installed unasked.
manifest.peerDependencies = { ...manifest.peerDependencies, ...Object.fromEntries(packages(true)) };
manifest.peerDependenciesMeta = {
  ...manifest.peerDependenciesMeta,
  ...Object.fromEntries(packages(true).map(([name]) => [name, { optional: true }])),
};
writeFileSync(join(folder, 'package.json'), `${JSON.stringify(manifest, undefined, 2)}\n`);
const packed = npm(folder, 'pack', '--silent', '--ignore-scripts', '--pack-destination', output).trim();
console.log(join(output, packed));

function npm(cwd, ...args) {
  const { status, stdout, stderr } = spawnSync('npm', args, { cwd, encoding: 'utf8', maxBuffer: 2 ** 28 });
  if (status !== 0) throw new Error(`npm ${args.join(' ')}: ${stderr || stdout}`);
  return stdout;
}
