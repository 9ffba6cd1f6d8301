import type { DecoderSpec } from '../../DecoderSpec.js';
import type { Family, GgufModel } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { LLAMA_LAYER, readGgufSizes, readSizes, unpositionedDecoder, type GatedDefaults } from '../gatedDecoder.js';
import { ggufAttendingLayers } from '../ggufMixedLayers.js';
import { layersByMixer } from '../mixers.js';
import {
  ggufMixture,
  ggufMixtureWeights,
  mixtureWeights,
  SOFTMAX_AS_IT_IS,
  withExperts,
  type MixtureNames,
} from '../mixture.js';
import { ggufScanWeights, readGgufScan, readScan, scanWeights } from '../selectiveScan.js';
import { activation, requireSilu } from '../specs.js';
import { GGUF_LAYER, ggufAttention, ggufGlobals, head, weights } from '../weights.js';

const DEFAULTS: GatedDefaults = {
  vocabulary: 65536,
  hidden: 4096,
  feedForward: 14336,
  layers: 32,
  heads: 32,
  kvHeads: 8,
  headDim: null,
  context: 262144,
  epsilon: 1e-6,
  theta: 10000,
};
const PERIOD = { min: 1, max: LIMITS.layers.max };
const OFFSET = { min: 0, max: LIMITS.layers.max };
const NAMES: MixtureNames = {
  router: 'feed_forward.router.weight',
  expert: (role, expert) => `feed_forward.experts.${expert}.${role}_proj.weight`,
  dense: (role) => `feed_forward.${role}_proj.weight`,
};
const STACKED = { gateUp: 'feed_forward.experts.gate_up_proj', down: 'feed_forward.experts.down_proj' };

/** Jamba: layers of a selective scan among ones that attend without positions, with experts in some of both. */
export const jamba: Family = {
  modelTypes: ['jamba'],
  fromConfig(config, tensors) {
    requireSilu(config);
    const sizes = readSizes(config, DEFAULTS);
    const epsilon = config.number('rms_norm_eps', LIMITS.epsilon, DEFAULTS.epsilon);
    const attends = everySo(config, 'attn_layer', 8, 4);
    const sparse = everySo(config, 'expert_layer', 2, 1);
    const experts = config.integer('num_experts', LIMITS.experts, 16);
    const plain: DecoderSpec = {
      ...unpositionedDecoder('jamba', sizes, epsilon),
      feedForward: { kind: 'gated', activation: activation(config, 'hidden_act', 'silu') },
      layerSpecs: layersByMixer(sizes.layers, 'selective-scan', attends),
      recurrent: readScan(config, sizes.hiddenSize, { epsilon, weighted: true }),
    };
    const mixed = experts > 1 && plain.layerSpecs.some((_, layer) => sparse(layer));
    const decoder = mixed
      ? withExperts(plain, {
          count: experts,
          perToken: config.integer('num_experts_per_tok', LIMITS.experts, 2),
          width: sizes.feedForwardSize,
          router: SOFTMAX_AS_IT_IS,
          dense: (layer) => !sparse(layer),
        })
      : plain;
    const stacked = tensors?.names().some((name) => name.endsWith(`.${STACKED.gateUp}`)) === true;
    return {
      decoder,
      bases: ['model.', ''],
      weights: [
        ...weights('{base}', { token_embedding: 'embed_tokens.weight', 'final_norm.weight': 'final_layernorm.weight' }),
        head('lm_head.weight', config.boolean('tie_word_embeddings', false)),
        ...weights(LLAMA_LAYER, {
          'norm1.weight': 'input_layernorm.weight',
          'norm2.weight': 'pre_ff_layernorm.weight',
          'q.weight': 'self_attn.q_proj.weight',
          'k.weight': 'self_attn.k_proj.weight',
          'v.weight': 'self_attn.v_proj.weight',
          'o.weight': 'self_attn.o_proj.weight',
        }),
        ...scanWeights(decoder, `${LLAMA_LAYER}mamba.`, {
          biased: config.boolean('mamba_proj_bias', false),
          convBiased: config.boolean('mamba_conv_bias', true),
        }),
        ...(mixed
          ? mixtureWeights(decoder, { ...NAMES, ...(stacked && { stacked: STACKED }) })
          : weights(`${LLAMA_LAYER}feed_forward.`, {
              'gate.weight': 'gate_proj.weight',
              'up.weight': 'up_proj.weight',
              'down.weight': 'down_proj.weight',
            })),
      ],
    };
  },
  gguf: {
    architecture: 'jamba',
    describe(whole: GgufModel) {
      const { model, attends } = ggufAttendingLayers(whole);
      const { fields, tensors } = model;
      const sizes = readGgufSizes(model);
      const epsilon = fields.number('attention.layer_norm_rms_epsilon', LIMITS.epsilon);
      const layerSpecs = layersByMixer(sizes.layers, 'selective-scan', attends);
      const first = layerSpecs.findIndex(({ mixer }) => mixer !== undefined);
      const plain: DecoderSpec = {
        ...unpositionedDecoder('jamba', sizes, epsilon),
        layerSpecs,
        ...(first >= 0 && { recurrent: readGgufScan(model, first, epsilon) }),
      };
      const isSparse = (layer: number): boolean => tensors.has(`blk.${layer}.ffn_gate_inp.weight`);
      const mixed = layerSpecs.some((_, layer) => isSparse(layer));
      const mixture = mixed ? ggufMixture(plain, model, { score: 'softmax', normalised: false }) : plain;
      const { experts } = mixture.feedForward;
      const decoder: DecoderSpec =
        experts === undefined
          ? plain
          : {
              ...mixture,
              layerSpecs: layerSpecs.map((layer, index) => (isSparse(index) ? layer : { ...layer, dense: true })),
              feedForward: { ...mixture.feedForward, experts: { ...experts, denseSize: plain.feedForwardSize } },
            };
      return {
        decoder,
        weights: [
          ...ggufGlobals(),
          ...ggufAttention(),
          ...weights(GGUF_LAYER, { 'norm1.weight': 'attn_norm.weight', 'norm2.weight': 'ffn_norm.weight' }),
          ...ggufScanWeights(decoder),
          ...(mixed
            ? ggufMixtureWeights(decoder, model)
            : weights(GGUF_LAYER, {
                'gate.weight': 'ffn_gate.weight',
                'up.weight': 'ffn_up.weight',
                'down.weight': 'ffn_down.weight',
              })),
        ],
      };
    },
  },
};

function everySo(config: Fields, what: string, period: number, offset: number): (layer: number) => boolean {
  const every = config.integer(`${what}_period`, PERIOD, period);
  const from = config.integer(`${what}_offset`, OFFSET, offset);
  if (from >= every) config.refuse(`${what}_offset`, `less than ${what}_period, ${every}`);
  return (layer) => layer % every === from;
}
