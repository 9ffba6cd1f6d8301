import type { DecoderSpec, DisentangledSpec } from '../../DecoderSpec.js';
import {
  biased,
  encoder,
  encoderSizes,
  layerNorm,
  pooledActivation,
  sequenceClassifier,
  withHead,
} from '../encoder.js';
import type { Description, Family, WeightSource } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { activation } from '../specs.js';
import { weights } from '../weights.js';
import { bertEmbeddings, bertLayers } from './bert.js';

const DEFAULTS = { vocabulary: 128100, hidden: 1536, layers: 24, heads: 24, feedForward: 6144 };
const LAYER = '{base}encoder.layer.{layer}.';
const CONTENT_TO_POSITION = 'c2p';
const POSITION_TO_CONTENT = 'p2c';
/** -1 stands for none. */
const OR_NONE = { min: -1, max: 2 ** 14 };
const LEAST_BUCKETS = 4;
/** The scores that distances add to those of contents stand in memory for a row as a whole. */
const MOST_CONTEXT = 2 ** 12;

/** DeBERTa, its second and third version: BERT whose scores are of contents and of distances, each by itself. */
export const debertaV2: Family = {
  modelTypes: ['deberta-v2'],
  fromConfig(config: Fields): Description {
    const sizes = encoderSizes(config, DEFAULTS);
    const { hiddenSize } = sizes;
    checkOwn(config, hiddenSize, hiddenSize / sizes.heads);
    const contextTokens = config.integer('max_position_embeddings', LIMITS.context, 512);
    const kinds = scoreKinds(config);
    const disentangled = disentangledOf(config, contextTokens, kinds);
    const learned = config.boolean('position_biased_input', true);
    const tokenTypes = config.integer('type_vocab_size', { min: 0, max: 1024 }, 0);
    const plain = encoder({
      family: 'deberta-v2',
      ...sizes,
      contextTokens,
      epsilon: config.number('layer_norm_eps', LIMITS.epsilon, 1e-7),
      tokenTypes,
      position: learned ? { kind: 'learned', offset: 0 } : { kind: 'none' },
      feedForward: { kind: 'plain', activation: activation(config, 'hidden_act', 'gelu') },
    });
    const decoder: DecoderSpec = {
      ...plain,
      attention: {
        ...plain.attention,
        // Kinds of scores count, whether there are distances or not.
        scale: (plain.headDim * (1 + kinds.size)) ** -0.5,
        ...(disentangled && { disentangled }),
      },
    };
    const head = sequenceClassifier(
      config,
      hiddenSize,
      [
        {
          kind: 'dense',
          activation: pooledActivation(config, 'pooler_hidden_act', 'gelu'),
          tensor: 'pooler.dense',
        },
      ],
      'classifier',
    );
    return withHead(
      {
        decoder,
        bases: ['deberta.', ''],
        weights: [
          ...bertEmbeddings({ positions: learned, types: tokenTypes > 0 }),
          ...bertLayers('_proj'),
          ...(disentangled ? distanceWeights(config, disentangled) : []),
        ],
      },
      head,
    );
  },
};

/** Refuses what DeBERTa can be otherwise, and no model in use is, or few are. */
function checkOwn(config: Fields, hiddenSize: number, headDim: number): void {
  const sizes = { embedding_size: hiddenSize, pooler_hidden_size: hiddenSize, attention_head_size: headDim };
  for (const [key, size] of Object.entries(sizes))
    if (config.integer(key, { min: 0, max: LIMITS.hidden.max }, size) !== size)
      config.refuse(key, `${size}: no other is computed`);
  if (config.integer('conv_kernel_size', { min: 0, max: 2 ** 16 }, 0) > 0)
    config.refuse('conv_kernel_size', 'none: the convolution beside the first layer (v2-xlarge) is not computed');
}

/** Which scores there are beside those of contents: a list, or `p2c|c2p`. */
function scoreKinds(config: Fields): ReadonlySet<string> {
  const given = config.raw('pos_att_type') ?? [];
  const kinds = typeof given === 'string' ? given.split('|').map((kind) => kind.trim().toLowerCase()) : given;
  if (!Array.isArray(kinds)) return config.refuse('pos_att_type', 'a list of c2p and p2c');
  const known = new Set<string>();
  for (const kind of kinds as unknown[]) {
    if (kind === '') continue;
    if (kind !== CONTENT_TO_POSITION && kind !== POSITION_TO_CONTENT)
      return config.refuse('pos_att_type', 'c2p and p2c, or one of them', kind);
    known.add(kind);
  }
  return known;
}

function disentangledOf(
  config: Fields,
  contextTokens: number,
  kinds: ReadonlySet<string>,
): DisentangledSpec | undefined {
  if (!config.boolean('relative_attention', false)) return undefined;
  if (contextTokens > MOST_CONTEXT)
    config.refuse('max_position_embeddings', `at most ${MOST_CONTEXT} beside relative_attention`);
  const given = config.integer('max_relative_positions', OR_NONE, -1);
  const distance = given < 1 ? contextTokens : given;
  const buckets = config.integer('position_buckets', OR_NONE, -1);
  const shared = buckets > 0 && contextTokens - 1 > buckets / 2;
  if (shared && buckets < LEAST_BUCKETS) config.refuse('position_buckets', `at least ${LEAST_BUCKETS}`);
  if (shared && distance <= Math.floor(buckets / 2) + 1)
    config.refuse('max_relative_positions', `more than half of the ${buckets} position_buckets`, distance);
  return {
    ...(shared ? { span: buckets, distance } : { span: buckets > 0 ? buckets : distance }),
    contentToPosition: kinds.has(CONTENT_TO_POSITION),
    positionToContent: kinds.has(POSITION_TO_CONTENT),
    ownProducts: !config.boolean('share_att_key', false),
  };
}

function distanceWeights(
  config: Fields,
  { contentToPosition, positionToContent, ownProducts }: DisentangledSpec,
): WeightSource[] {
  const normed = config
    .string('norm_rel_ebd', 'none')
    .toLowerCase()
    .split('|')
    .some((part) => part.trim() === 'layer_norm');
  const products = {
    ...(contentToPosition && { k_distance: 'attention.self.pos_key_proj' }),
    ...(positionToContent && { q_distance: 'attention.self.pos_query_proj' }),
  };
  return [
    ...weights('{base}encoder.', { distance_embedding: 'rel_embeddings.weight' }),
    ...(normed ? layerNorm('distance_norm', '{base}encoder.LayerNorm') : []),
    ...(ownProducts === true ? biased(LAYER, products) : []),
  ];
}
