import type { GgufInput, GgufTensorInput, GgufValue } from './GgufWriter.js';
import { array, float32, scalar, string, uint32 } from './GgufWriter.js';
import type { SafetensorsTensorInput } from './SafetensorsWriter.js';

/**
 * A LLaMA of one layer, hidden size 32, two heads of 16, one KV head and eight tokens: the smallest model with all of
 * the parts.
 */
const TOKENS = ['<unk>', '<s>', '</s>', 'a', 'b', 'ab', 'Ġ', 'é'];

const METADATA: readonly (readonly [string, GgufValue])[] = [
  ['general.architecture', string('llama')],
  ['general.name', string('tiny')],
  ['llama.block_count', uint32(1)],
  ['llama.context_length', uint32(32)],
  ['llama.embedding_length', uint32(32)],
  ['llama.feed_forward_length', uint32(64)],
  ['llama.attention.head_count', uint32(2)],
  ['llama.attention.head_count_kv', uint32(1)],
  ['llama.attention.layer_norm_rms_epsilon', float32(1e-5)],
  ['llama.rope.dimension_count', uint32(16)],
  ['llama.rope.freq_base', float32(10_000)],
  ['llama.vocab_size', uint32(TOKENS.length)],
  ['tokenizer.ggml.model', string('gpt2')],
  ['tokenizer.ggml.pre', string('smollm')],
  ['tokenizer.ggml.tokens', array('string', TOKENS)],
  ['tokenizer.ggml.token_type', array('int32', [3, 3, 3, 1, 1, 1, 1, 1])],
  ['tokenizer.ggml.merges', array('string', ['a b'])],
  ['tokenizer.ggml.eos_token_id', uint32(2)],
  ['tokenizer.ggml.add_bos_token', scalar('bool', false)],
  ['test.flags', array('bool', [true, false])],
  ['test.numbers', array('uint64', [1n, 2n ** 60n])],
  ['test.nested', { type: 'arrays', values: [array('uint8', [1, 2]), array('string', ['x'])] }],
];

/** Types of several kinds, so that a mutation meets them all; norms are F32 as llama.cpp writes them. */
const GGUF_TENSORS: readonly GgufTensorInput[] = [
  { name: 'token_embd.weight', type: 'Q8_0', shape: [TOKENS.length, 32] },
  { name: 'blk.0.attn_norm.weight', type: 'F32', shape: [32] },
  { name: 'blk.0.attn_q.weight', type: 'Q4_0', shape: [32, 32] },
  { name: 'blk.0.attn_k.weight', type: 'Q4_1', shape: [16, 32] },
  { name: 'blk.0.attn_v.weight', type: 'Q5_0', shape: [16, 32] },
  { name: 'blk.0.attn_output.weight', type: 'Q5_1', shape: [32, 32] },
  { name: 'blk.0.ffn_norm.weight', type: 'F32', shape: [32] },
  { name: 'blk.0.ffn_gate.weight', type: 'F16', shape: [64, 32] },
  { name: 'blk.0.ffn_up.weight', type: 'BF16', shape: [64, 32] },
  { name: 'blk.0.ffn_down.weight', type: 'Q8_0', shape: [32, 64] },
  { name: 'output_norm.weight', type: 'F32', shape: [32] },
];

export const TINY_LLAMA_GGUF: GgufInput = { metadata: METADATA, tensors: GGUF_TENSORS };

/** The same model split into `count` files, as llama.cpp splits: the metadata stands in the first. */
export function tinyLlamaSplit(count: number): GgufInput[] {
  const perFile = Math.ceil(GGUF_TENSORS.length / count);
  return Array.from({ length: count }, (_, index) => ({
    metadata: [
      ...(index === 0 ? METADATA : []),
      ['split.no', scalar('uint16', index)],
      ['split.count', scalar('uint16', count)],
      ['split.tensors.count', scalar('int32', GGUF_TENSORS.length)],
    ],
    tensors: GGUF_TENSORS.slice(index * perFile, (index + 1) * perFile),
  }));
}

export const TINY_LLAMA_CONFIG = {
  architectures: ['LlamaForCausalLM'],
  model_type: 'llama',
  hidden_size: 32,
  intermediate_size: 64,
  num_hidden_layers: 1,
  num_attention_heads: 2,
  num_key_value_heads: 1,
  head_dim: 16,
  vocab_size: 8,
  max_position_embeddings: 32,
  rms_norm_eps: 1e-5,
  rope_theta: 10_000,
  rope_scaling: null,
  hidden_act: 'silu',
  tie_word_embeddings: true,
  attention_bias: false,
  mlp_bias: false,
  torch_dtype: 'float32',
  bos_token_id: 1,
  eos_token_id: 2,
} as const;

const LAYER = 'model.layers.0';
export const TINY_LLAMA_SAFETENSORS: readonly SafetensorsTensorInput[] = [
  { name: 'model.embed_tokens.weight', dtype: 'F32', shape: [8, 32] },
  { name: `${LAYER}.input_layernorm.weight`, dtype: 'F32', shape: [32] },
  { name: `${LAYER}.self_attn.q_proj.weight`, dtype: 'F16', shape: [32, 32] },
  { name: `${LAYER}.self_attn.k_proj.weight`, dtype: 'BF16', shape: [16, 32] },
  { name: `${LAYER}.self_attn.v_proj.weight`, dtype: 'BF16', shape: [16, 32] },
  { name: `${LAYER}.self_attn.o_proj.weight`, dtype: 'F32', shape: [32, 32] },
  { name: `${LAYER}.post_attention_layernorm.weight`, dtype: 'F32', shape: [32] },
  { name: `${LAYER}.mlp.gate_proj.weight`, dtype: 'F16', shape: [64, 32] },
  { name: `${LAYER}.mlp.up_proj.weight`, dtype: 'F16', shape: [64, 32] },
  { name: `${LAYER}.mlp.down_proj.weight`, dtype: 'F16', shape: [32, 64] },
  { name: 'model.norm.weight', dtype: 'F32', shape: [32] },
];
