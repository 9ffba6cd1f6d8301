import type { DecoderSpec } from '../../DecoderSpec.js';
import { LIMITS, type Fields } from '../Fields.js';
import type { GatedDefaults } from '../gatedDecoder.js';
import { gatedFamily } from '../gatedFamily.js';
import {
  ggufMixture,
  ggufMixtureWeights,
  MLP_EXPERTS,
  mixtureWeights,
  sigmoidRouter,
  withExperts,
} from '../mixture.js';
import { ggufSlidingLayers, slidingLayers, unrotated, windowedLayers } from '../slidingLayers.js';
import { withQueryKeyNorm } from '../specs.js';
import type { GgufModel } from '../Family.js';
import { skipNextTokenLayers } from '../nextTokenLayers.js';
import { BRANCH_NORMS, GGUF_BRANCH_NORMS, GGUF_HEAD_NORMS, HEAD_NORMS } from './olmo2.js';

const DEFAULTS: GatedDefaults = {
  vocabulary: 102400,
  hidden: 4096,
  feedForward: 16384,
  layers: 32,
  heads: 32,
  kvHeads: null,
  headDim: null,
  context: 2048,
  epsilon: 1e-5,
  theta: 10000,
};
/** Every fourth layer sees all tokens, where windows are used at all. */
const PATTERN = 4;

const branched = (decoder: DecoderSpec): DecoderSpec => ({ ...withQueryKeyNorm(decoder), residual: 'branch' });

/** Layers that see a window rotate, the others among them do not; without windows all rotate. */
function hybrid(decoder: DecoderSpec, config: Fields): DecoderSpec {
  const window = config.integerOrNull('sliding_window', LIMITS.window, 4096);
  const sliding = slidingLayers(config, decoder.layers, patternOf(config, decoder.layers, window !== null));
  const layers = windowedLayers(config, sliding, window);
  return { ...decoder, layerSpecs: window === null ? layers : unrotated(layers, (layer) => sliding[layer] === true) };
}

function ggufHybrid(decoder: DecoderSpec, { fields }: GgufModel): DecoderSpec {
  const window = fields.integer('attention.sliding_window', { min: 0, max: LIMITS.window.max }, 0);
  if (window === 0) return decoder;
  const sliding = ggufSlidingLayers(fields, decoder.layers, window, PATTERN);
  const layers = windowedLayers(fields, sliding, window);
  return { ...decoder, layerSpecs: unrotated(layers, (layer) => sliding[layer] === true) };
}

/** `sliding_window_pattern`: a period, or a word such as LLLG; the last layer of the latter sees all tokens. */
function patternOf(config: Fields, layers: number, windows: boolean): (layer: number) => boolean {
  const pattern = config.raw('sliding_window_pattern') ?? null;
  if (!windows) return () => false;
  if (typeof pattern === 'string' && /^[LG]{1,64}$/.test(pattern))
    return (layer) => layer !== layers - 1 && pattern[layer % pattern.length] === 'L';
  const period = config.integerOrNull('sliding_window_pattern', LIMITS.layers, PATTERN);
  return (layer) => period !== null && (layer + 1) % period !== 0;
}

/** EXAONE 4: norms after the branches and over heads; of the large one some layers slide, the others do not rotate. */
export const exaone4 = gatedFamily({
  family: 'exaone4',
  defaults: DEFAULTS,
  decoder: (decoder, config) => hybrid(branched(decoder), config),
  names: () => ({ ...BRANCH_NORMS, ...HEAD_NORMS }),
  gguf: {
    architecture: 'exaone4',
    rotary: 'halves',
    decoder: (decoder, model) => ggufHybrid(branched(decoder), model),
    names: () => ({ ...GGUF_BRANCH_NORMS, ...GGUF_HEAD_NORMS }),
  },
});

/** K-EXAONE: its layers with norms before the branches, and experts in most of them. */
export const exaoneMoe = gatedFamily({
  family: 'exaone_moe',
  defaults: DEFAULTS,
  decoder(decoder, config) {
    const width = config.integer('moe_intermediate_size', LIMITS.feedForward, 1024);
    const first = config.integer('first_k_dense_replace', { min: 0, max: LIMITS.layers.max }, 1);
    const kinds = config.raw('mlp_layer_types') ?? null;
    if (kinds !== null && (!Array.isArray(kinds) || kinds.length !== decoder.layers))
      config.refuse('mlp_layer_types', `an array of ${decoder.layers}, one entry a layer`);
    const router = sigmoidRouter(config);
    return withExperts(hybrid(withQueryKeyNorm(decoder), config), {
      count: config.integer(config.has('num_experts') ? 'num_experts' : 'num_local_experts', LIMITS.experts, 64),
      perToken: config.integer('num_experts_per_tok', LIMITS.experts, 8),
      width,
      router: { ...router, scale: config.number('routed_scaling_factor', LIMITS.factor, 2.5) },
      shared: {
        size: width * config.integer('num_shared_experts', { min: 0, max: LIMITS.experts.max }, 1),
        gate: false,
      },
      dense: (layer) => (kinds === null ? layer < first : (kinds as readonly unknown[])[layer] !== 'sparse'),
    });
  },
  names: () => HEAD_NORMS,
  weights: (decoder) => mixtureWeights(decoder, { ...MLP_EXPERTS, choiceBias: 'mlp.e_score_correction_bias' }),
  gguf: {
    architecture: 'exaone-moe',
    rotary: 'halves',
    decoder(decoder, model) {
      const layered = ggufHybrid(skipNextTokenLayers(withQueryKeyNorm(decoder), model), model);
      return ggufMixture(layered, model, { score: 'sigmoid', normalised: true });
    },
    names: () => GGUF_HEAD_NORMS,
    weights: ggufMixtureWeights,
  },
});
