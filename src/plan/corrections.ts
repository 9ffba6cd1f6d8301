import { neighbours } from './neighbours.js';

/**
 * Kinds of work that a profile may be off in, by name: computing by phase, kind of weights and tokens of a square
 * (`compute.decode.q4.64`; with a GPU it is the GPU's), each way of using the disk, the link to a GPU both ways, what
 * the threads wait between two squares, and how badly computing and the disk overlap.
 *
 * What each is worth, by the runs of bench/results/policy-2026-11-22 predicted anew without it (43 of 58, those whose
 * placement is told in full): with all of them the median error is 7.9%, with none 16.5%, without `compute` 13.3%,
 * without `between` 8.2%; of the 16 with a disk 9.4% with all, 13.3% without `disk`, 10.6% without `overlap`. Of the
 * link there are no runs yet.
 */
export const WORK_KIND =
  /^(compute\.(prefill|decode)\.(f32|f16|q8|q4|q4_k|q6_k)\.(1|4|16|64|256|1024|4096)|disk\.(read|readSmall|readPages|write|writePages)|link\.(up|down)|between|overlap)$/;

/** Seconds over those of the profile, by kind of work; 1 for kinds that are left out. */
export type Corrections = Readonly<Record<string, number>>;

/** No correction is below 1/4 or above 4: what is further off is not a slow machine, but a mistake. */
const MOST_CORRECTION = 4;
/** The wait of the threads between two squares is little, and little is known of it. */
const MOST_BETWEEN = 16;

/** How far a kind of work may be corrected, up or down. */
export function mostCorrection(kind: string): number {
  return kind === 'between' ? MOST_BETWEEN : MOST_CORRECTION;
}

/** Tells whether all of these are kinds of work, and none of them too many or corrected too far. */
export function areCorrections(factors: Readonly<Record<string, number>>): boolean {
  const kinds = Object.entries(factors);
  return (
    kinds.length <= MOST_KINDS &&
    kinds.every(([kind, factor]) => factor >= 1 / mostCorrection(kind) && factor <= mostCorrection(kind))
  );
}

/** In words, for messages. */
export const CORRECTIONS_WORDS = 'factors from 0.25 to 4 (between: 0.0625 to 16), by at most 256 kinds of work';
/** There are no more kinds than this by far. */
const MOST_KINDS = 256;

/** Layers of fewer bytes are read in so few requests that waiting for the last one counts: a kind of their own. */
const SMALL_LAYER_BYTES = 8 * 2 ** 20;

/** The kind of reading weights and hidden states of a model whose layers have so many bytes. */
export function readKind(layerBytes: number): 'disk.read' | 'disk.readSmall' {
  return layerBytes < SMALL_LAYER_BYTES ? 'disk.readSmall' : 'disk.read';
}

export type Phase = 'prefill' | 'decode';

/** Squares of 1, 4, 16, … tokens are kinds of their own; others belong to the nearest, counted in logarithms. */
const STEP = 4;
const LARGEST = 4096;

export function computeKind(phase: Phase, weights: string, tokens: number): string {
  return `compute.${phase}.${weights}.${Math.min(LARGEST, STEP ** Math.max(0, Math.round(Math.log(Math.max(1, tokens)) / Math.log(STEP))))}`;
}

/** How many steps of sizes lie between two numbers of tokens. */
function stepsBetween(tokens: number, others: number): number {
  return Math.log(tokens / others) / Math.log(STEP);
}

/** Natural logarithms of what is known of one phase and kind of weights, by tokens of a square. */
type Curve = readonly { readonly tokens: number; readonly log: number }[];

/** Costing a plan asks for the same corrections many times. */
const curves = new WeakMap<Corrections, Map<string, Curve>>();

function curveOf(corrections: Corrections, phase: Phase, weights: string): Curve {
  let known = curves.get(corrections);
  if (!known) curves.set(corrections, (known = new Map<string, Curve>()));
  const prefix = `compute.${phase}.${weights}.`;
  let curve = known.get(prefix);
  if (!curve) {
    curve = Object.entries(corrections)
      .filter(([kind]) => kind.startsWith(prefix))
      .map(([kind, factor]) => ({ tokens: Number(kind.slice(prefix.length)), log: Math.log(factor) }));
    known.set(prefix, curve);
  }
  return curve;
}

/**
 * Between two sizes that were seen, what lies between; beyond the last of them half as much with every step, as it says
 * less and less.
 */
function logAt(curve: Curve, tokens: number): number {
  const { low, high, part } = neighbours(curve, (point) => point.tokens, tokens);
  if (low !== undefined && high !== undefined) return low.log + (high.log - low.log) * part;
  const last = high ?? low;
  return last === undefined ? 0 : last.log * 0.5 ** Math.abs(stepsBetween(tokens, last.tokens));
}

/**
 * By what a square's seconds of computing are multiplied. A square of both phases is corrected by its tokens' shares.
 * Pure.
 * @param weights kind of the products' weights, as in the profile's `matmul`
 */
export function computeFactor(
  corrections: Corrections | undefined,
  weights: string,
  { promptTokens, decodeRows }: { readonly promptTokens: number; readonly decodeRows: number },
): number {
  const tokens = promptTokens + decodeRows;
  if (corrections === undefined || !(tokens > 0)) return 1;
  // A square of less than one token is an average over squares that are empty.
  const of = (phase: Phase): number => Math.exp(logAt(curveOf(corrections, phase, weights), Math.max(1, tokens)));
  return (
    (promptTokens > 0 ? (promptTokens / tokens) * of('prefill') : 0) +
    (decodeRows > 0 ? (decodeRows / tokens) * of('decode') : 0)
  );
}
