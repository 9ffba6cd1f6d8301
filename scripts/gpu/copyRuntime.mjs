// Copies what the compiled package needs to run, and nothing else: dist and package.json, and the packages that it
// imports, without types, maps, sources and documents.
//   node scripts/gpu/copyRuntime.mjs FOLDER
import { cpSync, existsSync, mkdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const [folder] = process.argv.slice(2);
if (folder === undefined) {
  console.error('usage: copyRuntime.mjs FOLDER');
  process.exit(1);
}
/** They build the addon. */
const BUILD_ONLY = ['cmake-js', 'node-addon-api'];
const LEFT_OUT = /\.(d\.[cm]?ts|[cm]?ts|map|md|markdown|flow|html|css)$/i;
/** Of whole packages: other builds of the same, and what they were made of. */
const OTHER_BUILDS = {
  rxjs: ['src', 'dist/bundles', 'dist/esm', 'dist/esm5', 'dist/types'],
  zod: ['src'],
  uplot: ['dist/uPlot.iife.js'],
};

function readManifest(package_) {
  return JSON.parse(readFileSync(join(package_, 'package.json'), 'utf8'));
}

/** What a package cannot do without: its own dependencies, and those that its user installs beside it. */
function neededBy({ dependencies = {}, peerDependencies = {}, peerDependenciesMeta = {} }) {
  const peers = Object.keys(peerDependencies).filter((name) => peerDependenciesMeta[name]?.optional !== true);
  return [...Object.keys(dependencies), ...peers];
}

/** Where a package lies that another one imports: below it, or in a folder above. */
function find(name, from) {
  for (let at = from; ; at = dirname(at)) {
    const path = join(at, 'node_modules', name);
    if (existsSync(join(path, 'package.json'))) return path;
    if (at === root)
      throw new Error(`${name}, which ${relative(root, from) || 'this package'} needs, is not installed: npm ci`);
  }
}

const copied = new Set();
function copyPackage(path, name) {
  if (copied.has(path)) return;
  copied.add(path);
  const others = (OTHER_BUILDS[name] ?? []).map((each) => join(path, each));
  const wanted = (from) =>
    !LEFT_OUT.test(from) && !others.includes(from) && (basename(from) !== 'node_modules' || from === path);
  cpSync(path, join(folder, relative(root, path)), {
    recursive: true,
    dereference: true,
    filter: (from) => wanted(from),
  });
  for (const needed of neededBy(readManifest(path))) copyPackage(find(needed, path), needed);
}

if (!existsSync(join(root, 'dist', 'index.js'))) throw new Error('dist/index.js: no such file; npm run build makes it');
mkdirSync(folder, { recursive: true });
cpSync(join(root, 'package.json'), join(folder, 'package.json'));
for (const each of ['dist', 'hardware'])
  cpSync(join(root, each), join(folder, each), { recursive: true, filter: (from) => !LEFT_OUT.test(from) });
for (const name of neededBy(readManifest(root))) if (!BUILD_ONLY.includes(name)) copyPackage(find(name, root), name);
console.log(
  `${copied.size} packages: ${[...copied]
    .map((path) => relative(join(root, 'node_modules'), path).split(sep).join('/'))
    .sort()
    .join(', ')}`,
);
