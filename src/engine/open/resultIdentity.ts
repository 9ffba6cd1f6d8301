import { createHash } from 'node:crypto';
import type { GpuFacts } from '../../bindings/Gpu.js';
import { loadAddon } from '../../bindings/loadAddon.js';
import type { LayerRange } from '../../model/partOf.js';
import type { TensorBinding } from '../../model/TensorBinding.js';
import type { DiskCache } from '../memory/PagePool.js';
import { ENGINE_OPTIONS, type IdentityOption } from './engineOptions.js';
import { fetches, hostAttends } from './gpuMemory.js';
import type { Opened } from './Opened.js';
import type { Numerics } from './settings.js';
import type { RequestedOptions } from './validateOptions.js';

/**
 * Everything that decides what an engine answers to a row beside the row itself and what `generate` is told: two
 * engines with the same value give the same bits, whatever their memory, schedule, batches and threads. Plain JSON
 * data; `resultIdentityKey` makes one word of it. Options are as they were settled: as chosen, where `auto` was
 * allowed. Jobs keep it beside their output and go on with no other.
 */
export interface ResultIdentity extends Pick<Numerics, IdentityOption> {
  /** Which results this build's kernels give (native/kernels/numerics.h). */
  readonly numerics: number;
  /**
   * The hash of the contents of the model's files, as wholes: weights, configuration, tokenizer, chat templates. 64
   * hexadecimal digits.
   */
  readonly model: string;
  /**
   * The layers of an engine that has a part of the model's; null: all. What the engines of the others compute with is
   * theirs to say.
   */
  readonly layers: LayerRange | null;
  /**
   * Engines that have a share of each layer each: sums that one engine makes at once are made of so many. There where
   * they do. The values of all of them are equal.
   */
  readonly shares?: number;
  /** How many of its matrices an encoder in 8 bits multiplies in 16. There where it does some. */
  readonly sixteenBits?: number;
  /**
   * `amx` rounds activations and weights of products to bfloat16; all other instruction sets give the same bits, and so
   * do all of them in float32.
   */
  readonly instructions: 'amx' | 'others';
  /** Null where the processor computes. */
  readonly gpu: GpuIdentity | null;
  /**
   * The form in which engines that share the model's layers over links that round send hidden states, and the layers
   * before which that happens. There where they are rounded.
   */
  readonly hiddenStates?: { readonly sentAs: 'bfloat16'; readonly before: readonly number[] };
}

/** Facts of a GPU that decide results. */
export interface GpuIdentity {
  readonly name: string;
  readonly computeCapability: string;
  /** The code that multiplies: `own`, or `cublaslt` and its version. */
  readonly products: string;
  /** The share of each row's KV cache that the GPU attends to; the processor attends to the rest. */
  readonly cacheShare: number;
  /**
   * The part of the cache on disk, if any: over pages in memory prompts attend on the GPU, over those on disk on the
   * processor. `behind` is the share on the GPU, where more than that comes to it.
   */
  readonly cacheOnDisk?: { readonly share: number; readonly mostPagesPerRow: number; readonly behind?: number };
}

/** The facts that make up an identity. */
export interface IdentityFacts extends Numerics {
  readonly numerics: number;
  readonly model: string;
  readonly layers?: LayerRange | undefined;
  readonly shares?: number | undefined;
  /** Matrices that are multiplied in 16 bits where others become 8 bits. */
  readonly sixteenBits?: number;
  readonly gpu?:
    | (Pick<GpuIdentity, 'products' | 'cacheShare'> & {
        readonly facts: Pick<GpuFacts, 'name' | 'computeCapability'>;
        readonly diskCache: Pick<DiskCache, 'share' | 'mostPerRow'> & { readonly behind?: number };
      })
    | undefined;
}

/** Pure. */
export function resultIdentity(facts: IdentityFacts): ResultIdentity {
  const { numerics, model, layers, shares, precision, instructionSet, gpu, compressWeights, sixteenBits = 0 } = facts;
  return {
    numerics,
    model,
    layers: layers ? { first: layers.first, count: layers.count } : null,
    ...(shares !== undefined && { shares }),
    ...(compressWeights === '8bit' && sixteenBits > 0 && { sixteenBits }),
    ...identityOptions(facts),
    // On a GPU it is the GPU that multiplies, and of all that the processor does products alone differ.
    instructions: instructionSet === 'amx' && precision === 'default' && !gpu ? 'amx' : 'others',
    gpu: gpu ? identityOfGpu(gpu) : null,
  };
}

function identityOptions(facts: Numerics): Pick<Numerics, IdentityOption> {
  const named = Object.entries(ENGINE_OPTIONS)
    .filter(([, { identity }]) => identity)
    .map(([name]) => [name, facts[name as IdentityOption]] as const);
  // An option that came later is left out where it is off: identities from before it are equal then.
  return Object.fromEntries(named.filter(([, value]) => value !== undefined)) as Pick<Numerics, IdentityOption>;
}

function identityOfGpu({
  facts: { name, computeCapability },
  products,
  cacheShare,
  diskCache: { share, mostPerRow, behind },
}: NonNullable<IdentityFacts['gpu']>): GpuIdentity {
  return {
    name,
    computeCapability,
    products,
    cacheShare,
    ...(share > 0 && {
      cacheOnDisk: { share, mostPagesPerRow: mostPerRow, ...(behind !== undefined && { behind }) },
    }),
  };
}

/**
 * The identity of an engine that has been opened.
 * @param model `ModelIdentity.hash`
 */
export function identityOf(
  { runtime, settings, grid, gpu, cache }: Pick<Opened, 'runtime' | 'settings' | 'grid' | 'gpu' | 'cache'>,
  model: string,
  bindings: readonly TensorBinding[],
): ResultIdentity {
  const addon = loadAddon();
  const { part, share, layers: count } = grid;
  const facts = gpu && addon.machine().gpus[gpu.options.device];
  return resultIdentity({
    ...settings.numerics,
    numerics: addon.numerics,
    model,
    layers: part && { first: part.first, count },
    shares: share?.of,
    sixteenBits: bindings.filter((each) => each.notEightBits).length,
    gpu: gpu &&
      facts && {
        facts,
        products: runtime.gpuProducts,
        // Pages that come to the GPU are as good as there.
        cacheShare: gpu.attendedShare,
        diskCache: hostAttends(gpu)
          ? { ...cache.disk, ...(fetches(gpu) && { behind: gpu.cacheShare }) }
          : { share: 0, mostPerRow: 0 },
      },
  });
}

/**
 * Tells what can be told of an engine's identity by its options, without its model. What is only chosen as the engine
 * is opened (`auto`; what is on a GPU) is left out.
 */
export function foreseenIdentity({ options, settings }: RequestedOptions): Partial<ResultIdentity> {
  const { gpu: onGpu } = settings.memory;
  const {
    model: _,
    layers,
    compressWeights,
    compressCache,
    gpu,
    instructions,
    ...known
  } = resultIdentity({
    ...settings.numerics,
    numerics: loadAddon().numerics,
    model: '',
    shares: options.tensorParallel?.of,
  });
  return {
    ...known,
    ...(options.layers === undefined && { layers }),
    // Where nobody says, some models are usually compressed.
    ...(options.compressWeights !== 'auto' && options.compressWeights !== undefined && { compressWeights }),
    ...(options.compressCache !== 'auto' && { compressCache }),
    ...(!onGpu && { instructions, gpu }),
  };
}

/** One word for an identity: 64 hexadecimal digits, the same for equal values in whatever order their members stand. */
export function resultIdentityKey(identity: ResultIdentity): string {
  const inOrder = (_: string, value: unknown): unknown =>
    isRecord(value) ? Object.fromEntries(Object.entries(value).sort(byName)) : value;
  return createHash('sha256').update(JSON.stringify(identity, inOrder)).digest('hex');
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function byName([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number {
  return a < b ? -1 : Number(a > b);
}
