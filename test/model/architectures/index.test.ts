import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { ModelFileError } from '../../../src/errors/ModelFileError.js';
import {
  describeDecoder,
  describeModel,
  knownGgufArchitectures,
  knownModelTypes,
} from '../../../src/model/architectures/index.js';
import { checkDecoder } from '../../../src/model/architectures/specs.js';
import type { TensorInfo } from '../../../src/model/ModelSource.js';
import { readGgufModel } from '../../../src/model/gguf/readGgufModel.js';
import { readSafetensorsModel } from '../../../src/model/safetensors/readSafetensorsModel.js';
import { PUBLISHED } from '../../support/model/publishedConfigs.js';
import { ggufHeader, safetensorsHeader, type Shapes } from '../../support/syntheticModel.js';

const { defaults } = JSON.parse(readFileSync(new URL('../../fixtures/configs.json', import.meta.url), 'utf8')) as {
  defaults: Record<string, Record<string, unknown>>;
};

describe('families', () => {
  test('the known ones', () => {
    expect([...knownModelTypes].sort()).toEqual([
      'afmoe',
      'albert',
      'apertus',
      'arcee',
      'axk1',
      'aya_vision',
      'bailing_hybrid',
      'bailing_moe',
      'bailing_moe_v2',
      'bamba',
      'bert',
      'biogpt',
      'bloom',
      'camembert',
      'codegen',
      'cohere',
      'cohere2',
      'cohere2_moe',
      'cohere2_vision',
      'cwm',
      'dbrx',
      'deberta-v2',
      'deepseek_v2',
      'deepseek_v3',
      'deepseek_v32',
      'deepseek_vl',
      'deepseek_vl_hybrid',
      'distilbert',
      'dots1',
      'electra',
      'ernie4_5',
      'ernie4_5_moe',
      'exaone',
      'exaone4',
      'exaone4_5',
      'exaone_moe',
      'falcon',
      'falcon_h1',
      'falcon_mamba',
      'fast_vlm',
      'flex_olmo',
      'flint',
      'gemma',
      'gemma2',
      'gemma3',
      'gemma3_text',
      'gemma3n',
      'gemma3n_text',
      'gemma4',
      'gemma4_text',
      'gemma4_unified',
      'gemma4_unified_text',
      'glm',
      'glm4',
      'glm46v',
      'glm4_moe',
      'glm4_moe_lite',
      'glm4v',
      'glm4v_moe',
      'glm_moe_dsa',
      'glm_ocr',
      'glmasr',
      'glmga',
      'got_ocr2',
      'gpt2',
      'gpt_bigcode',
      'gpt_neo',
      'gpt_neox',
      'gpt_oss',
      'gptj',
      'granite',
      'granite4_vision',
      'granite_docling',
      'granite_speech',
      'granite_swa',
      'granitemoe',
      'granitemoe_swa',
      'granitemoehybrid',
      'granitemoeshared',
      'gte',
      'helium',
      'hunyuan_v1_dense',
      'hunyuan_v1_moe',
      'hy_v3',
      'hyperclovax',
      'hyperclovax_vision_v2',
      'idefics2',
      'idefics3',
      'internlm2',
      'internlm3',
      'internvl',
      'internvl_chat',
      'iquestcoder',
      'jais2',
      'jamba',
      'janus',
      'kimi_k2',
      'kimi_k25',
      'kimi_linear',
      'kolibri1',
      'laguna',
      'lfm2',
      'lfm2_moe',
      'lfm2_vl',
      'lfm3',
      'lfm3_vl',
      'lighton_ocr',
      'llama',
      'llama4',
      'llama4_text',
      'llava',
      'llava_next',
      'llava_next_video',
      'llava_onevision',
      'longcat_flash',
      'mamba',
      'mamba2',
      'mellum',
      'mimo_v2_flash',
      'minicpm',
      'minicpm3',
      'minicpm_ocr',
      'minicpmv4_6',
      'minicpmv4_7',
      'minimax',
      'minimax_m1',
      'minimax_m2',
      'minimax_m3_vl',
      'minimax_m3_vl_text',
      'minimax_text_01',
      'ministral',
      'ministral3',
      'mistral',
      'mistral3',
      'mistral4',
      'mixtral',
      'mllama',
      'mllama_text_model',
      'modernbert',
      'mpnet',
      'mpt',
      'nanochat',
      'nemotron',
      'nemotron_h',
      'nemotron_h_omni',
      'new',
      'nomic_bert',
      'olmo',
      'olmo2',
      'olmo3',
      'olmo_hybrid',
      'olmoe',
      'openai-gpt',
      'opt',
      'ovis2',
      'paddleocr_vl',
      'perception_lm',
      'persimmon',
      'phi',
      'phi3',
      'phimoe',
      'pp_chart2table',
      'qianfan_ocr',
      'qwen2',
      'qwen2_5_omni',
      'qwen2_5_omni_thinker',
      'qwen2_5_vl',
      'qwen2_audio',
      'qwen2_moe',
      'qwen2_vl',
      'qwen3',
      'qwen3_5',
      'qwen3_5_moe',
      'qwen3_5_moe_text',
      'qwen3_5_text',
      'qwen3_asr',
      'qwen3_moe',
      'qwen3_next',
      'qwen3_omni_moe',
      'qwen3_omni_moe_thinker',
      'qwen3_vl',
      'qwen3_vl_moe',
      'recurrent_gemma',
      'roberta',
      'sarvam_mla',
      'sarvam_moe',
      'seed_oss',
      'smollm3',
      'smolvlm',
      'solar_open',
      'stablelm',
      'starcoder2',
      'vaultgemma',
      'video_llama_3',
      'video_llava',
      'vipllava',
      'voxtral',
      'xlm-roberta',
      'youtu',
    ]);
    expect([...knownGgufArchitectures].sort()).toEqual([
      'afmoe',
      'apertus',
      'arcee',
      'bailingmoe',
      'bailingmoe2',
      'bert',
      'bloom',
      'chatglm',
      'cohere2',
      'command-r',
      'dbrx',
      'deepseek2',
      'dots1',
      'ernie4_5',
      'ernie4_5-moe',
      'exaone',
      'exaone-moe',
      'exaone4',
      'falcon',
      'falcon-h1',
      'gemma',
      'gemma-embedding',
      'gemma2',
      'gemma3',
      'gemma3n',
      'gemma4',
      'glm-dsa',
      'glm4',
      'glm4moe',
      'gpt-oss',
      'gpt2',
      'gptneox',
      'granite',
      'granitehybrid',
      'granitemoe',
      'hunyuan-dense',
      'hunyuan-moe',
      'internlm2',
      'jais2',
      'jamba',
      'jina-bert-v2',
      'kimi-linear',
      'lfm2',
      'lfm2moe',
      'llama',
      'llama4',
      'mamba',
      'mamba2',
      'mimo2',
      'minicpm',
      'minicpm3',
      'minimax-m2',
      'mistral3',
      'mistral4',
      'modern-bert',
      'mpt',
      'nemotron',
      'nemotron_h',
      'nemotron_h_moe',
      'nomic-bert',
      'olmo',
      'olmo2',
      'olmoe',
      'orion',
      'paddleocr',
      'pangu-embedded',
      'phi2',
      'phi3',
      'phimoe',
      'qwen2',
      'qwen2moe',
      'qwen2vl',
      'qwen3',
      'qwen35',
      'qwen35moe',
      'qwen3moe',
      'qwen3next',
      'qwen3vl',
      'qwen3vlmoe',
      'seed_oss',
      'smollm3',
      'stablelm',
      'starcoder',
      'starcoder2',
      'xverse',
    ]);
  });

  test.each([['rwkv'], ['__proto__'], ['constructor'], [3], [undefined], [null]])(
    'model_type %p is refused by name',
    (type) => {
      expect(() => describeDecoder({ model_type: type }, 'config.json')).toThrow(
        /config\.json: model_type: found .*expected one of the \d+ that are known \(README\)/,
      );
    },
  );

  test('a model_type that is nearly a known one is told which', () => {
    expect(() => describeDecoder({ model_type: 'qwen3-moe' }, 'config.json')).toThrow('(did you mean qwen3_moe?)');
  });

  test.each([
    [PUBLISHED.griffin, 'recurrent_gemma'],
    [PUBLISHED.minimax, 'minimax'],
    [PUBLISHED.longcat, 'longcat_flash'],
    [PUBLISHED.laguna, 'laguna'],
  ])('an unknown model_type of known parts is told whose they are', (config, likest) => {
    const unknown = { ...config, model_type: 'unheard_of' };
    expect(() => describeDecoder(unknown, 'config.json')).toThrow(
      new RegExp(`model_type: found "unheard_of", .*\\(README\\) \\(its settings are most like those of ${likest}\\)`),
    );
  });

  test('an unknown GGUF architecture is refused by name', () => {
    expect(() => describeModel(ggufHeader('rwkv', {}))).toThrow(
      /general\.architecture: found "rwkv", expected one of the \d+ that are known/,
    );
    const { metadata, ...header } = ggufHeader('llama', {}) as Extract<
      ReturnType<typeof ggufHeader>,
      { format: 'gguf' }
    >;
    expect(metadata.size).toBe(1);
    expect(() => describeModel({ ...header, metadata: new Map() })).toThrow('general.architecture: found nothing');
  });

  test.each([
    ['qwen2vl', 'qwen2-Q8_0'],
    ['qwen3vl', 'qwen3-Q8_0'],
    ['qwen3vlmoe', 'qwen3-moe-Q4_0'],
    ['xverse', 'llama-Q8_0'],
  ])('GGUF files of %s are described as the architecture that they are', async (architecture, name) => {
    const path = fileURLToPath(new URL(`../../fixtures/models/${name}.gguf`, import.meta.url));
    const { header } = await readGgufModel(path);
    const own = String(header.metadata.get('general.architecture'));
    const renamed = [...header.metadata].map(([key, value]): [string, unknown] =>
      key === 'general.architecture' ? [key, architecture] : [key.replace(`${own}.`, `${architecture}.`), value],
    );
    expect(describeModel({ ...header, metadata: new Map(renamed) })).toEqual(describeModel(header));
  });

  for (const [type, config] of Object.entries(defaults)) {
    test(`${type}: what config.json leaves out is what transformers' class has`, () => {
      expect(describeDecoder({ model_type: type }, 'config.json')).toEqual(describeDecoder(config, 'config.json'));
    });
  }

  test('checkpoints quantised by other means are refused', () => {
    expect(() =>
      describeDecoder({ model_type: 'llama', quantization_config: { quant_method: 'bitsandbytes' } }, 'config.json'),
    ).toThrow('quantization_config.quant_method: found "bitsandbytes"');
    expect(describeDecoder({ model_type: 'llama', quantization_config: null }, 'config.json').family).toBe('llama');
  });

  test.each([
    [
      { quant_method: 'torchao', quant_type: { default: { _type: 'Int4WeightOnlyConfig' } } },
      'found "Int4WeightOnlyConfig"',
    ],
    [{ quant_method: 'modelopt', quant_algo: 'W4A8_AWQ' }, 'found "W4A8_AWQ"'],
    [{ quant_method: 'compressed-tensors', format: 'mixed-precision' }, 'found "mixed-precision"'],
  ])('what is quantised by %p is refused with the remedy', (quantization_config, found) => {
    const describing = () => describeDecoder({ model_type: 'llama', quantization_config }, 'config.json');
    expect(describing).toThrow(found);
    expect(describing).toThrow(/use the model that was quantised.*or a GGUF file of it/);
  });

  test("Ling 2's tensors say what its configuration does not", async () => {
    const folder = fileURLToPath(new URL('../../fixtures/models/bailing-moe-v2', import.meta.url));
    const { header } = await readSafetensorsModel(folder);
    const { score_function, moe_router_enable_expert_bias, use_qk_norm, ...config } = header.config as Record<
      string,
      unknown
    >;
    expect([score_function, moe_router_enable_expert_bias, use_qk_norm]).toEqual(['sigmoid', true, true]);
    expect(describeModel({ ...header, config })).toEqual(describeModel(header));
    const { routed_scaling_factor, ...unscaled } = config;
    expect(routed_scaling_factor).toBe(1.7);
    expect(() => describeModel({ ...header, config: unscaled })).toThrow('routed_scaling_factor: found');
  });

  test('A.X K1 is read with the bias of its choice of experts, and without', async () => {
    const folder = fileURLToPath(new URL('../../fixtures/models/axk1', import.meta.url));
    const { header } = await readSafetensorsModel(folder);
    const tensors = header.tensors.filter(({ name }) => !name.endsWith('e_score_correction_bias'));
    const biasOf = (model: ReturnType<typeof describeModel>) => [
      model.decoder.feedForward.experts?.router?.choiceBias,
      model.bindings.some(({ role }) => role === 'router.choice_bias'),
    ];
    expect(biasOf(describeModel(header))).toEqual([true, true]);
    expect(biasOf(describeModel({ ...header, tensors }))).toEqual([false, false]);
  });

  test('the keys of latent attention in 8-bit floats are bound with their scales, a row for each input', async () => {
    const folder = fileURLToPath(new URL('../../fixtures/models/deepseek-v3', import.meta.url));
    const { header } = await readSafetensorsModel(folder);
    const tensors = header.tensors.map((tensor): TensorInfo => {
      if (!tensor.name.endsWith('kv_b_proj.weight')) return tensor;
      const scales = {
        file: tensor.file,
        offset: tensor.offset,
        type: 'F32' as const,
        blockRows: 128,
        blockColumns: 128,
      };
      return { ...tensor, type: 'F8_E4M3', bytes: tensor.bytes / 2, scales };
    });
    const { decoder, bindings } = describeModel({ ...header, tensors });
    const up = bindings.find(({ role, layer }) => role === 'k_up.weight' && layer === 0);
    const rank = decoder.attention.latent?.rank;
    expect(up).toMatchObject({ type: 'F16', inputRow: rank, float8: { blockRows: 128, blockColumns: 128 } });
    const tensor = tensors.find(({ name }) => name.endsWith('layers.0.self_attn.kv_b_proj.weight'));
    expect(up?.float8).toMatchObject({ tensorOffset: tensor?.offset, tensorRows: tensor?.shape[0] });
    // A byte an element: from one head's keys to the next one's lie those of its values.
    const [first, second] = up?.segments ?? [];
    expect((second?.offset ?? 0) - (first?.offset ?? 0)).toBe(((tensor?.shape[0] ?? 0) / decoder.heads) * (rank ?? 0));
  });
});

const CONFIG = {
  model_type: 'llama',
  hidden_size: 8,
  num_attention_heads: 2,
  num_hidden_layers: 1,
  intermediate_size: 12,
  vocab_size: 16,
  max_position_embeddings: 64,
};
const LAYER = 'model.layers.0.';
const SHAPES: Shapes = {
  'model.embed_tokens.weight': [16, 8],
  'model.norm.weight': [8],
  'lm_head.weight': [16, 8],
  [`${LAYER}input_layernorm.weight`]: [8],
  [`${LAYER}post_attention_layernorm.weight`]: [8],
  [`${LAYER}self_attn.q_proj.weight`]: [8, 8],
  [`${LAYER}self_attn.k_proj.weight`]: [8, 8],
  [`${LAYER}self_attn.v_proj.weight`]: [8, 8],
  [`${LAYER}self_attn.o_proj.weight`]: [8, 8],
  [`${LAYER}mlp.gate_proj.weight`]: [12, 8],
  [`${LAYER}mlp.up_proj.weight`]: [12, 8],
  [`${LAYER}mlp.down_proj.weight`]: [8, 12],
};

describe('tensors', () => {
  test('all found and of the right shape', () => {
    expect(describeModel(safetensorsHeader(CONFIG, SHAPES)).bindings).toHaveLength(12);
  });

  test.each(Object.keys(SHAPES))('%s: missing, it is named', (name) => {
    const { [name]: _, ...rest } = SHAPES;
    expect(() => describeModel(safetensorsHeader(CONFIG, rest))).toThrow(`model: tensor ${name}: found no such tensor`);
  });

  test.each(Object.keys(SHAPES))('%s: of another shape, it is named with both shapes', (name) => {
    const shape = SHAPES[name] ?? [];
    for (const wrong of [
      [...shape, 1],
      shape.map((size) => size + 1),
      shape.slice(1),
      [...shape].reverse().map((size) => size * 2),
    ]) {
      expect(() => describeModel(safetensorsHeader(CONFIG, { ...SHAPES, [name]: wrong }))).toThrow(
        `model: tensor ${name}: found shape [${wrong.join(', ')}], expected [${shape.join(', ')}]`,
      );
    }
  });

  test('checkpoints without the prefix of the base model', () => {
    const bare = Object.fromEntries(
      Object.entries(SHAPES).map(([name, shape]) => [name.replace(/^model\./, ''), shape]),
    );
    expect(describeModel(safetensorsHeader(CONFIG, bare)).bindings).toHaveLength(12);
  });

  test('tensors beyond what the model needs are left alone in safetensors, as transformers does', () => {
    expect(
      describeModel(safetensorsHeader(CONFIG, { ...SHAPES, 'model.layers.0.self_attn.rotary_emb.inv_freq': [2] }))
        .bindings,
    ).toHaveLength(12);
  });

  test('a tied model uses the embeddings, unless the file has a head', () => {
    const { 'lm_head.weight': _, ...tied } = SHAPES;
    const roles = (shapes: Shapes): string[] =>
      describeModel(safetensorsHeader({ ...CONFIG, tie_word_embeddings: true }, shapes)).bindings.map(
        ({ role }) => role,
      );
    expect(roles(tied)).not.toContain('head.weight');
    expect(roles(SHAPES)).toContain('head.weight');
  });

  test('quantised vectors, rows that are no whole blocks, wrong sizes and doubled names are refused', () => {
    const header = safetensorsHeader(CONFIG, SHAPES);
    const change = (name: string, changes: object): unknown => ({
      ...header,
      tensors: header.tensors.map((tensor) => (tensor.name === name ? { ...tensor, ...changes } : tensor)),
    });
    const describing = (model: unknown) => () => describeModel(model as typeof header);
    expect(describing(change('model.norm.weight', { type: 'Q8_0' }))).toThrow(
      'tensor model.norm.weight: found type Q8_0, expected F32, F16 or BF16',
    );
    expect(describing(change('lm_head.weight', { type: 'Q4_0' }))).toThrow(
      'tensor lm_head.weight: found rows of 8 elements, expected a multiple of 32',
    );
    expect(describing(change('lm_head.weight', { bytes: 4 }))).toThrow(
      'tensor lm_head.weight: found 4 bytes, expected 512',
    );
    expect(describing({ ...header, tensors: [...header.tensors, ...header.tensors] })).toThrow(
      'two tensors of that name',
    );
  });

  test('a GGUF tensor that would be left out of the computation is refused', () => {
    const fields = {
      block_count: 1,
      embedding_length: 8,
      context_length: 64,
      feed_forward_length: 12,
      'attention.head_count': 2,
      'attention.layer_norm_rms_epsilon': 1e-5,
    };
    const shapes: Shapes = {
      'token_embd.weight': [16, 8],
      'output_norm.weight': [8],
      'blk.0.attn_norm.weight': [8],
      'blk.0.ffn_norm.weight': [8],
      'blk.0.attn_q.weight': [8, 8],
      'blk.0.attn_k.weight': [8, 8],
      'blk.0.attn_v.weight': [8, 8],
      'blk.0.attn_output.weight': [8, 8],
      'blk.0.ffn_gate.weight': [12, 8],
      'blk.0.ffn_up.weight': [12, 8],
      'blk.0.ffn_down.weight': [8, 12],
    };
    expect(describeModel(ggufHeader('llama', fields, shapes)).decoder.vocabularySize).toBe(16);
    expect(
      describeModel(ggufHeader('llama', fields, { ...shapes, 'blk.0.attn_rot_embd.weight': [2] })).bindings,
    ).toHaveLength(11);
    expect(
      describeModel(ggufHeader('llama', fields, { ...shapes, 'blk.0.ffn_gate.bias': [12] })).bindings,
    ).toHaveLength(12);
    expect(() =>
      describeModel(ggufHeader('llama', fields, { ...shapes, 'blk.0.ffn_norm.bias': [8], 'blk.0.x.weight': [1] })),
    ).toThrow('tensor blk.0.ffn_norm.bias: found a tensor that is not used by this architecture (and 1 more)');
    expect(() => describeModel(ggufHeader('llama', fields, { ...shapes, 'rope_freqs.weight': [2] }))).toThrow(
      'tensor rope_freqs.weight: found nothing',
    );
    expect(() =>
      describeModel(
        ggufHeader(
          'llama',
          fields,
          { ...shapes, 'rope_freqs.weight': [2] },
          { 'rope_freqs.weight': Float32Array.of(1, 0) },
        ),
      ),
    ).toThrow('expected 2 factors');
  });
});

describe('untrusted configurations', () => {
  const hostile = fc.oneof(
    fc.constantFrom<unknown>(
      0,
      -1,
      1,
      2,
      3,
      0.5,
      NaN,
      Infinity,
      2 ** 31,
      2 ** 53,
      1e308,
      -0,
      null,
      true,
      false,
      '',
      'gelu',
      '__proto__',
      [],
      {},
      10n ** 30n,
    ),
    fc.anything(),
    fc.integer(),
    fc.double(),
    fc.array(fc.double(), { maxLength: 40 }),
  );
  const keys = [...new Set(Object.values(defaults).flatMap((config) => Object.keys(config)))];
  const ropes = [
    'rope_theta',
    'rope_type',
    'type',
    'factor',
    'short_factor',
    'long_factor',
    'low_freq_factor',
    'high_freq_factor',
    'beta_fast',
    'beta_slow',
    'mscale',
    'mscale_all_dim',
    'attention_factor',
    'original_max_position_embeddings',
    'partial_rotary_factor',
    'full_attention',
    'sliding_attention',
  ];
  const rope = fc.dictionary(
    fc.constantFrom(...ropes),
    fc.oneof(hostile, fc.constantFrom('yarn', 'longrope', 'llama3', 'linear')),
    { maxKeys: 8 },
  );
  const changes = fc.tuple(
    fc.constantFrom(...knownModelTypes),
    fc.dictionary(
      fc.constantFrom(...keys, 'sliding_window_pattern', 'text_config', 'rotary_pct', '__proto__'),
      hostile,
      { maxKeys: 6 },
    ),
    fc.option(rope, { nil: undefined }),
    fc.boolean(),
  );

  /** Either a decoder within the bounds that the rest of the package relies on, or the one error. */
  const judge = (
    describing: () => { layers: number; layerSpecs: readonly unknown[]; heads: number; kvHeads: number },
  ): void => {
    try {
      const decoder = describing();
      expect(decoder.layerSpecs).toHaveLength(decoder.layers);
      expect(decoder.layers).toBeLessThanOrEqual(1000);
      expect(decoder.heads % decoder.kvHeads).toBe(0);
    } catch (error) {
      expect(error).toBeInstanceOf(ModelFileError);
      expect((error as Error).message.length).toBeLessThan(1000);
    }
  };

  test('config.json: any value in any field gives a bounded decoder or a ModelFileError', () => {
    fc.assert(
      fc.property(changes, ([type, changed, scaling, old]) => {
        const config = {
          ...defaults[type],
          model_type: type,
          ...changed,
          ...(scaling && (old ? { rope_scaling: scaling } : { rope_parameters: scaling })),
        };
        judge(() => describeDecoder(config, 'config.json'));
      }),
      { numRuns: 4000 },
    );
  });

  test('anything at all in place of a configuration', () => {
    fc.assert(
      fc.property(fc.anything(), (config) => judge(() => describeDecoder(config, 'config.json'))),
      { numRuns: 500 },
    );
  });

  test('GGUF metadata: any value under any key gives a bounded decoder or a ModelFileError', () => {
    const known = [
      'block_count',
      'embedding_length',
      'context_length',
      'feed_forward_length',
      'vocab_size',
      'expert_count',
      'expert_used_count',
      'attention.head_count',
      'attention.head_count_kv',
      'attention.key_length',
      'attention.value_length',
      'attention.layer_norm_rms_epsilon',
      'attention.layer_norm_epsilon',
      'attention.sliding_window',
      'attention.sliding_window_pattern',
      'attention.scale',
      'rope.dimension_count',
      'rope.freq_base',
      'rope.freq_base_swa',
      'rope.scaling.type',
      'rope.scaling.factor',
      'rope.scaling.attn_factor',
      'rope.scaling.original_context_length',
      'use_parallel_residual',
      'attn_logit_softcapping',
      'final_logit_softcapping',
    ];
    const plausible = {
      block_count: 1,
      embedding_length: 8,
      context_length: 64,
      feed_forward_length: 12,
      vocab_size: 16,
      'attention.head_count': 2,
      'attention.layer_norm_rms_epsilon': 1e-5,
      'attention.layer_norm_epsilon': 1e-5,
    };
    const value = fc.oneof(hostile, fc.int32Array({ maxLength: 4 }), fc.constantFrom('yarn', 'none', 'longrope'));
    fc.assert(
      fc.property(
        fc.constantFrom(...knownGgufArchitectures),
        fc.dictionary(fc.constantFrom(...known), value, { maxKeys: 5 }),
        (architecture, changed) => {
          // Without tensors a described model is refused in the end; with bounds broken it must be refused as well, and
          // not later than that.
          judge(() => describeModel(ggufHeader(architecture, { ...plausible, ...changed })).decoder);
        },
      ),
      { numRuns: 2000 },
    );
  });
});

test('checkDecoder refuses what no family should describe', () => {
  const decoder = describeDecoder(CONFIG, 'config.json');
  const check = (changes: object) => () => checkDecoder('f', { ...decoder, ...changes });
  const rotary = (dims: number, frequencies: number[]) => ({
    position: {
      kind: 'rotary',
      style: 'halves',
      dims,
      tables: [{ frequencies: Float32Array.from(frequencies), scale: 1 }],
    },
  });
  expect(check({})).not.toThrow();
  expect(check({ kvHeads: 3 })).toThrow('key/value heads: found 3');
  expect(check({ heads: 1024, kvHeads: 1, headDim: 512 })).toThrow('heads x head size: found 524288');
  expect(check({ attention: { scale: NaN, qkNorm: 'none' } })).toThrow('attention scale: found NaN');
  expect(check({ feedForward: { kind: 'experts', activation: 'silu', experts: { count: 2, perToken: 3 } } })).toThrow(
    'experts per token: found 3',
  );
  expect(
    check({ layers: 1000, feedForward: { kind: 'experts', activation: 'silu', experts: { count: 512, perToken: 3 } } }),
  ).toThrow('experts x layers');
  expect(check(rotary(3, [1]))).toThrow('rotated elements of a head: found 3');
  expect(check(rotary(6, [1, 1, 1]))).toThrow('rotated elements of a head: found 6');
  expect(check(rotary(4, [1, NaN]))).toThrow('rotary frequencies');
  expect(check(rotary(4, [1]))).toThrow('rotary frequencies');
});
