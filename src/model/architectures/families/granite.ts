import type { DecoderSpec } from '../../DecoderSpec.js';
import type { GgufModel } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { biases, blockBiases, gatedFamily } from '../gatedFamily.js';
import { LLAMA_DEFAULTS } from './llama.js';

const MULTIPLIER = { min: 1e-6, max: 1e6 };

/** Granite: LLaMA with factors on embeddings, scores, branches and logits. */
export const granite = gatedFamily({
  family: 'granite',
  defaults: LLAMA_DEFAULTS,
  decoder: withMultipliers,
  names: (config) => ({
    ...biases(config.boolean('attention_bias', false), 'q', 'k', 'v', 'o'),
    ...blockBiases(config.boolean('mlp_bias', false), 'gate', 'up', 'down'),
  }),
  gguf: { architecture: 'granite', rotary: 'pairs', decoder: withGgufMultipliers },
});

export function withMultipliers(decoder: DecoderSpec, config: Fields): DecoderSpec {
  const of = (name: string): number => config.number(name, MULTIPLIER, 1);
  return multiplied(
    decoder,
    of('embedding_multiplier'),
    of('attention_multiplier'),
    of('residual_multiplier'),
    of('logits_scaling'),
  );
}

/** llama.cpp's format; 0, or nothing, means none. */
export function withGgufMultipliers(decoder: DecoderSpec, { fields }: GgufModel): DecoderSpec {
  const of = (name: string, otherwise = 1): number =>
    fields.number(name, { min: 0, max: LIMITS.factor.max }, 0) || otherwise;
  return multiplied(
    decoder,
    of('embedding_scale'),
    of('attention.scale', decoder.attention.scale),
    of('residual_scale'),
    of('logit_scale'),
  );
}

function multiplied(
  decoder: DecoderSpec,
  embedding: number,
  attention: number,
  residual: number,
  logits: number,
): DecoderSpec {
  return {
    ...decoder,
    embedding: { ...decoder.embedding, scale: embedding },
    attention: { ...decoder.attention, scale: attention },
    residualScale: residual,
    logitScale: 1 / logits,
  };
}
