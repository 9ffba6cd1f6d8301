import type { DecoderSpec } from '../../DecoderSpec.js';
import {
  biased,
  embeddingProjection,
  EIGHT_BITS,
  encoder,
  encoderSizes,
  layerNorm,
  refuseDecoder,
  sequenceClassifier,
  type ClassifierHead,
  type EncoderDefaults,
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

/** BERT: learned positions, two kinds of token, norms after both branches, GELU. */
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
      // BERT, RoBERTa, or DistilBERT: the file does not say which, but only the last has no types of tokens.
      const distilled = !model.tensors.has('token_types.weight');
      return withHead(
        {
          decoder: { ...plain, feedForward: { kind: 'plain', activation: 'gelu' } },
          eightBits: EIGHT_BITS,
          weights: [
            ...ggufEncoderGlobals(),
            ...weights('', { position_embedding: 'position_embd.weight' }),
            ...ggufEncoderLayers(model, false),
          ],
        },
        ggufClassifier(model, plain.hiddenSize, { activation: distilled ? 'relu' : 'tanh', twoLayers: true }),
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
  /** Sizes where a configuration does not say. Default: BERT's. */
  readonly defaults?: EncoderDefaults;
  /** The width of embeddings, and the tensors that make hidden states of them where these are not as wide. */
  readonly embedded?: { readonly width: number; readonly projection: string };
  /** Default: true. */
  readonly eightBits?: boolean;
}

/** BERT and what transformers computes as BERT. */
export function bertLike(family: string, config: Fields, variant: BertVariant): Description {
  refuseDecoder(config);
  const type = config.string('position_embedding_type', 'absolute');
  if (type !== 'absolute') config.refuse('position_embedding_type', 'absolute');
  const rows = config.integer('max_position_embeddings', LIMITS.context, variant.context);
  if (rows <= variant.offset) config.refuse('max_position_embeddings', `more than ${variant.offset}`);
  const sizes = encoderSizes(config, variant.defaults ?? BERT_DEFAULTS);
  const head = variant.headed(sizes.hiddenSize);
  const embedded = variant.embedded?.width === sizes.hiddenSize ? undefined : variant.embedded;
  const decoder: DecoderSpec = encoder({
    family,
    ...sizes,
    ...(embedded && { factorised: embedded.width }),
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
      ...(variant.eightBits !== false && { eightBits: EIGHT_BITS }),
      weights: [
        ...bertEmbeddings({ positions: true, types: true }),
        ...(embedded ? embeddingProjection(embedded.projection) : []),
        ...bertLayers(),
      ],
    },
    head,
  );
}

/** The embeddings of tokens, and those added to them. */
export function bertEmbeddings(added: { readonly positions?: boolean; readonly types?: boolean } = {}): WeightSource[] {
  return [
    ...weights('{base}embeddings.', { token_embedding: 'word_embeddings.weight' }),
    ...layerNorm('embedding_norm', '{base}embeddings.LayerNorm'),
    ...weights('{base}embeddings.', {
      ...(added.positions === true && { position_embedding: 'position_embeddings.weight' }),
      ...(added.types === true && { type_embedding: 'token_type_embeddings.weight' }),
    }),
  ];
}

/** @param suffix of the names of queries, keys and values */
export function bertLayers(suffix = ''): WeightSource[] {
  return [
    ...biased(LAYER, {
      q: `attention.self.query${suffix}`,
      k: `attention.self.key${suffix}`,
      v: `attention.self.value${suffix}`,
      o: 'attention.output.dense',
      up: 'intermediate.dense',
      down: 'output.dense',
    }),
    ...layerNorm('norm1', `${LAYER}attention.output.LayerNorm`),
    ...layerNorm('norm2', `${LAYER}output.LayerNorm`),
  ];
}
