import { describe, expect, test } from '@jest/globals';
import { describeDecoder, describeModel } from '../../../src/model/architectures/index.js';
import type { LayerSpec } from '../../../src/model/DecoderSpec.js';
import { describeBindings, ggufHeader, safetensorsHeader, type Shapes } from '../../support/syntheticModel.js';

// What sets a family apart. That all of it together is right, the fixtures show (fixtures.test.ts): made by
// transformers, run plainly.
const decoder = (config: object) => describeDecoder(config, 'config.json');
const windows = (specs: readonly LayerSpec[]): number[] => specs.map(({ window }) => window);

describe('OPT', () => {
  test('OPT-350m: norms after the branches, none at the end, projected embeddings', () => {
    const opt = decoder({
      model_type: 'opt',
      hidden_size: 1024,
      num_attention_heads: 16,
      word_embed_proj_dim: 512,
      do_layer_norm_before: false,
    });
    expect(opt).toMatchObject({
      residual: 'post',
      finalNorm: false,
      embedding: { size: 512 },
      position: { kind: 'learned', offset: 2 },
      headDim: 64,
    });
  });
  test('old checkpoints without a last norm', () => {
    expect(decoder({ model_type: 'opt', _remove_final_layer_norm: true })).toMatchObject({
      residual: 'pre',
      finalNorm: false,
    });
  });
});

describe('Mistral and Mixtral', () => {
  test('the window is 4096 unless config.json says otherwise, and null means none', () => {
    expect(new Set(windows(decoder({ model_type: 'mistral' }).layerSpecs))).toEqual(new Set([4096]));
    expect(new Set(windows(decoder({ model_type: 'mistral', sliding_window: null }).layerSpecs))).toEqual(new Set([0]));
    expect(new Set(windows(decoder({ model_type: 'mixtral' }).layerSpecs))).toEqual(new Set([0]));
  });
  test('experts', () => {
    expect(decoder({ model_type: 'mixtral' }).feedForward).toEqual({
      kind: 'experts',
      activation: 'silu',
      experts: { count: 8, perToken: 2 },
    });
    expect(() => decoder({ model_type: 'mixtral', num_experts_per_tok: 9 })).toThrow('experts per token: found 9');
  });
});

describe('Qwen 3 with experts', () => {
  const published = {
    model_type: 'qwen3_moe',
    norm_topk_prob: true,
    head_dim: 128,
    num_experts: 128,
    num_experts_per_tok: 8,
    moe_intermediate_size: 768,
  };
  test('norms over heads, and in each layer as many experts as either name of their count says', () => {
    const experts = { kind: 'experts', activation: 'silu', experts: { count: 128, perToken: 8 } };
    expect(decoder(published)).toMatchObject({
      family: 'qwen3_moe',
      feedForwardSize: 768,
      attention: { qkNorm: 'head' },
      feedForward: experts,
    });
    const { num_experts: count, ...others } = published;
    expect(decoder({ ...others, num_local_experts: count }).feedForward).toEqual(experts);
  });
  test.each([
    [{ decoder_sparse_step: 0 }, 'decoder_sparse_step: found 0, expected an integer from 1'],
    [{ mlp_only_layers: ['0'] }, 'mlp_only_layers[0]: found "0", expected the number of a layer'],
    [{ mlp_only_layers: 'none' }, 'mlp_only_layers: found "none", expected a list of some of the'],
    [{ num_experts: 4 }, 'experts per token: found 8, expected at most 4'],
  ])('refuses %j', (changes, message) => {
    expect(() => decoder({ ...published, ...changes })).toThrow(message);
  });
  test.each([{ norm_topk_prob: false }, { norm_topk_prob: undefined }])(
    'experts that are not divided by their sum: %j',
    (changes) => {
      expect(decoder({ ...published, ...changes }).feedForward.experts?.router).toEqual({
        score: 'softmax',
        normalised: false,
        scale: 1,
        choiceBias: false,
      });
    },
  );
  test('layers without experts, by a list and by a step', () => {
    const dense = (changes: object): number[] =>
      decoder({ ...published, num_hidden_layers: 4, ...changes }).layerSpecs.flatMap(({ dense: one }, layer) =>
        one === true ? [layer] : [],
      );
    expect(dense({})).toEqual([]);
    expect(dense({ mlp_only_layers: [2] })).toEqual([2]);
    expect(dense({ decoder_sparse_step: 2 })).toEqual([0, 2]);
  });
  test('GGUF: the width of an expert is what the file says of experts, not of the block', () => {
    const header = ggufHeader(
      'qwen3moe',
      {
        block_count: 1,
        embedding_length: 8,
        context_length: 64,
        feed_forward_length: 20,
        expert_feed_forward_length: 6,
        'attention.head_count': 2,
        'attention.head_count_kv': 1,
        'attention.key_length': 4,
        'attention.value_length': 4,
        'attention.layer_norm_rms_epsilon': 1e-6,
        expert_count: 3,
        expert_used_count: 2,
      },
      {
        'token_embd.weight': [10, 8],
        'output_norm.weight': [8],
        'output.weight': [10, 8],
        'blk.0.attn_norm.weight': [8],
        'blk.0.ffn_norm.weight': [8],
        'blk.0.attn_q.weight': [8, 8],
        'blk.0.attn_k.weight': [4, 8],
        'blk.0.attn_v.weight': [4, 8],
        'blk.0.attn_output.weight': [8, 8],
        'blk.0.attn_q_norm.weight': [4],
        'blk.0.attn_k_norm.weight': [4],
        'blk.0.ffn_gate_inp.weight': [3, 8],
        'blk.0.ffn_gate_exps.weight': [3, 6, 8],
        'blk.0.ffn_up_exps.weight': [3, 6, 8],
        'blk.0.ffn_down_exps.weight': [3, 8, 6],
      },
    );
    const model = describeModel(header);
    expect(model.decoder).toMatchObject({
      family: 'qwen3_moe',
      feedForwardSize: 6,
      position: { style: 'halves' },
      feedForward: { experts: { count: 3, perToken: 2 } },
    });
    expect(describeBindings(model.bindings, header.tensors)).toMatchObject({
      'expert.2.up.weight@0': 'blk.0.ffn_up_exps.weight 12+6',
      'expert.1.down.weight@0': 'blk.0.ffn_down_exps.weight 8+8',
    });
  });
});

describe('gpt-oss', () => {
  // As config.json of the 20B model, but for what is left out here.
  const published = {
    model_type: 'gpt_oss',
    num_hidden_layers: 4,
    num_local_experts: 32,
    num_experts_per_tok: 4,
    hidden_act: 'silu',
    swiglu_limit: 7.0,
    sliding_window: 128,
    attention_bias: true,
    rope_theta: 150000,
    rope_scaling: {
      rope_type: 'yarn',
      factor: 32.0,
      beta_fast: 32.0,
      beta_slow: 1.0,
      truncate: false,
      original_max_position_embeddings: 4096,
    },
    quantization_config: { quant_method: 'mxfp4', modules_to_not_convert: ['model.layers.*.self_attn'] },
  };
  test('sinks, windows in every other layer, clamped experts', () => {
    const oss = decoder(published);
    expect(windows(oss.layerSpecs)).toEqual([128, 0, 128, 0]);
    expect(oss).toMatchObject({
      family: 'gpt_oss',
      contextTokens: 131072,
      heads: 64,
      kvHeads: 8,
      headDim: 64,
      attention: { sinks: true, scale: 0.125 },
      feedForward: { kind: 'experts', activation: 'clamped-swiglu', experts: { count: 32, perToken: 4 } },
    });
  });
  test('what a file does not say is as published: YaRN, its theta, 128 experts', () => {
    const { rope_scaling: _, rope_theta: __, quantization_config: ___, num_local_experts: ____, ...silent } = published;
    expect(decoder(silent).position).toEqual(decoder(published).position);
    expect(decoder({ ...silent, rope_parameters: { rope_type: 'default', rope_theta: 150000 } }).position).not.toEqual(
      decoder(published).position,
    );
    expect(decoder(silent).feedForward.experts).toEqual({ count: 128, perToken: 4 });
  });
  test.each([
    [{ swiglu_limit: 5 }, 'swiglu_limit: found 5, expected 7'],
    [{ swiglu_alpha: 1.5 }, 'swiglu_alpha: found 1.5, expected 1.702'],
    [{ hidden_act: 'gelu' }, 'hidden_act: found "gelu", expected silu'],
    [{ quantization_config: { quant_method: 'fp8' } }, 'quantization_config: found "fp8", expected the quant_method'],
    [{ sliding_window: null }, 'sliding_window: found null'],
    [{ num_experts_per_tok: 33 }, 'experts per token: found 33, expected at most 32'],
  ])('refuses %j', (changes, message) => {
    expect(() => decoder({ ...published, ...changes })).toThrow(message);
  });

  const small = {
    model_type: 'gpt_oss',
    num_hidden_layers: 1,
    hidden_size: 32,
    intermediate_size: 6,
    num_attention_heads: 2,
    num_key_value_heads: 1,
    head_dim: 4,
    vocab_size: 10,
    num_local_experts: 3,
    num_experts_per_tok: 2,
  };
  const attention = (layer: string, names: readonly string[]): Shapes => ({
    ...Object.fromEntries(
      [8, 4, 4].flatMap((rows, i) => [
        [`${layer}${names[i]}.weight`, [rows, 32]],
        [`${layer}${names[i]}.bias`, [rows]],
      ]),
    ),
    [`${layer}${names[3]}.weight`]: [32, 8],
    [`${layer}${names[3]}.bias`]: [32],
  });
  const layer = 'model.layers.0.';
  const shapes: Shapes = {
    'model.embed_tokens.weight': [10, 32],
    'model.norm.weight': [32],
    'lm_head.weight': [10, 32],
    [`${layer}input_layernorm.weight`]: [32],
    [`${layer}post_attention_layernorm.weight`]: [32],
    ...attention(`${layer}self_attn.`, ['q_proj', 'k_proj', 'v_proj', 'o_proj']),
    [`${layer}self_attn.sinks`]: [2],
    [`${layer}mlp.router.weight`]: [3, 32],
    [`${layer}mlp.router.bias`]: [3],
    [`${layer}mlp.experts.gate_up_proj`]: [3, 32, 12],
    [`${layer}mlp.experts.gate_up_proj_bias`]: [3, 12],
    [`${layer}mlp.experts.down_proj`]: [3, 6, 32],
    [`${layer}mlp.experts.down_proj_bias`]: [3, 32],
  };
  const bindingOf = (header: ReturnType<typeof safetensorsHeader>, role: string) => {
    const binding = describeModel(header).bindings.find((each) => each.role === role);
    const tensor = header.tensors.find(({ offset, bytes }) => {
      const at = binding?.segments[0]?.offset ?? -1;
      return at >= offset && at < offset + bytes;
    });
    const segments = binding?.segments.map((segment) => ({
      ...segment,
      offset: segment.offset - (tensor?.offset ?? 0),
    }));
    return { ...binding, segments, tensor: tensor?.name };
  };

  test('floats have a row for each input, gate and up in turn', () => {
    const header = safetensorsHeader(small, shapes);
    expect(bindingOf(header, 'expert.2.up.weight')).toMatchObject({
      rows: 6,
      columns: 32,
      inputRow: 12,
      segments: [{ offset: (2 * 32 * 12 + 1) * 4, rows: 6, step: 2 }],
      tensor: `${layer}mlp.experts.gate_up_proj`,
    });
    expect(bindingOf(header, 'expert.1.down.weight')).toMatchObject({
      inputRow: 32,
      segments: [{ offset: 6 * 32 * 4, rows: 32 }],
    });
    expect(bindingOf(header, 'expert.1.gate.bias')).toMatchObject({ segments: [{ offset: 12 * 4, rows: 6, step: 2 }] });
    expect(bindingOf(header, 'expert.1.down.bias')).toMatchObject({ segments: [{ offset: 32 * 4, rows: 32 }] });
    expect(bindingOf(header, 'sinks')).toMatchObject({ rows: 2 });
  });
  test('MXFP4 has a row for each output', () => {
    const header = safetensorsHeader(small, shapes);
    const blocks = {
      name: `${layer}mlp.experts.gate_up_proj`,
      type: 'MXFP4',
      shape: [3, 12, 32],
      file: 0,
      offset: 1 << 20,
      bytes: 3 * 12 * 16,
      blockScales: { file: 1, offset: 7 },
    } as const;
    const packed = {
      ...header,
      tensors: header.tensors.map((tensor) => (tensor.name === blocks.name ? blocks : tensor)),
    };
    const up = bindingOf(packed, 'expert.2.up.weight');
    expect(up).toMatchObject({
      type: 'MXFP4',
      blockScales: { file: 1, offset: 7, tensorOffset: 1 << 20 },
      segments: [{ offset: (2 * 12 + 1) * 16, rows: 6, step: 2 }],
    });
    expect(up).not.toHaveProperty('inputRow');
  });
  test('GGUF: each in a tensor of its own, biases stacked', () => {
    const header = ggufHeader(
      'gpt-oss',
      {
        block_count: 1,
        embedding_length: 32,
        context_length: 131072,
        feed_forward_length: 20,
        expert_feed_forward_length: 6,
        'attention.head_count': 2,
        'attention.head_count_kv': 1,
        'attention.key_length': 4,
        'attention.value_length': 4,
        'attention.layer_norm_rms_epsilon': 1e-5,
        'attention.sliding_window': 128,
        'rope.freq_base': 150000,
        'rope.scaling.type': 'yarn',
        'rope.scaling.factor': 32,
        'rope.scaling.original_context_length': 4096,
        expert_count: 3,
        expert_used_count: 2,
      },
      {
        'token_embd.weight': [10, 32],
        'output_norm.weight': [32],
        'output.weight': [10, 32],
        'blk.0.attn_norm.weight': [32],
        'blk.0.post_attention_norm.weight': [32],
        ...attention('blk.0.', ['attn_q', 'attn_k', 'attn_v', 'attn_output']),
        'blk.0.attn_sinks.weight': [2],
        'blk.0.ffn_gate_inp.weight': [3, 32],
        'blk.0.ffn_gate_inp.bias': [3],
        'blk.0.ffn_gate_exps.weight': [3, 6, 32],
        'blk.0.ffn_gate_exps.bias': [3, 6],
        'blk.0.ffn_up_exps.weight': [3, 6, 32],
        'blk.0.ffn_up_exps.bias': [3, 6],
        'blk.0.ffn_down_exps.weight': [3, 32, 6],
        'blk.0.ffn_down_exps.bias': [3, 32],
      },
    );
    const model = describeModel(header);
    expect(model.decoder).toMatchObject({ family: 'gpt_oss', feedForwardSize: 6, attention: { sinks: true } });
    expect(windows(model.decoder.layerSpecs)).toEqual([128]);
    // As the configuration that the file was made of says: the range of blended dimensions is not rounded.
    expect(model.decoder.position).toEqual(describeModel(safetensorsHeader(small, shapes)).decoder.position);
    expect(describeBindings(model.bindings, header.tensors)).toMatchObject({
      'expert.2.up.weight@0': 'blk.0.ffn_up_exps.weight 12+6',
      'expert.2.up.bias@0': 'blk.0.ffn_up_exps.bias 12+6',
      'expert.1.down.bias@0': 'blk.0.ffn_down_exps.bias 32+32',
      'sinks@0': 'blk.0.attn_sinks.weight 0+2',
    });
  });
});

describe('Qwen', () => {
  const small = { model_type: 'qwen2', num_hidden_layers: 4, sliding_window: 7, max_window_layers: 3 };
  test('a window only where it is switched on, and only in the last layers', () => {
    expect(windows(decoder(small).layerSpecs)).toEqual([0, 0, 0, 0]);
    expect(windows(decoder({ ...small, use_sliding_window: true }).layerSpecs)).toEqual([0, 0, 0, 7]);
  });
  test('layer_types overrule', () => {
    const types = ['sliding_attention', 'full_attention', 'full_attention', 'full_attention'];
    expect(windows(decoder({ ...small, use_sliding_window: true, layer_types: types }).layerSpecs)).toEqual([
      7, 0, 0, 0,
    ]);
    expect(() => decoder({ ...small, layer_types: types })).toThrow('sliding_window: found null');
    expect(() => decoder({ ...small, layer_types: ['full_attention'] })).toThrow('layer_types: found an array of 1');
    expect(() => decoder({ ...small, layer_types: [...types.slice(1), 'linear_attention'] })).toThrow(
      'layer_types[3]: found "linear_attention"',
    );
  });
  test('Qwen 3 norms q and k over heads of their own size', () => {
    expect(
      decoder({ model_type: 'qwen3', hidden_size: 1024, num_attention_heads: 16, num_key_value_heads: 8 }),
    ).toMatchObject({
      headDim: 128,
      attention: { qkNorm: 'head', scale: 128 ** -0.5 },
    });
  });
});

/** What a GGUF file of Gemma 2 or 3 describes. */
function gemmaGguf(architecture: 'gemma2' | 'gemma3', layers: number, changes: object): ReturnType<typeof decoder> {
  const shapes: Record<string, readonly number[]> = { 'token_embd.weight': [10, 84], 'output_norm.weight': [84] };
  for (let layer = 0; layer < layers; layer++) {
    for (const norm of ['attn_norm', 'post_attention_norm', 'ffn_norm', 'post_ffw_norm'])
      shapes[`blk.${layer}.${norm}.weight`] = [84];
    for (const norm of architecture === 'gemma3' ? ['attn_q_norm', 'attn_k_norm'] : [])
      shapes[`blk.${layer}.${norm}.weight`] = [32];
    for (const product of ['attn_q', 'attn_k', 'attn_v']) shapes[`blk.${layer}.${product}.weight`] = [64, 84];
    for (const product of ['ffn_gate', 'ffn_up']) shapes[`blk.${layer}.${product}.weight`] = [12, 84];
    shapes[`blk.${layer}.attn_output.weight`] = [84, 64];
    shapes[`blk.${layer}.ffn_down.weight`] = [84, 12];
  }
  const fields = {
    block_count: layers,
    embedding_length: 84,
    context_length: 64,
    feed_forward_length: 12,
    'attention.head_count': 2,
    'attention.key_length': 32,
    'attention.value_length': 32,
    'attention.layer_norm_rms_epsilon': 1e-6,
    ...changes,
  };
  return describeModel(ggufHeader(architecture, fields, shapes)).decoder;
}

describe('Gemma 2', () => {
  // As config.json of the 9B model: `hidden_act` of old, no layer_types.
  const published = {
    model_type: 'gemma2',
    num_hidden_layers: 5,
    hidden_size: 3584,
    head_dim: 256,
    num_attention_heads: 16,
    num_key_value_heads: 8,
    hidden_act: 'gelu_pytorch_tanh',
    hidden_activation: 'gelu_pytorch_tanh',
    query_pre_attn_scalar: 224,
    sliding_window: 4096,
    attn_logit_softcapping: 50.0,
    final_logit_softcapping: 30.0,
  };
  test('soft caps, norms round both branches, every second layer sees all tokens', () => {
    const gemma = decoder(published);
    expect(windows(gemma.layerSpecs)).toEqual([4096, 0, 4096, 0, 4096]);
    expect(gemma).toMatchObject({
      residual: 'sandwich',
      embedding: { scale: Math.fround(Math.sqrt(3584)) },
      attention: { qkNorm: 'none', scale: 224 ** -0.5, softCap: 50 },
      logitSoftCap: 30,
      feedForward: { kind: 'gated', activation: 'gelu-tanh' },
    });
  });
  test('caps that are left out are there, and null means none', () => {
    const { attn_logit_softcapping: _, final_logit_softcapping: __, ...silent } = published;
    expect(decoder(silent)).toEqual(decoder(published));
    const none = decoder({ ...published, attn_logit_softcapping: null, final_logit_softcapping: null });
    expect(none.attention).not.toHaveProperty('softCap');
    expect(none).not.toHaveProperty('logitSoftCap');
    expect(() => decoder({ ...published, attn_logit_softcapping: 'fifty' })).toThrow(
      'attn_logit_softcapping: found "fifty", expected a number',
    );
  });
  test('GGUF: a fixed pattern and caps unless stated, and the 27B model known by its 46 layers', () => {
    const five = gemmaGguf('gemma2', 5, {});
    expect(windows(five.layerSpecs)).toEqual([4096, 0, 4096, 0, 4096]);
    expect(five).toMatchObject({ attention: { scale: 32 ** -0.5, softCap: 50 }, logitSoftCap: 30 });
    const stated = { attn_logit_softcapping: 20, final_logit_softcapping: 0, 'attention.sliding_window': 8 };
    const other = gemmaGguf('gemma2', 3, stated);
    expect(windows(other.layerSpecs)).toEqual([8, 0, 8]);
    expect(other.attention.softCap).toBe(20);
    expect(other).not.toHaveProperty('logitSoftCap');
    expect(gemmaGguf('gemma2', 46, {}).attention.scale).toBe(42 ** -0.5);
  });
});

describe('LLaMA', () => {
  const shapes: Shapes = {
    'model.embed_tokens.weight': [10, 8],
    'model.norm.weight': [8],
    'model.layers.0.input_layernorm.weight': [8],
    'model.layers.0.post_attention_layernorm.weight': [8],
    ...Object.fromEntries(['q', 'k', 'v', 'o'].map((name) => [`model.layers.0.self_attn.${name}_proj.weight`, [8, 8]])),
    'model.layers.0.mlp.gate_proj.weight': [6, 8],
    'model.layers.0.mlp.up_proj.weight': [6, 8],
    'model.layers.0.mlp.down_proj.weight': [8, 6],
  };
  const biases: Shapes = {
    'model.layers.0.mlp.gate_proj.bias': [6],
    'model.layers.0.mlp.up_proj.bias': [6],
    'model.layers.0.mlp.down_proj.bias': [8],
  };
  const config = {
    model_type: 'llama',
    num_hidden_layers: 1,
    hidden_size: 8,
    num_attention_heads: 2,
    intermediate_size: 6,
    vocab_size: 10,
    tie_word_embeddings: true,
  };
  const biasRoles = (header: Parameters<typeof describeModel>[0]): string[] =>
    describeModel(header).bindings.flatMap(({ role }) => (role.endsWith('.bias') ? [role] : []));
  test('mlp_bias: biases in the feed-forward block, which have to be there', () => {
    expect(biasRoles(safetensorsHeader(config, shapes))).toEqual([]);
    const biased = { ...config, mlp_bias: true };
    expect(biasRoles(safetensorsHeader(biased, { ...shapes, ...biases }))).toEqual([
      'gate.bias',
      'up.bias',
      'down.bias',
    ]);
    expect(() => describeModel(safetensorsHeader(biased, shapes))).toThrow('mlp.gate_proj.bias: found no such tensor');
  });
});

describe('Gemma 3', () => {
  const text = {
    model_type: 'gemma3_text',
    num_hidden_layers: 6,
    hidden_size: 640,
    head_dim: 256,
    num_attention_heads: 4,
    sliding_window: 512,
  };
  test('five sliding layers, then one that sees all, each kind with its rotary table', () => {
    const gemma = decoder(text);
    expect(windows(gemma.layerSpecs)).toEqual([512, 512, 512, 512, 512, 0]);
    expect(gemma.layerSpecs.map(({ rotaryTable }) => rotaryTable)).toEqual([1, 1, 1, 1, 1, 0]);
    expect(gemma).toMatchObject({
      residual: 'sandwich',
      embedding: { scale: Math.fround(Math.sqrt(640)) },
      attention: { qkNorm: 'head', scale: 256 ** -0.5 },
    });
  });
  test('both spellings of its rotary settings', () => {
    const old = decoder({
      ...text,
      rope_theta: 5e5,
      rope_local_base_freq: 2e4,
      rope_scaling: { rope_type: 'linear', factor: 8 },
    });
    const full = { rope_type: 'linear', factor: 8, rope_theta: 5e5 };
    const now = decoder({
      ...text,
      rope_parameters: { full_attention: full, sliding_attention: { rope_type: 'default', rope_theta: 2e4 } },
    });
    expect(now).toEqual(old);
    expect(now.position).not.toEqual(decoder(text).position);
  });
  test('the language model inside a multimodal one', () => {
    const { model_type: _, ...inner } = text;
    expect(decoder({ model_type: 'gemma3', vision_config: {}, text_config: inner })).toEqual(decoder(text));
    expect(() => decoder({ model_type: 'gemma3', text_config: [] })).toThrow(
      'text_config: found an array of 0, expected a JSON object',
    );
  });
  test.each([['language_model.model.'], ['model.language_model.'], ['model.']])(
    'tensors under %s, norms stored less 1',
    (base) => {
      const config = {
        model_type: 'gemma3',
        text_config: {
          num_hidden_layers: 1,
          hidden_size: 8,
          head_dim: 4,
          num_attention_heads: 2,
          num_key_value_heads: 1,
          intermediate_size: 6,
          vocab_size: 10,
        },
      };
      const layer = `${base}layers.0.`;
      const shapes: Shapes = {
        [`${base}embed_tokens.weight`]: [10, 8],
        [`${base}norm.weight`]: [8],
        ...Object.fromEntries(
          ['input', 'post_attention', 'pre_feedforward', 'post_feedforward'].map((norm) => [
            `${layer}${norm}_layernorm.weight`,
            [8],
          ]),
        ),
        [`${layer}self_attn.q_norm.weight`]: [4],
        [`${layer}self_attn.k_norm.weight`]: [4],
        [`${layer}self_attn.q_proj.weight`]: [8, 8],
        [`${layer}self_attn.k_proj.weight`]: [4, 8],
        [`${layer}self_attn.v_proj.weight`]: [4, 8],
        [`${layer}self_attn.o_proj.weight`]: [8, 8],
        [`${layer}mlp.gate_proj.weight`]: [6, 8],
        [`${layer}mlp.up_proj.weight`]: [6, 8],
        [`${layer}mlp.down_proj.weight`]: [8, 6],
      };
      const { bindings } = describeModel(safetensorsHeader(config, shapes));
      expect(
        bindings
          .filter(({ add }) => add === 1)
          .map(({ role }) => role)
          .sort(),
      ).toEqual([
        'final_norm.weight',
        'k_norm.weight',
        'norm1.weight',
        'norm2.weight',
        'post_norm1.weight',
        'post_norm2.weight',
        'q_norm.weight',
      ]);
    },
  );
  test('attention to what comes later is refused', () => {
    expect(() => decoder({ ...text, is_causal: false })).toThrow('is_causal: found false, expected true: only causal');
    expect(() => decoder({ ...text, is_causal: true })).not.toThrow();
  });
  test('soft caps where a configuration has them', () => {
    expect(decoder(text)).not.toHaveProperty('logitSoftCap');
    expect(decoder({ ...text, final_logit_softcapping: 30, attn_logit_softcapping: 50 })).toMatchObject({
      attention: { softCap: 50, qkNorm: 'head' },
      logitSoftCap: 30,
    });
  });
  test('GGUF: a fixed pattern and local base, and the 27B model known by its 62 layers', () => {
    const describeGguf = (layers: number, changes: object = {}): ReturnType<typeof decoder> =>
      gemmaGguf('gemma3', layers, { 'attention.sliding_window': 16, 'rope.freq_base': 1e6, ...changes });
    const seven = describeGguf(7);
    expect(windows(seven.layerSpecs)).toEqual([16, 16, 16, 16, 16, 0, 16]);
    expect(seven.attention.scale).toBe(32 ** -0.5);
    const text = decoder({
      model_type: 'gemma3_text',
      num_hidden_layers: 7,
      hidden_size: 84,
      num_attention_heads: 2,
      num_key_value_heads: 2,
      head_dim: 32,
    });
    expect(seven.position).toEqual(text.position);
    expect(describeGguf(62).attention.scale).toBe(42 ** -0.5);
    expect(windows(describeGguf(3, { 'attention.sliding_window_pattern': [true, false, true] }).layerSpecs)).toEqual([
      16, 0, 16,
    ]);
    expect(windows(describeGguf(3, { 'attention.sliding_window_pattern': 2 }).layerSpecs)).toEqual([16, 0, 16]);
    expect(windows(describeGguf(3, { 'attention.sliding_window': 0 }).layerSpecs)).toEqual([0, 0, 0]);
    expect(() => describeGguf(3, { 'attention.sliding_window_pattern': [true, false] })).toThrow(
      'an entry for each of 3 layers',
    );
    expect(() => describeGguf(3, { 'attention.value_length': 16 })).toThrow(
      'attention.value_length: found 16, expected the key length, 32',
    );
    expect(describeGguf(3, { final_logit_softcapping: 30 }).logitSoftCap).toBe(30);
    expect(() => describeGguf(3, { final_logit_softcapping: -1 })).toThrow('final_logit_softcapping: found -1');
  });
});

describe('GPT-NeoX', () => {
  test('parallel or sequential, a share of each head rotated, in both spellings', () => {
    const neox = decoder({
      model_type: 'gpt_neox',
      hidden_size: 512,
      num_attention_heads: 8,
      rotary_pct: 0.25,
      rotary_emb_base: 20000,
    });
    expect(neox).toMatchObject({ residual: 'parallel', position: { dims: 16, style: 'halves' } });
    const now = {
      model_type: 'gpt_neox',
      hidden_size: 512,
      num_attention_heads: 8,
      rope_parameters: { rope_theta: 20000, partial_rotary_factor: 0.25 },
    };
    expect(decoder(now)).toEqual(neox);
    expect(decoder({ ...now, use_parallel_residual: false }).residual).toBe('pre');
    expect(() => decoder({ ...now, rope_parameters: { partial_rotary_factor: 0.01 } })).toThrow('rotary_pct');
  });

  const shapes = (layer: string, qkv: string): Shapes => ({
    [`${layer}${qkv}.weight`]: [24, 8],
    [`${layer}${qkv}.bias`]: [24],
  });
  test('fused rows: per head in safetensors, in blocks in GGUF', () => {
    const config = {
      model_type: 'gpt_neox',
      hidden_size: 8,
      num_attention_heads: 2,
      num_hidden_layers: 1,
      intermediate_size: 6,
      vocab_size: 10,
      rotary_pct: 0.5,
    };
    const layer = 'gpt_neox.layers.0.';
    const pairs = (name: string, shape: readonly number[]): Shapes => ({
      [`${name}.weight`]: shape,
      [`${name}.bias`]: shape.slice(0, 1),
    });
    const header = safetensorsHeader(config, {
      'gpt_neox.embed_in.weight': [10, 8],
      'embed_out.weight': [10, 8],
      ...pairs('gpt_neox.final_layer_norm', [8]),
      ...shapes(layer, 'attention.query_key_value'),
      ...pairs(`${layer}input_layernorm`, [8]),
      ...pairs(`${layer}post_attention_layernorm`, [8]),
      ...pairs(`${layer}attention.dense`, [8, 8]),
      ...pairs(`${layer}mlp.dense_h_to_4h`, [6, 8]),
      ...pairs(`${layer}mlp.dense_4h_to_h`, [8, 6]),
    });
    expect(describeBindings(describeModel(header).bindings, header.tensors)).toMatchObject({
      'q.weight@0': `${layer}attention.query_key_value.weight 0+4 12+4`,
      'k.weight@0': `${layer}attention.query_key_value.weight 4+4 16+4`,
      'v.weight@0': `${layer}attention.query_key_value.weight 8+4 20+4`,
      'v.bias@0': `${layer}attention.query_key_value.bias 8+4 20+4`,
      'norm2.bias@0': `${layer}post_attention_layernorm.bias 0+8`,
    });
    const fields = {
      block_count: 1,
      embedding_length: 8,
      context_length: 64,
      feed_forward_length: 6,
      'attention.head_count': 2,
      'rope.dimension_count': 2,
    };
    const gguf = ggufHeader('gptneox', fields, {
      'token_embd.weight': [10, 8],
      ...pairs('output_norm', [8]),
      ...shapes('blk.0.', 'attn_qkv'),
      ...pairs('blk.0.attn_norm', [8]),
      ...pairs('blk.0.ffn_norm', [8]),
      ...pairs('blk.0.attn_output', [8, 8]),
      ...pairs('blk.0.ffn_up', [6, 8]),
      ...pairs('blk.0.ffn_down', [8, 6]),
    });
    expect(describeBindings(describeModel(gguf).bindings, gguf.tensors)).toMatchObject({
      'q.weight@0': 'blk.0.attn_qkv.weight 0+8',
      'k.weight@0': 'blk.0.attn_qkv.weight 8+8',
      'v.bias@0': 'blk.0.attn_qkv.bias 16+8',
    });
  });
});

describe('Falcon', () => {
  const small = { model_type: 'falcon', hidden_size: 64, num_attention_heads: 8 };
  test('one KV head with multi-query whatever num_kv_heads says; groups in the new decoder; one each in falcon-rw', () => {
    expect(decoder({ ...small, num_kv_heads: 8 })).toMatchObject({
      kvHeads: 1,
      residual: 'parallel',
      feedForwardSize: 256,
    });
    expect(decoder({ ...small, num_kv_heads: 4, new_decoder_architecture: true, parallel_attn: false })).toMatchObject({
      kvHeads: 4,
      residual: 'parallel',
    });
    const rw = decoder({ ...small, multi_query: false, alibi: true, parallel_attn: false, num_kv_heads: 2 });
    expect(rw).toMatchObject({ kvHeads: 8, residual: 'pre', position: { kind: 'alibi', roundToBfloat16: true } });
    expect(() => decoder({ ...small, num_kv_heads: 3, new_decoder_architecture: true })).toThrow(
      'num_kv_heads: found 3',
    );
  });
});

describe('Phi-3', () => {
  const long = { short_factor: Array(48).fill(1), long_factor: Array(48).fill(2) };
  test('LongRoPE by each of its names, over the original context', () => {
    const scaled = (type: string) =>
      decoder({ model_type: 'phi3', max_position_embeddings: 131072, rope_scaling: { type, ...long } });
    expect(scaled('longrope').contextTokens).toBe(4096);
    expect(scaled('su')).toEqual(scaled('longrope'));
    expect(scaled('yarn')).toEqual(scaled('longrope'));
    expect(() => scaled('linear')).toThrow('rope_type: found "linear"');
  });
  test('partly rotated heads and a window', () => {
    const mini = decoder({
      model_type: 'phi3',
      hidden_size: 3072,
      num_attention_heads: 24,
      num_key_value_heads: 8,
      partial_rotary_factor: 0.75,
      sliding_window: 2047,
    });
    expect(mini).toMatchObject({ headDim: 128, position: { dims: 96 } });
    expect(mini.layerSpecs[0]?.window).toBe(2047);
  });
});

describe('GGUF llama', () => {
  const fields = {
    block_count: 1,
    embedding_length: 8,
    context_length: 64,
    feed_forward_length: 6,
    'attention.head_count': 2,
    'attention.head_count_kv': 1,
    'attention.layer_norm_rms_epsilon': 1e-5,
    expert_count: 3,
    expert_used_count: 2,
  };
  const shared: Shapes = {
    'token_embd.weight': [10, 8],
    'output_norm.weight': [8],
    'blk.0.attn_norm.weight': [8],
    'blk.0.ffn_norm.weight': [8],
    'blk.0.attn_q.weight': [8, 8],
    'blk.0.attn_k.weight': [4, 8],
    'blk.0.attn_v.weight': [4, 8],
    'blk.0.attn_output.weight': [8, 8],
    'blk.0.ffn_gate_inp.weight': [3, 8],
  };
  test('experts stacked in one tensor, or each in its own', () => {
    const stacked = ggufHeader('llama', fields, {
      ...shared,
      'blk.0.ffn_gate_exps.weight': [3, 6, 8],
      'blk.0.ffn_up_exps.weight': [3, 6, 8],
      'blk.0.ffn_down_exps.weight': [3, 8, 6],
    });
    const model = describeModel(stacked);
    expect(model.decoder).toMatchObject({
      family: 'mixtral',
      position: { style: 'pairs' },
      feedForward: { experts: { count: 3, perToken: 2 } },
    });
    expect(describeBindings(model.bindings, stacked.tensors)).toMatchObject({
      'expert.0.gate.weight@0': 'blk.0.ffn_gate_exps.weight 0+6',
      'expert.2.up.weight@0': 'blk.0.ffn_up_exps.weight 12+6',
      'expert.1.down.weight@0': 'blk.0.ffn_down_exps.weight 8+8',
    });
    const own = [0, 1, 2].flatMap(
      (e) =>
        [
          [`blk.0.ffn_gate.${e}.weight`, [6, 8]],
          [`blk.0.ffn_up.${e}.weight`, [6, 8]],
          [`blk.0.ffn_down.${e}.weight`, [8, 6]],
        ] as const,
    );
    const separate = ggufHeader('llama', fields, { ...shared, ...Object.fromEntries(own) });
    expect(describeBindings(describeModel(separate).bindings, separate.tensors)).toMatchObject({
      'expert.2.down.weight@0': 'blk.0.ffn_down.2.weight 0+8',
    });
  });
  test('YaRN: the attention factor is the one stated, or follows from the factor', () => {
    const scaleOf = (changes: object): number | undefined => {
      const dense: Shapes = {
        ...shared,
        'blk.0.ffn_gate.weight': [6, 8],
        'blk.0.ffn_up.weight': [6, 8],
        'blk.0.ffn_down.weight': [8, 6],
      };
      const { 'blk.0.ffn_gate_inp.weight': _, ...shapes } = dense;
      const header = ggufHeader(
        'llama',
        { ...fields, expert_count: 0, 'rope.scaling.type': 'yarn', 'rope.scaling.factor': 4, ...changes },
        shapes,
      );
      const { position } = describeModel(header).decoder;
      return position.kind === 'rotary' ? position.tables[0]?.scale : undefined;
    };
    expect(scaleOf({})).toBeCloseTo(0.1 * Math.log(4) + 1, 12);
    expect(scaleOf({ 'rope.scaling.yarn_attn_factor': 1.5 })).toBe(1.5);
  });
});

describe('Gemma 3n', () => {
  test('gates of the first ten layers are cut off where the configuration does not say, in larger models alone', () => {
    const deviations = (layers: number): unknown[] =>
      decoder({ model_type: 'gemma3n_text', num_hidden_layers: layers, num_kv_shared_layers: 0 }).layerSpecs.map(
        ({ gateDeviations = 0 }) => Math.round(gateDeviations * 1e4) / 1e4,
      );
    expect(deviations(12)).toEqual([...Array<number>(10).fill(1.6449), 0, 0]);
    expect(deviations(10)).toEqual(Array<number>(10).fill(0));
  });
  test.each([
    [{ activation_sparsity_scale: [1.28] }, 'activation_sparsity_scale: found an array of 1, expected an array of 2 n'],
    [{ activation_sparsity_scale: [1.28, 'x'] }, 'activation_sparsity_scale[1]: found "x", expected a number'],
    [{ activation_sparsity_scale: Float32Array.of(NaN, 0) }, 'activation_sparsity_scale[0]: found NaN, expected a num'],
    [{ activation_sparsity_scale: [-Infinity, Infinity] }, 'activation_sparsity_scale[1]: found Infinity, expected a'],
    [{ activation_sparsity_scale: 1.28 }, 'activation_sparsity_scale: found 1.28, expected an array of 2 numbers'],
    [{ 'attention.shared_kv_layers': 1 }, 'gemma3n.attention.shared_kv_layers: found 1, expected fewer'],
    [{ 'altup.active_idx': 1 }, 'gemma3n.altup.active_idx: found 1, expected 0'],
  ])('GGUF: refuses %p by the name that the file has', (changes, message) => {
    const fields = {
      block_count: 2,
      embedding_length: 8,
      context_length: 64,
      feed_forward_length: 6,
      vocab_size: 10,
      'attention.head_count': 2,
      'attention.head_count_kv': 1,
      'attention.layer_norm_rms_epsilon': 1e-6,
      'attention.shared_kv_layers': 0,
      'attention.sliding_window_pattern': [true, false],
      ...changes,
    };
    expect(() => describeModel(ggufHeader('gemma3n', fields, { 'token_embd.weight': [10, 8] }))).toThrow(message);
  });
});

describe('MiMo V2', () => {
  const sizes = { model_type: 'mimo_v2_flash', num_hidden_layers: 4, attention_value_scale: 0.5 };
  test('as it is published, and as transformers 5 says the same', () => {
    const published = {
      ...sizes,
      hybrid_layer_pattern: [0, 1, 1, 0],
      moe_layer_freq: [0, 1, 1, 1],
      layernorm_epsilon: 1e-6,
      routed_scaling_factor: null,
      partial_rotary_factor: 0.25,
      rope_theta: 1e6,
      swa_rope_theta: 2e4,
      swa_num_key_value_heads: 8,
    };
    const [full, sliding] = ['full_attention', 'sliding_attention'];
    const described = decoder({
      ...sizes,
      layer_types: [full, sliding, sliding, full],
      mlp_layer_types: ['dense', 'sparse', 'sparse', 'sparse'],
      rms_norm_eps: 1e-6,
      rope_parameters: {
        full_attention: { rope_theta: 1e6, partial_rotary_factor: 0.25 },
        sliding_attention: { rope_theta: 2e4, partial_rotary_factor: 0.25 },
      },
    });
    expect(decoder(published)).toEqual(described);
    expect(described).toMatchObject({
      headDim: 192,
      attention: { sinks: true, valueDim: 128, outputScale: 0.5 },
      position: { dims: 48 },
    });
    expect(windows(described.layerSpecs)).toEqual([0, 129, 129, 0]);
    expect(described.layerSpecs.map(({ kvHeads }) => kvHeads)).toEqual([undefined, 8, 8, undefined]);
    expect(described.layerSpecs.map(({ dense }) => dense)).toEqual([true, undefined, undefined, undefined]);
  });
  test('layers all see everything in the first and every sixth where nobody says', () => {
    const described = decoder({ model_type: 'mimo_v2_flash', num_hidden_layers: 8 });
    expect(windows(described.layerSpecs)).toEqual([0, 129, 129, 129, 129, 0, 129, 129]);
    expect(described.attention.outputScale).toBe(0.707);
    const unscaled = decoder({ model_type: 'mimo_v2_flash', attention_value_scale: null });
    expect(unscaled.attention.outputScale).toBeUndefined();
  });
  test('windows: of one more than the positions before a query, or as transformers 5 saves them', () => {
    const widest = (changes: object): number => Math.max(...windows(decoder({ ...sizes, ...changes }).layerSpecs));
    expect(widest({ sliding_window: 128, sliding_window_size: 128 })).toBe(129);
    expect(widest({ sliding_window_size: 64 })).toBe(65);
    expect(widest({ sliding_window: 64, sliding_window_size: null })).toBe(64);
  });
  test("windows of llama.cpp's files: of the positions that a query sees, its own among them", () => {
    const fields = {
      context_length: 64,
      embedding_length: 8,
      feed_forward_length: 6,
      block_count: 2,
      'attention.head_count': 2,
      'attention.head_count_kv': [1, 2],
      'attention.key_length': 4,
      'attention.value_length': 2,
      'attention.layer_norm_rms_epsilon': 1e-6,
      'attention.sliding_window_pattern': [0, 1],
      'rope.dimension_count': 2,
      expert_count: 4,
      expert_used_count: 2,
      expert_feed_forward_length: 6,
    };
    const layer = (index: number, kvHeads: number): Shapes => ({
      [`blk.${index}.attn_norm.weight`]: [8],
      [`blk.${index}.ffn_norm.weight`]: [8],
      [`blk.${index}.attn_q.weight`]: [8, 8],
      [`blk.${index}.attn_k.weight`]: [4 * kvHeads, 8],
      [`blk.${index}.attn_v.weight`]: [2 * kvHeads, 8],
      [`blk.${index}.attn_output.weight`]: [8, 4],
      [`blk.${index}.ffn_gate_inp.weight`]: [4, 8],
      [`blk.${index}.exp_probs_b.bias`]: [4],
      [`blk.${index}.ffn_gate_exps.weight`]: [4, 6, 8],
      [`blk.${index}.ffn_up_exps.weight`]: [4, 6, 8],
      [`blk.${index}.ffn_down_exps.weight`]: [4, 8, 6],
    });
    const ends = { 'token_embd.weight': [10, 8], 'output_norm.weight': [8], 'output.weight': [10, 8] };
    const shapes = { ...ends, ...layer(0, 1), ...layer(1, 2) };
    const described = (changes: object) => describeModel(ggufHeader('mimo2', { ...fields, ...changes }, shapes));
    expect(windows(described({ 'attention.sliding_window': 128 }).decoder.layerSpecs)).toEqual([0, 128]);
    expect(() => described({})).toThrow('mimo2.attention.sliding_window: found');
  });
  test('heads of layers with a window as large as the others are by default', () => {
    const alike = { swa_num_attention_heads: 64, swa_head_dim: 192, swa_v_head_dim: 128 };
    expect(decoder({ ...sizes, ...alike })).toEqual(decoder(sizes));
  });
  test.each([
    [{ attention_projection_layout: 'fused_qkv' }, 'attention_projection_layout: found "fused_qkv", expected queries'],
    [{ head_dim: 192, swa_head_dim: 128 }, 'swa_head_dim: found 128, expected as head_dim'],
    [{ swa_v_head_dim: 192 }, 'swa_v_head_dim: found 192, expected as v_head_dim'],
    [{ rope_parameters: { rope_theta: 1e6 } }, 'rope_parameters.rope_theta: found 1000000'],
    [{ v_head_dim: 256 }, 'elements of a value: found 256, expected at most the head size 192'],
  ])('refuses %j', (changes, message) => {
    expect(() => decoder({ ...sizes, ...changes })).toThrow(message);
  });
});

describe('Laguna', () => {
  const sizes = { model_type: 'laguna', num_hidden_layers: 2 };
  test('heads by layer, of which the decoder has the most, and gates of heads or of elements', () => {
    const described = decoder({ ...sizes, num_attention_heads_per_layer: [48, 64] });
    expect(described).toMatchObject({ heads: 64, kvHeads: 8 });
    expect(described.layerSpecs.map(({ heads }) => heads)).toEqual([48, undefined]);
    expect(described.attention).toMatchObject({ gate: true, gateActivation: 'softplus', gatesHeads: true });
    for (const gating of [
      { gating: 'per-element' },
      { gating: 'per-element', gating_types: ['per_element', 'per_element'] },
    ])
      expect(decoder({ ...sizes, ...gating }).attention.gatesHeads).toBe(false);
  });
  test('what layers of each kind rotate, whatever share stands beside them', () => {
    for (const beside of [{}, { partial_rotary_factor: 0.5 }, { partial_rotary_factor: 1 }]) {
      const { position } = decoder({ ...sizes, ...beside, layer_types: ['full_attention', 'sliding_attention'] });
      if (position.kind !== 'rotary') throw new Error('no rotation');
      expect(position.dims).toBe(128);
      expect(position.tables.map(({ frequencies }) => frequencies.length)).toEqual([32, 64]);
    }
  });
  test.each([
    [{ num_attention_heads_per_layer: [48, 60] }, 'key/value heads: found 8, expected a divisor of the 60'],
    [{ num_attention_heads_per_layer: [48] }, 'num_attention_heads_per_layer: found'],
    [{ gating: 'none' }, 'gating: found "none", expected true, per-head or per-element'],
    [{ gating_types: ['per_head', 'per_element'] }, 'gating_types: found'],
    [{ moe_router_logit_softcapping: 30 }, 'moe_router_logit_softcapping: found 30, expected 0'],
    [{ moe_apply_router_weight_on_input: true }, 'moe_apply_router_weight_on_input: found true'],
    [{ swa_attention_sink_enabled: true }, 'swa_attention_sink_enabled: found true, expected false'],
    [{ moe_router_use_sigmoid: false }, 'moe_router_use_sigmoid: found false, expected true'],
    [{ rope_parameters: { rope_type: 'default' } }, 'rope_parameters.rope_type: found "default", expected settings of'],
  ])('refuses %j', (changes, message) => {
    expect(() => decoder({ ...sizes, ...changes })).toThrow(message);
  });
});

describe('LongCat-Flash', () => {
  const sizes = { model_type: 'longcat_flash', num_layers: 2 };
  test('a layer of its files is two here, of which the first has experts', () => {
    const described = decoder(sizes);
    expect(described).toMatchObject({
      layers: 4,
      attention: { scale: 192 ** -0.5 * 2, latent: { scale: Math.fround(Math.sqrt(12)) } },
      feedForward: { experts: { count: 512, identities: 256, aside: true, denseSize: 12288, shared: { size: 12288 } } },
    });
    expect(described.layerSpecs.map(({ dense = false }) => dense)).toEqual([false, true, false, true]);
    const aliased = {
      num_hidden_layers: 4,
      num_experts_per_tok: 8,
      moe_intermediate_size: 1024,
      intermediate_size: 4096,
      num_local_experts: 64,
    };
    const own = { ...sizes, moe_topk: 8, expert_ffn_hidden_size: 1024, ffn_hidden_size: 4096, n_routed_experts: 64 };
    const { model_type } = sizes;
    expect(decoder({ model_type, ...aliased })).toEqual(decoder(own));
    expect(decoder({ ...own, ...aliased })).toEqual(decoder(own));
    expect(decoder(own)).toMatchObject({
      feedForwardSize: 1024,
      feedForward: { experts: { count: 64, perToken: 8, denseSize: 4096 } },
    });
    // Tokens may take more experts than compute something.
    expect(decoder({ ...sizes, n_routed_experts: 2 }).feedForward.experts).toMatchObject({ count: 2, perToken: 12 });
  });
  test.each([
    [{ q_lora_rank: null }, 'q_lora_rank: found null, expected a number of at least 1'],
    [{ router_bias: true }, 'router_bias: found true'],
    [{ moe_topk: 8, num_experts_per_tok: 12 }, 'num_experts_per_tok: found 12, expected as moe_topk, 8'],
    [{ num_hidden_layers: 2 }, 'num_hidden_layers: found 2, expected two for each of num_layers, 4'],
    [{ num_layers: undefined, num_hidden_layers: 5 }, 'num_hidden_layers: found 5, expected two for each'],
    [{ mla_scale_q_lora: false }, 'mla_scale_q_lora: found false, expected true'],
    [{ zero_expert_type: 'drop' }, 'zero_expert_type: found "drop", expected identity'],
    [{ qk_head_dim: 128 }, 'qk_head_dim: found 128, expected qk_nope_head_dim + qk_rope_head_dim, 192'],
    [{ n_routed_experts: 2, zero_expert_num: 3 }, 'experts per token: found 12, expected at most 5'],
  ])('refuses %j', (changes, message) => {
    expect(() => decoder({ ...sizes, ...changes })).toThrow(message);
  });
});

describe('models that also see or hear', () => {
  test('Nemotron-H inside another model, as it is published', () => {
    const config = {
      model_type: 'nemotron_h_omni',
      llm_config: {
        layers_block_type: ['full_attention', 'mlp'],
        hidden_size: 8,
        head_dim: 4,
        num_attention_heads: 2,
        num_key_value_heads: 1,
        intermediate_size: 6,
        vocab_size: 10,
      },
    };
    const base = 'language_model.backbone.';
    const header = safetensorsHeader(config, {
      [`${base}embeddings.weight`]: [10, 8],
      [`${base}norm_f.weight`]: [8],
      'language_model.lm_head.weight': [10, 8],
      [`${base}layers.0.norm.weight`]: [8],
      [`${base}layers.0.mixer.q_proj.weight`]: [8, 8],
      [`${base}layers.0.mixer.k_proj.weight`]: [4, 8],
      [`${base}layers.0.mixer.v_proj.weight`]: [4, 8],
      [`${base}layers.0.mixer.o_proj.weight`]: [8, 8],
      [`${base}layers.1.norm.weight`]: [8],
      [`${base}layers.1.mixer.up_proj.weight`]: [6, 8],
      [`${base}layers.1.mixer.down_proj.weight`]: [8, 6],
    });
    expect(describeBindings(describeModel(header).bindings, header.tensors)).toMatchObject({
      'token_embedding@-1': `${base}embeddings.weight 0+10`,
      'head.weight@-1': 'language_model.lm_head.weight 0+10',
      'up.weight@0': `${base}layers.1.mixer.up_proj.weight 0+6`,
    });
  });
});
