import type { DecoderSpec } from '../../DecoderSpec.js';
import type { WeightSource } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { LLAMA_LAYER } from '../gatedDecoder.js';
import { biases, gatedFamily } from '../gatedFamily.js';
import { ggufMixture, ggufMixtureWeights, withExperts } from '../mixture.js';
import { fusedGateUp, weights } from '../weights.js';
import { DEFAULTS, withGgufMultipliers, withMultipliers } from './granite.js';

const MOE = `${LLAMA_LAYER}block_sparse_moe.`;
const SHARED = `${LLAMA_LAYER}shared_mlp.`;

/**
 * Granite with experts, perhaps beside a block that all tokens go through; of Granite 4 those without Mamba layers, of
 * which small ones have that block alone.
 */
export const graniteMoe = gatedFamily({
  family: 'granitemoe',
  modelTypes: ['granitemoe', 'granitemoeshared', 'granitemoehybrid'],
  defaults: DEFAULTS,
  decoder(decoder, config) {
    const hybrid = config.raw('model_type') === 'granitemoehybrid';
    if (hybrid) refuseMamba(config, decoder.layers);
    const scaled = withMultipliers(hybrid ? positioned(decoder, config) : decoder, config);
    const shared = config.integer(
      'shared_intermediate_size',
      { min: 0, max: LIMITS.feedForward.max },
      hybrid ? 1024 : 0,
    );
    const count = config.integer('num_local_experts', { min: 0, max: LIMITS.experts.max }, 8);
    if (count === 0) return { ...scaled, feedForwardSize: shared };
    return withExperts(scaled, {
      count,
      perToken: config.integer('num_experts_per_tok', LIMITS.experts, 2),
      width: decoder.feedForwardSize,
      shared: { size: shared, gate: false },
    });
  },
  names: (config, { feedForward }) => ({
    ...biases(config.boolean('attention_bias', false), 'q', 'k', 'v', 'o'),
    ...(feedForward.experts === undefined && {
      'gate.weight': undefined,
      'up.weight': undefined,
      'down.weight': 'shared_mlp.output_linear.weight',
    }),
  }),
  weights: (decoder) => fusedExperts(decoder),
  gguf: {
    architecture: 'granitemoe',
    rotary: 'pairs',
    decoder: (decoder, model) =>
      ggufMixture(withGgufMultipliers(decoder, model), model, { score: 'softmax', normalised: true }),
    weights: ggufMixtureWeights,
  },
});

/** A layer's experts are stacked in two tensors, rows of gate before those of up. */
function fusedExperts({ feedForward, feedForwardSize }: DecoderSpec): WeightSource[] {
  const { experts } = feedForward;
  if (experts === undefined) return fusedGateUp(`${SHARED}input_linear.weight`, feedForwardSize);
  const { count, shared } = experts;
  return [
    ...weights(MOE, { 'router.weight': 'router.layer.weight' }),
    ...Array.from({ length: count }, (_, index) => [
      ...fusedGateUp(`${MOE}input_linear.weight`, feedForwardSize).map((source) => ({
        ...source,
        role: `expert.${index}.${source.role}` as WeightSource['role'],
        slice: { count, index },
      })),
      {
        role: `expert.${index}.down.weight` as const,
        tensor: `${MOE}output_linear.weight`,
        slice: { count, index },
      },
    ]).flat(),
    ...(shared === undefined
      ? []
      : [
          ...fusedGateUp(`${SHARED}input_linear.weight`, shared.size),
          ...weights(SHARED, { 'down.weight': 'output_linear.weight' }),
        ]),
  ];
}

/** Granite 4 says by a word whether it rotates at all. */
function positioned(decoder: DecoderSpec, config: Fields): DecoderSpec {
  const kind = config.raw('position_embedding_type') ?? null;
  if (kind === 'rope') return decoder;
  if (kind !== null && kind !== 'nope') config.refuse('position_embedding_type', 'rope, nope or null');
  return { ...decoder, layerSpecs: decoder.layerSpecs.map((layer) => ({ ...layer, rotaryTable: 'none' as const })) };
}

function refuseMamba(config: Fields, layers: number): void {
  const expected = 'attention in each layer: those of Mamba are not computed';
  const types = config.raw('layer_types') ?? config.raw('layers_block_type') ?? null;
  if (!Array.isArray(types) || types.length !== layers) config.refuse('layer_types', expected, types);
  for (const [layer, type] of (types as readonly unknown[]).entries())
    if (type !== 'attention' && type !== 'full_attention') config.refuse(`layer_types[${layer}]`, expected, type);
}
