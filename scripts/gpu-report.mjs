// Writes what the steps of verify-gpu.sh left in a folder as one JSON and one Markdown report.
//   node scripts/gpu-report.mjs DEVICE RESULTS [FOLDER]
// DEVICE: "name, compute capability, driver, memory"; RESULTS: the folder of --results; FOLDER: bench/results by
// default. What did not run is "not measured yet", with the reason.
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { askedRows } from './gpu/askedRows.mjs';
import { prefillProducts } from './gpu/prefillProducts.mjs';
import { readResults } from './gpu/readResults.mjs';
import { reportText } from './gpu/reportText.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const [deviceLine, resultsFolder, folder = join(root, 'bench', 'results')] = process.argv.slice(2);
if (resultsFolder === undefined) {
  console.error('usage: gpu-report.mjs DEVICE RESULTS [FOLDER]');
  process.exit(1);
}

/** The commit that was built: a bundle keeps it in a file. */
function findCommit() {
  try {
    return readFileSync(join(root, 'prebuilt', 'commit'), 'utf8').trim();
  } catch {
    return spawnSync('git', ['rev-parse', 'HEAD'], { cwd: root, encoding: 'utf8' }).stdout?.trim() || 'unknown';
  }
}

const [name, computeCapability, driver, memory] = deviceLine.split(',').map((part) => part.trim());
const results = readResults(resultsFolder);
const prefill = prefillProducts(results.bench);
const report = {
  date: new Date().toISOString(),
  commit: findCommit(),
  device: { name, computeCapability, driver, memory },
  asked: askedRows(results, prefill),
  prefill,
  results,
};
mkdirSync(folder, { recursive: true });
const file = join(folder, `gpu-${report.date.slice(0, 10)}-${name.replace(/[^A-Za-z0-9]+/g, '-')}`);
writeFileSync(`${file}.json`, JSON.stringify(report, null, 2) + '\n');
writeFileSync(`${file}.md`, reportText(report));
console.log(`${file}.md`);
