import type { Fields } from '../Fields.js';
import { biases, blockBiases, gatedFamily } from '../gatedFamily.js';
import { LLAMA_LAYER, type GatedDefaults } from '../gatedDecoder.js';
import { fusedQueryKeyValue, weights } from '../weights.js';

const DEFAULTS: GatedDefaults = {
  vocabulary: 128512,
  hidden: 4096,
  feedForward: 10240,
  layers: 48,
  heads: 32,
  kvHeads: 2,
  headDim: 128,
  context: 32768,
  epsilon: 1e-5,
  theta: 10000,
};
/** InternLM 3: LLaMA; published configurations call biases by older names. GGUF's is `llama`. */
export const internlm3 = gatedFamily({
  family: 'internlm3',
  defaults: DEFAULTS,
  names: (config) => ({
    ...biases(flag(config, 'attention_bias', 'qkv_bias'), 'q', 'k', 'v'),
    ...biases(flag(config, 'attention_bias', 'bias'), 'o'),
    ...blockBiases(flag(config, 'mlp_bias', 'bias'), 'gate', 'up', 'down'),
  }),
});

/** A field, or what it was called before. */
const flag = (config: Fields, key: string, older: string): boolean =>
  config.has(key) ? config.boolean(key, false) : config.boolean(older, false);

/** InternLM 2: LLaMA under other names, its q, k and v rows fused for each group of heads. */
export const internlm2 = gatedFamily({
  family: 'internlm2',
  defaults: {
    ...DEFAULTS,
    vocabulary: 103168,
    feedForward: 11008,
    layers: 32,
    kvHeads: null,
    headDim: null,
    context: 2048,
    epsilon: 1e-6,
  },
  names: (config) => ({
    token_embedding: 'tok_embeddings.weight',
    'norm1.weight': 'attention_norm.weight',
    'norm2.weight': 'ffn_norm.weight',
    'q.weight': undefined,
    'k.weight': undefined,
    'v.weight': undefined,
    'o.weight': 'attention.wo.weight',
    ...(config.boolean('bias', false) && { 'o.bias': 'attention.wo.bias' }),
    'gate.weight': 'feed_forward.w1.weight',
    'up.weight': 'feed_forward.w3.weight',
    'down.weight': 'feed_forward.w2.weight',
  }),
  weights: (decoder, config) => [
    ...fusedQueryKeyValue(
      `${LLAMA_LAYER}attention.wqkv`,
      decoder,
      decoder.kvHeads,
      config.boolean('bias', false) ? ['weight', 'bias'] : ['weight'],
    ),
    ...weights('', { 'head.weight': 'output.weight' }, { optional: config.boolean('tie_word_embeddings', false) }),
  ],
  head: false,
  gguf: { architecture: 'internlm2', rotary: 'pairs' },
});
