// One step of scripts/verify-gpu.sh, in a process of its own: writes its document as JSON. Exits with 1 if what it
// checks does not hold.
//   node scripts/gpu/run.mjs end-to-end|streaming|speed|peer RESULT.json --folder FOLDER [--model opt-6.7b|opt-30b]
//   [--beside SPEED.json] [--small] [--seconds N]
// --beside: what `speed` wrote for the shape: the peer takes its layers and caps. --small: next to nothing, for an
// emulated GPU. --seconds: stops itself then, and says how far it was. SPILLWAY_ADDON names the addon,
// SPILLWAY_FLEXGEN_PYTHON the peer's Python.
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { readDriver } from './driverMemory.mjs';
import { FULL, SMALL } from './sizes.mjs';
import { runEndToEnd, runPeer, runSpeed, runStreaming } from './steps.mjs';

const STEPS = { 'end-to-end': runEndToEnd, streaming: runStreaming, speed: runSpeed, peer: runPeer };
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    folder: { type: 'string' },
    model: { type: 'string' },
    beside: { type: 'string' },
    small: { type: 'boolean', default: false },
    seconds: { type: 'string' },
  },
});
const [step, output] = positionals;
if (STEPS[step] === undefined || output === undefined || values.folder === undefined) {
  console.error(
    `usage: run.mjs ${Object.keys(STEPS).join('|')} RESULT.json --folder FOLDER [--model NAME] [--beside SPEED.json] [--small] [--seconds N]`,
  );
  process.exit(1);
}

/** As a whole or not at all: the process may be ended at any time. */
function save(document) {
  writeFileSync(
    `${output}.part`,
    JSON.stringify({ step, date: new Date().toISOString(), ...document }, null, 2) + '\n',
  );
  renameSync(`${output}.part`, output);
}

/** Asks the driver; where there is none, why. */
async function findDriver() {
  try {
    await readDriver();
    return { readDriver: () => readDriver() };
  } catch (error) {
    return { noDriver: error.message.split('\n')[0] };
  }
}

function readBeside() {
  try {
    return JSON.parse(readFileSync(values.beside ?? '', 'utf8'));
  } catch {
    return undefined;
  }
}

/** All that the package exports, as the steps want it. */
async function wholeLibrary() {
  const entries = ['index.js', 'api/models.js', 'api/operators.js', 'api/plan.js'].map(
    (entry) => import(`../../dist/${entry}`),
  );
  return Object.assign({}, ...(await Promise.all(entries)));
}

mkdirSync(dirname(output), { recursive: true });
mkdirSync(values.folder, { recursive: true });
const stopping = new AbortController();
const limit = values.seconds === undefined ? Infinity : Number(values.seconds);
const timer = limit === Infinity ? undefined : setTimeout(() => stopping.abort(), limit * 1000);
let document;
try {
  document = await STEPS[step]({
    library: step === 'peer' ? undefined : await wholeLibrary(),
    sizes: values.small ? SMALL : FULL,
    name: values.model,
    folder: values.folder,
    signal: stopping.signal,
    secondsLeft: () => limit - performance.now() / 1000,
    save,
    beside: readBeside(),
    python: process.env.SPILLWAY_FLEXGEN_PYTHON || 'python3',
    wheelFolder: fileURLToPath(new URL('../../peers/', import.meta.url)),
    ...(step === 'peer' ? {} : await findDriver()),
  });
} catch (error) {
  document = { name: values.model, notMeasured: error.message, ok: false };
}
clearTimeout(timer);
save(document);
console.log(
  `${step}${values.model === undefined ? '' : ` ${values.model}`}: ${document.notMeasured ?? (document.ok ? 'done' : 'does not hold')}`,
);
process.exit(document.ok ? 0 : 1);
