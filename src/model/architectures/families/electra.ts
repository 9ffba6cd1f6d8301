import { encoder, encoderSizes, refuseDecoder, sequenceClassifier, withHead } from '../encoder.js';
import type { Description, Family } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { activation } from '../specs.js';
import { weights } from '../weights.js';
import { bertEmbeddings, bertLayers } from './bert.js';

const DEFAULTS = { vocabulary: 30522, hidden: 256, layers: 12, heads: 4, feedForward: 1024 };

/** ELECTRA: BERT whose embeddings may be narrower than its hidden states, and another head. */
export const electra: Family = {
  modelTypes: ['electra'],
  fromConfig(config: Fields): Description {
    refuseDecoder(config);
    const type = config.string('position_embedding_type', 'absolute');
    if (type !== 'absolute') config.refuse('position_embedding_type', 'absolute');
    const sizes = encoderSizes(config, DEFAULTS);
    const embeddingSize = config.integer('embedding_size', LIMITS.hidden, 128);
    const factorised = embeddingSize !== sizes.hiddenSize;
    const decoder = encoder({
      family: 'electra',
      ...sizes,
      ...(factorised && { factorised: embeddingSize }),
      contextTokens: config.integer('max_position_embeddings', LIMITS.context, 512),
      epsilon: config.number('layer_norm_eps', LIMITS.epsilon, 1e-12),
      tokenTypes: config.integer('type_vocab_size', { min: 1, max: 1024 }, 2),
      position: { kind: 'learned', offset: 0 },
      feedForward: { kind: 'plain', activation: activation(config, 'hidden_act', 'gelu') },
    });
    const head = sequenceClassifier(
      config,
      sizes.hiddenSize,
      [{ kind: 'dense', activation: 'gelu', tensor: 'classifier.dense' }],
      'classifier.out_proj',
    );
    return withHead(
      {
        decoder,
        bases: ['electra.', ''],
        weights: [
          ...bertEmbeddings(),
          ...weights('{base}embeddings.', {
            position_embedding: 'position_embeddings.weight',
            type_embedding: 'token_type_embeddings.weight',
          }),
          ...(factorised
            ? weights('{base}embeddings_project.', {
                embedding_projection: 'weight',
                'embedding_projection.bias': 'bias',
              })
            : []),
          ...bertLayers(),
        ],
      },
      head,
    );
  },
};
