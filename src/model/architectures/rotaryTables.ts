import type { RotaryTable } from '../DecoderSpec.js';
import { configuredRotary, rotatedOf, rotaryTheta } from './configRotary.js';
import { Fields } from './Fields.js';

/** Keys of settings that are meant for all layers. */
const FLAT = ['rope_type', 'type', 'rope_theta', 'partial_rotary_factor'];

/**
 * The rotary tables of families whose layers rotate by their kind: that of layers which see all tokens, then that of
 * those which slide. transformers 5 has settings for each kind in `rope_parameters`; before that `rope_scaling` was
 * meant for the first kind alone, and the base for both.
 * Settings for no kind are refused: transformers finds none in them, or takes its own.
 * @param dims elements of a head that are rotated; with `share`, elements of a head, of which each kind rotates that
 * share if it says no other
 */
export function rotaryTables(
  config: Fields,
  dims: number,
  context: number,
  theta: number,
  slidingTheta = theta,
  share?: number,
): { readonly tables: readonly RotaryTable[]; readonly contextTokens: number; readonly dims: number } {
  const none = Fields.ofObject(config.file, {}, 'rope_parameters');
  const parameters = config.child('rope_parameters');
  if (parameters && !parameters.has('full_attention') && !parameters.has('sliding_attention'))
    for (const key of FLAT)
      if (parameters.has(key)) parameters.refuse(key, 'settings of full_attention and of sliding_attention');
  const full = parameters?.child('full_attention') ?? config.child('rope_scaling') ?? none;
  const sliding = parameters?.child('sliding_attention') ?? none;
  const of = (settings: Fields, otherwise: number): ReturnType<typeof configuredRotary> =>
    configuredRotary(settings, {
      dims: share === undefined ? whole(settings, dims) : rotatedOf(settings, dims, share),
      theta: rotaryTheta(settings, config, 'rope_theta', otherwise),
      contextTokens: context,
    });
  const first = of(full, theta);
  const tables = [first.table, of(sliding, slidingTheta).table];
  const rotated = 2 * Math.max(...tables.map(({ frequencies }) => frequencies.length));
  return { tables, contextTokens: first.contextTokens, dims: rotated };
}

/** All elements of heads of families that cannot rotate a share of them. */
function whole(settings: Fields, dims: number): number {
  const share = settings.numberOrNull('partial_rotary_factor', { min: 0, max: 1 }) ?? 1;
  return share === 1 ? dims : settings.refuse('partial_rotary_factor', 'none, or 1: this family rotates whole heads');
}
