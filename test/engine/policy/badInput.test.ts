import { describe, expect, test } from '@jest/globals';
import { choosePolicy } from '../../../src/engine/policy/choosePolicy.js';
import { parseHardware } from '../../../src/engine/policy/HardwareProfile.js';
import { requireKnownShape } from '../../../src/engine/policy/knownShapes.js';
import { checkSameMachine } from '../../../src/engine/policy/machineMatch.js';
import { parsePolicy } from '../../../src/engine/policy/Policy.js';
import { predict } from '../../../src/engine/policy/predict.js';
import { builtIn, CPU_MACHINE, flexgenPolicy } from './support/hardware.js';

const workload = { promptTokens: 64, newTokens: 16 };
const shape = requireKnownShape('opt-1.3b');
const profile = (change: object): unknown => ({ ...structuredClone(CPU_MACHINE), ...change });

describe('one clear sentence for what makes no sense', () => {
  test.each([
    [profile({ links: { diskReadBytesPerSecond: 0, diskWriteBytesPerSecond: 1 } }), 'links.diskReadBytesPerSecond: found 0, expected a number above 0'],
    [profile({ links: {} }), 'links.diskReadBytesPerSecond: found nothing, expected a value, as memory.diskBytes is not 0'],
    [profile({ memory: { gpuBytes: 1e9, cpuBytes: 1e9, diskBytes: 0 } }), 'gpu: found nothing, expected a value, as memory.gpuBytes is not 0'],
    [profile({ format: 'other' }), 'format: found "other", expected one of spillway-hardware-1'],
    [profile({ colour: 1 }), 'document: found the unknown field colour, expected only known fields'],
    [profile({ cpu: { ...CPU_MACHINE.cpu, matmul: [] } }), 'cpu.matmul: found [], expected a list of at least 1'],
    ['text', 'document: found "text", expected a value of type object'],
  ])('hardware %#', (value, sentence) => {
    expect(() => parseHardware(value, 'h.json')).toThrow(`h.json: ${sentence}`);
  });

  test.each([
    [{ batchSize: 0 }, 'batchSize: found 0, expected a number of at least 1'],
    [{ weights: { gpu: 0.5, cpu: 0.6, disk: 0 } }, 'weights: found {"gpu":0.5,"cpu":0.6,"disk":0}, expected shares gpu, cpu and disk that sum to 1'],
    [{ schedule: 'spiral' }, 'schedule: found "spiral", expected one of row, zigzag, diagonal'],
    [{ batches: 1e9 }, 'batches: found 1000000000, expected a number of at most 256'],
  ])('policy %#', (value, sentence) => {
    expect(() => parsePolicy(value, 'p.json')).toThrow(`p.json: ${sentence}`);
  });

  test('omitted fields of a policy take defaults', () => {
    expect(parsePolicy({}, 'p.json')).toEqual({
      schedule: 'zigzag', batchSize: 1, batches: 1, weights: { gpu: 0, cpu: 1, disk: 0 }, cache: { gpu: 0, cpu: 1, disk: 0 }, activations: { gpu: 0, cpu: 1, disk: 0 },
      compressWeights: 'none', compressCache: 'none', cpuAttention: true,
    });
  });

  test('contradictory caps, workloads, models, cost models', () => {
    const plan = (more: object): unknown => choosePolicy({ hardware: CPU_MACHINE, shape, workload, ...more });
    expect(() => plan({ caps: { gpu: 1e9 } })).toThrow('hardware "two cores" has no gpu tier');
    expect(() => plan({ caps: { cpu: 0 } })).toThrow('cpu memory: found a cap of 0 bytes');
    expect(() => plan({ caps: { cpu: -1 } })).toThrow('cpu memory: found -1');
    expect(() => plan({ workload: { promptTokens: 3000, newTokens: 16 } })).toThrow("but the model's context is 2048 tokens");
    expect(() => plan({ workload: { promptTokens: 0, newTokens: 16 } })).toThrow('promptTokens: found 0');
    expect(() => plan({ costModel: 'flexgen' })).toThrow("has no constants of FlexGen's cost model");
    expect(() => plan({ costModel: 'lm-offload' })).toThrow("has no features for LM-Offload's cost model");
    expect(() => requireKnownShape('opt-3b')).toThrow('model: found "opt-3b", expected one of opt-125m');
  });

  test('a plan that cannot fit names the budget that works, and it does', () => {
    const request = { hardware: { ...CPU_MACHINE, memory: { ...CPU_MACHINE.memory, diskBytes: 0 } }, shape, workload, caps: { cpu: 2 ** 30 } };
    let needed = 0;
    try {
      choosePolicy(request);
    } catch (error) {
      expect(error).toMatchObject({ name: 'MemoryBudgetError', tier: 'cpu' });
      needed = (error as { neededBytes: number }).neededBytes;
    }
    expect(needed).toBeGreaterThan(2 ** 30);
    expect(choosePolicy({ ...request, caps: { cpu: needed } }).predicted.fits).toBe(true);
    expect(() => choosePolicy({ ...request, caps: { cpu: needed * 0.99 } })).toThrow('smallest budget');
  });

  test('a given policy is predicted even where it does not fit', () => {
    const prediction = predict({ hardware: builtIn('flexgen-t4'), shape: requireKnownShape('opt-175b'), workload }, flexgenPolicy(8, 1, [100, 0, 100, 0, 100, 0]));
    expect(prediction).toMatchObject({ fits: false, warning: expect.stringContaining('gpu: ') });
    expect(prediction.tokensPerSecond).toBeGreaterThan(0);
  });

  test('a profile of another machine', () => {
    const here = { processorName: 'a processor of tests', processors: 2, memoryBytes: 8 * 2 ** 30 };
    expect(() => checkSameMachine(CPU_MACHINE, here)).not.toThrow();
    expect(() => checkSameMachine(CPU_MACHINE, { ...here, processorName: 'Intel Xeon' })).toThrow('is of another machine: its processor is a processor of tests, this machine\'s Intel Xeon');
    expect(() => checkSameMachine(CPU_MACHINE, { ...here, processors: 4 })).toThrow('number of processors is 2');
    expect(() => checkSameMachine(CPU_MACHINE, { ...here, memoryBytes: 2 ** 34 })).toThrow('its memory is 8 GiB');
    expect(() => checkSameMachine(builtIn('flexgen-t4'), here)).toThrow('processor is not stated');
  });
});
