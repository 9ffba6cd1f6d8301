import type { DecoderSpec } from '../../DecoderSpec.js';
import { LIMITS, type Fields } from '../Fields.js';
import { normsLessOne, PRE_NORMS } from '../gatedDecoder.js';
import { gatedFamily } from '../gatedFamily.js';
import { listedDenseLayers, mixtureWeights, withExperts } from '../mixture.js';
import { withQueryKeyNorm } from '../specs.js';
import { refuseOtherSwiglu } from './gptOss.js';
import { M2_EXPERTS, MINIMAX_DEFAULTS, withRotatedDims } from './minimaxM2.js';
import { HEAD_NORMS } from './olmo2.js';

const SPARSE = 'minimax_m3_sparse';
/** Its indexer's settings, and the names that published files have for them. */
const INDEXER = {
  index_topk_blocks: { older: 'sparse_topk_blocks', usual: 16 },
  index_block_size: { older: 'sparse_block_size', usual: 128 },
} as const;

/**
 * MiniMax-M3's language model: norms over heads, partial rotation, gpt-oss's clamped activation, a logistic router with
 * a bias, a block beside the experts. All norms are stored less 1.
 */
export const minimaxM3 = gatedFamily({
  family: 'minimax_m3_vl_text',
  defaults: {
    ...MINIMAX_DEFAULTS,
    hidden: 6144,
    feedForward: 3072,
    layers: 60,
    heads: 64,
    kvHeads: 4,
    context: 524288,
  },
  style: { rotary: { style: 'halves', share: 0.5 } },
  prepare: (config) => config.with({ hidden_act: 'silu' }).withDefaults({ rotary_dim: 64 }),
  decoder(decoder, config) {
    refuseOtherSwiglu(config);
    for (const key of ['use_gemma_norm', 'use_qk_norm']) if (!config.boolean(key, true)) config.refuse(key, 'true');
    const rotated = withQueryKeyNorm(withRotatedDims(decoder, config, MINIMAX_DEFAULTS.theta));
    const clamped: DecoderSpec = {
      ...rotated,
      contextTokens: Math.min(decoder.contextTokens, seenWhole(config)),
      feedForwardSize: config.integer('dense_intermediate_size', LIMITS.feedForward, 12288),
      feedForward: { kind: 'gated', activation: 'clamped-swiglu' },
    };
    return withExperts(clamped, {
      count: config.integer('num_local_experts', LIMITS.experts, 128),
      perToken: config.integer('num_experts_per_tok', LIMITS.experts, 4),
      width: decoder.feedForwardSize,
      router: {
        score: 'sigmoid',
        normalised: true,
        scale: config.number('routed_scaling_factor', LIMITS.factor, 2),
        choiceBias: true,
      },
      shared: { size: config.integer('shared_intermediate_size', LIMITS.feedForward, 3072), gate: false },
      dense: listedDenseLayers(config, decoder.layers) ?? frequentlyDense(config, decoder.layers),
    });
  },
  names: () => ({ 'norm1.weight': undefined, 'norm2.weight': undefined, 'final_norm.weight': undefined }),
  weights: (decoder) => [
    ...normsLessOne({ ...PRE_NORMS, ...HEAD_NORMS }),
    ...mixtureWeights(decoder, {
      ...M2_EXPERTS,
      shared: (role) => `block_sparse_moe.shared_experts.${role}_proj.weight`,
    }),
  ],
});

/**
 * Tokens of a row that all layers see whole: their indexer chooses blocks of keys, all of them where they are few.
 */
function seenWhole(config: Fields): number {
  const older = config.child('sparse_attention_config');
  const listed = config.raw('layer_types') ?? older?.raw('sparse_attention_freq') ?? [];
  if (!Array.isArray(listed)) return config.refuse('layer_types', 'an array');
  for (const kind of listed as readonly unknown[])
    if (![SPARSE, 'full_attention', 0, 1, true, false].includes(kind as string | number | boolean))
      config.refuse('layer_types', `full_attention or ${SPARSE} for each layer`, kind);
  if (!listed.some((kind: unknown) => kind === SPARSE || kind === 1 || kind === true)) return Infinity;
  const setting = (key: keyof typeof INDEXER): number =>
    older?.has(INDEXER[key].older) === true
      ? older.integer(INDEXER[key].older, LIMITS.context)
      : config.integer(key, LIMITS.context, INDEXER[key].usual);
  return setting('index_topk_blocks') * setting('index_block_size');
}

/** Layers without experts as published files list them: 0. */
function frequentlyDense(config: Fields, layers: number): (layer: number) => boolean {
  const listed = config.raw('moe_layer_freq');
  if (listed === undefined || listed === null) return () => false;
  if (!Array.isArray(listed) || listed.length !== layers)
    return config.refuse('moe_layer_freq', `an array of ${layers}, one entry a layer`);
  return (layer) => listed[layer] === 0;
}
