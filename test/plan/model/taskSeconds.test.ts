import { expect, test } from '@jest/globals';
import { requireKnownShape } from '../../../src/plan/knownShapes.js';
import { taskSeconds, type TimedTask } from '../../../src/plan/model/taskSeconds.js';
import { parsePolicy } from '../../../src/plan/Policy.js';
import { settingOf } from '../../../src/plan/predict.js';
import { CPU_MACHINE } from '../support/hardware.js';

test('a layer in one task takes as long as its parts', () => {
  const policy = parsePolicy({ schedule: 'diagonal', batchSize: 16, batches: 1 }, 'test');
  const workload = { promptTokens: 48, newTokens: 24, rows: 16 };
  const setting = { hardware: CPU_MACHINE, shape: requireKnownShape('opt-6.7b'), workload };
  const secondsOf = taskSeconds(settingOf(setting, policy).setting, policy);
  const rows = [
    { firstPosition: 0, tokens: 30, head: 'none' },
    { firstPosition: 60, tokens: 1, head: 'sample' },
  ];
  const of = (part: string): number => {
    const task: TimedTask = { name: 'compute', part, queue: 'cpu-compute', bytes: 0, batch: { rows } };
    return secondsOf(task);
  };
  expect(of('layer')).toBeCloseTo(of('project') + of('attend') + of('finish'), 12);
  expect(of('attend')).toBeGreaterThan(0);
});
