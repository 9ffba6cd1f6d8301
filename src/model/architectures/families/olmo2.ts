import type { DecoderSpec } from '../../DecoderSpec.js';
import { LIMITS, type Fields } from '../Fields.js';
import type { GatedDefaults } from '../gatedDecoder.js';
import { biases, gatedFamily, type Renamed } from '../gatedFamily.js';
import { rotaryTables } from '../rotaryTables.js';
import { defaultFrequencies } from '../rotaryFrequencies.js';
import { ggufSlidingLayers, slidingLayers, windowedLayers } from '../slidingLayers.js';
import { rotary } from '../specs.js';

/** OLMo 1's to 3's. */
export const OLMO_DEFAULTS: GatedDefaults = {
  vocabulary: 50304,
  hidden: 4096,
  feedForward: 11008,
  layers: 32,
  heads: 32,
  kvHeads: null,
  headDim: null,
  context: 2048,
  epsilon: 1e-5,
  theta: 10000,
};
/** Every fourth layer of OLMo 3 sees all tokens. */
const PATTERN = 4;

/** Names of norms that stand after the branches. */
export const BRANCH_NORMS: Renamed = {
  'norm1.weight': undefined,
  'norm2.weight': undefined,
  'post_norm1.weight': 'post_attention_layernorm.weight',
  'post_norm2.weight': 'post_feedforward_layernorm.weight',
};
export const HEAD_NORMS = {
  'q_norm.weight': 'self_attn.q_norm.weight',
  'k_norm.weight': 'self_attn.k_norm.weight',
} as const satisfies Renamed;
export const GGUF_BRANCH_NORMS: Renamed = {
  'norm1.weight': undefined,
  'norm2.weight': undefined,
  'post_norm1.weight': 'post_attention_norm.weight',
  'post_norm2.weight': 'post_ffw_norm.weight',
};
export const GGUF_HEAD_NORMS: Renamed = {
  'q_norm.weight': 'attn_q_norm.weight',
  'k_norm.weight': 'attn_k_norm.weight',
};

const branched = (decoder: DecoderSpec): DecoderSpec => ({
  ...decoder,
  residual: 'branch',
  attention: { ...decoder.attention, qkNorm: 'row' },
});
const names = (config: Fields): Renamed => ({
  ...BRANCH_NORMS,
  ...HEAD_NORMS,
  ...biases(config.boolean('attention_bias', false), 'q', 'k', 'v', 'o'),
});

/** OLMo 2: norms after the branches, one over all heads of queries, one over those of keys. GGUF's is OLMo 3, too. */
export const olmo2 = gatedFamily({
  family: 'olmo2',
  defaults: OLMO_DEFAULTS,
  decoder: branched,
  names,
  gguf: {
    architecture: 'olmo2',
    rotary: 'halves',
    decoder(decoder, { fields }) {
      const { layers, position } = decoder;
      const window = fields.integer('attention.sliding_window', { min: 0, max: LIMITS.window.max }, 0);
      if (window === 0 || position.kind !== 'rotary') return branched(decoder);
      // Layers that slide rotate without the scaling that the others may have.
      const theta = fields.number('rope.freq_base', LIMITS.theta, OLMO_DEFAULTS.theta);
      const plain = { frequencies: defaultFrequencies(theta, position.dims), scale: 1 };
      return {
        ...branched(decoder),
        position: rotary('halves', position.dims, ...position.tables, plain),
        layerSpecs: windowedLayers(fields, ggufSlidingLayers(fields, layers, window, PATTERN), window, 1),
      };
    },
    names: () => ({ ...GGUF_BRANCH_NORMS, ...GGUF_HEAD_NORMS }),
  },
});

/** OLMo 3: OLMo 2 in which most layers see a window, and rotate by a table of their own. */
export const olmo3 = gatedFamily({
  family: 'olmo3',
  defaults: { ...OLMO_DEFAULTS, theta: 500000 },
  decoder(decoder, config) {
    const sliding = slidingLayers(config, decoder.layers, (layer) => (layer + 1) % PATTERN !== 0);
    const { tables, contextTokens } = rotaryTables(config, decoder.headDim, decoder.contextTokens, 500000);
    return {
      ...branched(decoder),
      contextTokens,
      position: rotary('halves', decoder.headDim, ...tables),
      layerSpecs: windowedLayers(config, sliding, config.integerOrNull('sliding_window', LIMITS.window, 4096), 1),
    };
  },
  names,
});
