import type { DecoderSpec, LayerSpec } from '../../DecoderSpec.js';
import type { Family, WeightSource } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { gatedConfig, LLAMA_BASES, LLAMA_LAYER, type GatedStyle } from '../gatedDecoder.js';
import { mixedLayers } from '../mixers.js';
import { mixtureWeights, withExperts } from '../mixture.js';
import { alibiSlopes, requireSilu } from '../specs.js';
import { head, weights } from '../weights.js';
import { M2_EXPERTS, withRotatedDims } from './minimaxM2.js';
import { MIXTRAL_DEFAULTS } from './mixtral.js';

/** The epsilon of the norm of what lightning attention gives, whatever that of the others is. */
const EPSILON = 1e-6;
const ROTATED: GatedStyle = { rotary: { style: 'halves', share: 1 } };
const FACTOR = { min: -1e6, max: 1e6 };

/** Fields that the first checkpoints call otherwise than transformers. */
const OTHER_NAMES: Readonly<Record<string, string>> = {
  full_attn_alpha_factor: 'layernorm_full_attention_alpha',
  full_attn_beta_factor: 'layernorm_full_attention_beta',
  linear_attn_alpha_factor: 'layernorm_linear_attention_alpha',
  linear_attn_beta_factor: 'layernorm_linear_attention_beta',
  mlp_alpha_factor: 'layernorm_mlp_alpha',
  mlp_beta_factor: 'layernorm_mlp_beta',
};

/** MiniMax-Text-01 and M1: layers of lightning attention among ones that attend, norms after weighed sums, experts. */
export const minimax: Family = {
  modelTypes: ['minimax', 'minimax_text_01', 'minimax_m1'],
  fromConfig(given) {
    const first = given.raw('model_type') !== 'minimax';
    refuseOthers(given, first);
    const config = withOwnNames(given, first);
    const plain = withRotatedDims(
      gatedConfig('minimax', config, MIXTRAL_DEFAULTS, ROTATED),
      config,
      MIXTRAL_DEFAULTS.theta,
    );
    const { heads, headDim, layers } = plain;
    const decoder: DecoderSpec = withExperts(
      {
        ...plain,
        residual: 'post',
        finalNorm: false,
        embedding: { ...plain.embedding, norm: true },
        recurrent: { taps: 1, lightning: { heads, headDim, epsilon: EPSILON } },
        layerSpecs: layersOf(config, layers, first ? alibiSlopes(heads) : slopes(heads)),
      },
      {
        count: config.integer('num_local_experts', LIMITS.experts, 8),
        perToken: config.integer('num_experts_per_tok', LIMITS.experts, 2),
        width: plain.feedForwardSize,
      },
    );
    return {
      decoder,
      bases: LLAMA_BASES,
      weights: [
        ...weights('{base}', {
          token_embedding: 'embed_tokens.weight',
          'embedding_norm.weight': 'layers.0.input_layernorm.weight',
        }),
        head('lm_head.weight', config.boolean('tie_word_embeddings', false)),
        ...weights(LLAMA_LAYER, {
          'norm1.weight': 'post_attention_layernorm.weight',
          'q.weight': 'self_attn.q_proj.weight',
          'k.weight': 'self_attn.k_proj.weight',
          'v.weight': 'self_attn.v_proj.weight',
          'o.weight': 'self_attn.o_proj.weight',
          'lightning_in.weight': 'self_attn.qkv_proj.weight',
          'lightning_gate.weight': 'self_attn.output_gate.weight',
          'lightning_norm.weight': 'self_attn.norm.weight',
          'lightning_out.weight': 'self_attn.out_proj.weight',
        }),
        ...normsOfNext(layers),
        ...mixtureWeights(decoder, M2_EXPERTS),
      ],
    };
  },
};

/** A layer goes on from the norm of its input, which therefore ends the layer before; the last norm alike. */
function normsOfNext(layers: number): WeightSource[] {
  return Array.from({ length: layers }, (_, layer) => ({
    role: 'norm2.weight',
    tensor: `{base}${layer + 1 === layers ? 'norm' : `layers.${layer + 1}.input_layernorm`}.weight`,
    ofAllLayers: 'same',
    layers: (other) => other === layer,
  }));
}

/** @param first whether it is one of the first checkpoints, which list their layers and have no default for them */
function withOwnNames(given: Fields, first: boolean): Fields {
  const found = Object.entries(OTHER_NAMES).filter(([key, other]) => !given.has(key) && given.has(other));
  const config = given.renamed(Object.fromEntries(found));
  const [listed, typed] = [given.raw('attn_type_list') ?? null, given.raw('layer_types') ?? null];
  if (typed !== null || (listed === null && !first)) return config;
  if (!Array.isArray(listed) || !listed.every((type) => type === 0 || type === 1))
    return given.refuse('attn_type_list', 'a list of 0 (lightning attention) and 1 (attention)');
  return config.with({ layer_types: listed.map((type) => (type === 1 ? 'full_attention' : 'linear_attention')) });
}

function refuseOthers(config: Fields, first: boolean): void {
  requireSilu(config);
  if (!config.boolean('postnorm', !first)) config.refuse('postnorm', 'true: sums go on from norms');
  if (config.integer('shared_intermediate_size', { min: 0, max: LIMITS.feedForward.max }, 0) !== 0)
    config.refuse('shared_intermediate_size', '0: a block beside the experts is not computed');
}

function layersOf(config: Fields, layers: number, rates: Float32Array): LayerSpec[] {
  const window = config.integerOrNull('sliding_window', LIMITS.window, null) ?? 0;
  const sum = (of: string): { kept: number; added: number } => ({
    kept: config.number(`${of}_alpha_factor`, FACTOR, 1),
    added: config.number(`${of}_beta_factor`, FACTOR, 1),
  });
  const [full, linear, block] = [sum('full_attn'), sum('linear_attn'), sum('mlp')];
  const specs = mixedLayers(config, layers, ['linear_attention'], 'lightning-attention', (layer) => layer % 2 === 0);
  return specs.map((layer, index) => {
    if (layer.mixer === undefined) return { ...layer, window, sums: { mixer: full, block } };
    const factor = 1 - index / (layers - 1 + 1e-5) + 1e-5;
    return { ...layer, decays: rates.map((rate) => Math.exp(-rate * factor)), sums: { mixer: linear, block } };
  });
}

/** As transformers has them; those of ALiBi where the number of heads is a power of two. */
const slopes = (heads: number): Float32Array =>
  Float32Array.from({ length: heads }, (_, h) => 2 ** ((-8 * (h + 1)) / heads));
