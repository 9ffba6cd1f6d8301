/** A GPU of this machine. */
export interface GpuFacts {
  readonly name: string;
  readonly memoryBytes: number;
  /** Such as `9.0`. */
  readonly computeCapability: string;
  readonly multiprocessors: number;
  /** The newest CUDA that the driver knows, such as `12.8`: it changes with the driver. */
  readonly driver: string;
}

/** The code that multiplies on a GPU: see `EngineOptions.gpuProducts`. */
export const GPU_PRODUCTS = ['own', 'cublaslt', 'auto'] as const;
export type GpuProducts = (typeof GPU_PRODUCTS)[number];

/**
 * How a runtime uses a GPU. Weights, pages of the cache and activations are on the device; what of them is in host
 * memory or on disk crosses the link. Products are on halves (in float32 with `precision: 'float32'`), sums in float32;
 * a row's result depends neither on its company nor on where weights are. Opening fails with code `invalid-argument`
 * for a device that does not exist, without a driver, where the addon was built without CUDA, and where cuBLASLt is
 * asked for and cannot be used; with code `memory` where the device has too little.
 */
export interface GpuRuntimeOptions {
  /** Index into `machine().gpus`. */
  readonly device: number;
  /**
   * Hard cap: one reservation, from which everything of this runtime on the device comes. What CUDA itself takes (a
   * context, code) is not in it.
   */
  readonly memoryBytes: number;
  /**
   * Pinned host memory, in pieces of which data crosses the link: 1 MiB at least. Part of the host's memory, but not of
   * any number in `RuntimeBytes`. (Weights in host memory are pinned where they are, if the system lets them.)
   */
  readonly pinnedBytes: number;
  /**
   * Pages of the KV cache on the device, for every layer. Page tables name them `cache.pages` to `cache.pages +
   * gpu.pages - 1`; `cache.pages` may be 0 then. Of the same type and bytes as those in memory.
   */
  readonly pages: number;
  /**
   * How much of each layer's block is on the device for good, from its beginning: rounded as
   * `weights.residentLayerBytes`, which then counts what comes after it and stays in host memory; the rest streams from
   * the store. Without `weights` all of the rest is in host memory.
   */
  readonly residentLayerBytes: number;
  /**
   * On the device, that the rest of a layer is loaded into, up to 4096: 0 where every layer is wholly on the device,
   * else 1 or more. `weights.buffers` means nothing then.
   */
  readonly buffers: number;
  /**
   * For pages of the cache in host memory and on disk that come to the device, which attends to them: buffers there,
   * up to 4096, and the pages of one layer that each has places for. As many as `spill.buffers`, where pages are on
   * disk. 0: such pages stay where they are, and the processor attends to them.
   */
  readonly cacheBuffers: number;
  readonly cacheBufferPages: number;
  /**
   * With `cacheBuffers`: only the first pages of each row come, as many as `createBatch` is told; those after stay,
   * and the processor attends to them. Default false.
   */
  readonly sharesAttention?: boolean;
  /** Default `own`. What others work on is part of the scratch memory. Without meaning for products in float32. */
  readonly products?: GpuProducts;
}

/** The bytes a runtime reserves on a GPU. */
export interface GpuRuntimeBytes {
  readonly weights: number;
  /** All of them. */
  readonly weightBuffers: number;
  readonly cache: number;
  /** All of them. */
  readonly cacheBuffers: number;
  readonly scratch: number;
  /** One buffer of `limits.tokensPerSquare` tokens. */
  readonly activations: number;
  /**
   * The part of the weights in host memory, and of the cache there where the device reaches it, that the system did not
   * let be pinned: it crosses by copies of up to four threads, more slowly. Known once loaded; 0 for a runtime that was
   * only measured.
   */
  readonly unpinned: number;
  /** The part of `streamed` that comes from the store each time, not from host memory. */
  readonly streamedFromStore: readonly number[];
}

/** A figure that is measured of a GPU (native/profile/Figure.h). */
export type GpuFigureName =
  | 'link-up'
  | 'link-down'
  | 'gpu-memory-copy'
  | 'gpu-matmul'
  | 'gpu-matmul-cublaslt'
  | 'gpu-attention-prefill'
  | 'gpu-attention-decode'
  | 'gpu-attention-short'
  | 'gpu-cache-store'
  | 'gpu-rows'
  | 'gpu-sample-greedy'
  | 'gpu-sample-top-p'
  | 'gpu-task';
