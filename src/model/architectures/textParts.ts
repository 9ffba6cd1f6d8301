import type { Description } from './Family.js';
import type { Fields } from './Fields.js';
import type { TensorIndex } from './TensorIndex.js';

/**
 * Models that also see or hear: what the language model inside is where its own configuration does not say. Text is
 * computed by that alone.
 */
const INSIDE: Readonly<Record<string, string | undefined>> = {
  aya_vision: 'cohere2',
  cohere2_vision: 'cohere2',
  deepseek_vl: 'llama',
  deepseek_vl_hybrid: 'llama',
  exaone4_5: 'exaone4',
  fast_vlm: 'qwen2',
  glm46v: 'glm4',
  glm4v: 'glm4',
  glm4v_moe: 'glm4_moe',
  glm_ocr: 'glm4',
  glmga: 'glm4v_text',
  glmasr: 'llama',
  got_ocr2: 'qwen2',
  granite4_vision: 'granite',
  granite_docling: 'granite',
  granite_speech: 'granite',
  hyperclovax_vision_v2: 'hyperclovax',
  idefics2: 'mistral',
  idefics3: 'llama',
  internvl: 'qwen2',
  internvl_chat: 'qwen2',
  janus: 'llama',
  kimi_k25: 'deepseek_v3',
  lfm2_vl: 'lfm2',
  lfm3_vl: 'lfm3',
  lighton_ocr: 'qwen3',
  llava: 'llama',
  llava_next: 'llama',
  llava_next_video: 'llama',
  llava_onevision: 'qwen2',
  minicpm_ocr: 'qwen3_5_text',
  minicpmv4_6: 'qwen3_5_text',
  minicpmv4_7: 'qwen3_5_text',
  minimax_m3_vl: 'minimax_m3_vl_text',
  mistral3: 'mistral',
  nemotron_h_omni: 'nemotron_h',
  ovis2: 'qwen2',
  paddleocr_vl: 'paddleocr_vl_text',
  perception_lm: 'llama',
  pp_chart2table: 'qwen2',
  qianfan_ocr: 'qwen3',
  qwen2_5_omni: 'qwen2',
  qwen2_5_omni_thinker: 'qwen2',
  qwen2_5_vl: 'qwen2',
  qwen2_audio: 'qwen2',
  qwen2_vl: 'qwen2',
  qwen3_asr: 'qwen3',
  qwen3_omni_moe: 'qwen3_moe',
  qwen3_omni_moe_thinker: 'qwen3_moe',
  qwen3_vl: 'qwen3',
  qwen3_vl_moe: 'qwen3_moe',
  smolvlm: 'llama',
  video_llama_3: 'qwen2',
  video_llava: 'llama',
  vipllava: 'llama',
  voxtral: 'llama',
};
/** A language model inside that is another one but for positions of pictures. */
interface Alias {
  readonly type: string;
  /** Fields whose defaults are not the other one's. */
  readonly unsaid?: Readonly<Record<string, unknown>>;
  /** Fields that it has otherwise. */
  readonly always?: (text: Fields) => Readonly<Record<string, unknown>>;
}
const ALIASES: Readonly<Record<string, Alias | undefined>> = {
  glm4v_moe_text: { type: 'glm4_moe' },
  glm4v_text: { type: 'glm4', unsaid: { head_dim: null, partial_rotary_factor: 1 } },
  glm_ocr_text: {
    type: 'glm4',
    unsaid: { head_dim: null, partial_rotary_factor: 1 },
    always: () => ({ attention_bias: false }),
  },
  granite4_vision_text: { type: 'granite' },
  granite_docling_text: { type: 'granite' },
  paddleocr_vl_text: {
    type: 'llama',
    unsaid: { head_dim: 128, rope_theta: 500000, rms_norm_eps: 1e-5 },
    always: (text) => ({ attention_bias: text.raw('use_bias'), mlp_bias: text.raw('use_bias') }),
  },
  qwen2_5_omni_text: { type: 'qwen2' },
  qwen2_5_vl_text: { type: 'qwen2' },
  qwen2_vl_text: { type: 'qwen2' },
  qwen3_omni_moe_text: { type: 'qwen3_moe' },
  qwen3_vl_moe_text: { type: 'qwen3_moe', always: () => ({ norm_topk_prob: true }) },
  qwen3_vl_text: { type: 'qwen3' },
};
/** Prefixes of its tensors, as transformers 4 and 5 and the models' own code write them. */
const BASES = [
  'model.language_model.',
  'language_model.model.',
  'model.',
  'model.text_model.',
  'thinker.model.',
  'language_model.backbone.',
  'language_model.',
];
const HEADS = [
  'lm_head.weight',
  'language_model.lm_head.weight',
  'model.language_model.lm_head.weight',
  'thinker.lm_head.weight',
];

/** `model_type` values of models whose language model is taken alone. */
export const seeingModelTypes: readonly string[] = Object.keys(INSIDE);

/** Members of a configuration that may be of the language model inside, or of what has that inside again. */
export const LANGUAGE_CONFIGS = ['text_config', 'llm_config', 'thinker_config'] as const;

/** A configuration, and those inside that may be of its language model. */
export function* languageConfigs(config: Fields, deeper = 2): Generator<Fields> {
  yield config;
  if (deeper === 0) return;
  for (const name of LANGUAGE_CONFIGS) {
    const inner = config.child(name);
    if (inner) yield* languageConfigs(inner, deeper - 1);
  }
}

/**
 * The configuration of the language model inside one that also sees; undefined for others. Positions of text are the
 * same in all of a picture's dimensions, so that their rotation is the plain one.
 */
export function textPart(config: Fields): Fields | undefined {
  const type = config.raw('model_type');
  const otherwise = typeof type === 'string' && Object.hasOwn(INSIDE, type) ? INSIDE[type] : undefined;
  if (otherwise === undefined) return undefined;
  const whole = config.child('thinker_config') ?? config;
  const text = whole.child('text_config') ?? whole.child('llm_config') ?? whole;
  const own = text === config ? otherwise : (text.raw('model_type') ?? otherwise);
  const alias = typeof own === 'string' && Object.hasOwn(ALIASES, own) ? ALIASES[own] : undefined;
  const tied = [text, whole, config].some((each) => each.boolean('tie_word_embeddings', false));
  const unsaid = Object.fromEntries(Object.entries(alias?.unsaid ?? {}).filter(([key]) => !text.has(key)));
  const model_type = alias?.type ?? own;
  return withPlainRotation(text.with({ ...unsaid, ...alias?.always?.(text), model_type, tie_word_embeddings: tied }));
}

/** Its description, with the names that its tensors have there. */
export function inside(description: Description, tensors: TensorIndex | undefined): Description {
  const found = HEADS.find((name) => tensors?.has(name) === true);
  return {
    ...description,
    bases: BASES,
    weights: description.weights.map((source) =>
      source.tensor === 'lm_head.weight' && found !== undefined ? { ...source, tensor: found } : source,
    ),
  };
}

function withPlainRotation(config: Fields): Fields {
  const plain = (key: 'rope_scaling' | 'rope_parameters'): Readonly<Record<string, unknown>> => {
    const settings = config.child(key);
    if (settings === undefined) return {};
    const type = settings.raw('rope_type') ?? settings.raw('type');
    if (type !== 'mrope') return {};
    return { [key]: { ...(config.raw(key) as object), type: 'default', rope_type: 'default' } };
  };
  return config.with({ ...plain('rope_scaling'), ...plain('rope_parameters') });
}
