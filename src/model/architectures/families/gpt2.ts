import type { DecoderSpec } from '../../DecoderSpec.js';
import type { Description, Family, GgufModel, WeightSource } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { readGgufSizes } from '../gatedDecoder.js';
import { plainDecoder } from '../plainDecoder.js';
import { activation, dividedHeadDim } from '../specs.js';
import { fusedQueryKeyValue, GGUF_LAYER, GGUF_PLAIN_LAYER, ggufGlobals, head, weights } from '../weights.js';

const LAYER = '{base}h.{layer}.';
const COMMON = { parallel: false, position: { kind: 'learned', offset: 0 } } as const;

/** Names of weights that GPT-2 has in common with its kin. */
export const GPT2_GLOBALS = weights('{base}', {
  token_embedding: 'wte.weight',
  position_embedding: 'wpe.weight',
  'final_norm.weight': 'ln_f.weight',
  'final_norm.bias': 'ln_f.bias',
});
export const GPT2_NORMS = {
  'norm1.weight': 'ln_1.weight',
  'norm1.bias': 'ln_1.bias',
  'norm2.weight': 'ln_2.weight',
  'norm2.bias': 'ln_2.bias',
} as const;
export const GPT2_BLOCK = {
  'up.weight': 'mlp.c_fc.weight',
  'up.bias': 'mlp.c_fc.bias',
  'down.weight': 'mlp.c_proj.weight',
  'down.bias': 'mlp.c_proj.bias',
} as const;
export const GPT2_OUTPUT = { 'o.weight': 'attn.c_proj.weight', 'o.bias': 'attn.c_proj.bias' } as const;

/** GPT-2's matrices have a row for each input. */
export function turnedMatrices(source: WeightSource): WeightSource {
  return source.role.endsWith('.weight') ? { ...source, turned: true } : source;
}

/** The decoder of a configuration with GPT-2's names; `oneHead`: of keys and values. */
export function gpt2Decoder(
  config: Fields,
  { family, oneHead, usual }: { readonly family: string; readonly oneHead: boolean; readonly usual: string },
): DecoderSpec {
  const hiddenSize = config.integer('n_embd', LIMITS.hidden, 768);
  const heads = config.integer('n_head', LIMITS.heads, 12);
  const plain = plainDecoder({
    ...COMMON,
    family,
    hiddenSize,
    heads,
    kvHeads: oneHead ? 1 : heads,
    headDim: dividedHeadDim(config, hiddenSize, heads, 'n_head'),
    layers: config.integer('n_layer', LIMITS.layers, 12),
    vocabularySize: config.integer('vocab_size', LIMITS.vocabulary, 50257),
    contextTokens: config.integer('n_positions', LIMITS.context, 1024),
    feedForwardSize: config.integerOrNull('n_inner', LIMITS.feedForward, null) ?? 4 * hiddenSize,
    epsilon: config.number('layer_norm_epsilon', LIMITS.epsilon, 1e-5),
    activation: activation(config, 'activation_function', usual),
  });
  const scaled = config.boolean('scale_attn_weights', true);
  return scaled ? plain : { ...plain, attention: { ...plain.attention, scale: 1 } };
}

/** A GGUF file with GPT-2's tensors. */
export function ggufGpt2(family: string, model: GgufModel, sizes = readGgufSizes(model)): Description {
  const decoder = plainDecoder({
    ...COMMON,
    family,
    ...sizes,
    epsilon: model.fields.number('attention.layer_norm_epsilon', LIMITS.epsilon),
    activation: 'gelu-tanh',
  });
  return {
    decoder,
    weights: [
      ...ggufGlobals(),
      ...weights('', { position_embedding: 'position_embd.weight', 'final_norm.bias': 'output_norm.bias' }),
      ...fusedQueryKeyValue(`${GGUF_LAYER}attn_qkv`, decoder, 1, ['weight', 'bias']),
      ...weights(GGUF_LAYER, GGUF_PLAIN_LAYER),
    ],
  };
}

/** GPT-2 and DistilGPT2: learned positions, layer norms, biases; matrices with a row for each input. */
export const gpt2: Family = {
  modelTypes: ['gpt2'],
  fromConfig(config: Fields): Description {
    for (const key of ['scale_attn_by_inverse_layer_idx', 'add_cross_attention'])
      if (config.boolean(key, false)) config.refuse(key, 'false');
    const decoder = gpt2Decoder(config, { family: 'gpt2', oneHead: false, usual: 'gelu_new' });
    return {
      decoder,
      bases: ['transformer.', ''],
      weights: [
        ...GPT2_GLOBALS,
        head('lm_head.weight', config.boolean('tie_word_embeddings', true)),
        ...weights(LAYER, GPT2_NORMS),
        ...[
          ...fusedQueryKeyValue(`${LAYER}attn.c_attn`, decoder, 1, ['weight', 'bias']),
          ...weights(LAYER, { ...GPT2_OUTPUT, ...GPT2_BLOCK }),
        ].map(turnedMatrices),
      ],
    };
  },
  gguf: {
    architecture: 'gpt2',
    describe(model) {
      const sizes = readGgufSizes(model);
      return ggufGpt2('gpt2', model, { ...sizes, kvHeads: sizes.heads });
    },
  },
};
