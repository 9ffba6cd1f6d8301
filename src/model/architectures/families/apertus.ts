import type { DecoderSpec, LayerSpec } from '../../DecoderSpec.js';
import { LLAMA_BASES } from '../gatedDecoder.js';
import { biases, gatedFamily } from '../gatedFamily.js';
import { withQueryKeyNorm } from '../specs.js';
import { GGUF_HEAD_NORMS, HEAD_NORMS } from './olmo2.js';

const NUMBER = { min: -1e6, max: 1e6 };
const ROTARY = {
  rope_type: 'llama3',
  rope_theta: 12000000,
  factor: 8,
  original_max_position_embeddings: 8192,
  low_freq_factor: 1,
  high_freq_factor: 4,
};

/** Apertus: xIELU in blocks without a gate, norms of heads. */
export const apertus = gatedFamily({
  family: 'apertus',
  defaults: {
    vocabulary: 131072,
    hidden: 4096,
    feedForward: 14336,
    layers: 32,
    heads: 32,
    kvHeads: null,
    headDim: null,
    context: 65536,
    epsilon: 1e-5,
    theta: 12000000,
  },
  prepare: (config) => config.withDefaults({ hidden_act: 'xielu', rope_parameters: ROTARY }),
  decoder(decoder, config, tensors) {
    if (decoder.feedForward.activation !== 'xielu') config.refuse('hidden_act', 'xielu');
    const number = (layer: number, name: string, otherwise: number): number =>
      LLAMA_BASES.map((base) => tensors?.numbers.get(`${base}layers.${layer}.mlp.act_fn.${name}`)).find(
        (found) => found !== undefined,
      ) ?? otherwise;
    // Those that have no value to begin with are in the file, like weights.
    const learnt = (layer: number, name: string): number => {
      const found = number(layer, name, NaN);
      return Number.isNaN(found) && tensors
        ? config.refuse(`model.layers.${layer}.mlp.act_fn.${name}`, 'a tensor of one number')
        : found;
    };
    return withXielu(decoder, (layer) => ({
      positive: learnt(layer, 'alpha_p'),
      negative: learnt(layer, 'alpha_n'),
      beta: number(layer, 'beta', 0.5),
      epsilon: number(layer, 'eps', -1e-6),
    }));
  },
  names: (config) => ({
    ...HEAD_NORMS,
    ...biases(config.boolean('attention_bias', false), 'q', 'k', 'v', 'o'),
    'gate.weight': undefined,
    'norm1.weight': 'attention_layernorm.weight',
    'norm2.weight': 'feedforward_layernorm.weight',
  }),
  gguf: {
    architecture: 'apertus',
    rotary: 'halves',
    decoder(decoder, { fields }) {
      const { layers } = decoder;
      const [positive, negative, beta, epsilon] = ['alpha_p', 'alpha_n', 'beta', 'eps'].map((name) =>
        fields.numbers(`xielu.${name}`, layers, NUMBER),
      );
      return withXielu(decoder, (layer) => ({
        positive: positive?.[layer] ?? NaN,
        negative: negative?.[layer] ?? NaN,
        beta: beta?.[layer] ?? NaN,
        epsilon: epsilon?.[layer] ?? NaN,
      }));
    },
    names: () => ({ ...GGUF_HEAD_NORMS, 'gate.weight': undefined }),
  },
});

const softplus = (x: number): number => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)));

/** Layers with their numbers, of which files have those before a softplus. */
function withXielu(decoder: DecoderSpec, raw: (layer: number) => Required<LayerSpec>['xielu']): DecoderSpec {
  return {
    ...withQueryKeyNorm(decoder),
    feedForward: { kind: 'plain', activation: 'xielu' },
    layerSpecs: decoder.layerSpecs.map((layer, index) => {
      const { positive, negative, beta, epsilon } = raw(index);
      return { ...layer, xielu: { positive: softplus(positive), negative: beta + softplus(negative), beta, epsilon } };
    }),
  };
}
