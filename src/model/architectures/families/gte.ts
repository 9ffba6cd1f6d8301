import { biased, EIGHT_BITS, encoder, encoderSizes, layerNorm, sequenceClassifier, withHead } from '../encoder.js';
import { configuredRotary, rotaryFields, rotaryTheta } from '../configRotary.js';
import type { Description, Family } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { activation, rotary } from '../specs.js';
import type { TensorIndex } from '../TensorIndex.js';
import { fusedQueryKeyValue, fusedUpGate, weights } from '../weights.js';

const DEFAULTS = { vocabulary: 250048, hidden: 768, layers: 12, heads: 12, feedForward: 3072 };

/** GTE (`new` as its own code calls it): BERT with rotary positions and gated feed-forward blocks. */
export const gte: Family = {
  modelTypes: ['new', 'gte'],
  fromConfig(config: Fields, tensors?: TensorIndex): Description {
    const own = config.raw('model_type') === 'new';
    if (own) checkOwn(config);
    const sizes = encoderSizes(config, DEFAULTS);
    const headDim = sizes.hiddenSize / sizes.heads;
    const contextTokens = config.integer('max_position_embeddings', LIMITS.context, 8192);
    const fields = rotaryFields(config);
    const { table } = configuredRotary(fields, {
      dims: headDim,
      contextTokens,
      theta: rotaryTheta(fields, config, 'rope_theta', own ? 10000 : 160000),
    });
    const head = sequenceClassifier(
      config,
      sizes.hiddenSize,
      [{ kind: 'dense', activation: 'tanh', tensor: '{base}pooler.dense' }],
      'classifier',
    );
    const types = config.integer('type_vocab_size', { min: 0, max: 1024 }, 1);
    const decoder = encoder({
      family: 'gte',
      ...sizes,
      contextTokens,
      epsilon: config.number('layer_norm_eps', LIMITS.epsilon, 1e-12),
      tokenTypes: types,
      position: rotary('halves', headDim, table),
      feedForward: { kind: 'gated', activation: activation(config, 'hidden_act', 'gelu') },
    });
    return withHead(
      {
        decoder,
        bases: ['new.', 'gte.', 'model.', ''],
        eightBits: EIGHT_BITS,
        weights: [
          ...weights('{base}embeddings.', {
            token_embedding: 'word_embeddings.weight',
            ...(types > 0 && { type_embedding: 'token_type_embeddings.weight' }),
          }),
          ...layerNorm('embedding_norm', '{base}embeddings.LayerNorm'),
          ...layerWeights(decoder, tensors),
        ],
      },
      head,
    );
  },
};

function layerWeights(
  { heads, headDim, feedForwardSize }: { heads: number; headDim: number; feedForwardSize: number },
  tensors: TensorIndex | undefined,
): Description['weights'] {
  const separate = tensors?.names().some((name) => name.endsWith('layers.0.self_attn.q_proj.weight')) ?? false;
  if (separate) {
    const layer = '{base}layers.{layer}.';
    return [
      ...biased(layer, {
        q: 'self_attn.q_proj',
        k: 'self_attn.k_proj',
        v: 'self_attn.v_proj',
        o: 'self_attn.o_proj',
        down: 'mlp.down_proj',
      }),
      ...weights(layer, { 'gate.weight': 'mlp.gate_proj.weight', 'up.weight': 'mlp.up_proj.weight' }),
      ...layerNorm('norm1', `${layer}post_attention_layernorm`),
      ...layerNorm('norm2', `${layer}post_mlp_layernorm`),
    ];
  }
  const layer = '{base}encoder.layer.{layer}.';
  return [
    ...fusedQueryKeyValue(`${layer}attention.qkv_proj`, { heads, kvHeads: heads, headDim }, 1, ['weight', 'bias']),
    ...biased(layer, { o: 'attention.o_proj', down: 'mlp.down_proj' }),
    ...fusedUpGate(`${layer}mlp.up_gate_proj.weight`, feedForwardSize),
    ...layerNorm('norm1', `${layer}attn_ln`),
    ...layerNorm('norm2', `${layer}mlp_ln`),
  ];
}

/** Refuses what the model's own code can do beside what its checkpoints ask for. */
function checkOwn(config: Fields): void {
  if (config.string('position_embedding_type', 'rope') !== 'rope') config.refuse('position_embedding_type', 'rope');
  if (config.string('layer_norm_type', 'layer_norm') !== 'layer_norm') config.refuse('layer_norm_type', 'layer_norm');
  if (!config.boolean('pack_qkv', true)) config.refuse('pack_qkv', 'true');
  if (config.boolean('logn_attention_scale', false)) config.refuse('logn_attention_scale', 'false');
}
