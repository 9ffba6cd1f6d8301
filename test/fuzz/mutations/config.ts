import type { Json, JsonObject } from '../images/ModelImage.js';
import type { Random } from '../Random.js';
import { at, changedAt, mutatedTree } from './tree.js';
import { number, word } from './values.js';

const SIZES = [
  'num_hidden_layers',
  'hidden_size',
  'intermediate_size',
  'ffn_dim',
  'ffn_hidden_size',
  'num_attention_heads',
  'num_key_value_heads',
  'num_kv_heads',
  'head_dim',
  'vocab_size',
  'max_position_embeddings',
  'word_embed_proj_dim',
  'num_local_experts',
  'num_experts_per_tok',
  'num_experts',
  'n_routed_experts',
  'moe_num_experts',
  'moe_k',
  'moe_topk',
  'n_shared_experts',
  'num_shared_experts',
  'moe_num_shared_experts',
  'moe_intermediate_size',
  'shared_intermediate_size',
  'shared_expert_intermediate_size',
  'n_group',
  'topk_group',
  'global_head_dim',
  'num_global_key_value_heads',
  'num_kv_shared_layers',
  'hidden_size_per_layer_input',
  'vocab_size_per_layer_input',
  'top_k_experts',
  'kv_lora_rank',
  'q_lora_rank',
  'qk_rope_head_dim',
  'qk_nope_head_dim',
  'v_head_dim',
  'intermediate_size_mlp',
  'attention_chunk_size',
  'dim_model_base',
  'n_embd',
  'n_head',
  'n_layer',
  'n_positions',
  'n_inner',
  'num_dense_layers',
  'index_topk',
];
const NUMBERS = [
  'rms_norm_eps',
  'layer_norm_eps',
  'layer_norm_epsilon',
  'rope_theta',
  'rope_local_base_freq',
  'rotary_emb_base',
  'rotary_pct',
  'partial_rotary_factor',
  'sliding_window',
  'sliding_window_pattern',
  'max_window_layers',
  'query_pre_attn_scalar',
  'attn_logit_softcapping',
  'final_logit_softcapping',
  'original_max_position_embeddings',
  'norm_epsilon',
  'norm_eps',
  'embedding_multiplier',
  'attention_multiplier',
  'residual_multiplier',
  'logits_scaling',
  'logit_scale',
  'no_rope_layer_interval',
  'first_k_dense_replace',
  'routed_scaling_factor',
  'moe_layer_start_index',
  'moe_layer_end_index',
  'moe_layer_interval',
  'decoder_sparse_step',
  'rotary_dim',
  'floor_scale',
  'attn_scale',
  'interleave_moe_layer_step',
  'scale_emb',
  'scale_depth',
  'router_scaling_factor',
  'route_scale',
];
const FLAGS = [
  'tie_word_embeddings',
  'alibi',
  'bias',
  'attention_bias',
  'multi_query',
  'new_decoder_architecture',
  'parallel_attn',
  'use_parallel_residual',
  'use_sliding_window',
  'do_layer_norm_before',
  '_remove_final_layer_norm',
  'enable_bias',
  'layer_norm_elementwise_affine',
  'mlp_bias',
  'use_qk_norm',
  'qk_layernorm',
  'use_bias',
  'use_qkv_bias',
  'qkv_bias',
  'attention_out_bias',
  'norm_topk_prob',
  'attention_k_eq_v',
  'use_double_wide_mlp',
  'enable_moe_block',
  'rope_interleave',
  'attn_temperature_tuning',
  'mup_enabled',
  'scale_attn_weights',
  'use_post_norm',
];
const WORDS = [
  'model_type',
  'hidden_act',
  'activation',
  'activation_function',
  'hidden_activation',
  'rope_scaling',
  'layer_types',
  'torch_dtype',
  'quantization_config',
  'topk_method',
  'mlp_layer_types',
  'use_bidirectional_attention',
  'per_layer_config',
  'no_rope_layers',
  'moe_layers',
  'layer_rope_theta',
  'cross_attention_layers',
  'thinker_config',
  'llm_config',
];
export const MODEL_TYPES = [
  'opt',
  'llama',
  'mistral',
  'qwen2',
  'qwen3',
  'qwen3_moe',
  'gemma2',
  'gemma3_text',
  'gemma3',
  'gpt_neox',
  'falcon',
  'phi3',
  'mixtral',
  'smollm3',
  'granite',
  'granitemoe',
  'granitemoehybrid',
  'olmo2',
  'olmo3',
  'glm4',
  'glm4_moe',
  'exaone4',
  'cohere2',
  'stablelm',
  'nemotron',
  'hunyuan_v1_dense',
  'qwen2_moe',
  'minimax_m2',
  'internlm2',
  'gemma4_text',
  'llama4_text',
  'ministral3',
  'deepseek_v2',
  'deepseek_v3',
  'glm4_moe_lite',
  'minicpm3',
  'youtu',
  'mistral4',
  'gpt2',
  '',
];

/**
 * config.json: sizes that may still fit the weights, numbers at their bounds, rotary settings of every kind, any place.
 */
export function mutatedConfig(random: Random, config: Json): Json {
  const put = (key: string, value: Json): Json => changedAt(config, [key], () => value);
  return random.weighted<() => Json>([
    [
      3,
      () =>
        put(
          'max_position_embeddings',
          random.pick([1, 2, 3, 8, 16, 17, 100, 4096, 2 ** 20, 2 ** 26, 2 ** 27, number(random)]),
        ),
    ],
    [5, () => put(random.pick(['rope_scaling', 'rope_parameters']), rotary(random, headDim(config)))],
    [
      4,
      () =>
        put(
          random.pick(NUMBERS),
          random.chance(0.6) ? random.pick([1, 2, 0.5, 0.25, 10, 100, 1e4, 1e6, 1e-5, null]) : number(random),
        ),
    ],
    [2, () => put(random.pick(FLAGS), random.pick<Json>([true, false, null]))],
    [
      2,
      () =>
        put(
          random.pick(['hidden_act', 'activation', 'activation_function', 'hidden_activation']),
          random.pick(['silu', 'gelu', 'gelu_new', 'gelu_pytorch_tanh', 'relu', 'gelu_fast', 'swish', word(random)]),
        ),
    ],
    [2, () => put(random.pick(SIZES), random.chance(0.5) ? random.below(300) : number(random))],
    [1, () => put('model_type', random.pick(MODEL_TYPES))],
    [
      1,
      () =>
        put(
          'layer_types',
          random.list(0, 5, () =>
            random.pick(['full_attention', 'sliding_attention', 'chunked_attention', 'linear_attention', word(random)]),
          ),
        ),
    ],
    [1, () => put('text_config', mutatedTree(random, config))],
    [1, () => put(random.pick([...SIZES, ...NUMBERS, ...FLAGS, ...WORDS]), mutatedTree(random, { a: [0] }))],
    [3, () => mutatedTree(random, config)],
  ])();
}

/** As long as lists of factors would have to be; what was changed before may say anything. */
function headDim(config: Json): number {
  const [stated, hidden, heads] = ['head_dim', 'hidden_size', 'num_attention_heads'].map((key) => at(config, [key]));
  const dims =
    typeof stated === 'number' ? stated : typeof hidden === 'number' && typeof heads === 'number' ? hidden / heads : 16;
  return dims >= 0 && dims <= 4096 ? dims : 16;
}

function rotary(random: Random, dims: number): JsonObject {
  const type = random.pick(['default', 'linear', 'dynamic', 'yarn', 'longrope', 'llama3', 'su', 'mrope', word(random)]);
  const factor = (): Json => (random.chance(0.8) ? random.pick([1, 2, 4, 8, 0.5, 40]) : number(random));
  const factors = (): Json =>
    random.list(random.chance(0.8) ? Math.floor(dims / 2) : 0, Math.floor(dims / 2), () =>
      random.chance(0.95) ? 1 + random.below(8) : number(random),
    );
  const all: JsonObject = {
    [random.chance(0.8) ? 'rope_type' : 'type']: type,
    factor: factor(),
    rope_theta: random.pick([1e4, 5e5, 1, number(random)]),
    original_max_position_embeddings: random.pick([16, 64, 128, 8192, number(random)]),
    low_freq_factor: factor(),
    high_freq_factor: factor(),
    beta_fast: factor(),
    beta_slow: factor(),
    mscale: factor(),
    mscale_all_dim: factor(),
    attention_factor: factor(),
    truncate: random.chance(0.5),
    short_factor: factors(),
    long_factor: factors(),
    partial_rotary_factor: random.pick([1, 0.5, 0.25, 0]),
  };
  // Some members are left out, most often those that matter little.
  return Object.fromEntries(Object.entries(all).filter(() => random.chance(0.85)));
}
