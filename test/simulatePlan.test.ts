import { expect, test } from '@jest/globals';
import { requireKnownShape } from '../src/plan/knownShapes.js';
import { parsePolicy } from '../src/plan/Policy.js';
import { simulatePlan, type SimulateOptions } from '../src/simulatePlan.js';
import { UsageError } from '../src/errors/UsageError.js';
import { CPU_MACHINE } from './plan/support/hardware.js';

test.each<[unknown, string]>([
  [null, 'options: found null, expected an object'],
  [
    { pipelines: () => 1 },
    'options: found the unknown "pipelines", expected any of onTrace, pipeline, timings, signal (did you mean pipeline?)',
  ],
  [{ onTrace: 'trace.json' }, 'onTrace: found "trace.json", expected a function'],
  [{ pipeline: 1 }, 'pipeline: found 1, expected a function'],
  [{ timings: {} }, 'timings: found an empty object, expected an object with a method completed'],
  [{ signal: {} }, 'signal: found an empty object, expected an AbortSignal'],
])('options that are none are refused %#', async (options, sentence) => {
  const request = {
    hardware: CPU_MACHINE,
    shape: requireKnownShape('opt-125m'),
    workload: { promptTokens: 4, newTokens: 2, rows: 1 },
  };
  await expect(simulatePlan(request, parsePolicy({}, 'test'), options as SimulateOptions)).rejects.toThrow(
    new UsageError(sentence),
  );
});
