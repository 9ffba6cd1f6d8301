import type { LayerSpec } from '../../DecoderSpec.js';
import type { Description, Family } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { plainDecoder } from '../plainDecoder.js';
import { activation, dividedHeadDim } from '../specs.js';
import { head, weights } from '../weights.js';
import { GPT2_BLOCK, GPT2_GLOBALS, GPT2_NORMS } from './gpt2.js';

const LAYER = '{base}h.{layer}.';

/** GPT-Neo: GPT-2 with scores that are not scaled, and a window in every other layer. */
export const gptNeo: Family = {
  modelTypes: ['gpt_neo'],
  fromConfig(config: Fields): Description {
    const hiddenSize = config.integer('hidden_size', LIMITS.hidden, 2048);
    const heads = config.integer('num_heads', LIMITS.heads, 16);
    const plain = plainDecoder({
      family: 'gpt_neo',
      parallel: false,
      position: { kind: 'learned', offset: 0 },
      hiddenSize,
      heads,
      kvHeads: heads,
      headDim: dividedHeadDim(config, hiddenSize, heads, 'num_heads'),
      layers: config.integer('num_layers', LIMITS.layers, 24),
      vocabularySize: config.integer('vocab_size', LIMITS.vocabulary, 50257),
      contextTokens: config.integer('max_position_embeddings', LIMITS.context, 2048),
      feedForwardSize: config.integerOrNull('intermediate_size', LIMITS.feedForward, null) ?? 4 * hiddenSize,
      epsilon: config.number('layer_norm_epsilon', LIMITS.epsilon, 1e-5),
      activation: activation(config, 'activation_function', 'gelu_new'),
    });
    return {
      decoder: {
        ...plain,
        attention: { ...plain.attention, scale: 1 },
        layerSpecs: layersOf(config, plain.layers),
      },
      bases: ['transformer.', ''],
      weights: [
        ...GPT2_GLOBALS,
        head('lm_head.weight', config.boolean('tie_word_embeddings', true)),
        ...weights(LAYER, {
          ...GPT2_NORMS,
          ...GPT2_BLOCK,
          'q.weight': 'attn.attention.q_proj.weight',
          'k.weight': 'attn.attention.k_proj.weight',
          'v.weight': 'attn.attention.v_proj.weight',
          'o.weight': 'attn.attention.out_proj.weight',
          'o.bias': 'attn.attention.out_proj.bias',
        }),
      ],
    };
  },
};

/** `attention_layers` names each layer's kind; it follows from `attention_types`, [[[kind, …], repeats], …]. */
function layersOf(config: Fields, layers: number): LayerSpec[] {
  const window = config.integer('window_size', LIMITS.window, 256);
  const named = config.raw('attention_layers') ?? expanded(config.raw('attention_types'), layers);
  if (!Array.isArray(named) || named.length !== layers)
    return config.refuse('attention_layers', `global or local for each of ${layers} layers`);
  return named.map((kind: unknown, layer) => {
    if (kind !== 'global' && kind !== 'local')
      return config.refuse(`attention_layers[${layer}]`, 'global or local', kind);
    return { window: kind === 'local' ? window : 0, rotaryTable: 0 };
  });
}

function expanded(types: unknown, layers: number): unknown[] {
  if (types === undefined || types === null)
    return Array.from({ length: layers }, (_, layer) => (layer % 2 === 0 ? 'global' : 'local'));
  if (!Array.isArray(types) || types.length > layers) return [];
  return types.flatMap((entry: unknown) => {
    const [kinds, repeats] = Array.isArray(entry) ? (entry as unknown[]) : [];
    const count = Number(repeats);
    if (!Array.isArray(kinds) || !(count >= 1 && kinds.length * count <= layers)) return [undefined];
    return Array.from({ length: count }, () => kinds as unknown[]).flat();
  });
}
