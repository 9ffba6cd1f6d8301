import { biased, EIGHT_BITS, encoder, encoderSizes, layerNorm, sequenceClassifier, withHead } from '../encoder.js';
import type { Description, Family } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { activation } from '../specs.js';
import { bertEmbeddings } from './bert.js';

const DEFAULTS = { vocabulary: 30522, hidden: 768, layers: 6, heads: 12, feedForward: 3072 };
const KEYS = { hidden: 'dim', layers: 'n_layers', heads: 'n_heads', feedForward: 'hidden_dim' };
const LAYER = '{base}transformer.layer.{layer}.';
/** A constant of the model's code. */
const EPSILON = 1e-12;

/** DistilBERT: BERT without kinds of token, under names of its own. */
export const distilBert: Family = {
  modelTypes: ['distilbert'],
  fromConfig(config: Fields): Description {
    const sizes = encoderSizes(config, DEFAULTS, KEYS);
    const head = sequenceClassifier(
      config,
      sizes.hiddenSize,
      [{ kind: 'dense', activation: 'relu', tensor: 'pre_classifier' }],
      'classifier',
    );
    const decoder = encoder({
      family: 'distilbert',
      ...sizes,
      contextTokens: config.integer('max_position_embeddings', LIMITS.context, 512),
      epsilon: EPSILON,
      position: { kind: 'learned', offset: 0 },
      feedForward: { kind: 'plain', activation: activation(config, 'activation', 'gelu') },
    });
    return withHead(
      {
        decoder,
        bases: ['distilbert.', ''],
        eightBits: EIGHT_BITS,
        weights: [
          ...bertEmbeddings({ positions: true }),
          ...biased(LAYER, {
            q: 'attention.q_lin',
            k: 'attention.k_lin',
            v: 'attention.v_lin',
            o: 'attention.out_lin',
            up: 'ffn.lin1',
            down: 'ffn.lin2',
          }),
          ...layerNorm('norm1', `${LAYER}sa_layer_norm`),
          ...layerNorm('norm2', `${LAYER}output_layer_norm`),
        ],
      },
      head,
    );
  },
};
