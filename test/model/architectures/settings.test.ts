import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from '@jest/globals';
import { isObject } from '../../../src/arguments/isObject.js';
import { describeDecoder } from '../../../src/model/architectures/index.js';

const FIXTURES = fileURLToPath(new URL('../../fixtures', import.meta.url));

/** Settings of transformers' classes that change no answer, by the last part of their names. */
const HARMLESS = [
  // What files and tokens are.
  /_token_(id|index)$/,
  /^(architectures|model_type|dtype|torch_dtype|transformers_version|_name_or_path|id2label|label2id|problem_type)$/,
  /^(tie_word_embeddings|tie_encoder_decoder|is_encoder_decoder|is_decoder|return_dict|output_\w+|use_cache)$/,
  // Training.
  /dropout|pdrop|initializer|jitter|aux_loss|loss_(weight|coefficient)|layerdrop|altup_coef_clip/,
  /^(init_std|init_device|pretraining_tp|embedding_fraction|rescale_prenorm_residual|sparse_pred\w*)$/,
  /^(time_step_(floor|max|scale|init_scheme)|sparse_prediction|linear_(dt|a_log)_\w+|mtp_loss_scaling_factor)$/,
  // How transformers computes.
  /^(use_(mambapy|associative_scan|mamba_kernels)|mamba_chunk_size|chunk_size\w*|num_logits_to_keep|attn_impl)$/,
  /^(residual_in_fp32|mamba_ssm_cache_dtype|enable_moe_fp32_combine|reorder_and_upcast_attn|slow_but_exact)$/,
  /softmax_in_fp32|^(deterministic_flash_attn|moe_shared_expert_overlap|attn_uses_sequence_id|legacy)$/,
  // Layers that guess further tokens, indexers that see rows whole, heads for other tasks, pictures.
  /^(num_nextn_predict_layers|num_mtp_layers|mtp_\w+|index(er)?_\w+|summary_\w+|add_cross_attention|decoder_bias)$/,
  /^(vision_config|audio_config|mrope_section|mrope_interleaved|vision_feature_\w+|image_\w+|projector_\w+)$/,
  /^(multimodal_projector_bias|spatial_merge_size|merged_hidden_size|downsample_ratio|scale_factor|seconds_per_chunk)$/,
  /^(position_id_per_seconds|quantization_config|\w+_config|bo[ai]_token_\w+|pad_\w+)$/,
];
/** Settings that follow from others, or that a family's class does not read, by family. */
const DERIVED: Readonly<Record<string, readonly string[]>> = {
  '*': ['qk_head_dim', 'topk_group', 'num_key_value_heads', 'rope_theta', 'rope_parameters', 'rope_parameters.factor'],
  axk1: ['head_dim'],
  bailing_moe: ['moe_norm_min'],
  biogpt: ['layer_norm_eps'],
  codegen: ['n_ctx'],
  dbrx: ['ffn_config.hidden_size'],
  deepseek_v2: ['head_dim'],
  deepseek_v3: ['head_dim'],
  deepseek_v32: ['head_dim', 'layer_types', 'mlp_bias'],
  gemma3_text: ['_sliding_window_pattern'],
  distilbert: ['sinusoidal_pos_embds'],
  glm_moe_dsa: ['head_dim', 'layer_types', 'mlp_bias'],
  gpt_neo: ['attention_types'],
  kimi_linear: ['head_dim'],
  longcat_flash: ['head_dim'],
  mamba2: ['time_step_min', 'time_step_rank'],
  falcon_mamba: ['expand', 'time_step_min'],
  mamba: ['expand', 'time_step_min'],
  minicpm3: ['head_dim'],
  mistral3: ['text_config.head_dim', 'text_config.qk_head_dim', 'text_config.rope_parameters.partial_rotary_factor'],
  mpt: ['attn_config.attn_type', 'expansion_ratio', 'learned_pos_emb'],
  // transformers' chunks clamp steps at `time_step_min`, where training starts; published models bound them by
  // `time_step_limit` alone.
  nemotron_h: ['expand', 'mamba_proj_bias', 'n_shared_experts', 'sliding_window', 'time_step_min'],
  nomic_bert: ['head_dim'],
  sarvam_mla: ['head_dim'],
  smollm3: ['no_rope_layer_interval'],
  youtu: ['head_dim'],
};

type Json = Readonly<Record<string, unknown>>;

/** The same object, which notes the members that are asked for. */
function watched(object: Json, read: Set<string>, where = ''): Json {
  return new Proxy(object, {
    getOwnPropertyDescriptor(target, key) {
      read.add(where + String(key));
      return Reflect.getOwnPropertyDescriptor(target, key);
    },
    get(target, key) {
      if (typeof key !== 'string') return undefined;
      read.add(where + key);
      const value = target[key];
      return isObject(value) && !Array.isArray(value) ? watched(value, read, `${where}${key}.`) : value;
    },
  });
}

function unread(object: Json, read: ReadonlySet<string>, where = ''): string[] {
  return Object.entries(object).flatMap(([key, value]) => {
    const name = where + key;
    if (HARMLESS.some((each) => each.test(key))) return [];
    if (!read.has(name)) return [name];
    return isObject(value) && !Array.isArray(value) ? unread(value, read, `${name}.`) : [];
  });
}

describe('settings that nobody reads', () => {
  test('are none that change answers: each of a class is read for some tiny model, or listed here', () => {
    const left = new Map<string, Set<string>>();
    for (const folder of ['models', 'encoders'])
      for (const name of readdirSync(`${FIXTURES}/${folder}`)) {
        const path = `${FIXTURES}/${folder}/${name}/config.json`;
        if (!existsSync(path)) continue;
        const config = JSON.parse(readFileSync(path, 'utf8')) as Json;
        const read = new Set<string>();
        describeDecoder(watched(config, read), path);
        const type = String(config.model_type);
        const others = unread(config, read).filter(
          (key) => ![...(DERIVED[type] ?? []), ...(DERIVED['*'] ?? [])].includes(key),
        );
        const before = left.get(type);
        left.set(type, new Set(others.filter((key) => before === undefined || before.has(key))));
      }
    const found = [...left].flatMap(([type, keys]) => [...keys].map((key) => `${type}: ${key}`));
    expect(left.size).toBeGreaterThan(100);
    expect(found).toEqual([]);
  });

  test.each<[string, Json, string]>([
    ['bailing_moe', { head_dim: 128, rotary_dim: 64 }, 'rotary_dim: found 64, expected the 128 elements'],
    ['bailing_moe', { use_qkv_bias: true }, 'use_qkv_bias: found true, expected false'],
    ['minimax_m3_vl_text', { use_gemma_norm: false }, 'use_gemma_norm: found false, expected true'],
    ['minimax_m3_vl_text', { use_qk_norm: false }, 'use_qk_norm: found false, expected true'],
    ['exaone', { mlp_bias: true }, 'mlp_bias: found true, expected false'],
    ['exaone', { attention_bias: true }, 'attention_bias: found true, expected false'],
    ['hy_v3', { mlp_bias: true }, 'mlp_bias: found true, expected false'],
    ['minicpm', { mlp_bias: true }, 'mlp_bias: found true, expected false'],
    ['ernie4_5_moe', { moe_norm_min: 0.5 }, 'moe_norm_min: found 0.5'],
    ['mpt', { logit_scale: 2 }, 'logit_scale: found 2, expected null'],
    ['mpt', { norm_type: 'rmsnorm' }, 'norm_type: found "rmsnorm", expected layer norms'],
    ['deepseek_v2', { norm_topk_prob: true }, 'norm_topk_prob: found true, expected false'],
    ['qwen3_next', { hidden_act: 'gelu' }, 'hidden_act: found "gelu", expected silu'],
    ['kimi_linear', { hidden_act: 'gelu' }, 'hidden_act: found "gelu", expected silu'],
    ['bailing_hybrid', { hidden_act: 'gelu' }, 'hidden_act: found "gelu", expected silu'],
    ['olmo_hybrid', { hidden_act: 'relu' }, 'hidden_act: found "relu", expected silu'],
    ['jamba', { hidden_act: 'gelu' }, 'hidden_act: found "gelu", expected silu'],
    ['bamba', { hidden_act: 'gelu' }, 'hidden_act: found "gelu", expected silu'],
    ['falcon_h1', { hidden_act: 'gelu' }, 'hidden_act: found "gelu", expected silu'],
    [
      'nemotron_h',
      { layers_block_type: ['mamba'], mamba_hidden_act: 'gelu' },
      'mamba_hidden_act: found "gelu", expected silu',
    ],
  ])('of %s, %p is refused', (model_type, settings, message) => {
    expect(() => describeDecoder({ model_type, ...settings }, 'config.json')).toThrow(message);
  });

  test('are none of these: they change what is computed', () => {
    const decoder = (config: Json) => describeDecoder(config, 'config.json');
    const falcon = { model_type: 'falcon_mamba', hidden_size: 64, expand: 16, intermediate_size: 128 };
    expect(decoder(falcon).recurrent?.scan?.channels).toBe(128);
    expect(decoder({ model_type: 'falcon_mamba', hidden_size: 64, expand: 3 }).recurrent?.scan?.channels).toBe(192);
    const phi = { model_type: 'phimoe', max_position_embeddings: 4096, sliding_window: 128 };
    expect(decoder(phi).layerSpecs[0]?.window).toBe(128);
    expect(decoder({ ...phi, sliding_window: 4096 }).layerSpecs[0]?.window).toBe(0);
    const ling = { model_type: 'bailing_moe', head_dim: 128, rotary_dim: 64, partial_rotary_factor: 0.5 };
    expect(decoder(ling).position).toMatchObject({ dims: 64 });
  });

  test('of time steps are their limits alone for Nemotron-H, and not where training starts', () => {
    const steps = (settings: Json) => {
      const config = { model_type: 'nemotron_h', layers_block_type: ['mamba'], time_step_min: 0.02, ...settings };
      const { leastTimeStep = 0, mostTimeStep } = describeDecoder(config, 'config.json').recurrent?.stateSpace ?? {};
      return [leastTimeStep, mostTimeStep];
    };
    expect(steps({})).toEqual([0, undefined]);
    expect(steps({ time_step_limit: [0, { __float__: 'Infinity' }] })).toEqual([0, undefined]);
    expect(steps({ time_step_limit: [0.01, 2] })).toEqual([0.01, 2]);
    expect(steps({ time_step_limit: [0.01, 2], mamba_dt_limit: [0, 3] })).toEqual([0, 3]);
    expect(() => steps({ mamba_dt_limit: [3, 0] })).toThrow('mamba_dt_limit');
  });
});
