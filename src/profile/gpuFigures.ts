import type { MachineFigure } from '../bindings/Profile.js';
import {
  CACHE_KINDS,
  LONG_INPUTS,
  MATMUL_WEIGHTS,
  type ComputeProfile,
  type HardwareProfile,
} from '../plan/HardwareProfile.js';
import { NO_COST, round, rowHeads, slowest } from './figures.js';

/** A profile's figures for a GPU. */
export interface GpuFigures {
  readonly gpu: ComputeProfile;
  readonly links: Pick<
    HardwareProfile['links'],
    'hostToDeviceBytesPerSecond' | 'deviceToHostBytesPerSecond' | 'copySeconds'
  >;
  readonly linkCopies: NonNullable<HardwareProfile['linkCopies']>;
}

/** Takes a figure for a path, and its spread with it. @throws NativeError where it was not measured */
type Take = (path: string, figure: MachineFigure | undefined) => number;

/**
 * Gives the figures measured on a GPU; undefined where none was looked at. Pure.
 *
 * Products and attention of single tokens take codes of 8 and 4 bits as they lie, so making floats of them costs
 * nothing beside what these figures contain.
 * @throws NativeError where a figure is missing
 */
export function gpuFigures(figures: readonly MachineFigure[], take: Take): GpuFigures | undefined {
  const of = (what: MachineFigure['what']): readonly MachineFigure[] =>
    figures.filter((figure) => figure.what === what);
  const products = of('gpu-matmul');
  if (products.length === 0) return undefined;
  const library = of('gpu-matmul-cublaslt');
  const decode = of('gpu-attention-decode');
  const plain = decode.find(({ kind, groupHeads }) => kind === 'f16' && groupHeads === 1);
  const copied = take('gpu.memoryCopyBytesPerSecond', of('gpu-memory-copy')[0]);
  return {
    gpu: {
      threads: 1,
      matmul: MATMUL_WEIGHTS.flatMap((weights) =>
        products
          .filter(({ kind }) => kind === weights)
          .map((figure) => {
            const short = figure.inputs > 0 && figure.inputs < LONG_INPUTS ? { inputs: figure.inputs } : {};
            return {
              weights,
              tokens: figure.tokens,
              ...short,
              flopsPerSecond: take(
                ['gpu', 'matmul', weights, figure.tokens, ...Object.values(short)].join('.'),
                figure,
              ),
            };
          }),
      ),
      ...(library.length > 0 && {
        matmulCublasLt: MATMUL_WEIGHTS.flatMap((weights) =>
          library
            .filter(({ kind }) => kind === weights)
            .map((figure) => ({
              weights,
              tokens: figure.tokens,
              flopsPerSecond: take(`gpu.matmulCublasLt.${weights}.${figure.tokens}`, figure),
            })),
        ),
      }),
      attention: {
        prefillFlopsPerSecond: take('gpu.attention.prefillFlopsPerSecond', of('gpu-attention-prefill')[0]),
        decodeBytesPerSecond: take('gpu.attention.decodeBytesPerSecond', plain),
        decode: CACHE_KINDS.flatMap((cache) =>
          decode
            .filter(({ kind }) => kind === cache)
            .map((figure) => ({
              cache,
              groupHeads: figure.groupHeads,
              bytesPerSecond: take(`gpu.attention.decode.${cache}.${figure.groupHeads}`, figure),
            })),
        ),
        ...rowHeads(of('gpu-attention-short')[0], plain),
      },
      // A byte that is copied is read and written.
      memoryBytesPerSecond: 2 * copied,
      memoryCopyBytesPerSecond: copied,
      quantiseValuesPerSecond: take(
        'gpu.quantiseValuesPerSecond',
        slowest(of('gpu-cache-store').filter(({ kind }) => kind !== 'f16')),
      ),
      dequantiseValuesPerSecond: NO_COST,
      rowOperationsPerSecond: take('gpu.rowOperationsPerSecond', of('gpu-rows')[0]),
      sampleLogitsPerSecond: take('gpu.sampleLogitsPerSecond', of('gpu-sample-greedy')[0]),
      sampleTopPLogitsPerSecond: take('gpu.sampleTopPLogitsPerSecond', of('gpu-sample-top-p')[0]),
      taskSeconds: round(1 / take('gpu.taskSeconds', of('gpu-task')[0])),
    },
    links: {
      hostToDeviceBytesPerSecond: take('links.hostToDeviceBytesPerSecond', largest(of('link-up'))),
      deviceToHostBytesPerSecond: take('links.deviceToHostBytesPerSecond', largest(of('link-down'))),
      copySeconds: round(
        Math.max(
          ...(['link-up', 'link-down'] as const).map((what) => secondsOfOne(of(what).find(({ depth }) => depth === 1))),
        ),
      ),
    },
    linkCopies: (['link-up', 'link-down'] as const).flatMap((what) => {
      const direction = what === 'link-up' ? ('toDevice' as const) : ('toHost' as const);
      return of(what).map((figure) => ({
        direction,
        copyBytes: figure.requestBytes,
        depth: figure.depth,
        bytesPerSecond: take(`linkCopies.${direction}.${figure.requestBytes}.${figure.depth}`, figure),
      }));
    }),
  };
}

/** Picks, of the copies that follow each other, the one of most bytes: weights of a layer are such. */
function largest(copies: readonly MachineFigure[]): MachineFigure | undefined {
  return copies
    .filter(({ depth }) => depth > 1)
    .reduce<MachineFigure | undefined>(
      (best, each) => (best === undefined || each.requestBytes > best.requestBytes ? each : best),
      undefined,
    );
}

function secondsOfOne(copy: MachineFigure | undefined): number {
  return copy === undefined ? 0 : copy.requestBytes / copy.perSecond;
}
