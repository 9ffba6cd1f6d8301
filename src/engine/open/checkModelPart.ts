import { checkMembers, type Check } from '../../arguments/checkMembers.js';
import { found, foundJson } from '../../arguments/found.js';
import { oneOf, whole } from '../../arguments/memberChecks.js';
import { UsageError } from '../../errors/UsageError.js';
import { ATTENTION_BY, type LayerShare } from '../../model/dividedLayer.js';
import type { LayerRange } from '../../model/partOf.js';

/** Checks the layers that an engine is to have. */
export function checkLayerRange(name: string, value: unknown): void {
  const checks: Readonly<Record<keyof LayerRange, Check>> = { first: whole(0), count: whole(1) };
  checkMembers(name, value, checks, `${name}.`);
  const { first, count } = value as Partial<LayerRange>;
  if (first === undefined || count === undefined)
    throw new UsageError(`${name}: found ${found(value)}, expected first and count`);
}

/** Engines that share each layer. */
const MOST_SHARES = 64;

/** Checks the share of each layer that an engine is to have. */
export function checkLayerShare(name: string, value: unknown): void {
  const checks: Readonly<Record<keyof LayerShare, Check>> = {
    index: whole(0),
    of: whole(2, MOST_SHARES),
    attention: oneOf(...ATTENTION_BY),
  };
  checkMembers(name, value, checks, `${name}.`);
  const { index = NaN, of = NaN } = value as Partial<LayerShare>;
  if (!(index < of)) throw new UsageError(`${name}: found ${foundJson(value)}, expected index and of, index below of`);
}
