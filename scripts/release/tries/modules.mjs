import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const { execPath } = process;

export const REQUIRED = `const { Engine } = require('spillway');

async function main() {
  const engine = await Engine.open({ model: process.argv[2] });
  const rows = engine.generate([{ tokens: [1, 5, 7] }], { maxNewTokens: 8, ignoreEos: true });
  for await (const { tokens, error } of rows) console.log(error ? error.message : tokens.join(' '));
  await engine.close();
}
main();
`;

/** Takes types of two parts of the package, and of rxjs. */
const TYPED = `import { Engine, offloadGenerate, type RowResult } from 'spillway';
import { zigZagBlock } from 'spillway/schedules';
import { firstValueFrom, from } from 'rxjs';

async function main(model: string): Promise<void> {
  const engine = await Engine.open({ model });
  const options = { maxNewTokens: 8, ignoreEos: true, schedule: zigZagBlock() };
  const row$ = from([{ tokens: [1, 5, 7] }]).pipe(offloadGenerate(engine, options));
  const { tokens }: RowResult = await firstValueFrom(row$);
  console.log(tokens.join(' '));
  await engine.close();
}
void main(process.argv[2] ?? '');
`;

/** @param file its ending says which kind of module it is */
const typescript = (module, moduleResolution, file) => ({
  what: 'TypeScript',
  name: `\`module: ${module}\`, \`moduleResolution: ${moduleResolution}\`, \`.${file.split('.').at(-1)}\``,
  try: async (folders) => {
    const folder = await folders.tools();
    const place = join(folder, `typed-${module}-${file.replace('.', '-')}`);
    mkdirSync(place);
    writeFileSync(join(place, file), TYPED);
    const compilerOptions = {
      module,
      moduleResolution,
      target: 'es2023',
      strict: true,
      types: ['node'],
      outDir: 'out',
    };
    writeFileSync(join(place, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: [file] }));
    await folders.run(folder, ['npx', 'tsc', '-p', place]);
    await folders.answer(folder, [execPath, join(place, 'out', file.replace('ts', 'js'))]);
    return 'compiles with `strict`, libraries checked as well, and runs';
  },
});

export const modules = [
  {
    what: 'modules',
    name: 'ES modules, `import`',
    try: async (folders) => {
      await folders.answer(await folders.filled(), [execPath, 'answer.mjs']);
      return 'runs';
    },
  },
  {
    what: 'modules',
    name: 'CommonJS, `require`',
    try: async (folders) => {
      const folder = await folders.filled();
      writeFileSync(join(folder, 'answer.cjs'), REQUIRED);
      await folders.answer(folder, [execPath, 'answer.cjs']);
      return 'runs';
    },
  },
  typescript('node16', 'node16', 'main.mts'),
  typescript('nodenext', 'nodenext', 'main.mts'),
  typescript('nodenext', 'nodenext', 'main.cts'),
  typescript('preserve', 'bundler', 'main.mts'),
];
