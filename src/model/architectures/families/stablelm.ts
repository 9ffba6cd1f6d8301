import type { DecoderSpec } from '../../DecoderSpec.js';
import type { WeightSource } from '../Family.js';
import { LLAMA_LAYER, type GatedDefaults } from '../gatedDecoder.js';
import { biases, gatedFamily, type Renamed } from '../gatedFamily.js';
import { GGUF_LAYER, weights } from '../weights.js';

const DEFAULTS: GatedDefaults = {
  vocabulary: 50304,
  hidden: 2560,
  feedForward: 6912,
  layers: 32,
  heads: 32,
  kvHeads: null,
  headDim: null,
  context: 4096,
  epsilon: 1e-5,
  theta: 10000,
};
const WITHOUT_SECOND: Renamed = { 'norm2.weight': undefined };

const norms = (decoder: DecoderSpec, wanted: boolean, parallel: boolean): DecoderSpec => ({
  ...decoder,
  ...(parallel && { residual: 'parallel' as const }),
  attention: { ...decoder.attention, qkNorm: wanted ? 'layer' : 'none' },
});

/** StableLM 2: layer norms, a quarter of each head rotates, perhaps a norm for each head, perhaps parallel branches. */
export const stablelm = gatedFamily({
  family: 'stablelm',
  defaults: DEFAULTS,
  style: { norm: { kind: 'layer', epsilon: 'layer_norm_eps' }, rotary: { style: 'halves', share: 0.25 } },
  decoder: (decoder, config) =>
    norms(decoder, config.boolean('qk_layernorm', false), config.boolean('use_parallel_residual', false)),
  names: (config, { residual }) => ({
    ...biases(config.boolean('use_qkv_bias', false), 'q', 'k', 'v'),
    'norm1.bias': 'input_layernorm.bias',
    'final_norm.bias': 'norm.bias',
    ...(residual === 'parallel' ? WITHOUT_SECOND : { 'norm2.bias': 'post_attention_layernorm.bias' }),
  }),
  weights: ({ attention, heads, kvHeads }) =>
    attention.qkNorm === 'none' ? [] : [...ofHeads('q', heads), ...ofHeads('k', kvHeads)],
  gguf: {
    architecture: 'stablelm',
    rotary: 'halves',
    norm: 'layer',
    decoder: (decoder, { fields, tensors }) =>
      norms(decoder, tensors.has('blk.0.attn_q_norm.weight'), fields.boolean('use_parallel_residual', false)),
    names: (_, { residual }) => ({
      'norm1.bias': 'attn_norm.bias',
      'final_norm.bias': 'output_norm.bias',
      ...(residual === 'parallel' ? WITHOUT_SECOND : { 'norm2.bias': 'ffn_norm.bias' }),
    }),
    weights: ({ attention }) =>
      attention.qkNorm === 'none'
        ? []
        : (['q', 'k'] as const).flatMap((role) =>
            weights(GGUF_LAYER, { [`${role}_norm.weight`]: `attn_${role}_norm.weight` }, { reshaped: true }),
          ),
  },
});

/** A tensor for each head. */
function ofHeads(role: 'q' | 'k', count: number): WeightSource[] {
  return weights(
    LLAMA_LAYER,
    { [`${role}_norm.weight`]: `self_attn.${role}_layernorm.norms.{piece}.weight` },
    { pieces: count },
  );
}
