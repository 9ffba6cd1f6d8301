import { mkdirSync, realpathSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';

const { execPath } = process;
const npx = (tool) => ['npx', '--yes', tool];

/** @param tool what runs it @param add its words that add the package @param start what runs programs in its folders */
function packageManager(name, tool, add, { start = [execPath], env } = {}) {
  return {
    what: 'package manager',
    name,
    try: async (folders) => {
      const folder = folders.make(name);
      await folders.run(folder, [...tool, ...add], env);
      await folders.answer(folder, [...start, 'answer.mjs'], env);
      return `\`${name.split(' ')[0]} ${add.join(' ')}\``;
    },
  };
}

/** Where programs are looked for there is Node with npm, and nothing else. */
const nodeAlone = {
  what: 'package manager',
  name: 'npm, no compiler, CMake or Python',
  try: async (folders) => {
    const folder = folders.make('node-alone');
    const PATH = join(folder, 'programs');
    mkdirSync(PATH);
    symlinkSync(execPath, join(PATH, 'node'));
    const npm = [execPath, realpathSync(join(dirname(execPath), 'npm'))];
    await folders.run(folder, [...npm, 'install', 'spillway', '--ignore-scripts'], { PATH });
    await folders.answer(folder, [execPath, 'answer.mjs'], { PATH });
    return '`npm install spillway --ignore-scripts`, the `PATH` with nothing but Node';
  },
};

const yarn = npx('@yarnpkg/cli-dist@4');
export const packageManagers = [
  packageManager('npm', ['npm'], ['install', 'spillway']),
  nodeAlone,
  packageManager('pnpm 10', npx('pnpm@10'), ['add', 'spillway']),
  packageManager('pnpm 12', npx('pnpm@12'), ['add', 'spillway']),
  // These two leave it to the user to install what a package has as peers.
  packageManager('yarn 1', npx('yarn@1'), ['add', 'spillway', 'rxjs']),
  packageManager('yarn 4, node_modules', yarn, ['add', 'spillway', 'rxjs'], {
    env: { YARN_NODE_LINKER: 'node-modules' },
  }),
  packageManager("yarn 4, Plug'n'Play", yarn, ['add', 'spillway', 'rxjs'], {
    start: [...yarn, 'node'],
    env: { YARN_NODE_LINKER: 'pnp' },
  }),
];
