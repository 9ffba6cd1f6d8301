import { expect, test } from '@jest/globals';
import * as spillway from '../src/index.js';

// The public face. A name that appears here is a promise; one that disappears is a break.
test('exports these names and no others', () => {
  expect(Object.keys(spillway).sort()).toEqual([
    'DownloadError',
    'Engine',
    'InterruptedError',
    'Job',
    'JobFileError',
    'MemoryBudgetError',
    'ModelFileError',
    'NativeError',
    'PlanFileError',
    'RowError',
    'ScheduleError',
    'SimulatedDevice',
    'SpillwayError',
    'TaskError',
    'UsageError',
    'checkJobFiles',
    'choosePolicy',
    'compute',
    'createTokenizer',
    'defaultPipeline',
    'diagonalBlock',
    'finishedRows',
    'formatBytes',
    'formatResult',
    'generatedRows',
    'inputOrder',
    'iterated',
    'knownModels',
    'loadActivation',
    'loadCache',
    'loadWeight',
    'offloadGenerate',
    'openLines',
    'overlap',
    'parseBytes',
    'parseHardware',
    'parsePolicy',
    'parseRow',
    'planDocument',
    'predict',
    'pulled',
    'readHardware',
    'readModel',
    'readModelShape',
    'readRows',
    'resolveModel',
    'rowByRow',
    'runJob',
    'serialPipeline',
    'serialize',
    'simulatePlan',
    'splitThreads',
    'squares',
    'storeActivation',
    'storeCache',
    'synchronize',
    'validatePath',
    'writeRows',
    'zigZagBlock',
  ]);
});

test('stages and whole generations are there under the names of the design', () => {
  for (const name of ['loadWeight', 'loadCache', 'loadActivation', 'compute', 'storeActivation', 'storeCache', 'synchronize', 'overlap', 'serialize', 'offloadGenerate'] as const) {
    expect(typeof spillway[name]).toBe('function');
  }
});
