import type { Description, Family, GgufModel } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { readGgufSizes } from '../gatedDecoder.js';
import { plainDecoder } from '../plainDecoder.js';
import { activation, dividedHeadDim } from '../specs.js';
import { fusedQueryKeyValue, GGUF_LAYER, GGUF_PLAIN_LAYER, ggufGlobals, head, weights } from '../weights.js';

const LAYER = '{base}h.{layer}.';
const COMMON = { family: 'gpt_bigcode', parallel: false, position: { kind: 'learned', offset: 0 } } as const;

/** GPT-BigCode (StarCoder 1, SantaCoder): GPT-2 with one head of keys and values. */
export const gptBigcode: Family = {
  modelTypes: ['gpt_bigcode'],
  fromConfig(config: Fields): Description {
    const hiddenSize = config.integer('n_embd', LIMITS.hidden, 768);
    const heads = config.integer('n_head', LIMITS.heads, 12);
    const oneHead = config.boolean('multi_query', true);
    const plain = plainDecoder({
      ...COMMON,
      hiddenSize,
      heads,
      kvHeads: oneHead ? 1 : heads,
      headDim: dividedHeadDim(config, hiddenSize, heads, 'n_head'),
      layers: config.integer('n_layer', LIMITS.layers, 12),
      vocabularySize: config.integer('vocab_size', LIMITS.vocabulary, 50257),
      contextTokens: config.integer('n_positions', LIMITS.context, 1024),
      feedForwardSize: config.integerOrNull('n_inner', LIMITS.feedForward, null) ?? 4 * hiddenSize,
      epsilon: config.number('layer_norm_epsilon', LIMITS.epsilon, 1e-5),
      activation: activation(config, 'activation_function', 'gelu_pytorch_tanh'),
    });
    const scaled = config.boolean('scale_attn_weights', true);
    const decoder = scaled ? plain : { ...plain, attention: { ...plain.attention, scale: 1 } };
    return {
      decoder,
      bases: ['transformer.', ''],
      weights: [
        ...weights('{base}', {
          token_embedding: 'wte.weight',
          position_embedding: 'wpe.weight',
          'final_norm.weight': 'ln_f.weight',
          'final_norm.bias': 'ln_f.bias',
        }),
        head('lm_head.weight', config.boolean('tie_word_embeddings', true)),
        ...fusedQueryKeyValue(`${LAYER}attn.c_attn`, decoder, oneHead ? 1 : heads, ['weight', 'bias']),
        ...weights(LAYER, {
          'norm1.weight': 'ln_1.weight',
          'norm1.bias': 'ln_1.bias',
          'norm2.weight': 'ln_2.weight',
          'norm2.bias': 'ln_2.bias',
          'o.weight': 'attn.c_proj.weight',
          'o.bias': 'attn.c_proj.bias',
          'up.weight': 'mlp.c_fc.weight',
          'up.bias': 'mlp.c_fc.bias',
          'down.weight': 'mlp.c_proj.weight',
          'down.bias': 'mlp.c_proj.bias',
        }),
      ],
    };
  },
  gguf: {
    architecture: 'starcoder',
    describe(model: GgufModel): Description {
      const decoder = plainDecoder({
        ...COMMON,
        ...readGgufSizes(model),
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
    },
  },
};
