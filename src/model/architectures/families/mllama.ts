import type { Description, Family } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { inside } from '../textParts.js';
import { llama } from './llama.js';

/** Rows of the embedding for pictures, after those of the vocabulary. */
const PICTURE_ROWS = 8;
const CROSS_LAYERS = [3, 8, 13, 18, 23, 28, 33, 38];
/** Sizes that its class has where the configuration says nothing. */
const UNSAID = {
  num_key_value_heads: 8,
  vocab_size: 128256,
  intermediate_size: 14336,
  max_position_embeddings: 131072,
  rms_norm_eps: 1e-5,
  rope_theta: 500000,
};

/** LLaMA 3.2 with pictures: text goes by the layers that look at these. */
export const mllama: Family = {
  modelTypes: ['mllama', 'mllama_text_model'],
  fromConfig(outer: Fields, tensors): Description {
    const config = outer.child('text_config') ?? outer;
    const layers = config.integer('num_hidden_layers', LIMITS.layers, 40);
    const crossing = new Set(crossLayers(config, layers));
    const layerNumbers = Array.from({ length: layers }, (_, layer) => layer).filter((layer) => !crossing.has(layer));
    if (layerNumbers.length === 0) config.refuse('cross_attention_layers', 'some other layers beside them');
    const { decoder, weights, ...rest } = llama.fromConfig(
      config.withDefaults(UNSAID).with({ num_hidden_layers: layerNumbers.length }),
    );
    const description = {
      ...rest,
      decoder: { ...decoder, family: 'mllama' },
      layerNumbers,
      weights: weights.map((source) =>
        source.role === 'token_embedding'
          ? { ...source, part: { groups: 1, sizes: [decoder.vocabularySize, PICTURE_ROWS], index: 0 } }
          : source,
      ),
    };
    return inside(description, tensors);
  },
};

function crossLayers(config: Fields, layers: number): readonly number[] {
  const given = config.raw('cross_attention_layers') ?? CROSS_LAYERS;
  return Array.isArray(given) && given.every((layer) => Number.isInteger(layer) && layer >= 0 && layer < layers)
    ? (given as number[])
    : config.refuse('cross_attention_layers', `a list of some of the ${layers} layers`);
}
