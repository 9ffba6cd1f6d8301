import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from '@jest/globals';
import { isObject } from '../../../src/arguments/isObject.js';
import { describeDecoder } from '../../../src/model/architectures/index.js';
import { PUBLISHED } from '../../support/model/publishedConfigs.js';

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
  minimax: ['block_size'],
  minimax_text_01: ['shared_moe_mode'],
  mistral4: ['head_dim', 'rope_parameters.partial_rotary_factor'],
  mistral3: ['text_config.head_dim', 'text_config.qk_head_dim', 'text_config.rope_parameters.partial_rotary_factor'],
  mpt: ['attn_config.attn_type', 'expansion_ratio', 'learned_pos_emb'],
  // transformers' chunks clamp steps at `time_step_min`, where training starts; published models bound them by
  // `time_step_limit` alone.
  nemotron_h: ['expand', 'mamba_proj_bias', 'n_shared_experts', 'sliding_window', 'time_step_min'],
  nomic_bert: ['head_dim'],
  sarvam_mla: ['head_dim'],
  recurrent_gemma: ['w_init_variance_scale', 'final_w_init_variance_scale'],
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
    [
      'bailing_moe',
      { head_dim: 128, rotary_dim: 64, partial_rotary_factor: 1 },
      'rotary_dim: found 64, expected the 128 elements',
    ],
    ['bailing_moe', { head_dim: 128, rotary_dim: 256 }, 'rotary_dim: found 256, expected an integer from 2 to 128'],
    ['bailing_moe', { head_dim: 128, rotary_dim: 63 }, 'rotary_dim: found 63, expected an even number'],
    [
      'laguna',
      { rope_parameters: { rope_theta: 1e6 } },
      'rope_parameters.rope_theta: found 1000000, expected settings',
    ],
    [
      'mellum',
      { rope_parameters: { rope_theta: 1e6 } },
      'rope_parameters.rope_theta: found 1000000, expected settings',
    ],
    ['mimo_v2_flash', { rope_parameters: { type: 'default' } }, 'rope_parameters.type: found "default"'],
    ['olmo3', { rope_parameters: { rope_type: 'default' } }, 'rope_parameters.rope_type: found "default"'],
    [
      'mellum',
      { rope_parameters: { full_attention: {}, sliding_attention: { partial_rotary_factor: 0.5 } } },
      'rope_parameters.sliding_attention.partial_rotary_factor: found 0.5, expected none, or 1',
    ],
    [
      'olmo3',
      { rope_parameters: { full_attention: { partial_rotary_factor: 0.5 } } },
      'rope_parameters.full_attention.partial_rotary_factor: found 0.5, expected none, or 1',
    ],
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
    ['minimax', { hidden_act: 'gelu' }, 'hidden_act: found "gelu", expected silu'],
    ['minimax', { layer_types: ['linear_attention'] }, 'layer_types: found'],
    ['minimax_text_01', {}, 'postnorm: found nothing, expected true'],
    ['minimax_text_01', { postnorm: true }, 'attn_type_list: found nothing, expected a list of 0'],
    ['minimax_text_01', { postnorm: true, attn_type_list: [2] }, 'attn_type_list: found'],
    ['minimax_m1', { postnorm: true, shared_intermediate_size: 8 }, 'shared_intermediate_size: found 8, expected 0'],
    ['recurrent_gemma', { lru_width: 2561 }, 'lru_width: found 2561, expected a multiple of the 10 heads'],
    ['recurrent_gemma', { lru_width: -2560 }, 'lru_width: found -2560, expected an integer from 1'],
    ['recurrent_gemma', { lru_width: 2 ** 40 }, 'lru_width: found 1099511627776, expected an integer from 1'],
    ['recurrent_gemma', { head_dim: 128 }, 'head_dim: found 128, expected that of 10 heads of 2560 elements together'],
    ['recurrent_gemma', { attention_window_size: 0 }, 'attention_window_size: found 0'],
    ['recurrent_gemma', { conv1d_width: 65 }, 'conv1d_width: found 65, expected an integer from 1 to 64'],
    ['recurrent_gemma', { intermediate_size: 1 }, 'intermediate_size: found 1, expected an integer from 2'],
    ['recurrent_gemma', { logits_soft_cap: 0 }, 'logits_soft_cap: found 0'],
    ['recurrent_gemma', { logits_soft_cap: NaN }, 'logits_soft_cap: found'],
    ['recurrent_gemma', { block_types: [] }, 'block_types: found'],
    ['recurrent_gemma', { block_types: ['mamba'] }, 'block_types[0]: found "mamba", expected recurrent or attention'],
    ['recurrent_gemma', { partial_rotary_factor: 0.25 }, 'partial_rotary_factor: found 0.25, expected 0.5'],
    [
      'recurrent_gemma',
      { rope_parameters: { rope_type: 'linear', factor: 2 } },
      'rope_parameters.rope_type: found "li',
    ],
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
    // A head's elements times a share of them may come to less than was meant, which is rounded down.
    for (let head = 2; head <= 512; head++)
      for (let dims = 2; dims <= head; dims += 2)
        if (head % 37 === 0 || dims === head - (head % 2))
          expect(decoder({ model_type: 'bailing_moe', head_dim: head, rotary_dim: dims }).position).toMatchObject({
            dims,
          });
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

describe('models as they are published', () => {
  /** What layers see, and how each kind of them rotates: the elements, and the base by the second frequency. */
  const positions = (config: Json) => {
    const { layerSpecs, position } = describeDecoder(config, 'config.json');
    const windows = [...new Set(layerSpecs.map(({ window }) => window))];
    if (position.kind !== 'rotary') return { windows, kind: position.kind };
    const rotated = position.tables.map(({ frequencies }) => 2 * frequencies.length);
    const thetas = position.tables.map(({ frequencies }, table) =>
      Number(((frequencies[1] ?? 0) ** (-(rotated[table] ?? 0) / 2)).toPrecision(4)),
    );
    return { windows, dims: position.dims, rotated, thetas };
  };

  test('MiMo V2 Flash: windows of 128 positions before a query, and it', () => {
    expect(positions(PUBLISHED.mimo)).toEqual({
      windows: [0, 129],
      dims: 64,
      rotated: [64, 64],
      thetas: [5000000, 10000],
    });
  });
  test('Laguna XS.2: half of heads rotate where all is seen, and heads as a whole in windows', () => {
    expect(positions(PUBLISHED.laguna)).toEqual({
      windows: [0, 512],
      dims: 128,
      rotated: [64, 128],
      thetas: [500000, 10000],
    });
  });
  test('LongCat-Flash: what is rotated apart', () => {
    expect(positions(PUBLISHED.longcat)).toEqual({ windows: [0], dims: 64, rotated: [64], thetas: [10000000] });
    expect(describeDecoder(PUBLISHED.longcat, 'config.json')).toMatchObject({
      layers: 56,
      feedForwardSize: 2048,
      feedForward: { experts: { count: 512, perToken: 12, identities: 256, denseSize: 12288 } },
    });
  });
  test('Ling 2: half of heads, by the share, by the elements, or by both', () => {
    const expected = { windows: [0], dims: 64, rotated: [64], thetas: [600000] };
    expect(positions(PUBLISHED.ling)).toEqual(expected);
    const { partial_rotary_factor: share, rotary_dim: dims, ...others } = PUBLISHED.ling;
    expect(positions({ ...others, partial_rotary_factor: share })).toEqual(expected);
    expect(positions({ ...others, rotary_dim: dims })).toEqual(expected);
  });
  test('MiniMax-Text-01: half of heads where layers attend, and sums of weights before norms', () => {
    expect(positions(PUBLISHED.minimax)).toEqual({ windows: [0], dims: 64, rotated: [64], thetas: [10000000] });
    const { layerSpecs } = describeDecoder(PUBLISHED.minimax, 'config.json');
    expect(layerSpecs.flatMap(({ mixer }, layer) => (mixer === undefined ? [layer] : []))).toEqual(
      Array.from({ length: 10 }, (_, group) => 8 * group + 7),
    );
    expect(new Set(layerSpecs.map(({ sums }) => sums?.mixer.kept))).toEqual(new Set([3.5565588200778455]));
    // A head's slope is halved every eighth of the heads, and falls to all but nothing in the last layers.
    const decays = layerSpecs[0]?.decays ?? new Float32Array(0);
    expect(-Math.log(decays[7] ?? NaN)).toBeCloseTo(0.5, 4);
    expect(-Math.log(layerSpecs[78]?.decays?.[7] ?? NaN)).toBeCloseTo(0.5 / 79, 4);
  });
  test('RecurrentGemma 2B: windows of 2,048 positions in every third layer', () => {
    expect(positions(PUBLISHED.griffin)).toEqual({ windows: [0, 2048], dims: 128, rotated: [128], thetas: [10000] });
    const { layerSpecs, ...decoder } = describeDecoder(PUBLISHED.griffin, 'config.json');
    expect(layerSpecs.flatMap(({ mixer }, layer) => (mixer === undefined ? [layer] : []))).toEqual(
      Array.from({ length: 8 }, (_, group) => 3 * group + 2),
    );
    expect(decoder).toMatchObject({
      feedForwardSize: 7680,
      embedding: { scale: 50.5 }, // of 50.596, in bfloat16
      recurrent: { taps: 4, lru: { blocks: 10, blockDim: 256 } },
    });
  });
  test('OLMo Hybrid: no positions, or those of a base', () => {
    expect(positions(PUBLISHED.olmo)).toEqual({ windows: [0], kind: 'none' });
    expect(positions({ ...PUBLISHED.olmo, rope_theta: 500000 })).toEqual({
      windows: [0],
      dims: 128,
      rotated: [128],
      thetas: [500000],
    });
  });
});
