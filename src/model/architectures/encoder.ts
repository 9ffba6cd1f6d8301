import type { SequenceClassifier } from '../ModelSource.js';
import type { DecoderSpec, PooledLayer } from '../DecoderSpec.js';
import type { Description, EightBits, WeightSource } from './Family.js';
import { LIMITS, type Fields } from './Fields.js';
import { activation, dividedHeadDim, sameLayers } from './specs.js';
import { weights } from './weights.js';

/**
 * Measured with all-MiniLM-L6-v2 on 2,000 texts (`scripts/nightly/encoderAnswers.mjs`): with all products in 8 bits the
 * least cosine to float32 is 0.99899, and nDCG@10 is 0.27 points off. Of what is lost on average values have a quarter,
 * with a twelfth of the work; what feed-forward blocks begin with has the most of it in the last layers.
 */
export const EIGHT_BITS: EightBits = {
  except: [
    { role: 'v.weight', from: 0 },
    { role: 'up.weight', from: 2 / 3 },
    { role: 'gate.weight', from: 2 / 3 },
  ],
};

/** The sizes that encoders state of themselves; the rest is common to them. */
export type EncoderSizes = Pick<
  DecoderSpec,
  | 'family'
  | 'layers'
  | 'hiddenSize'
  | 'heads'
  | 'vocabularySize'
  | 'contextTokens'
  | 'feedForwardSize'
  | 'position'
  | 'feedForward'
> & {
  readonly epsilon: number;
  readonly tokenTypes?: number;
  readonly layerSpecs?: DecoderSpec['layerSpecs'];
  /** Width of embeddings that a projection makes hidden states of. Default: they are as wide. */
  readonly factorised?: number;
};

/** The table of encoders as BERT made them: embeddings that are normed, and a norm after each branch. */
export function encoder({ epsilon, tokenTypes = 0, layerSpecs, factorised, ...sizes }: EncoderSizes): DecoderSpec {
  const headDim = sizes.hiddenSize / sizes.heads;
  return {
    ...sizes,
    kvHeads: sizes.heads,
    headDim,
    norm: { kind: 'layer', epsilon },
    residual: 'post',
    finalNorm: false,
    embedding: {
      size: factorised ?? sizes.hiddenSize,
      scale: 1,
      norm: true,
      ...(tokenTypes > 0 && { tokenTypes }),
      ...(factorised !== undefined && { factorised: true }),
    },
    attention: { scale: headDim ** -0.5, qkNorm: 'none', causal: false },
    layerSpecs: layerSpecs ?? sameLayers(sizes.layers),
  };
}

/** Keys of config.json, and their defaults, of the sizes that all encoders have. */
export interface EncoderKeys {
  readonly hidden?: string;
  readonly layers?: string;
  readonly heads?: string;
  readonly feedForward?: string;
}
export interface EncoderDefaults {
  readonly vocabulary: number;
  readonly hidden: number;
  readonly layers: number;
  readonly heads: number;
  readonly feedForward: number;
}

/** The sizes of an encoder as its config.json has them. */
export function encoderSizes(
  config: Fields,
  defaults: EncoderDefaults,
  keys: EncoderKeys = {},
): Pick<EncoderSizes, 'layers' | 'hiddenSize' | 'heads' | 'vocabularySize' | 'feedForwardSize'> {
  const {
    hidden = 'hidden_size',
    layers = 'num_hidden_layers',
    heads: headsKey = 'num_attention_heads',
    feedForward = 'intermediate_size',
  } = keys;
  const hiddenSize = config.integer(hidden, LIMITS.hidden, defaults.hidden);
  const heads = config.integer(headsKey, LIMITS.heads, defaults.heads);
  dividedHeadDim(config, hiddenSize, heads, headsKey);
  return {
    hiddenSize,
    heads,
    layers: config.integer(layers, LIMITS.layers, defaults.layers),
    vocabularySize: config.integer('vocab_size', LIMITS.vocabulary, defaults.vocabulary),
    feedForwardSize: config.integer(feedForward, LIMITS.feedForward, defaults.feedForward),
  };
}

/** Refuses encoders that are decoders here. */
export function refuseDecoder(config: Fields): void {
  if (config.boolean('is_decoder', false)) config.refuse('is_decoder', 'false: of this family encoders are computed');
}

/** Weights and bias of a matrix. */
export function biased(prefix: string, names: Readonly<Record<string, string>>): WeightSource[] {
  return Object.entries(names).flatMap(([role, name]) =>
    weights(prefix, { [`${role}.weight`]: `${name}.weight`, [`${role}.bias`]: `${name}.bias` }),
  );
}

/** A layer norm, which the first checkpoints wrote as gamma and beta. */
export function layerNorm(
  role: 'embedding_norm' | 'distance_norm' | 'norm1' | 'norm2',
  tensor: string,
): WeightSource[] {
  return [
    { role: `${role}.weight`, tensor: `${tensor}.weight`, otherwise: `${tensor}.gamma` },
    { role: `${role}.bias`, tensor: `${tensor}.bias`, otherwise: `${tensor}.beta` },
  ];
}

/** The matrix that makes hidden states of embeddings that are not as wide. */
export function embeddingProjection(tensor: string): WeightSource[] {
  return weights(`${tensor}.`, { embedding_projection: 'weight', 'embedding_projection.bias': 'bias' });
}

/** Reads how layers before a classifier's last activate, by transformers' name for it. */
export function pooledActivation(
  config: Fields,
  key: string,
  fallback: string,
): Extract<PooledLayer, { kind: 'dense' }>['activation'] {
  if (config.string(key, fallback) === 'tanh') return 'tanh';
  const found = activation(config, key, fallback);
  return found === 'clamped-swiglu' || found === 'relu-squared' || found === 'xielu'
    ? config.refuse(key, 'tanh, relu, gelu or silu')
    : found;
}

/** The head of a model that classifies. */
export interface ClassifierHead {
  readonly pooled: readonly PooledLayer[];
  readonly weights: readonly WeightSource[];
  readonly classifier: SequenceClassifier;
}

/** A layer before a classifier's last: what it does, and the name of its tensors. */
export type HeadLayer = { readonly tensor: string; readonly bias?: boolean } & (
  | { readonly kind: 'dense'; readonly activation: Extract<PooledLayer, { kind: 'dense' }>['activation'] }
  | { readonly kind: 'norm'; readonly epsilon: number }
);

/** An encoder as its family describes it, with its head where it has one. */
export function withHead(description: Description, head: ClassifierHead | undefined): Description {
  if (!head) return description;
  const { decoder, weights: own } = description;
  return {
    ...description,
    decoder: { ...decoder, pooled: head.pooled },
    classifier: head.classifier,
    weights: [...own, ...head.weights],
  };
}

/** How many a classifier may have. */
export const LABELS = { min: 1, max: 1 << 16 };

/**
 * The classifier of a config.json that names one; undefined of any other model.
 * @param before the layers of its head, as wide as the model
 * @param last the tensors of its last one, which has a logit a label
 */
export function sequenceClassifier(
  config: Fields,
  hiddenSize: number,
  before: readonly HeadLayer[],
  last: string,
  pooling: SequenceClassifier['pooling'] = 'cls',
): ClassifierHead | undefined {
  const architectures = config.raw('architectures');
  const [name] = Array.isArray(architectures) ? (architectures as unknown[]) : [];
  if (typeof name !== 'string' || !name.endsWith('ForSequenceClassification')) return undefined;
  const labels = labelsOf(config);
  const layers: readonly HeadLayer[] = [...before, { kind: 'dense', activation: 'none', tensor: last }];
  return {
    pooled: layers.map((layer, at): PooledLayer => {
      const outputs = at === before.length ? labels.length : hiddenSize;
      return layer.kind === 'norm'
        ? { kind: 'norm', outputs, epsilon: layer.epsilon }
        : { kind: 'dense', outputs, activation: layer.activation };
    }),
    weights: layers.flatMap(({ tensor, bias = true }, at): WeightSource[] => [
      { role: `pooled.${at}.weight`, tensor: `${tensor}.weight` },
      ...(bias ? [{ role: `pooled.${at}.bias` as const, tensor: `${tensor}.bias` }] : []),
    ]),
    classifier: { labels, pooling, independent: config.raw('problem_type') === 'multi_label_classification' },
  };
}

/** Labels as transformers calls those that have no names. */
export function unnamedLabels(count: number): readonly string[] {
  return Array.from({ length: count }, (_, id) => `LABEL_${id}`);
}

/** `id2label`, or as many labels without a name as `num_labels` says; transformers' default are two. */
function labelsOf(config: Fields): readonly string[] {
  const named = config.child('id2label');
  const count = config.integer('num_labels', LABELS, 2);
  if (named === undefined) return unnamedLabels(count);
  const labels: string[] = [];
  while (named.has(String(labels.length)) && labels.length < LABELS.max)
    labels.push(named.string(String(labels.length)));
  if (labels.length === 0) config.refuse('id2label', 'a label for 0, and so on');
  if (new Set(labels).size < labels.length) config.refuse('id2label', 'labels that differ');
  return labels;
}
