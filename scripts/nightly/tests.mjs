// The tests that try few random cases for each change try many, others each night.
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { readFlags } from '../../bench/lib/flags.mjs';
import { ROOT } from './lib/commandLine.mjs';

const USAGE = `usage: node scripts/nightly/tests.mjs [flags]
Runs the suites of test/ that say how often they try something (test/support/tries.ts) as often as that. After \`npm test\`, which builds what they need.
  --seed N    of all that is random in them (default: another one each time; what fails says which)
  --only PART suites whose path has this in it`;

const { values, number } = readFlags(USAGE, { seed: { type: 'string' }, only: { type: 'string', default: '' } });
const seed = values.seed === undefined ? Math.floor(Math.random() * 2 ** 31) : number('seed', 0);
const suites = readdirSync(join(ROOT, 'test'), { recursive: true })
  .filter((file) => file.endsWith('.test.ts') && file.includes(values.only))
  .filter((file) => /\b(?:tries|crossed|inTurn)\(/.test(readFileSync(join(ROOT, 'test', file), 'utf8')))
  .map((file) => join(ROOT, 'test', file));
if (suites.length === 0) {
  process.stderr.write(
    `--only: found ${values.only}, expected a part of the path of a suite with tries(), crossed() or inTurn()\n`,
  );
  process.exit(1);
}
const { status } = spawnSync('npm', ['run', '--silent', 'test:js', '--', '--runTestsByPath', ...suites], {
  cwd: ROOT,
  stdio: 'inherit',
  env: { ...process.env, SPILLWAY_TRIES: 'many', SPILLWAY_SEED: String(seed) },
});
process.stdout.write(`tests: ${suites.length} suites with seed ${seed}, ${status === 0 ? 'no failure' : 'failed'}\n`);
process.exitCode = status === 0 ? 0 : 1;
