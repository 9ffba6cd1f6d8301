import type { DecoderSpec } from '../../DecoderSpec.js';
import { type Fields, LIMITS } from '../Fields.js';
import { biases, gatedFamily, type Renamed } from '../gatedFamily.js';
import { OLMO_DEFAULTS } from './olmo2.js';

const UNWEIGHTED: Renamed = { 'norm1.weight': undefined, 'norm2.weight': undefined, 'final_norm.weight': undefined };

/** The decoder with its largest element of queries, keys and values, where it has one. */
export function withClip(decoder: DecoderSpec, fields: Fields, key: string): DecoderSpec {
  const clip = fields.numberOrNull(key, LIMITS.softCap) ?? 0;
  return clip === 0 ? decoder : { ...decoder, attention: { ...decoder.attention, clip } };
}

const unweighted = (decoder: DecoderSpec): DecoderSpec => ({ ...decoder, norm: { ...decoder.norm, unweighted: true } });

/** OLMo 1: layer norms without weights, queries, keys and values that are clipped. */
export const olmo = gatedFamily({
  family: 'olmo',
  defaults: OLMO_DEFAULTS,
  style: { norm: { kind: 'layer', epsilon: 'layer_norm_eps' } },
  decoder: (decoder, config) => withClip(unweighted(decoder), config, 'clip_qkv'),
  names: (config) => ({ ...UNWEIGHTED, ...biases(config.boolean('attention_bias', false), 'q', 'k', 'v', 'o') }),
  gguf: {
    architecture: 'olmo',
    rotary: 'pairs',
    norm: 'layer',
    decoder: (decoder, { fields }) => withClip(unweighted(decoder), fields, 'attention.clamp_kqv'),
    names: () => UNWEIGHTED,
  },
});

/** nanochat: RMS norms without weights everywhere, also of embeddings and of heads; rotation the other way. */
export const nanochat = gatedFamily({
  family: 'nanochat',
  defaults: { ...OLMO_DEFAULTS, hidden: 768, feedForward: 8192, layers: 12, heads: 6, epsilon: 1e-6 },
  decoder(decoder, config) {
    const { position } = decoder;
    if (config.string('hidden_act', 'relu2') !== 'relu2') config.refuse('hidden_act', 'relu2');
    const cap = config.numberOrNull('final_logit_softcapping', LIMITS.softCap) ?? 0;
    return {
      ...unweighted(decoder),
      embedding: { ...decoder.embedding, norm: true },
      attention: { ...decoder.attention, qkNorm: 'unit' },
      feedForward: { kind: 'plain', activation: 'relu-squared' },
      ...(cap > 0 && { logitSoftCap: cap }),
      ...(position.kind === 'rotary' && {
        position: {
          ...position,
          tables: position.tables.map((table) => ({ ...table, frequencies: table.frequencies.map((f) => -f) })),
        },
      }),
    };
  },
  prepare: (config) => config.withDefaults({ hidden_act: 'relu2', final_logit_softcapping: 15 }),
  names: (config) => ({
    ...UNWEIGHTED,
    ...biases(config.boolean('attention_bias', false), 'q', 'k', 'v', 'o'),
    'gate.weight': undefined,
    'up.weight': 'mlp.fc1.weight',
    'down.weight': 'mlp.fc2.weight',
  }),
});
