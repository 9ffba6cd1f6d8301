import { sep } from 'node:path';
import TestSequencer from '@jest/test-sequencer';

/** Suites that take a quarter of a minute and more, the slowest first: begun late, one would keep one processor busy and the others waiting. */
const SLOW = [
  'fuzz/fuzz',
  'cli/jobQueue',
  'gpu/engine',
  'e2e/hostileSocket',
  'gpu/fetchedCache',
  'hostile/corpus',
  'cli/pages',
  'simulatePipeline',
  'cli/generate',
  'e2e/spill',
  'jobs/work/WorkSource',
  'model/tokenizer/Guard',
  'jobs/shards/collectJob',
  'hostile/longTurns',
  'cli/rowLimits',
  'model/wrongShapes',
  'engine/peers/peers',
  'e2e/ownHeads',
  'e2e/attentionByRows',
  'e2e/streaming',
  'gpu/sharedPrefixes',
  'gpu/sharedAttention',
  'e2e/architectures',
  'gpu/resultIdentity',
  'cli/jobFiles',
  'jobs/kill',
  'e2e/stages',
  'engine/open/planEngine',
  'engine/paths/mutants',
  'engine/execution/Run',
  'gpu/cli',
  'e2e/sockets',
  'model/architectures/fixtures',
  'jobs/output/publishOutput',
  'jobs/memory',
  'plan/search/maxLatency',
].map((suite) => `${sep}test${sep}${suite.replaceAll('/', sep)}.test.ts`);

/** A jest sequencer that begins with the slow suites. Where nothing has run yet, as in a fresh clone, jest itself knows no more than how long files are. */
export default class SlowFirst extends TestSequencer {
  /** @param {import('@jest/test-result').Test[]} tests */
  sort(tests) {
    const place = ({ path }) => {
      const at = SLOW.findIndex((suite) => path.endsWith(suite));
      return at < 0 ? SLOW.length : at;
    };
    return super.sort(tests).toSorted((one, other) => place(one) - place(other));
  }
}
