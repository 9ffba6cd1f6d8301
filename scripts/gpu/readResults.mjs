// What the steps of scripts/verify-gpu.sh left in their folder, as one document.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** In the order in which they run: what decides most, and costs least, comes first. */
export const STEPS = [
  'link',
  'kernels-ops',
  'kernels-models',
  'bench',
  'end-to-end-answers',
  'end-to-end-streaming',
  'speed-opt-6.7b',
  'peers-opt-6.7b',
  'speed-opt-30b',
  'peers-opt-30b',
  'sanitizer-memcheck',
  'sanitizer-racecheck',
  'sanitizer-synccheck',
];

function readJson(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    return undefined;
  }
}

/** How a step ended, in words, where it did not end well; undefined where it did. */
function troubleOf(step) {
  if (step === undefined) return 'not run';
  if (step.skipped !== undefined) return step.skipped;
  if (step.code === 124 || step.code === 137) return `stopped after ${step.limit} s`;
  return step.code === 0 ? undefined : `exit ${step.code}`;
}

/** What a report of GoogleTest says. */
function testsOf(report) {
  const cases = report.testsuites.flatMap((suite) => suite.testsuite ?? []);
  const failures = cases
    .filter((test) => (test.failures ?? []).length > 0)
    .map((test) => `${test.classname}.${test.name}`);
  // What a crash left unrun has no result.
  const ran = cases.filter(({ status, result }) => status !== 'NOTRUN' && result !== 'SKIPPED');
  return { passed: ran.length - failures.length, failed: failures.length, failures };
}

/**
 * @param folder of --results
 * @returns by step: its document, or `notMeasured` with the reason; `step`: code, seconds, limit and date of the step
 * itself
 */
export function readResults(folder) {
  const results = {};
  for (const name of STEPS) {
    const [step, document] = [readJson(join(folder, `${name}.step.json`)), readJson(join(folder, `${name}.json`))];
    const trouble = troubleOf(step);
    let found;
    if (document !== undefined) found = name.startsWith('kernels') ? testsOf(document) : document;
    results[name] = {
      ...(found ?? { notMeasured: trouble ?? 'it left no result' }),
      ...(found?.unfinished && { trouble: trouble ?? 'unfinished' }),
      ...(step && { step }),
    };
  }
  return results;
}
