import { sequenceClassifier } from '../encoder.js';
import type { Description, Family } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { bertLike } from './bert.js';

/** ELECTRA: BERT whose embeddings may be narrower than its hidden states, and another head. */
export const electra: Family = {
  modelTypes: ['electra'],
  fromConfig(config: Fields): Description {
    return bertLike('electra', config, {
      offset: 0,
      epsilon: 1e-12,
      context: 512,
      bases: ['electra.', ''],
      headed: (hiddenSize) =>
        sequenceClassifier(
          config,
          hiddenSize,
          [{ kind: 'dense', activation: 'gelu', tensor: 'classifier.dense' }],
          'classifier.out_proj',
        ),
      defaults: { vocabulary: 30522, hidden: 256, layers: 12, heads: 4, feedForward: 1024 },
      embedded: {
        width: config.integer('embedding_size', LIMITS.hidden, 128),
        projection: '{base}embeddings_project',
      },
      eightBits: false,
    });
  },
};
