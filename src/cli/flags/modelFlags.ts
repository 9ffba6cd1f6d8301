import { Option, type Command } from 'commander';
import { BLOCK_LIMITS, type EngineOptions, type GpuProducts, type WeightCompression } from '../library.js';
import { path, size, sizeOrNone, wholeNumber } from './parsers.js';
import type { CacheFlags } from './planFlags.js';

export interface ModelFlags {
  readonly model: string;
}

export interface EngineFlags extends ModelFlags, CacheFlags {
  readonly precision: 'default' | 'float32';
  readonly compressWeights?: WeightCompression | 'auto';
  readonly gpuMemory: number;
  readonly gpuProducts: GpuProducts;
  readonly cpuMemory?: number;
  readonly disk?: string;
  readonly diskMemory?: number;
  readonly threads?: number;
  readonly device: 'auto' | 'cpu' | 'cuda';
}

export function addModelFlag(command: Command): void {
  command.addOption(
    new Option(
      '--model <path|name>',
      'necessary: a GGUF file, a folder with config.json and safetensors, an id that `pull` knows, or hf:owner/repo[@revision][:file-or-quant], ollama:name, lmstudio:publisher/name',
    ).argParser(path),
  );
}

/** Flags of commands that compute. */
export function addEngineFlags(command: Command): void {
  command.optionsGroup('Precision and machine:');
  command.addOption(
    new Option(
      '--precision <name>',
      'float32: weights dequantised on the fly, all else in float32; for checking, slower',
    )
      .choices(['default', 'float32'])
      .default('default'),
  );
  command.option(
    '--gpu-memory <size>',
    "most memory of the first GPU, reserved at once: with it the GPU computes (0: the processor does; so far no real GPU's results have been verified)",
    sizeOrNone,
    0,
  );
  command.addOption(
    new Option(
      '--gpu-products <name>',
      "what multiplies there; cublaslt: long prompts by NVIDIA's library, an error where it cannot be used; auto: where it can; changes results in their last bits",
    )
      .choices(['own', 'cublaslt', 'auto'])
      .default('own'),
  );
  command.option(
    '--cpu-memory <size>',
    'most resident memory of the process, in bytes or e.g. 2GiB (default: what is free, less a margin)',
    size,
  );
  command.addOption(
    new Option(
      '--disk <dir>',
      "folder for the repacked file of a model that does not fit into memory: it is kept (default: in the user's cache folder)",
    ).argParser(path),
  );
  command.option('--disk-memory <size>', 'most space that such a file may take (default: what is free)', size);
  command.option(
    '--threads <n>',
    'threads that compute (default: the processors that this process may use)',
    wholeNumber(1, BLOCK_LIMITS.threads),
  );
  command.addOption(
    new Option('--device <name>', 'what computes; cuda needs --gpu-memory; auto: the GPU where that is given')
      .choices(['auto', 'cpu', 'cuda'])
      .default('auto'),
  );
}

/** What the flags say to `Engine.open`. */
export function engineOptions(flags: EngineFlags, model: string): EngineOptions {
  const {
    precision,
    compressWeights,
    compressCache,
    sparseAttention,
    gpuMemory,
    gpuProducts,
    cpuMemory,
    disk,
    diskMemory,
    threads,
    device,
  } = flags;
  return {
    model,
    precision,
    sparseAttention,
    device,
    gpuMemory,
    gpuProducts,
    ...(compressWeights === undefined ? {} : { compressWeights }),
    ...(compressCache === undefined ? {} : { compressCache }),
    ...(cpuMemory === undefined ? {} : { cpuMemory }),
    ...(disk === undefined ? {} : { disk }),
    ...(diskMemory === undefined ? {} : { diskMemory }),
    ...(threads === undefined ? {} : { threads }),
  };
}
