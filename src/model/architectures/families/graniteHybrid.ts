import type { DecoderSpec } from '../../DecoderSpec.js';
import type { Family, GgufModel } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { gatedGguf, type GatedDefaults } from '../gatedDecoder.js';
import { biases, blockBiases, gatedFamily, type Renamed } from '../gatedFamily.js';
import { ggufAttendingLayers } from '../ggufMixedLayers.js';
import { layersByMixer, mixedLayers } from '../mixers.js';
import { ggufMixture, ggufMixtureWeights } from '../mixture.js';
import { unrotated } from '../slidingLayers.js';
import { ggufStateSpaceWeights, readGgufStateSpace, readStateSpace, stateSpaceWeights } from '../stateSpace.js';
import { GGUF_LAYER, ggufAttention, ggufGated, ggufGlobals, weights } from '../weights.js';
import { withGgufMultipliers } from './granite.js';
import { LLAMA_DEFAULTS } from './llama.js';
import { graniteBlocks, withGraniteExperts } from './graniteMoe.js';

const BAMBA: GatedDefaults = {
  vocabulary: 128000,
  hidden: 4096,
  feedForward: 14336,
  layers: 32,
  heads: 32,
  kvHeads: 8,
  headDim: null,
  context: 262144,
  epsilon: 1e-5,
  theta: 10000,
};

/**
 * Granite 4: layers of Mamba-2 (a state space) among ones that attend, experts beside a block that all tokens go
 * through, or that block alone.
 */
export const graniteHybrid: Family = {
  ...gatedFamily({
    family: 'granitemoehybrid',
    defaults: LLAMA_DEFAULTS,
    decoder: (decoder, config) => withGraniteExperts(positioned(withStates(decoder, config), config), config, 1024),
    names: (config) => ({
      ...biases(config.boolean('attention_bias', false), 'q', 'k', 'v', 'o'),
      'gate.weight': undefined,
      'up.weight': undefined,
      'down.weight': undefined,
    }),
    weights: (decoder, config) => [...graniteBlocks(decoder), ...statesOf(decoder, config)],
  }),
  gguf: {
    architecture: 'granitehybrid',
    describe(whole: GgufModel) {
      const { model, attends } = ggufAttendingLayers(whole);
      const { fields, tensors } = model;
      const plain = withGgufMultipliers(gatedGguf('granitemoehybrid', withFeedForward(model), 'pairs', {}), model);
      const layers = layersByMixer(plain.layers, 'state-space', attends);
      const rotates = fields.boolean('rope.scaling.finetuned', true);
      const states: DecoderSpec = {
        ...plain,
        layerSpecs: unrotated(layers, () => rotates),
        ...(layers.some(({ mixer }) => mixer !== undefined) && { recurrent: readGgufStateSpace(model) }),
      };
      const mixture = tensors.has('blk.0.ffn_gate_inp.weight');
      const decoder = mixture ? ggufMixture(states, model, { score: 'softmax', normalised: true }) : states;
      return {
        decoder,
        weights: [
          ...ggufGlobals(),
          ...ggufAttention(),
          ...weights(GGUF_LAYER, { 'norm1.weight': 'attn_norm.weight', 'norm2.weight': 'ffn_norm.weight' }),
          ...ggufStateSpaceWeights(decoder),
          ...(mixture ? ggufMixtureWeights(decoder, model) : ggufGated()),
        ],
      };
    },
  },
};

/** Bamba: layers of Mamba-2 among ones that attend, and gated blocks. */
export const bamba = gatedFamily({
  family: 'bamba',
  defaults: BAMBA,
  style: { rotary: { style: 'halves', share: 0.5 } },
  decoder(decoder, config) {
    const listed = config.raw('attn_layer_indices') ?? [];
    if (!Array.isArray(listed)) return config.refuse('attn_layer_indices', 'a list of layers');
    return {
      ...decoder,
      recurrent: readStateSpace(config, decoder.hiddenSize),
      layerSpecs: layersByMixer(decoder.layers, 'state-space', (layer) => listed.includes(layer)),
    };
  },
  names: (config) => ({
    ...biases(config.boolean('attention_bias', false), 'q', 'k', 'v', 'o'),
    ...feedForwardNames(blockBiases(config.boolean('mlp_bias', false), 'gate', 'up', 'down')),
    'final_norm.weight': 'final_layernorm.weight',
    'norm2.weight': 'pre_ff_layernorm.weight',
  }),
  weights: (decoder, config) => stateSpaceWeights(decoder, config),
});

/** Its block is called otherwise. */
function feedForwardNames(biases: Renamed): Renamed {
  const names = {
    'gate.weight': 'mlp.gate_proj.weight',
    'up.weight': 'mlp.up_proj.weight',
    'down.weight': 'mlp.down_proj.weight',
    ...biases,
  };
  return Object.fromEntries(
    Object.entries(names).map(([role, name]) => [role, name?.replace('mlp.', 'feed_forward.')]),
  );
}

const hasStates = ({ layerSpecs }: DecoderSpec): boolean => layerSpecs.some(({ mixer }) => mixer === 'state-space');

function withStates(decoder: DecoderSpec, config: Fields): DecoderSpec {
  const names = ['linear_attention', 'mamba'];
  const layered = { ...decoder, layerSpecs: mixedLayers(config, decoder.layers, names, 'state-space', () => false) };
  return hasStates(layered) ? { ...layered, recurrent: readStateSpace(config, decoder.hiddenSize) } : layered;
}

const statesOf = (decoder: DecoderSpec, config: Fields): ReturnType<typeof stateSpaceWeights> =>
  hasStates(decoder) ? stateSpaceWeights(decoder, config) : [];

/** Granite 4 says by a word whether it rotates at all. */
function positioned(decoder: DecoderSpec, config: Fields): DecoderSpec {
  const kind = config.raw('position_embedding_type') ?? null;
  if (kind !== null && kind !== 'nope' && kind !== 'rope')
    config.refuse('position_embedding_type', 'rope, nope or null');
  return { ...decoder, layerSpecs: unrotated(decoder.layerSpecs, () => kind === 'rope') };
}

/** The width of a layer's block as its tensor has it: files of converters' have 0 in its place, or the experts'. */
function withFeedForward(model: GgufModel): GgufModel {
  const rows = model.tensors.find('blk.0.ffn_up.weight')?.shape[0];
  return rows === undefined || rows > LIMITS.feedForward.max
    ? model
    : { ...model, fields: model.fields.with({ feed_forward_length: rows }) };
}
