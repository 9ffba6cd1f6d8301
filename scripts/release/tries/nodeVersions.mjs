import { join } from 'node:path';

/** Node of that release line, as npm packages bring it. @returns its program */
async function nodeOf(folders, version) {
  const name = `node-${process.platform}-${process.arch}`;
  const folder = folders.make(`node-${version}`);
  await folders.run(folder, ['npm', 'install', `${name}@${version}`, '--ignore-scripts']);
  return join(folder, 'node_modules', name, 'bin', 'node');
}

const runs = (version) => ({
  what: 'Node',
  name: version,
  try: async (folders) => {
    const node = await nodeOf(folders, version);
    const folder = await folders.filled();
    await folders.answer(folder, [node, 'answer.mjs']);
    await folders.answer(folder, [node, 'answer.cjs']);
    return `runs (${await folders.run(folder, [node, '--version'])})`;
  },
});

const refuses = (version) => ({
  what: 'Node',
  name: version,
  try: async (folders) => {
    const node = await nodeOf(folders, version);
    const command = [node, join('node_modules', 'spillway', 'dist', 'cli', 'spillway.js'), '--version'];
    const { message } = await folders.run(await folders.filled(), command).then(
      (said) => new Error(`found ${said}`),
      (error) => error,
    );
    const line = message.split('\n').at(-2);
    if (!line?.startsWith('error: found Node')) throw new Error(`expected one line about Node, found: ${message}`);
    return `\`${line}\``;
  },
});

export const nodeVersions = [refuses('18'), ...['20', '22', '24', '26'].map(runs)];
