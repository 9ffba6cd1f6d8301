import { sep } from 'node:path';
import TestSequencer from '@jest/test-sequencer';

/** Suites that take a quarter of a minute and more, the slowest first: begun late, one would keep one processor busy and the others waiting. */
const SLOW = [
  'cli/pages',
  'jobs/shards/collectJob',
  'jobs/input/readSql',
  'cli/generate',
  'gpu/fetchedCache',
  'jobs/memory',
  'jobs/work/WorkSource',
  'cli/jobFiles',
  'cli/jobQueue',
  'e2e/spill',
  'fuzz/fuzz',
  'hostile/corpus',
  'gpu/engine',
  'engine/open/planEngine',
  'e2e/eviction',
  'e2e/recurrent',
  'e2e/architectures',
  'simulatePipeline',
  'engine/execution/Run',
  'model/tokenizer/hostile',
  'jobs/kill',
  'bindings/store',
  'gpu/sharedAttention',
  'e2e/hostileSocket',
  'cli/follow',
  'e2e/ownHeads',
  'e2e/tensorParallel',
  'e2e/engine',
  'engine/paths/mutants',
  'hostile/longTurns',
  'model/architectures/fixtures',
  'e2e/stages',
  'cli/profile',
  'e2e/attentionByRows',
  'plan/papers/flexgenMachines',
  'plan/search/maxLatency',
  'e2e/toolCalls',
  'serve/watch/page',
  'e2e/streaming',
  'cli/smallestBudget',
  'e2e/sockets',
  'cli/plan',
  'cli/repackedStores',
  'cli/terminal',
  'jobs/database/databaseOutput',
  'gpu/cli',
  'jobs/work/openWorkSource',
  'cli/planSweep',
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
