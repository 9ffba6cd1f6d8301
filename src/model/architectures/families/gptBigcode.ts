import type { Description, Family } from '../Family.js';
import type { Fields } from '../Fields.js';
import { fusedQueryKeyValue, head, weights } from '../weights.js';
import { GPT2_BLOCK, GPT2_GLOBALS, GPT2_NORMS, GPT2_OUTPUT, gpt2Decoder, ggufGpt2 } from './gpt2.js';

const FAMILY = 'gpt_bigcode';
const LAYER = '{base}h.{layer}.';

/** GPT-BigCode (StarCoder 1, SantaCoder): GPT-2 with one head of keys and values. */
export const gptBigcode: Family = {
  modelTypes: [FAMILY],
  fromConfig(config: Fields): Description {
    const oneHead = config.boolean('multi_query', true);
    const decoder = gpt2Decoder(config, { family: FAMILY, oneHead, usual: 'gelu_pytorch_tanh' });
    return {
      decoder,
      bases: ['transformer.', ''],
      weights: [
        ...GPT2_GLOBALS,
        head('lm_head.weight', config.boolean('tie_word_embeddings', true)),
        ...fusedQueryKeyValue(`${LAYER}attn.c_attn`, decoder, decoder.kvHeads, ['weight', 'bias']),
        ...weights(LAYER, { ...GPT2_NORMS, ...GPT2_OUTPUT, ...GPT2_BLOCK }),
      ],
    };
  },
  gguf: { architecture: 'starcoder', describe: (model) => ggufGpt2(FAMILY, model) },
};
