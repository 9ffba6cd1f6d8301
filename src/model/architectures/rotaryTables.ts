import type { RotaryTable } from '../DecoderSpec.js';
import { configuredRotary, rotaryTheta } from './configRotary.js';
import { Fields } from './Fields.js';

/**
 * The rotary tables of families whose layers rotate by their kind: that of layers which see all tokens, then that of
 * those which slide. transformers 5 has settings for each kind in `rope_parameters`; before that `rope_scaling` was
 * meant for the first kind alone, and the base for both.
 */
export function rotaryTables(
  config: Fields,
  dims: number,
  context: number,
  theta: number,
  slidingTheta = theta,
): { readonly tables: readonly RotaryTable[]; readonly contextTokens: number } {
  const none = Fields.ofObject(config.file, {}, 'rope_parameters');
  const parameters = config.child('rope_parameters');
  const full = parameters?.child('full_attention') ?? config.child('rope_scaling') ?? none;
  const sliding = parameters?.child('sliding_attention') ?? none;
  const of = (settings: Fields, otherwise: number): ReturnType<typeof configuredRotary> =>
    configuredRotary(settings, {
      dims,
      theta: rotaryTheta(settings, config, 'rope_theta', otherwise),
      contextTokens: context,
    });
  const first = of(full, theta);
  return { tables: [first.table, of(sliding, slidingTheta).table], contextTokens: first.contextTokens };
}
