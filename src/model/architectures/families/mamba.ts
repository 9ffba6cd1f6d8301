import type { DecoderSpec, LayerSpec } from '../../DecoderSpec.js';
import type { Description, Family, GgufModel, WeightSource } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { unpositionedDecoder } from '../gatedDecoder.js';
import { ggufScanWeights, readGgufScan, readScan, scanWeights, UNWEIGHTED_EPSILON } from '../selectiveScan.js';
import { requireSilu } from '../specs.js';
import { ggufStateSpaceWeights, readGgufStateSpace, readStateSpace, stateSpaceWeights } from '../stateSpace.js';
import { GGUF_LAYER, ggufGlobals, head, weights } from '../weights.js';

/** Positions that models are given whose files name none: what llama.cpp's converter writes. */
const CONTEXT = 2 ** 20;
const LAYER = '{base}layers.{layer}.';
type Sizes = Pick<DecoderSpec, 'hiddenSize' | 'layers' | 'vocabularySize' | 'contextTokens'>;

/** Mamba, and Falcon Mamba, which norms what its states are written and read by: layers of a selective scan alone. */
export const mamba: Family = {
  modelTypes: ['mamba', 'falcon_mamba'],
  fromConfig(config: Fields): Description {
    const hiddenSize = config.integer('hidden_size', LIMITS.hidden, 768);
    const fields = config.renamed({
      mamba_expand: 'expand',
      // It stands above the other, which Falcon Mamba's files have wrong.
      mamba_channels: 'intermediate_size',
      mamba_d_state: 'state_size',
      mamba_d_conv: 'conv_kernel',
      mamba_dt_rank: 'time_step_rank',
    });
    const norms =
      config.raw('model_type') === 'falcon_mamba'
        ? { epsilon: config.number('mixer_rms_eps', LIMITS.epsilon, UNWEIGHTED_EPSILON), weighted: false }
        : undefined;
    const decoder = alone(configSizes(config, 50280, 768, 32), readScan(fields, hiddenSize, norms), 'selective-scan', {
      family: 'mamba',
      epsilon: config.number('layer_norm_epsilon', LIMITS.epsilon, 1e-5),
    });
    return describe(config, decoder, true, [
      ...scanWeights(decoder, `${LAYER}mixer.`, {
        biased: config.boolean('use_bias', false),
        convBiased: config.boolean('use_conv_bias', true),
      }),
    ]);
  },
  gguf: {
    architecture: 'mamba',
    describe(model: GgufModel): Description {
      const epsilon = model.fields.number('attention.layer_norm_rms_epsilon', LIMITS.epsilon);
      const decoder = alone(ggufSizes(model), readGgufScan(model, 0, epsilon), 'selective-scan', {
        family: 'mamba',
        epsilon,
      });
      return describeGguf(decoder, ggufScanWeights(decoder));
    },
  },
};

/** Mamba-2 by itself. */
export const mamba2: Family = {
  modelTypes: ['mamba2'],
  fromConfig(config: Fields): Description {
    const sizes = configSizes(config, 32768, 4096, 64);
    const fields = config.withDefaults({ head_dim: 64, state_size: 128, n_groups: 8 }).renamed({
      mamba_n_heads: 'num_heads',
      mamba_d_head: 'head_dim',
      mamba_d_state: 'state_size',
      mamba_d_conv: 'conv_kernel',
      mamba_n_groups: 'n_groups',
      mamba_expand: 'expand',
      mamba_conv_bias: 'use_conv_bias',
      mamba_proj_bias: 'use_bias',
    });
    const decoder = alone(sizes, readStateSpace(fields, sizes.hiddenSize), 'state-space', {
      family: 'mamba2',
      epsilon: config.number('layer_norm_epsilon', LIMITS.epsilon, 1e-5),
    });
    return describe(config, decoder, false, stateSpaceWeights(decoder, fields, 'mixer.'));
  },
  gguf: {
    architecture: 'mamba2',
    describe(model: GgufModel): Description {
      const decoder = alone(ggufSizes(model), readGgufStateSpace(model), 'state-space', {
        family: 'mamba2',
        epsilon: model.fields.number('attention.layer_norm_rms_epsilon', LIMITS.epsilon),
      });
      return describeGguf(decoder, ggufStateSpaceWeights(decoder));
    },
  },
};

/** A decoder without attention, and without blocks after its mixers. */
function alone(
  sizes: Sizes,
  recurrent: NonNullable<DecoderSpec['recurrent']>,
  mixer: NonNullable<LayerSpec['mixer']>,
  { family, epsilon }: { readonly family: string; readonly epsilon: number },
): DecoderSpec {
  return {
    ...unpositionedDecoder(family, { ...sizes, heads: 1, kvHeads: 1, headDim: 1, feedForwardSize: 1 }, epsilon),
    recurrent,
    layerSpecs: Array.from({ length: sizes.layers }, () => ({ window: 0, rotaryTable: 0, mixer, mixerOnly: true })),
  };
}

function configSizes(config: Fields, vocabulary: number, hidden: number, layers: number): Sizes {
  requireSilu(config);
  return {
    hiddenSize: config.integer('hidden_size', LIMITS.hidden, hidden),
    layers: config.integer('num_hidden_layers', LIMITS.layers, layers),
    vocabularySize: config.integer('vocab_size', LIMITS.vocabulary, vocabulary),
    contextTokens: config.integer('max_position_embeddings', LIMITS.context, CONTEXT),
  };
}

function ggufSizes({ fields, tensors }: GgufModel): Sizes {
  return {
    hiddenSize: fields.integer('embedding_length', LIMITS.hidden),
    layers: fields.integer('block_count', LIMITS.layers),
    vocabularySize: tensors.find('token_embd.weight')?.shape[0] ?? fields.integer('vocab_size', LIMITS.vocabulary),
    contextTokens: fields.integer('context_length', LIMITS.context, CONTEXT),
  };
}

function describe(config: Fields, decoder: DecoderSpec, tied: boolean, own: readonly WeightSource[]): Description {
  return {
    decoder,
    bases: ['backbone.', 'model.backbone.', 'model.', ''],
    weights: [
      // As state-spaces' own checkpoints call it.
      { role: 'token_embedding', tensor: '{base}embeddings.weight', otherwise: '{base}embedding.weight' },
      ...weights('{base}', { 'final_norm.weight': 'norm_f.weight' }),
      head('lm_head.weight', config.boolean('tie_word_embeddings', tied)),
      ...weights(LAYER, { 'norm1.weight': 'norm.weight' }),
      ...own,
    ],
  };
}

function describeGguf(decoder: DecoderSpec, own: readonly WeightSource[]): Description {
  return {
    decoder,
    weights: [...ggufGlobals(), ...weights(GGUF_LAYER, { 'norm1.weight': 'attn_norm.weight' }), ...own],
  };
}
