import { biased, EIGHT_BITS, encoder, encoderSizes, layerNorm, sequenceClassifier, withHead } from '../encoder.js';
import type { Description, Family } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { activation } from '../specs.js';
import { weights } from '../weights.js';
import { bertEmbeddings } from './bert.js';

const DEFAULTS = { vocabulary: 30527, hidden: 768, layers: 12, heads: 12, feedForward: 3072 };
const LAYER = '{base}encoder.layer.{layer}.';
/** Positions begin after the padding token's, which the model's code has as a constant. */
const OFFSET = 2;
/** Likewise: how many buckets distances have, and from where on they share the last one. */
const BUCKETS = 32;
const DISTANCE = 128;

/** MPNet: BERT without kinds of token, and with a bias of scores by distance, which all layers share. */
export const mpnet: Family = {
  modelTypes: ['mpnet'],
  fromConfig(config: Fields): Description {
    const rows = config.integer('max_position_embeddings', LIMITS.context, 512);
    if (rows <= OFFSET) config.refuse('max_position_embeddings', `more than ${OFFSET}`);
    const sizes = encoderSizes(config, DEFAULTS);
    config.integer('relative_attention_num_buckets', { min: BUCKETS, max: BUCKETS }, BUCKETS);
    const head = sequenceClassifier(
      config,
      sizes.hiddenSize,
      [{ kind: 'dense', activation: 'tanh', tensor: 'classifier.dense' }],
      'classifier.out_proj',
    );
    const decoder = encoder({
      family: 'mpnet',
      ...sizes,
      contextTokens: rows - OFFSET,
      epsilon: config.number('layer_norm_eps', LIMITS.epsilon, 1e-12),
      position: { kind: 'learned', offset: OFFSET },
      feedForward: { kind: 'plain', activation: activation(config, 'hidden_act', 'gelu') },
    });
    return withHead(
      {
        decoder: {
          ...decoder,
          attention: { ...decoder.attention, relativeBias: { buckets: BUCKETS, distance: DISTANCE } },
        },
        bases: ['mpnet.', ''],
        eightBits: EIGHT_BITS,
        weights: [
          ...bertEmbeddings(),
          ...weights('{base}', {
            position_embedding: 'embeddings.position_embeddings.weight',
            relative_bias: 'encoder.relative_attention_bias.weight',
          }),
          ...biased(LAYER, {
            q: 'attention.attn.q',
            k: 'attention.attn.k',
            v: 'attention.attn.v',
            o: 'attention.attn.o',
            up: 'intermediate.dense',
            down: 'output.dense',
          }),
          ...layerNorm('norm1', `${LAYER}attention.LayerNorm`),
          ...layerNorm('norm2', `${LAYER}output.LayerNorm`),
        ],
      },
      head,
    );
  },
};
