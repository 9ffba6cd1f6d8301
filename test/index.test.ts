import { expect, test } from '@jest/globals';
import * as aiSdk from '../src/api/ai-sdk.js';
import * as jobs from '../src/api/jobs.js';
import * as models from '../src/api/models.js';
import * as operators from '../src/api/operators.js';
import * as plan from '../src/api/plan.js';
import * as schedules from '../src/api/schedules.js';
import * as serving from '../src/api/serve.js';
import * as testing from '../src/api/testing.js';
import * as spillway from '../src/index.js';

// The public face. A name that appears here is a promise; one that disappears is a break. Their types are in
// docs/api-report.
const ENTRIES = { spillway, operators, schedules, plan, jobs, models, serve: serving, 'ai-sdk': aiSdk, testing };

test.each<[keyof typeof ENTRIES, string]>([
  [
    'spillway',
    `Cascade DatabaseError DownloadError ENGINE_OPTIONS Engine InterruptedError JobFileError KeptSample MemoryBudget MemoryBudgetError ModelFileError NativeError PeerError
     PlanFileError ProcessLimitError QueueError RUN_OPTIONS ResponseFormatError ReuseFile RowError SOCKET_OPTIONS ScheduleError SpillwayError
     TaskError UsageError WEIGHTS_LAYOUTS WEIGHT_COMPRESSIONS activationLink ask classify describePeers diagnose embed formatBytes learnThresholds leastCascadeSample offloadGenerate
     parseBytes parsePeerAddress partialJson rerank resultIdentityKey ringIdentity score`,
  ],
  [
    'operators',
    `allReduce allToAll broadcast compute defaultPipeline finishedRows inputOrder iterated loadActivation loadCache loadWeight
      maxInFlight overlap pulled serialPipeline serialize squares stage storeActivation storeCache synchronize`,
  ],
  ['schedules', `BLOCK_SCHEDULES SCHEDULE_NAMES batchTokens diagonalBlock layerBounds rowByRow zigZagBlock`],
  [
    'plan',
    `BLOCK_LIMITS COST_MODEL_NAMES LAYOUTS MOST_CHIPS blockGain cachedProfile chooseBlock choosePolicy closedForm closedFormBytes parseChip parseHardware parsePolicy parsePolicyDocument
      peakCacheTokens planCurves planCurvesInParts planDocument planDocumentInParts planPartitioning planPipeline planPipelineInParts planPrompts planPromptsInParts planSweep planTensorParallel planTensorParallelInParts predict predictPipeline profileMachine readChip readHardware readHardwareFile
      readMachines readModelShape readPolicyFile readSweepFile refreshProfile repackedModelBytes simulatePipeline simulatePlan
     typicalProcessBytes`,
  ],
  [
    'jobs',
    `DATABASE_WAIT DUCKDB_BYTES EnforcedSchema JOB_OPTIONS Job bundledSchema checkJobFiles checkJobInput checkJobOptions checkResponseFormat checkUnmatched collectJob databasePlace databaseTable dryRun encodeResults estimateRows formatResult isPostgres
     jobFormats jobOutputFiles jobStatus memoryWork openLines openWorkSource
     parseManifest parseRow peekRows readRecordBatches readRows readSql recordBatches runJob runWork shardOfEnvironment shardPath submitJob
     writeRows`,
  ],
  [
    'models',
    `cachedModels createTokenizer identifyModel isModelName knownModels modelFiles readModel removeCachedModel removeRepackedStore repackedStores resolveModel suggestedModels`,
  ],
  ['serve', `JobWatch SERVE_LIMITS serve`],
  ['ai-sdk', `createSpillway spillway`],
  [
    'testing',
    `SimulatedDevice VirtualTime recordsOfTrace requiredMoves rowsOfTrace simulatedLink taskMarbles validatePath`,
  ],
])('%s exports these names and no others', (entry, names) => {
  expect(Object.keys(ENTRIES[entry]).sort()).toEqual(names.split(/\s+/));
});

test('each name has one entry', () => {
  const names = Object.values(ENTRIES).flatMap((entry) => Object.keys(entry));
  expect(names).toHaveLength(new Set(names).size);
});

test('stages and whole generations are there under the names of the design', () => {
  const all: Readonly<Record<string, unknown>> = { ...operators, ...spillway };
  for (const name of [
    'loadWeight',
    'loadCache',
    'loadActivation',
    'compute',
    'storeActivation',
    'storeCache',
    'synchronize',
    'overlap',
    'serialize',
    'offloadGenerate',
  ]) {
    expect(typeof all[name]).toBe('function');
  }
});
