import { writeFileSync } from 'node:fs';

/**
 * A jest reporter that prints one plain line, `N passed, N failed` (`, N skipped` where there are any), to stdout,
 * and writes the counts as JSON to the file that SPILLWAY_COUNTS names, if it is set.
 *
 * A suite that could not run (a syntax error, a missing import) counts as one failure: it holds no test that could count.
 */
export default class CountsReporter {
  /** @param {unknown} _contexts @param {import('@jest/reporters').AggregatedResult} results */
  onRunComplete(_contexts, results) {
    const counts = {
      passed: results.numPassedTests,
      failed: results.numFailedTests + results.numRuntimeErrorTestSuites,
      skipped: results.numPendingTests + results.numTodoTests,
    };
    const skipped = counts.skipped > 0 ? `, ${counts.skipped} skipped` : '';
    process.stdout.write(`${counts.passed} passed, ${counts.failed} failed${skipped}\n`);
    const file = process.env.SPILLWAY_COUNTS;
    if (file) writeFileSync(file, `${JSON.stringify(counts)}\n`);
  }
}
