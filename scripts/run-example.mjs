// Runs one example of examples/, which imports 'spillway' as a user's program does: the built package of this checkout.
// Usage: node scripts/run-example.mjs NAME [MODEL]; needs `npm run build`. MODEL defaults to a small model that is
// downloaded once.
import { existsSync, readdirSync } from 'node:fs';
import { register } from 'node:module';
import { fileURLToPath } from 'node:url';

const EXAMPLES = new URL('../examples/', import.meta.url);
const [name = '', model = 'smollm2-135m-instruct'] = process.argv.slice(2);
const file = new URL(`${name.replace(/\.ts$/, '')}.ts`, EXAMPLES);

if (!/^[\w-]+(\.ts)?$/.test(name) || !existsSync(fileURLToPath(file))) {
  const names = readdirSync(EXAMPLES)
    .filter((entry) => entry.endsWith('.ts'))
    .map((entry) => entry.slice(0, -3));
  process.stderr.write(`usage: node scripts/run-example.mjs NAME [MODEL]\nexamples: ${names.join(', ')}\n`);
  process.exit(1);
}
register('./typescriptHooks.mjs', import.meta.url);
const { main } = await import(file);
await main(model);
