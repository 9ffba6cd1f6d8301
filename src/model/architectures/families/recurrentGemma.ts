import type { DecoderSpec, LayerSpec } from '../../DecoderSpec.js';
import { rotaryFields } from '../configRotary.js';
import { LIMITS, type Fields } from '../Fields.js';
import { LLAMA_LAYER, type GatedDefaults } from '../gatedDecoder.js';
import { gatedFamily } from '../gatedFamily.js';
import { activation } from '../specs.js';
import { weights } from '../weights.js';

const DEFAULTS: GatedDefaults = {
  vocabulary: 256000,
  hidden: 2560,
  feedForward: 7680,
  layers: 26,
  heads: 10,
  kvHeads: null,
  headDim: null,
  // Configurations do not say; the published models learned from texts of this length.
  context: 8192,
  epsilon: 1e-6,
  theta: 10000,
};
const ROTATED_SHARE = 0.5;
const MIXER = `${LLAMA_LAYER}temporal_block.`;

/** RecurrentGemma (Griffin): layers of RG-LRU among ones that attend to a window. */
export const recurrentGemma = gatedFamily({
  family: 'recurrent_gemma',
  defaults: DEFAULTS,
  style: { rotary: { style: 'halves', share: ROTATED_SHARE } },
  tied: true,
  decoder(decoder, config) {
    const { heads, hiddenSize, layers } = decoder;
    refuseOthers(config, decoder);
    const width = config.integerOrNull('lru_width', LIMITS.hidden, null) ?? hiddenSize;
    if (width % heads !== 0) config.refuse('lru_width', `a multiple of the ${heads} heads`, width);
    const both = config.integer('intermediate_size', { min: 2, max: LIMITS.feedForward.max }, DEFAULTS.feedForward);
    return {
      ...decoder,
      feedForwardSize: Math.floor(both / 2), // a gate and what it gates
      embedding: { size: hiddenSize, scale: bfloat16(Math.sqrt(hiddenSize)) },
      feedForward: { kind: 'gated', activation: activation(config, 'hidden_activation', 'gelu_pytorch_tanh') },
      recurrent: {
        taps: config.integer('conv1d_width', { min: 1, max: 64 }, 4),
        lru: { blocks: heads, blockDim: width / heads },
      },
      logitSoftCap: config.number('logits_soft_cap', { min: 1e-6, max: LIMITS.softCap.max }, 30),
      layerSpecs: layersOf(config, layers),
    };
  },
  names: () => ({
    'final_norm.weight': undefined,
    'norm1.weight': undefined,
    'norm2.weight': undefined,
    'q.weight': undefined,
    'k.weight': undefined,
    'v.weight': undefined,
    'o.weight': undefined,
    'gate.weight': 'mlp_block.gate_proj.weight',
    'gate.bias': 'mlp_block.gate_proj.bias',
    'up.weight': 'mlp_block.up_proj.weight',
    'up.bias': 'mlp_block.up_proj.bias',
    'down.weight': 'mlp_block.down_proj.weight',
    'down.bias': 'mlp_block.down_proj.bias',
  }),
  weights: (_, config) => [
    ...weights('{base}', { 'final_norm.weight': 'final_norm.weight' }, { add: 1 }),
    ...weights(
      LLAMA_LAYER,
      { 'norm1.weight': 'temporal_pre_norm.weight', 'norm2.weight': 'channel_pre_norm.weight' },
      { add: 1 },
    ),
    ...weights(MIXER, {
      'q.weight': 'q_proj.weight',
      'k.weight': 'k_proj.weight',
      'v.weight': 'v_proj.weight',
      ...(config.boolean('attention_bias', false) && {
        'q.bias': 'q_proj.bias',
        'k.bias': 'k_proj.bias',
        'v.bias': 'v_proj.bias',
      }),
      'o.weight': 'o_proj.weight',
      'o.bias': 'o_proj.bias',
      'lru_in.weight': 'linear_x.weight',
      'lru_in.bias': 'linear_x.bias',
      'lru_gate.weight': 'linear_y.weight',
      'lru_gate.bias': 'linear_y.bias',
      'lru_conv.bias': 'conv_1d.bias',
      lru_rate: 'rg_lru.recurrent_param',
      'lru_out.weight': 'linear_out.weight',
      'lru_out.bias': 'linear_out.bias',
    }),
    ...weights(
      MIXER,
      {
        'lru_conv.weight': 'conv_1d.weight',
        'lru_input.weight': 'rg_lru.input_gate_weight',
        'lru_input.bias': 'rg_lru.input_gate_bias',
        'lru_forget.weight': 'rg_lru.recurrent_gate_weight',
        'lru_forget.bias': 'rg_lru.recurrent_gate_bias',
      },
      { reshaped: true },
    ),
  ],
});

/** Refuses what transformers cannot compute either. */
function refuseOthers(config: Fields, { heads, headDim, hiddenSize, position }: DecoderSpec): void {
  if (heads * headDim !== hiddenSize)
    config.refuse('head_dim', `that of ${heads} heads of ${hiddenSize} elements together`, headDim);
  const rotary = rotaryFields(config);
  const key = rotary.has('rope_type') ? 'rope_type' : 'type';
  if (rotary.string(key, 'default') !== 'default') rotary.refuse(key, 'default');
  if (position.kind === 'rotary' && position.dims !== headDim * ROTATED_SHARE)
    (rotary.has('partial_rotary_factor') ? rotary : config).refuse('partial_rotary_factor', '0.5');
}

/** Block types in turn. */
function layersOf(config: Fields, layers: number): LayerSpec[] {
  const given = config.raw('block_types') ?? ['recurrent', 'recurrent', 'attention'];
  if (!Array.isArray(given) || given.length === 0) return config.refuse('block_types', 'a list of block types');
  const window = config.integer('attention_window_size', LIMITS.window, 2048);
  return Array.from({ length: layers }, (_, layer): LayerSpec => {
    const type: unknown = given[layer % given.length];
    if (type === 'attention') return { window, rotaryTable: 0 };
    if (type === 'recurrent') return { mixer: 'rg-lru', window: 0, rotaryTable: 0 };
    return config.refuse(`block_types[${layer % given.length}]`, 'recurrent or attention', type);
  });
}

/** A positive number, rounded to the 8 bits of a bfloat16. */
function bfloat16(number: number): number {
  const unit = 2 ** (Math.floor(Math.log2(number)) - 7);
  const [units, half] = [Math.floor(number / unit), (number / unit) % 1];
  return unit * (half > 0.5 || (half === 0.5 && units % 2 === 1) ? units + 1 : units);
}
