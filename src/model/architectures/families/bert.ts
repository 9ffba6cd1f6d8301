import type { DecoderSpec } from '../../DecoderSpec.js';
import {
  biased,
  encoder,
  encoderSizes,
  layerNorm,
  refuseDecoder,
  sequenceClassifier,
  type ClassifierHead,
  withHead,
} from '../encoder.js';
import type { Description, Family, WeightSource } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { ggufEncoder, ggufEncoderGlobals, ggufEncoderLayers } from '../ggufEncoder.js';
import { ggufClassifier } from '../ggufHead.js';
import { activation } from '../specs.js';
import { weights } from '../weights.js';

export const BERT_DEFAULTS = { vocabulary: 30522, hidden: 768, layers: 12, heads: 12, feedForward: 3072 };
const LAYER = '{base}encoder.layer.{layer}.';

/** BERT: learned positions, two kinds of token, norms behind both branches, GELU. */
export const bert: Family = {
  modelTypes: ['bert'],
  fromConfig(config: Fields): Description {
    return bertLike('bert', config, {
      offset: 0,
      epsilon: 1e-12,
      context: 512,
      bases: ['bert.', ''],
      headed: (hiddenSize) =>
        sequenceClassifier(
          config,
          hiddenSize,
          [{ kind: 'dense', activation: 'tanh', tensor: '{base}pooler.dense' }],
          'classifier',
        ),
    });
  },
  gguf: {
    architecture: 'bert',
    describe(model): Description {
      const plain = ggufEncoder('bert', model, { kind: 'learned', offset: 0 });
      return withHead(
        {
          decoder: { ...plain, feedForward: { kind: 'plain', activation: 'gelu' } },
          eightBits: true,
          weights: [
            ...ggufEncoderGlobals(),
            ...weights('', { position_embedding: 'position_embd.weight' }),
            ...ggufEncoderLayers(model, false),
          ],
        },
        ggufClassifier(model, plain.hiddenSize),
      );
    },
  },
};

/** Where models that are otherwise BERT differ from it. */
export interface BertVariant {
  /** Row of the position table for position 0. */
  readonly offset: number;
  readonly epsilon: number;
  /** Rows of the position table, where a configuration does not say. */
  readonly context: number;
  readonly bases: readonly string[];
  readonly headed: (hiddenSize: number) => ClassifierHead | undefined;
}

/** BERT and what transformers computes as BERT. */
export function bertLike(family: string, config: Fields, variant: BertVariant): Description {
  refuseDecoder(config);
  const type = config.string('position_embedding_type', 'absolute');
  if (type !== 'absolute') config.refuse('position_embedding_type', 'absolute');
  const rows = config.integer('max_position_embeddings', LIMITS.context, variant.context);
  if (rows <= variant.offset) config.refuse('max_position_embeddings', `more than ${variant.offset}`);
  const sizes = encoderSizes(config, BERT_DEFAULTS);
  const head = variant.headed(sizes.hiddenSize);
  const decoder: DecoderSpec = encoder({
    family,
    ...sizes,
    contextTokens: rows - variant.offset,
    epsilon: config.number('layer_norm_eps', LIMITS.epsilon, variant.epsilon),
    tokenTypes: config.integer('type_vocab_size', { min: 1, max: 1024 }, 2),
    position: { kind: 'learned', offset: variant.offset },
    feedForward: { kind: 'plain', activation: activation(config, 'hidden_act', 'gelu') },
  });
  return withHead(
    {
      decoder,
      bases: variant.bases,
      eightBits: true,
      weights: [
        ...bertEmbeddings(),
        ...weights('{base}embeddings.', {
          position_embedding: 'position_embeddings.weight',
          type_embedding: 'token_type_embeddings.weight',
        }),
        ...bertLayers(),
      ],
    },
    head,
  );
}

export function bertEmbeddings(): WeightSource[] {
  return [
    ...weights('{base}embeddings.', { token_embedding: 'word_embeddings.weight' }),
    ...layerNorm('embedding_norm', '{base}embeddings.LayerNorm'),
  ];
}

export function bertLayers(): WeightSource[] {
  return [
    ...biased(LAYER, {
      q: 'attention.self.query',
      k: 'attention.self.key',
      v: 'attention.self.value',
      o: 'attention.output.dense',
      up: 'intermediate.dense',
      down: 'output.dense',
    }),
    ...layerNorm('norm1', `${LAYER}attention.output.LayerNorm`),
    ...layerNorm('norm2', `${LAYER}output.LayerNorm`),
  ];
}
