import { sep } from 'node:path';
import TestSequencer from '@jest/test-sequencer';

/** Suites that take half a minute and more, however short their files are: the last of them would keep one processor busy and the others waiting. */
const SLOW = [
  'jobs/memory',
  'gpu/engine',
  'cli/generate',
  'e2e/spill',
  'engine/planEngine',
  'engine/execution/Run',
  'engine/paths/mutants',
  'model/architectures/fixtures',
];

/** A jest sequencer that begins with the slow suites. Where nothing has run yet, as in a fresh clone, jest itself knows no more than how long files are. */
export default class SlowFirst extends TestSequencer {
  /** @param {import('@jest/test-result').Test[]} tests */
  sort(tests) {
    const slow = ({ path }) =>
      SLOW.some((suite) => path.endsWith(`${sep}test${sep}${suite.replaceAll('/', sep)}.test.ts`));
    const sorted = super.sort(tests);
    return [...sorted.filter(slow), ...sorted.filter((test) => !slow(test))];
  }
}
