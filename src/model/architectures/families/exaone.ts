import type { GatedDefaults } from '../gatedDecoder.js';
import { gatedFamily, type Renamed } from '../gatedFamily.js';
import { requireFalse } from '../specs.js';

const DEFAULTS: GatedDefaults = {
  vocabulary: 102400,
  hidden: 4096,
  feedForward: 14336,
  layers: 32,
  heads: 32,
  kvHeads: 8,
  headDim: null,
  context: 4096,
  epsilon: 1e-5,
  theta: 500000,
};

const LAYER = 'transformer.h.{layer}.';
/** As published: GPT-2's names, here after a layer's prefix of LLaMA's. */
const NAMES: Renamed = {
  'norm1.weight': 'ln_1.weight',
  'norm2.weight': 'ln_2.weight',
  'q.weight': 'attn.attention.q_proj.weight',
  'k.weight': 'attn.attention.k_proj.weight',
  'v.weight': 'attn.attention.v_proj.weight',
  'o.weight': 'attn.attention.out_proj.weight',
  'gate.weight': 'mlp.c_fc_0.weight',
  'up.weight': 'mlp.c_fc_1.weight',
  'down.weight': 'mlp.c_proj.weight',
};

const plain = gatedFamily({
  family: 'exaone',
  defaults: DEFAULTS,
  prepare(config) {
    requireFalse(config, 'attention_bias', 'mlp_bias');
    return config.withDefaults({
      num_hidden_layers: config.raw('num_layers'),
      rms_norm_eps: config.raw('layer_norm_epsilon'),
      hidden_act: config.raw('activation_function'),
    });
  },
  names: () => ({
    ...NAMES,
    token_embedding: 'transformer.wte.weight',
    'final_norm.weight': 'transformer.ln_f.weight',
  }),
  gguf: { architecture: 'exaone', rotary: 'halves' },
});

/** EXAONE 3 and 3.5, EXAONE Deep: LLaMA under GPT-2's names. */
export const exaone: typeof plain = {
  ...plain,
  fromConfig(config, tensors) {
    const description = plain.fromConfig(config, tensors);
    return {
      ...description,
      weights: description.weights.map((source) => ({
        ...source,
        tensor: source.tensor.replace('{base}layers.{layer}.', LAYER).replace('{base}', ''),
      })),
    };
  },
};
