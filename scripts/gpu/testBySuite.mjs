// Runs a GoogleTest program a suite at a time, each in a process of its own: what one leaves broken on a device (an
// illegal address voids every later call of the process) does not fail the others.
//   node scripts/gpu/testBySuite.mjs PROGRAM REPORT.json [--processes N=4] [--seconds N=60]
// REPORT.json: as GoogleTest writes it, of all suites together; a suite that crashed or was stopped after --seconds is a
// failed test of that suite. Exits with 1 if any failed, or none ran.
import { execFile, execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

/** Names of suites in what --gtest_list_tests prints: lines that are not indented and end with a dot. */
export function suitesOf(listing) {
  return listing.split('\n').flatMap((line) => /^(\S+)\.(\s+#.*)?$/.exec(line)?.[1] ?? []);
}

/** What a suite that left no report counts as. */
function crashed(suite, why) {
  return { name: suite, testsuite: [{ name: why, classname: suite, status: 'RUN', failures: [{ failure: why }] }] };
}

function runSuite(program, suite, file, seconds) {
  return new Promise((resolve) => {
    const args = [`--gtest_filter=${suite}.*`, '--gtest_brief=1', `--gtest_output=json:${file}`];
    const options = { timeout: seconds * 1000, killSignal: 'SIGKILL', maxBuffer: 1 << 26 };
    execFile(program, args, options, (error, stdout, stderr) => {
      let suites;
      try {
        ({ testsuites: suites } = JSON.parse(readFileSync(file, 'utf8')));
      } catch {
        const why = error?.killed ? `stopped after ${seconds} s` : `ended by ${error?.signal ?? `exit ${error?.code}`}`;
        suites = [crashed(suite, why)];
      }
      resolve({ suites, words: error === null ? '' : `${stdout}${stderr}` });
    });
  });
}

/** @returns GoogleTest's document of all suites; `words`: what those that failed printed */
export async function testBySuite(program, { processes = 4, seconds = 60 } = {}) {
  const waiting = suitesOf(execFileSync(program, ['--gtest_list_tests'], { encoding: 'utf8' }));
  const folder = mkdtempSync(join(tmpdir(), 'suites-'));
  const [testsuites, words] = [[], []];
  const work = async (worker) => {
    for (let suite = waiting.shift(); suite !== undefined; suite = waiting.shift()) {
      const file = join(folder, `${worker}-${waiting.length}.json`);
      const ended = await runSuite(program, suite, file, seconds);
      testsuites.push(...ended.suites);
      if (ended.words !== '') words.push(ended.words);
    }
  };
  try {
    await Promise.all(Array.from({ length: processes }, (_, worker) => work(worker)));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  return { testsuites, words };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { processes: { type: 'string', default: '4' }, seconds: { type: 'string', default: '60' } },
  });
  const [program, report] = positionals;
  if (report === undefined) {
    console.error('usage: testBySuite.mjs PROGRAM REPORT.json [--processes N] [--seconds N]');
    process.exit(1);
  }
  const { words, ...document } = await testBySuite(program, {
    processes: Number(values.processes),
    seconds: Number(values.seconds),
  });
  writeFileSync(report, JSON.stringify(document) + '\n');
  const tests = document.testsuites.flatMap(({ testsuite = [] }) => testsuite);
  const failed = tests.filter(({ failures = [] }) => failures.length > 0);
  for (const each of words) console.log(each);
  for (const { classname, name } of failed) console.log(`failed: ${classname}.${name}`);
  console.log(`${tests.length} tests of ${document.testsuites.length} suites, ${failed.length} failed`);
  process.exit(failed.length > 0 || tests.length === 0 ? 1 : 0);
}
