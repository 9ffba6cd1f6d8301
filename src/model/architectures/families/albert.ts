import {
  biased,
  embeddingProjection,
  encoder,
  encoderSizes,
  layerNorm,
  sequenceClassifier,
  withHead,
} from '../encoder.js';
import type { Description, Family, WeightSource } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { activation } from '../specs.js';
import { bertEmbeddings } from './bert.js';

const DEFAULTS = { vocabulary: 30000, hidden: 4096, layers: 12, heads: 64, feedForward: 16384 };

/** ALBERT: BERT whose embeddings are narrower than its hidden states, and whose layers have weights in common. */
export const albert: Family = {
  modelTypes: ['albert'],
  fromConfig(config: Fields): Description {
    const sizes = encoderSizes(config, DEFAULTS);
    const groups = config.integer('num_hidden_groups', LIMITS.layers, 1);
    const inner = config.integer('inner_group_num', LIMITS.layers, 1);
    if (groups > sizes.layers) config.refuse('num_hidden_groups', `at most the ${sizes.layers} layers`);
    const layers = sizes.layers * inner;
    if (layers > LIMITS.layers.max)
      config.refuse('inner_group_num', `fewer: at most ${LIMITS.layers.max} layers in all, not ${layers}`);
    const decoder = encoder({
      family: 'albert',
      ...sizes,
      layers,
      factorised: config.integer('embedding_size', LIMITS.hidden, 128),
      contextTokens: config.integer('max_position_embeddings', LIMITS.context, 512),
      epsilon: config.number('layer_norm_eps', LIMITS.epsilon, 1e-12),
      tokenTypes: config.integer('type_vocab_size', { min: 1, max: 1024 }, 2),
      position: { kind: 'learned', offset: 0 },
      feedForward: { kind: 'plain', activation: activation(config, 'hidden_act', 'gelu_new') },
    });
    const head = sequenceClassifier(
      config,
      sizes.hiddenSize,
      [{ kind: 'dense', activation: 'tanh', tensor: '{base}pooler' }],
      'classifier',
    );
    return withHead(
      {
        decoder,
        bases: ['albert.', ''],
        weights: [
          ...bertEmbeddings({ positions: true, types: true }),
          ...embeddingProjection('{base}encoder.embedding_hidden_mapping_in'),
          ...sharedLayers({ layers, groups, inner }),
        ],
      },
      head,
    );
  },
};

/** Layers of a group have its weights, one after another those of each inner layer. */
function sharedLayers({
  layers,
  groups,
  inner,
}: Readonly<Record<'layers' | 'groups' | 'inner', number>>): WeightSource[] {
  const outer = layers / inner;
  return Array.from({ length: groups * inner }, (_, index): WeightSource[] => {
    const [group, at] = [Math.floor(index / inner), index % inner];
    const prefix = `{base}encoder.albert_layer_groups.${group}.albert_layers.${at}.`;
    const own = (layer: number): boolean =>
      layer % inner === at && Math.floor(Math.floor(layer / inner) / (outer / groups)) === group;
    return [
      ...biased(prefix, {
        q: 'attention.query',
        k: 'attention.key',
        v: 'attention.value',
        o: 'attention.dense',
        up: 'ffn',
        down: 'ffn_output',
      }),
      ...layerNorm('norm1', `${prefix}attention.LayerNorm`),
      ...layerNorm('norm2', `${prefix}full_layer_layer_norm`),
    ].map((source) => ({ ...source, ofAllLayers: 'same' as const, layers: own }));
  }).flat();
}
