import { neighbours } from '../neighbours.js';
import { stepsBetween, type Corrections, type Phase } from './workKinds.js';

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
