import type { GpuFigureName } from './Gpu.js';

export interface ProfileOptions {
  /** All that shall be used, 1 to 1024; one thread is measured beside it. */
  readonly threads: number;
  /** A thread for each core, 1 to 1024: measured too where that is fewer. */
  readonly coreThreads: number;
  /** Tokens of a page of the KV cache: a multiple of 16 up to 256. */
  readonly pageTokens: number;
  /**
   * Folder of stores and spill files, made where it is missing, and the most that is written there, up to 1 GiB.
   * Default: the disk is not looked at.
   */
  readonly disk?: { readonly folder: string; readonly bytes: number };
  /**
   * To keep weights and pages in; at least 16 MiB are taken. Default: 128 MiB, or an eighth of what is free. Some 40
   * MiB of inputs and outputs come on top.
   */
  readonly memoryBytes?: number;
  /**
   * A GPU that is measured beside the processor, in some four seconds more, and the most of its memory that is taken
   * meanwhile: 64 MiB at least. Default: none is looked at.
   */
  readonly gpu?: { readonly device: number; readonly memoryBytes: number };
  /** Weights whose products are measured, one kind at least: f32, f16, q8, q4. */
  readonly weights: readonly string[];
  /**
   * True where products and attention are measured with all instruction sets of the machine, instead of with the best
   * alone.
   */
  readonly otherInstructionSets: boolean;
  /** Above 0, at most 100. Below 0.5 everything is measured in one round instead of three. */
  readonly budget: number;
  /**
   * Nothing but reading memory, products of 1 and 64 rows, on all threads, and, with `disk`, reading from there:
   * how fast the machine is just now.
   */
  readonly speedOnly: boolean;
}

export interface MachineFigures {
  readonly figures: readonly MachineFigure[];
  readonly leftOut: readonly { readonly what: string; readonly reason: string }[];
}

/** One measured rate (native/profile/Figure.h says what of). What says nothing about it is empty or 0. */
export interface MachineFigure {
  readonly what:
    | 'memory-read'
    | 'memory-copy'
    | 'matmul'
    | 'attention-prefill'
    | 'attention-decode'
    | 'attention-short'
    | 'cache-store'
    | 'rows'
    | 'sample-greedy'
    | 'sample-top-p'
    | 'task'
    | 'disk-read'
    | 'disk-read-layers'
    | 'disk-read-pages'
    | 'disk-read-blocks'
    | 'disk-write'
    | GpuFigureName;
  /** f32, f16, q8 or q4: of weights, or of the cache. */
  readonly kind: string;
  /** The instruction set used; empty on a GPU, and threads are 0 there. */
  readonly instructionSet: string;
  readonly threads: number;
  readonly tokens: number;
  /** The inputs of the weights; the least where several shapes make one figure. */
  readonly inputs: number;
  /** Query heads that share a head of keys and values. */
  readonly groupHeads: number;
  readonly requestBytes: number;
  /** Requests in flight, or copies. */
  readonly depth: number;
  readonly perSecond: number;
  /** Half the interquartile range of the samples over their median. */
  readonly spread: number;
  readonly samples: number;
}
