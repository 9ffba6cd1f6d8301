import type { LmOffloadConstants } from '../../HardwareProfile.js';

/**
 * Seconds to quantise so many values on the CPU: minimum and maximum, normalisation (3 operations), packing (equations
 * 12 to 15).
 */
export function quantiseOnCpu(values: number, of: LmOffloadConstants): number {
  return values / of.cpuHertz + (3 * values) / of.cpuFlopsPerSecond + values / of.cpuMemoryBytesPerSecond;
}

/** The same on the GPU (equations 20 to 23). */
export function quantiseOnGpu(values: number, of: LmOffloadConstants): number {
  return values / of.gpuHertz + (3 * values) / of.gpuFlopsPerSecond + values / of.gpuMemoryBytesPerSecond;
}

/** Back to floats on the GPU: minimum and maximum are known (equations 16 and 24). */
export function dequantiseOnGpu(values: number, of: LmOffloadConstants): number {
  return (3 * values) / of.gpuFlopsPerSecond + values / of.gpuMemoryBytesPerSecond;
}
