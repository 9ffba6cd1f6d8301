import { configuredRotary, rotaryTheta } from '../configRotary.js';
import type { Description, Family, GgufModel } from '../Family.js';
import { Fields, LIMITS } from '../Fields.js';
import { gatedConfig, gatedGguf, LLAMA_LAYER, type GatedDefaults } from '../gatedDecoder.js';
import { defaultFrequencies } from '../rotaryFrequencies.js';
import {
  bothWays,
  ggufQueryScale,
  queryScale,
  sandwich,
  sandwichGgufWeights,
  sandwichWeights,
  softCaps,
  windowBothWays,
} from '../sandwichDecoder.js';
import { ggufSlidingLayers, slidingLayers, windowedLayers } from '../slidingLayers.js';
import { activation, rotary, withQueryKeyNorm } from '../specs.js';
import { GGUF_LAYER, weights } from '../weights.js';

const DEFAULTS: GatedDefaults = {
  vocabulary: 262208,
  hidden: 2304,
  feedForward: 9216,
  layers: 26,
  heads: 8,
  kvHeads: 4,
  headDim: 256,
  context: 131072,
  epsilon: 1e-6,
  theta: 1e6,
};
const LOCAL_THETA = 10000;
const SOFT_CAPS = { attention: null, logits: null };
/** The layers of the 27B model, whose scores are divided by the root of hidden size / heads. */
const LARGEST_LAYERS = 62;
/** Text models; checkpoints with a vision tower, as transformers 4 and 5 name their tensors. */
const BASES = ['model.', 'language_model.model.', 'model.language_model.', ''];
/** Every sixth layer sees all tokens, the others a window. */
const PATTERN = 6;

/**
 * Gemma 3, the language model: norms round both branches, q and k norms, and sliding layers with a rotary base of their
 * own.
 */
export const gemma3: Family = {
  modelTypes: ['gemma3_text', 'gemma3'],
  fromConfig(outer: Fields): Description {
    const config = outer.child('text_config') ?? outer;
    const isEncoder = config.boolean('use_bidirectional_attention', false);
    // The rotary settings come in forms that only this family has: read here, not by gatedConfig.
    const decoder = gatedConfig('gemma3', withoutRotary(config), DEFAULTS);
    const { headDim, contextTokens } = decoder;
    const pattern = config.integer('sliding_window_pattern', { min: 1, max: LIMITS.layers.max }, PATTERN);
    const sliding = slidingLayers(config, decoder.layers, (layer) => (layer + 1) % pattern !== 0);
    const global = globalRotary(config);
    const local =
      config.child('rope_parameters')?.child('sliding_attention') ??
      Fields.ofObject(config.file, {}, 'rope_parameters');
    const tables = [
      configuredRotary(global, {
        dims: headDim,
        contextTokens,
        theta: rotaryTheta(global, config, 'rope_theta', DEFAULTS.theta),
      }).table,
      configuredRotary(local, {
        dims: headDim,
        contextTokens,
        theta: rotaryTheta(local, config, 'rope_local_base_freq', LOCAL_THETA),
      }).table,
    ];
    const window = config.integerOrNull('sliding_window', LIMITS.window, 4096);
    const description: Description = {
      decoder: {
        ...withQueryKeyNorm(sandwich(decoder, queryScale(config), softCaps(config, SOFT_CAPS))),
        position: rotary('halves', headDim, ...tables),
        feedForward: { kind: 'gated', activation: activation(config, 'hidden_activation', 'gelu_pytorch_tanh') },
        layerSpecs: windowedLayers(config, sliding, isEncoder && window !== null ? windowBothWays(window) : window, 1),
      },
      bases: BASES,
      weights: [
        ...sandwichWeights(outer.boolean('tie_word_embeddings', true), config.boolean('attention_bias', false)),
        ...weights(
          LLAMA_LAYER,
          { 'q_norm.weight': 'self_attn.q_norm.weight', 'k_norm.weight': 'self_attn.k_norm.weight' },
          { add: 1 },
        ),
      ],
    };
    return isEncoder ? bothWays(description) : description;
  },
  gguf: { architecture: 'gemma3', describe: (model) => describeGguf(model, (window) => window) },
};

/** EmbeddingGemma in llama.cpp's format: Gemma 3 as an encoder, with layers over pooled states of its own. */
export const gemmaEmbedding: Family = {
  modelTypes: [],
  fromConfig: gemma3.fromConfig,
  gguf: {
    architecture: 'gemma-embedding',
    describe(model): Description {
      const description = bothWays(describeGguf(model, windowBothWays));
      const dense = ['dense_2.weight', 'dense_3.weight'].filter((name) => model.tensors.has(name));
      return {
        ...description,
        decoder: {
          ...description.decoder,
          ...(dense.length > 0 && {
            pooled: dense.map((name) => ({
              kind: 'dense' as const,
              outputs: model.tensors.find(name)?.shape[0] ?? 0,
              activation: 'none' as const,
            })),
          }),
        },
        weights: [
          ...description.weights,
          ...dense.map((tensor, at) => ({ role: `pooled.${at}.weight` as const, tensor })),
        ],
      };
    },
  },
};

/** llama.cpp's format: the pattern and the local base are fixed unless stated. */
function describeGguf(model: GgufModel, windowOf: (tokens: number) => number): Description {
  const { fields } = model;
  const decoder = gatedGguf('gemma3', model, 'halves');
  const { layers, position } = decoder;
  if (position.kind !== 'rotary') throw new TypeError('gatedGguf describes rotary models');
  const window = fields.integer('attention.sliding_window', { min: 0, max: LIMITS.window.max }, 0);
  const localTheta = fields.number('rope.freq_base_swa', LIMITS.theta, LOCAL_THETA);
  const local = { frequencies: defaultFrequencies(localTheta, position.dims), scale: 1 };
  const scale = ggufQueryScale(fields, decoder, LARGEST_LAYERS);
  return {
    decoder: {
      ...withQueryKeyNorm(sandwich(decoder, scale, softCaps(fields, SOFT_CAPS))),
      position: rotary('halves', position.dims, ...position.tables, local),
      feedForward: { kind: 'gated', activation: 'gelu-tanh' },
      layerSpecs: windowedLayers(fields, ggufSlidingLayers(fields, layers, window, PATTERN), windowOf(window), 1),
    },
    weights: [
      ...sandwichGgufWeights(),
      ...weights(GGUF_LAYER, { 'q_norm.weight': 'attn_q_norm.weight', 'k_norm.weight': 'attn_k_norm.weight' }),
    ],
  };
}

/**
 * The settings of the layers that see everything: transformers 4 has them in `rope_scaling`, 5 under `full_attention`.
 */
function globalRotary(config: Fields): Fields {
  return (
    config.child('rope_parameters')?.child('full_attention') ??
    config.child('rope_scaling') ??
    Fields.ofObject(config.file, {}, 'rope_parameters')
  );
}

function withoutRotary(config: Fields): Fields {
  return config.with({ rope_parameters: undefined, rope_scaling: undefined, partial_rotary_factor: undefined });
}
