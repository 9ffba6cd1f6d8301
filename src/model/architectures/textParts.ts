import type { Description } from './Family.js';
import type { Fields } from './Fields.js';
import type { TensorIndex } from './TensorIndex.js';

/** Models that also see: what the language model inside is where its own configuration does not say. */
const INSIDE: Readonly<Record<string, string | undefined>> = {
  mistral3: 'mistral',
  llava: 'llama',
  llava_next: 'llama',
  qwen2_vl: 'qwen2',
  qwen2_5_vl: 'qwen2',
  qwen3_vl: 'qwen3',
  aya_vision: 'cohere2',
  cohere2_vision: 'cohere2',
};
/** What language models of those are called that are others but for positions of pictures. */
const ALIASES: Readonly<Record<string, string | undefined>> = {
  qwen2_vl_text: 'qwen2',
  qwen2_5_vl_text: 'qwen2',
  qwen3_vl_text: 'qwen3',
};
/** Prefixes of its tensors, as transformers 4 and 5 write them. */
const BASES = ['model.language_model.', 'language_model.model.', 'model.'];
const HEADS = ['lm_head.weight', 'language_model.lm_head.weight', 'model.language_model.lm_head.weight'];

/** `model_type` values of models whose language model is taken alone. */
export const seeingModelTypes: readonly string[] = Object.keys(INSIDE);

/**
 * The configuration of the language model inside one that also sees; undefined for others. Positions of text are the
 * same in all of a picture's dimensions, so that their rotation is the plain one.
 */
export function textPart(config: Fields): Fields | undefined {
  const type = config.raw('model_type');
  const otherwise = typeof type === 'string' && Object.hasOwn(INSIDE, type) ? INSIDE[type] : undefined;
  if (otherwise === undefined) return undefined;
  const text = config.child('text_config') ?? config;
  const own = text === config ? otherwise : (text.raw('model_type') ?? otherwise);
  const inside = typeof own === 'string' && Object.hasOwn(ALIASES, own) ? ALIASES[own] : own;
  const tied = [text, config].some((each) => each.boolean('tie_word_embeddings', false));
  return withPlainRotation(text.with({ model_type: inside, tie_word_embeddings: tied }));
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
