// One long job of tiny rows through the command line: its resident memory may grow by what the ids take, and by nothing else.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { fileURLToPath } from 'node:url';

const USAGE = `Runs \`generate\` over so many rows of two tokens, each with an id of its own, on the tests' tiny model, and looks at the resident memory meanwhile (Linux).
  --rows N    (default 3000000: five minutes on two processors)
  --no-ids    rows without ids, of which nothing has to be remembered
Exit code 1 where memory grew by more than ids take.`;

const MIB = 2 ** 20;
/** What an id takes at most, while the table of ids grows, too. */
const ID_BYTES = 30;
/** What the heap may come and go by. */
const SLACK_BYTES = 32 * MIB;
const LOOK_MILLISECONDS = 250;
const at = (path) => fileURLToPath(new URL(`../../${path}`, import.meta.url));

const { values } = parseArgs({ options: { rows: { type: 'string', default: '3000000' }, 'no-ids': { type: 'boolean', default: false }, help: { type: 'boolean', default: false } } });
if (values.help) {
  console.log(USAGE);
  process.exit(0);
}
const rows = Number(values.rows);
const folder = mkdtempSync(join(tmpdir(), 'spillway-long-'));
const [input, output] = [join(folder, 'in.jsonl'), join(folder, 'out.jsonl')];

async function writeRows() {
  const file = createWriteStream(input);
  for (let row = 0; row < rows; row += 1) {
    const more = file.write(`{${values['no-ids'] ? '' : `"id":"row-${row}",`}"tokens":[1,${3 + (row % 250)}]}\n`);
    if (!more) await once(file, 'drain');
  }
  await once(file.end(), 'close');
}

/** Resident bytes, and what of the output is there, as the run goes on. */
async function run() {
  const args = ['generate', '--model', at('test/fixtures/models/llama-Q8_0.gguf'), '--input', input, '--output', output, '--max-new-tokens', '1', '--ignore-eos'];
  const child = spawn(process.execPath, [at('dist/cli/main.js'), ...args], { stdio: ['ignore', 'inherit', 'inherit'] });
  const looks = [];
  const timer = setInterval(() => {
    try {
      const kib = /^VmRSS:\s*(\d+)/m.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1];
      looks.push({ resident: Number(kib) * 1024, written: statSync(output).size });
    } catch {
      // Not begun yet, or over.
    }
  }, LOOK_MILLISECONDS);
  const [code] = await once(child, 'exit');
  clearInterval(timer);
  return { code, looks };
}

try {
  await writeRows();
  const started = performance.now();
  const { code, looks } = await run();
  const size = statSync(output).size;
  const most = (from, to) => Math.max(...looks.filter(({ written }) => written >= from * size && written <= to * size).map(({ resident }) => resident));
  const tenths = Array.from({ length: 10 }, (_, tenth) => most(tenth / 10, (tenth + 1) / 10));
  const growth = Math.max(...tenths) - tenths[0];
  const allowed = SLACK_BYTES + (values['no-ids'] ? 0 : rows * ID_BYTES);
  console.log(`${rows} rows, exit code ${code}, ${((performance.now() - started) / 1000).toFixed(0)} s; most resident in each tenth, MiB: ${tenths.map((bytes) => (bytes / MIB).toFixed(0)).join(' ')}`);
  console.log(`grew by ${(growth / MIB).toFixed(0)} MiB, allowed ${(allowed / MIB).toFixed(0)} MiB`);
  if (code !== 0 || !(growth <= allowed)) process.exitCode = 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
