import type { HardwareProfile } from '../../../src/plan/HardwareProfile.js';
import { requireKnownShape } from '../../../src/plan/knownShapes.js';
import type { PipelineMachine } from '../../../src/plan/pipeline/Machines.js';
import type { PipelineRequest } from '../../../src/plan/pipeline/PipelineRequest.js';
import { CPU_MACHINE } from './hardware.js';

export const LINK = { bytesPerSecond: 117e6, latencySeconds: 0.0002 };
export const machine = (name: string, hardware: HardwareProfile = CPU_MACHINE): PipelineMachine => ({
  name,
  hardware,
  link: LINK,
});
/** The machine with a processor that many times as fast. */
export const faster = (times: number): HardwareProfile => {
  const { cpu } = CPU_MACHINE;
  return {
    ...CPU_MACHINE,
    cpu: {
      ...cpu,
      matmul: cpu.matmul.map((point) => ({ ...point, flopsPerSecond: point.flopsPerSecond * times })),
      attention: {
        prefillFlopsPerSecond: cpu.attention.prefillFlopsPerSecond * times,
        decodeBytesPerSecond: cpu.attention.decodeBytesPerSecond * times,
      },
      memoryBytesPerSecond: cpu.memoryBytesPerSecond * times,
      taskSeconds: cpu.taskSeconds / times,
    },
  };
};
/** The machine with memory for a part of what it gets. */
export const scarce = { ...CPU_MACHINE, memory: { ...CPU_MACHINE.memory, cpuBytes: 1.5 * 2 ** 30 } };
const shape = { ...requireKnownShape('llama-2-7b'), weightType: 'Q4_1' as const };
export const request = (
  machines: readonly PipelineMachine[],
  more: Partial<PipelineRequest> = {},
): PipelineRequest => ({
  machines,
  shape: {
    ...shape,
    layerWeightBytes: shape.layerWeightBytes * (5 / 16),
    globalWeightBytes: shape.globalWeightBytes * (5 / 16),
  },
  workload: { promptTokens: 64, newTokens: 64, rows: 128 },
  allow: { batchSize: 8 },
  ...more,
});
