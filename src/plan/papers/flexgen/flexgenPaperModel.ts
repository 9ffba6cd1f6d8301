import { sum } from '../../Affine.js';
import type { BlockCost, BlockSetting, CostModel, MemoryTerm, PhaseCost } from '../../CostModel.js';
import { decodePhase } from './decode.js';
import { flexgenModel } from './flexgenModel.js';
import { memoryTerms } from './memory.js';
import { prefillPhase } from './prefill.js';
import { symbolsOf, type Symbols } from './symbols.js';

/**
 * FlexGen's cost model as its paper prints it (appendix A.3): everything overlaps, so that a layer takes as long as its
 * slowest queue, where the shipped code adds them up; one rate a constant, without the code's terms for small batches
 * and for weights on disk; of working memory the largest, not the sum. See docs/papers.md for both beside measurements.
 */
export const flexgenPaperModel: CostModel = {
  ...flexgenModel,
  name: 'flexgen-paper',
  blocks: (setting) => [block(setting)],
  blockAt: (setting) => block(setting),
};

function block(setting: BlockSetting): BlockCost {
  const shipped = symbolsOf(setting);
  const symbols = { ...shipped, of: { ...shipped.of, dtocWeightsFactor: 1, c1: 0, c2: 0, c3: 0 } };
  return {
    phases: [overlapping(prefillPhase(symbols)), overlapping(decodePhase(symbols))],
    memory: printedMemory(symbols),
    fixed: { hn: 0 },
    newTokens: symbols.bls * symbols.n,
    rows: symbols.bls,
    onceSeconds: 0,
  };
}

/** A layer takes the longest of its queues; the processor's attention and the GPU's computing are one. */
function overlapping(phase: PhaseCost): PhaseCost {
  const { 'gpu-compute': onGpu = {}, 'cpu-compute': onCpu = {}, ...transfers } = phase.queues;
  return { ...phase, bounds: [...Object.values(transfers), sum(onGpu, onCpu)] };
}

/** Peaks of the GPU, one for each of what may be the largest of its working memory; the other tiers' as shipped. */
function printedMemory(symbols: Symbols): MemoryTerm[] {
  const { l, s, n, h1, h2, nh, gbs, bls, w, kv } = symbols;
  const cache = { cg: 4 * (s + n) * h1 * bls * l * kv };
  const weights = { constant: 2 * w, wg: w * l - 2 * w };
  // As printed: of decoding, too, hidden states of all tokens of a prompt.
  const hidden = { constant: 2 * s * h1 * gbs, hg: -2 * s * h1 * gbs };
  const prefill = [8 * s * h1, 4 * s * h1, 2 * s * (h1 + h2)].map((bytes) => ({ constant: gbs * bytes }));
  const decode = [8 * h1, 4 * h1, 2 * (h1 + h2)].map((bytes) => ({ constant: gbs * bytes }));
  const gpu = (when: string, home: number, working: readonly { constant?: number; cg?: number }[]): MemoryTerm[] =>
    working.map((bytes) => ({ tier: 'gpu', when, bytes: sum(weights, { hg: home }, cache, hidden, bytes) }));
  return [
    ...gpu('prefill', 2 * s * h1 * bls, [...prefill, { cg: gbs * (4 * s * h1 + 2 * nh * s * s) }]),
    ...gpu('decode', 2 * h1 * bls, [...decode, { cg: gbs * (2 * h1 + 2 * (s + n) * h1 + 2 * nh * (s + n)) }]),
    ...memoryTerms(symbols).filter(({ tier }) => tier !== 'gpu'),
  ];
}
