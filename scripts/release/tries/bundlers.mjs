import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { REQUIRED } from './modules.mjs';

/** @returns the command that runs the bundle */
async function bundle(folders, format, ...flags) {
  const folder = await folders.tools();
  const [entry, outfile] = format === 'esm' ? ['answer.mjs', 'bundle.mjs'] : ['answer.cjs', 'bundle.cjs'];
  writeFileSync(join(folder, 'answer.cjs'), REQUIRED);
  const esbuild = ['npx', 'esbuild', entry, '--bundle', '--platform=node', '--log-level=error'];
  await folders.run(folder, [...esbuild, `--format=${format}`, `--outfile=${outfile}`, '--allow-overwrite', ...flags]);
  return { folder, command: [process.execPath, outfile] };
}

const esbuild = (format) => [
  {
    what: 'bundler',
    name: `esbuild, \`--format=${format} --external:spillway\``,
    try: async (folders) => {
      const { folder, command } = await bundle(folders, format, '--external:spillway');
      await folders.answer(folder, command);
      return 'runs';
    },
  },
  {
    what: 'bundler',
    name: `esbuild, \`--format=${format}\`, inline`,
    try: async (folders) => {
      const { folder, command } = await bundle(folders, format);
      const said = await folders.answer(folder, command).catch((error) => error.message);
      if (!said?.includes('mark it as external')) throw new Error(`expected to be told of external, found: ${said}`);
      return 'one error, which says what to write: mark it as external';
    },
  },
];

export const bundlers = [...esbuild('esm'), ...esbuild('cjs')];
