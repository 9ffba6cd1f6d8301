import type { DecoderSpec } from '../../DecoderSpec.js';
import type { Family, WeightSource } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import type { GatedDefaults } from '../gatedDecoder.js';
import { biases, blockBiases, gatedFamily } from '../gatedFamily.js';
import { ggufStateSpaceWeights, readGgufStateSpace, readStateSpace, stateSpaceWeights } from '../stateSpace.js';
import { GGUF_LAYER } from '../weights.js';

const DEFAULTS: GatedDefaults = {
  vocabulary: 128000,
  hidden: 4096,
  feedForward: 14336,
  layers: 32,
  heads: 32,
  kvHeads: 8,
  headDim: null,
  context: 8192,
  epsilon: 1e-5,
  theta: 10000,
};
const FACTOR = { min: -1e6, max: 1e6 };

/** Falcon-H1: attention and a state space beside each other in every layer, and factors of all that they project. */
export const falconH1: Family = gatedFamily({
  family: 'falcon_h1',
  defaults: DEFAULTS,
  decoder(decoder, config) {
    const into = multiplier(config, 'attention_in_multiplier');
    const out = multiplier(config, 'attention_out_multiplier');
    const [gate = 1, down = 1] = multipliers(config, 'mlp_multipliers', 2);
    if (config.boolean('attention_bias', false) && (into !== 1 || out !== 1))
      config.refuse('attention_bias', 'false beside factors of attention');
    if (config.boolean('mlp_bias', false) && down !== 1) config.refuse('mlp_bias', 'false beside mlp_multipliers');
    return {
      ...beside(decoder, readBeside(config, decoder.hiddenSize)),
      embedding: { ...decoder.embedding, scale: multiplier(config, 'embedding_multiplier') },
      logitScale: multiplier(config, 'lm_head_multiplier'),
      attention: {
        ...decoder.attention,
        scale: decoder.attention.scale * into ** 2 * multiplier(config, 'key_multiplier'),
        outputScale: into * out,
      },
      feedForward: { ...decoder.feedForward, gateScale: gate, innerScale: down },
    };
  },
  names: (config) => ({
    ...biases(config.boolean('attention_bias', false), 'q', 'k', 'v', 'o'),
    'final_norm.weight': 'final_layernorm.weight',
    'norm2.weight': 'pre_ff_layernorm.weight',
    'gate.weight': 'feed_forward.gate_proj.weight',
    'up.weight': 'feed_forward.up_proj.weight',
    'down.weight': 'feed_forward.down_proj.weight',
    ...Object.fromEntries(
      Object.entries(blockBiases(config.boolean('mlp_bias', false), 'gate', 'up', 'down')).map(([role, name]) => [
        role,
        name?.replace('mlp.', 'feed_forward.'),
      ]),
    ),
  }),
  weights: (decoder, config) =>
    besideWeights(decoder, [
      ...stateSpaceWeights(decoder, config).filter(({ role }) => role !== 'state_out.bias'),
      ...(config.boolean('projectors_bias', false)
        ? [{ role: 'state_out.bias' as const, tensor: '{base}layers.{layer}.mamba.out_proj.bias' }]
        : []),
    ]),
  // Its converter multiplies weights by all the factors.
  gguf: {
    architecture: 'falcon-h1',
    rotary: 'halves',
    decoder(decoder, model) {
      const recurrent = readGgufStateSpace(model);
      const normed = model.tensors.has('blk.0.ssm_norm.weight');
      return beside(decoder, {
        ...recurrent,
        ...(recurrent.stateSpace && { stateSpace: { ...recurrent.stateSpace, norm: normed ? 'gated' : 'none' } }),
      });
    },
    names: () => ({ 'norm2.weight': undefined }),
    weights: (decoder) => [
      // The converter leaves the suffix out.
      { role: 'norm2.weight', tensor: `${GGUF_LAYER}ffn_norm`, otherwise: `${GGUF_LAYER}ffn_norm.weight` },
      ...besideWeights(decoder, ggufStateSpaceWeights(decoder)),
    ],
  },
});

const multiplier = (config: Fields, key: string): number => config.numberOrNull(key, FACTOR) ?? 1;

const multipliers = (config: Fields, key: string, count: number): readonly number[] =>
  (config.raw(key) ?? null) === null ? [] : config.numbers(key, count, FACTOR);

const beside = (decoder: DecoderSpec, recurrent: NonNullable<DecoderSpec['recurrent']>): DecoderSpec => ({
  ...decoder,
  recurrent,
  layerSpecs: decoder.layerSpecs.map((layer) => ({ ...layer, stateBeside: true })),
});

function readBeside(config: Fields, hiddenSize: number): NonNullable<DecoderSpec['recurrent']> {
  const heads = config.integer('mamba_n_heads', LIMITS.heads, 128);
  const values =
    config.integerOrNull('mamba_d_ssm', LIMITS.hidden, 1024) ??
    config.integer('mamba_expand', { min: 1, max: 64 }, 2) * hiddenSize;
  const given = config.raw('mamba_d_head') ?? 'auto';
  const headDim = given === 'auto' ? Math.floor(values / heads) : given;
  const recurrent = readStateSpace(config.with({ mamba_d_head: headDim }), hiddenSize, 'own');
  const { stateSpace } = recurrent;
  if (stateSpace === undefined || stateSpace.heads * stateSpace.headDim !== values)
    return config.refuse('mamba_n_heads', `heads of together ${values} elements, mamba_d_ssm`);
  const into = multiplier(config, 'ssm_in_multiplier');
  const output = multiplier(config, 'ssm_out_multiplier');
  if (config.boolean('mamba_proj_bias', false) && into !== 1)
    config.refuse('mamba_proj_bias', 'false beside ssm_in_multiplier');
  if (config.boolean('projectors_bias', false) && output !== 1)
    config.refuse('projectors_bias', 'false beside ssm_out_multiplier');
  const [gate = 1, own = 1, written = 1, read = 1, step = 1] = multipliers(config, 'ssm_multipliers', 5);
  const first = config.boolean('mamba_norm_before_gate', true) ? 'first' : 'gated';
  return {
    ...recurrent,
    stateSpace: {
      ...stateSpace,
      norm: config.boolean('mamba_rms_norm', false) ? first : 'none',
      scales: {
        gate: gate * into,
        values: own * into,
        written: written * into,
        read: read * into,
        step: step * into,
        output,
      },
    },
  };
}

/** The weights of a state space that is not all of its layer's mixer. */
function besideWeights(decoder: DecoderSpec, sources: readonly WeightSource[]): WeightSource[] {
  const normed = decoder.recurrent?.stateSpace?.norm !== 'none';
  return sources.flatMap((source): WeightSource[] => {
    if (source.role === 'state_norm.weight' && !normed) return [];
    if (source.role === 'state_out.weight') return [{ ...source, role: 'beside_out.weight' }];
    return source.role === 'state_out.bias' ? [{ ...source, role: 'beside_out.bias' }] : [source];
  });
}
