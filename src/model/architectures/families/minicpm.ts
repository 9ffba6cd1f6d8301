import type { DecoderSpec } from '../../DecoderSpec.js';
import { LIMITS } from '../Fields.js';
import { biases, gatedFamily } from '../gatedFamily.js';
import { requireFalse } from '../specs.js';
import { LLAMA_DEFAULTS } from './llama.js';

const FACTOR = { min: 1e-6, max: 1e6 };

/** `model`: the width of the model whose settings this one's were carried over from. */
function scaled(decoder: DecoderSpec, embedding: number, residual: number, model: number): DecoderSpec {
  return {
    ...decoder,
    embedding: { ...decoder.embedding, scale: embedding },
    residualScale: residual,
    logitScale: model / decoder.hiddenSize,
  };
}

/** MiniCPM 1, 2 and 4: LLaMA with factors on embeddings, branches and logits. */
export const minicpm = gatedFamily({
  family: 'minicpm',
  defaults: LLAMA_DEFAULTS,
  tied: true,
  decoder(decoder, config) {
    requireFalse(config, 'mlp_bias');
    if (config.integerOrNull('num_experts', { min: 0, max: LIMITS.experts.max }, 0))
      config.refuse('num_experts', 'none');
    const factor = (key: string): number => config.number(key, FACTOR, 1);
    // Longer rows see keys that are chosen by blocks (InfLLM 2).
    const whole = config.child('sparse_config')?.integer('dense_len', LIMITS.context, 8192) ?? decoder.contextTokens;
    return {
      ...scaled(
        decoder,
        factor('scale_emb'),
        factor('scale_depth') / Math.sqrt(decoder.layers),
        factor('dim_model_base'),
      ),
      contextTokens: Math.min(decoder.contextTokens, whole),
    };
  },
  names: (config) => biases(config.boolean('attention_bias', false), 'q', 'k', 'v', 'o'),
  gguf: {
    architecture: 'minicpm',
    rotary: 'pairs',
    decoder(decoder, { fields }) {
      // Files that say nothing of them are MiniCPM 1's.
      const logits = fields.number('logit_scale', FACTOR, decoder.hiddenSize / 256);
      return scaled(
        decoder,
        fields.number('embedding_scale', FACTOR, 12),
        fields.number('residual_scale', FACTOR, 1.4 / Math.sqrt(decoder.layers)),
        decoder.hiddenSize / logits,
      );
    },
  },
});
