import type { DecoderSpec } from '../../DecoderSpec.js';
import { configuredRotary, rotaryTheta } from '../configRotary.js';
import { encoder, encoderSizes, pooledActivation, sequenceClassifier, type HeadLayer, withHead } from '../encoder.js';
import type { Description, Family, GgufModel, WeightSource } from '../Family.js';
import { Fields, LIMITS } from '../Fields.js';
import { ggufEncoder, ggufEncoderGlobals } from '../ggufEncoder.js';
import { ggufClassifier } from '../ggufHead.js';
import { ggufRotary } from '../ggufRotary.js';
import { defaultFrequencies } from '../rotaryFrequencies.js';
import { slidingLayers, windowedLayers } from '../slidingLayers.js';
import { activation, rotary } from '../specs.js';
import { fusedGateUp, fusedQueryKeyValue, GGUF_LAYER, weights } from '../weights.js';

const DEFAULTS = { vocabulary: 50368, hidden: 768, layers: 22, heads: 12, feedForward: 1152 };
const LAYER = '{base}layers.{layer}.';
const THETA = 160000;
const LOCAL_THETA = 10000;
/** Every third layer, from the first on, sees all tokens. */
const PATTERN = 3;

/** ModernBERT: norms before the branches, windows either way in two of three layers, rotary positions, GeGLU. */
export const modernBert: Family = {
  modelTypes: ['modernbert'],
  fromConfig(config: Fields): Description {
    const sizes = encoderSizes(config, DEFAULTS);
    const headDim = sizes.hiddenSize / sizes.heads;
    const contextTokens = config.integer('max_position_embeddings', LIMITS.context, 8192);
    const every = config.integer('global_attn_every_n_layers', { min: 1, max: LIMITS.layers.max }, PATTERN);
    const sliding = slidingLayers(config, sizes.layers, (layer) => layer % every !== 0);
    const tables = [
      tableOf(config, 'full_attention', 'global_rope_theta', THETA),
      tableOf(config, 'sliding_attention', 'local_rope_theta', LOCAL_THETA),
    ];
    const epsilon = config.number('norm_eps', LIMITS.epsilon, 1e-5);
    const [normBias, classifierBias] = [config.boolean('norm_bias', false), config.boolean('classifier_bias', false)];
    const before: readonly HeadLayer[] = [
      {
        kind: 'dense',
        activation: pooledActivation(config, 'classifier_activation', 'gelu'),
        tensor: 'head.dense',
        bias: classifierBias,
      },
      { kind: 'norm', epsilon, tensor: 'head.norm', bias: normBias },
    ];
    const pooling = config.string('classifier_pooling', 'cls');
    if (pooling !== 'cls' && pooling !== 'mean') config.refuse('classifier_pooling', 'cls or mean');
    const head = sequenceClassifier(config, sizes.hiddenSize, before, 'classifier', pooling);
    const decoder = preNorm({
      family: 'modernbert',
      ...sizes,
      contextTokens,
      epsilon,
      position: rotary('halves', headDim, ...tables),
      feedForward: { kind: 'gated', activation: activation(config, 'hidden_activation', 'gelu') },
      // A token sees half of the window before it and half after it, and itself.
      layerSpecs: windowedLayers(
        config,
        sliding,
        Math.floor(config.integer('local_attention', LIMITS.window, 128) / 2) + 1,
        1,
      ),
    });
    return withHead(
      {
        decoder,
        bases: ['model.', ''],
        weights: layerWeights(config, decoder, normBias),
      },
      head,
    );

    function tableOf(fields: Fields, kind: string, key: string, fallback: number): DecoderSpecTable {
      const settings =
        fields.child('rope_parameters')?.child(kind) ?? Fields.ofObject(fields.file, {}, 'rope_parameters');
      const theta = rotaryTheta(settings, fields, key, fallback);
      return configuredRotary(settings, { dims: headDim, contextTokens, theta }).table;
    }
  },
  gguf: { architecture: 'modern-bert', describe: describeGguf },
};

type DecoderSpecTable = ReturnType<typeof configuredRotary>['table'];

/** The first layer reads the normed embeddings as they are. */
function preNorm(sizes: Parameters<typeof encoder>[0]): DecoderSpec {
  return { ...encoder(sizes), residual: 'pre', finalNorm: true };
}

function layerWeights(
  config: Fields,
  { heads, headDim, feedForwardSize }: DecoderSpec,
  normBias: boolean,
): WeightSource[] {
  const [attentionBias, mlpBias] = [config.boolean('attention_bias', false), config.boolean('mlp_bias', false)];
  const parts = (biased: boolean): readonly ('weight' | 'bias')[] => (biased ? ['weight', 'bias'] : ['weight']);
  const norms = (prefix: string, names: Readonly<Record<string, string>>, fromLayer = 0): WeightSource[] =>
    parts(normBias).flatMap((part) =>
      weights(
        prefix,
        Object.fromEntries(Object.entries(names).map(([role, name]) => [`${role}.${part}`, `${name}.${part}`])),
        { fromLayer },
      ),
    );
  return [
    ...weights('{base}embeddings.', { token_embedding: 'tok_embeddings.weight' }),
    ...norms('{base}', { embedding_norm: 'embeddings.norm', final_norm: 'final_norm' }),
    ...norms(LAYER, { norm1: 'attn_norm' }, 1),
    ...norms(LAYER, { norm2: 'mlp_norm' }),
    ...fusedQueryKeyValue(`${LAYER}attn.Wqkv`, { heads, kvHeads: heads, headDim }, 1, parts(attentionBias)),
    ...parts(attentionBias).flatMap((part) => weights(LAYER, { [`o.${part}`]: `attn.Wo.${part}` })),
    ...parts(mlpBias).flatMap((part) => [
      ...fusedGateUp(`${LAYER}mlp.Wi.${part}`, feedForwardSize, part),
      ...weights(LAYER, { [`down.${part}`]: `mlp.Wo.${part}` }),
    ]),
  ];
}

function describeGguf(model: GgufModel): Description {
  const { fields } = model;
  const plain = ggufEncoder('modernbert', model, { kind: 'learned', offset: 0 });
  const { headDim, heads, feedForwardSize, layers } = plain;
  const { table, contextTokens } = ggufRotary(model, headDim, plain.contextTokens);
  const local = {
    frequencies: defaultFrequencies(fields.number('rope.freq_base_swa', LIMITS.theta, LOCAL_THETA), headDim),
    scale: 1,
  };
  const window = fields.integer('attention.sliding_window', { min: 0, max: LIMITS.window.max }, 128);
  const every = fields.integer('attention.sliding_window_pattern', { min: 1, max: LIMITS.layers.max }, PATTERN);
  const sliding = Array.from({ length: layers }, (_, layer) => window > 0 && layer % every !== 0);
  const description: Description = {
    decoder: {
      ...plain,
      residual: 'pre',
      finalNorm: true,
      contextTokens,
      position: rotary('halves', headDim, table, local),
      feedForward: { kind: 'gated', activation: activation(fields, 'hidden_activation', 'gelu') },
      layerSpecs: windowedLayers(fields, sliding, Math.floor(window / 2) + 1, 1),
    },
    weights: [
      ...ggufEncoderGlobals(),
      ...weights('', { 'final_norm.weight': 'output_norm.weight' }),
      ...weights(GGUF_LAYER, { 'norm1.weight': 'attn_norm.weight' }, { fromLayer: 1 }),
      ...weights(GGUF_LAYER, {
        'norm2.weight': 'ffn_norm.weight',
        'o.weight': 'attn_output.weight',
        'down.weight': 'ffn_down.weight',
      }),
      ...fusedQueryKeyValue(`${GGUF_LAYER}attn_qkv`, { heads, kvHeads: heads, headDim }, 1, ['weight']),
      ...fusedGateUp(`${GGUF_LAYER}ffn_up.weight`, feedForwardSize),
    ],
  };
  return withHead(description, ggufClassifier(model, plain.hiddenSize, { activation: 'gelu', pooling: 'mean' }));
}
