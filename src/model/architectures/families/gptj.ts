import type { LayerRole } from '../weightRoles.js';
import { defaultFrequencies } from '../rotaryFrequencies.js';
import type { Description, Family, WeightSource } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { plainDecoder } from '../plainDecoder.js';
import { activation, dividedHeadDim, rotary } from '../specs.js';
import { head, type Names, weights } from '../weights.js';

const LAYER = '{base}h.{layer}.';

/** GPT-J: both branches after one layer norm, neighbours of each head's first elements rotate. */
export const gptj: Family = {
  modelTypes: ['gptj'],
  fromConfig: (config) =>
    describe('gptj', config, () =>
      weights(LAYER, {
        'q.weight': 'attn.q_proj.weight',
        'k.weight': 'attn.k_proj.weight',
        'v.weight': 'attn.v_proj.weight',
      }),
    ),
};

/** CodeGen: GPT-J with queries, values and keys of a quarter of the heads after one another. */
export const codegen: Family = {
  modelTypes: ['codegen'],
  fromConfig: (config) =>
    describe('codegen', config, (hiddenSize) => {
      if (hiddenSize % QUARTERS !== 0) config.refuse('n_embd', `a multiple of ${QUARTERS}`);
      const sizes = [0, 1, 2].map(() => hiddenSize / QUARTERS);
      return (['q', 'v', 'k'] as const).map((role, index) => ({
        role: `${role}.weight` as const,
        tensor: `${LAYER}attn.qkv_proj.weight`,
        part: { groups: QUARTERS, sizes, index },
      }));
    }),
};
const QUARTERS = 4;

const LAYERS: Names<LayerRole> = {
  'norm1.weight': 'ln_1.weight',
  'norm1.bias': 'ln_1.bias',
  'o.weight': 'attn.out_proj.weight',
  'up.weight': 'mlp.fc_in.weight',
  'up.bias': 'mlp.fc_in.bias',
  'down.weight': 'mlp.fc_out.weight',
  'down.bias': 'mlp.fc_out.bias',
};

function describe(family: string, config: Fields, heads: (hiddenSize: number) => WeightSource[]): Description {
  const hiddenSize = config.integer('n_embd', LIMITS.hidden, 4096);
  const count = config.integer('n_head', LIMITS.heads, 16);
  const headDim = dividedHeadDim(config, hiddenSize, count, 'n_head');
  const dims = config.integer('rotary_dim', { min: 2, max: headDim }, 64);
  const decoder = plainDecoder({
    family,
    parallel: true,
    hiddenSize,
    heads: count,
    kvHeads: count,
    headDim,
    layers: config.integer('n_layer', LIMITS.layers, 28),
    vocabularySize: config.integer('vocab_size', LIMITS.vocabulary, 50400),
    contextTokens: config.integer('n_positions', LIMITS.context, 2048),
    feedForwardSize: config.integerOrNull('n_inner', LIMITS.feedForward, null) ?? 4 * hiddenSize,
    epsilon: config.number('layer_norm_epsilon', LIMITS.epsilon, 1e-5),
    position: rotary('pairs', dims, { frequencies: defaultFrequencies(10000, dims), scale: 1 }),
    activation: activation(config, 'activation_function', 'gelu_new'),
  });
  return {
    decoder,
    bases: ['transformer.', ''],
    weights: [
      ...weights('{base}', {
        token_embedding: 'wte.weight',
        'final_norm.weight': 'ln_f.weight',
        'final_norm.bias': 'ln_f.bias',
      }),
      head('lm_head.weight', config.boolean('tie_word_embeddings', false)),
      ...weights('', { 'head.bias': 'lm_head.bias' }),
      ...weights(LAYER, LAYERS),
      ...heads(hiddenSize),
    ],
  };
}
