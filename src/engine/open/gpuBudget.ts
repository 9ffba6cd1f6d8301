import type { GpuFacts } from '../../bindings/Gpu.js';
import { UsageError } from '../../errors/UsageError.js';
import { formatBytes, parseBytesOrNone, type Size } from '../../units.js';

/** Bytes of the option `gpuMemory`; 0 where no GPU is asked for. @throws UsageError for what is no size */
export function gpuBytes(size: Size | undefined): number {
  return size === undefined ? 0 : parseBytesOrNone(size, 'gpuMemory');
}

/** In words, for an option that asks for one. */
export const NO_GPU =
  'there is no GPU here (the addon was built without CUDA, which the package @spillway/linux-x64-cuda has, or finds no NVIDIA driver or device)';

/** The first GPU, of whose memory so much may be used. @throws UsageError where there is none, or one with less */
export function requireGpu(bytes: number, { gpus }: { readonly gpus: readonly GpuFacts[] }): GpuFacts {
  const [gpu] = gpus;
  if (!gpu) throw new UsageError(`gpuMemory: found ${formatBytes(bytes)}, but ${NO_GPU}: expected 0`);
  if (bytes > gpu.memoryBytes)
    throw new UsageError(
      `gpuMemory: found ${formatBytes(bytes)}, expected at most the ${formatBytes(gpu.memoryBytes)} of ${gpu.name}`,
    );
  return gpu;
}
