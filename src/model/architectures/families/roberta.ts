import { sequenceClassifier } from '../encoder.js';
import type { Description, Family } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { bertLike } from './bert.js';

/** RoBERTa and its kin of many languages: BERT whose positions begin after the number of its padding token. */
export const roberta: Family = {
  modelTypes: ['roberta', 'xlm-roberta', 'camembert'],
  fromConfig(config: Fields): Description {
    return bertLike('roberta', config, {
      offset: config.integer('pad_token_id', { min: 0, max: LIMITS.vocabulary.max }, 1) + 1,
      epsilon: 1e-12,
      context: 512,
      bases: ['roberta.', ''],
      headed: (hiddenSize) =>
        sequenceClassifier(
          config,
          hiddenSize,
          [{ kind: 'dense', activation: 'tanh', tensor: 'classifier.dense' }],
          'classifier.out_proj',
        ),
    });
  },
};
