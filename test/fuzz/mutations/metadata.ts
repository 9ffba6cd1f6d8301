import { array, scalar, type GgufScalar, type GgufScalarType, type GgufValue } from '../../model/support/GgufWriter.js';
import type { GgufImage } from '../images/ModelImage.js';
import { ggufValue, numberType } from '../images/readImages.js';
import type { Random } from '../Random.js';
import { mutatedTemplate } from './templates.js';
import { edited } from './tree.js';
import { number, text, wholeNumber, word } from './values.js';

type Entry = GgufImage['metadata'][number];

const TYPES: readonly GgufScalarType[] = [
  'uint8',
  'int8',
  'uint16',
  'int16',
  'uint32',
  'int32',
  'float32',
  'bool',
  'string',
  'uint64',
  'int64',
  'float64',
];
const HARMLESS = [
  'context_length',
  'attention.layer_norm_rms_epsilon',
  'attention.layer_norm_epsilon',
  'rope.freq_base',
  'rope.scaling.factor',
  'rope.scaling.original_context_length',
  'rope.scaling.attn_factor',
  'attention.sliding_window',
  'rope.dimension_count',
  'attention.scale',
  'attn_logit_softcapping',
  'final_logit_softcapping',
  'expert_used_count',
  'embedding_scale',
  'residual_scale',
  'logit_scale',
  'expert_weights_scale',
  'expert_weights_norm',
  'expert_gating_func',
  'leading_dense_block_count',
  'interleave_moe_layer_step',
  'expert_group_count',
  'expert_group_used_count',
  'expert_feed_forward_length',
  'nextn_predict_layers',
  'use_parallel_residual',
  'rope.freq_base_swa',
  'attention.sliding_window_pattern',
  'vocab_size',
  'rope.scaling.yarn_log_multiplier',
  'attention.temperature_scale',
  'attention.temperature_length',
  'rope.dimension_count_swa',
  'expert_shared_count',
];
const SIZES = [
  'block_count',
  'embedding_length',
  'feed_forward_length',
  'attention.head_count',
  'attention.head_count_kv',
  'attention.key_length',
  'attention.value_length',
  'expert_count',
  'attention.key_length_swa',
  'attention.key_length_mla',
  'attention.value_length_mla',
  'attention.kv_lora_rank',
  'attention.q_lora_rank',
  'attention.shared_kv_layers',
  'embedding_length_per_layer_input',
  'rope.scaling.type',
  'use_parallel_residual',
];
const IDS = ['bos_token_id', 'eos_token_id', 'eot_token_id', 'eom_token_id', 'unknown_token_id', 'padding_token_id'];
const PRE = [
  'default',
  'llama-bpe',
  'smollm',
  'qwen2',
  'gpt-2',
  'falcon',
  'tekken',
  'deepseek-llm',
  'olmo',
  'starcoder',
  'unknown',
];

/** Metadata with one value changed, most often to one that a model may have. */
export function mutatedMetadata(random: Random, metadata: readonly Entry[]): readonly Entry[] {
  const architecture = valueOf(metadata, 'general.architecture');
  const put = (key: string, change: (value: GgufValue | undefined) => GgufValue | undefined): readonly Entry[] =>
    changedValue(metadata, key, change);
  const token = (key: string): string => `tokenizer.ggml.${key}`;
  const index = random.below(metadata.length);
  const key = metadata[index]?.[0] ?? '';
  return random.weighted<() => readonly Entry[]>([
    [8, () => put(`${String(architecture)}.${random.pick(HARMLESS)}`, () => anyNumber(random))],
    [2, () => put(`${String(architecture)}.${random.pick(SIZES)}`, () => anyNumber(random))],
    [
      12,
      () =>
        put('tokenizer.chat_template', (value) =>
          scalar('string', mutatedTemplate(random, value?.type === 'string' ? String(value.value) : '')),
        ),
    ],
    [6, () => put(token('tokens'), (value) => mutatedTexts(random, value))],
    [2, () => put(token('merges'), (value) => mutatedTexts(random, value))],
    [3, () => put(token('token_type'), (value) => mutatedNumbers(random, value, () => random.below(8)))],
    [2, () => put(token('scores'), (value) => mutatedNumbers(random, value, () => number(random)))],
    [
      3,
      () =>
        put(token(random.pick(IDS)), () => scalar('uint32', random.chance(0.8) ? random.below(260) : random.next())),
    ],
    [
      2,
      () =>
        put(
          token(random.pick(['add_bos_token', 'add_eos_token', 'add_space_prefix', 'remove_extra_whitespaces'])),
          () => scalar('bool', random.chance(0.5)),
        ),
    ],
    [2, () => put(token('pre'), () => scalar('string', random.pick(PRE)))],
    [1, () => put(token('model'), () => scalar('string', random.pick(['gpt2', 'llama', 'bert', 't5', word(random)])))],
    [
      1,
      () =>
        put('general.architecture', () =>
          scalar(
            'string',
            random.pick([
              'llama',
              'qwen2',
              'qwen3',
              'qwen3moe',
              'gemma2',
              'gemma3',
              'phi3',
              'falcon',
              'gptneox',
              word(random),
            ]),
          ),
        ),
    ],
    [2, () => put(key, () => anyValue(random))],
    [1, () => put(key, () => undefined)],
    [1, () => [...metadata, [random.chance(0.5) ? key : text(random), anyValue(random)] as const]],
    [
      1,
      () => metadata.map((entry, each) => (each === index ? ([edited(random, entry[0]), entry[1]] as const) : entry)),
    ],
  ])();
}

function valueOf(metadata: readonly Entry[], key: string): GgufScalar {
  const value = metadata.find(([name]) => name === key)?.[1];
  return value && 'value' in value ? value.value : '';
}

/** Metadata with one value replaced, put in, or, by undefined, taken out. */
function changedValue(
  metadata: readonly Entry[],
  key: string,
  change: (value: GgufValue | undefined) => GgufValue | undefined,
): readonly Entry[] {
  const value = change(metadata.find(([name]) => name === key)?.[1]);
  const others = metadata.filter(([name]) => name !== key);
  return value === undefined ? others : [...others, [key, value]];
}

function anyNumber(random: Random): GgufValue {
  const value = random.chance(0.7)
    ? random.pick([1, 2, 3, 4, 8, 16, 32, 64, 100, 0.5, 0.1, 1e4, 1e6, 1e-5])
    : number(random);
  return random.chance(0.9)
    ? scalar(numberType(value), value)
    : array(
        'int32',
        random.list(0, 4, () => random.below(128)),
      );
}

function anyValue(random: Random): GgufValue {
  const type = random.pick(TYPES);
  return random.weighted<() => GgufValue>([
    [6, () => scalar(type, anyScalar(random, type))],
    [
      2,
      () =>
        array(
          type,
          random.list(0, 6, () => anyScalar(random, type)),
        ),
    ],
    [
      1,
      () => ({
        type: 'arrays',
        values: random.list(0, 3, () => anyValue(random)).filter((value) => 'values' in value),
      }),
    ],
  ])();
}

/** A value that fits the type: the writer refuses others. */
function anyScalar(random: Random, type: GgufScalarType): GgufScalar {
  if (type === 'string') return text(random);
  if (type === 'bool') return random.chance(0.5);
  if (type === 'float32' || type === 'float64')
    return random.chance(0.9) ? number(random) : random.pick([NaN, Infinity, -Infinity]);
  const bits = Number(/\d+/.exec(type)?.[0]);
  const whole = wholeNumber(random);
  const fitted = type.startsWith('u') ? BigInt.asUintN(bits, whole) : BigInt.asIntN(bits, whole);
  return bits === 64 ? fitted : Number(fitted);
}

function mutatedTexts(random: Random, value: GgufValue | undefined): GgufValue | undefined {
  if (value?.type !== 'array') return ggufValue([text(random)]);
  const { values } = value;
  const index = random.below(values.length);
  return array(
    'string',
    random.weighted<() => readonly GgufScalar[]>([
      [
        6,
        () =>
          values.map((each, i) =>
            i === index ? (random.chance(0.5) ? word(random) : edited(random, String(each))) : each,
          ),
      ],
      [2, () => values.map((each, i) => (i === index ? String(values[random.below(values.length)]) : each))],
      [1, () => [...values].reverse()],
      [1, () => values.slice(0, index)],
      [1, () => [...values, text(random)]],
    ])(),
  );
}

function mutatedNumbers(random: Random, value: GgufValue | undefined, make: () => number): GgufValue | undefined {
  if (value?.type !== 'array') return undefined;
  const index = random.below(value.values.length);
  const share = random.pick([0, 0.1, 1]);
  return ggufValue(
    random.chance(0.95)
      ? Float32Array.from(value.values, (each, i) => (i === index || random.chance(share) ? make() : Number(each)))
      : Float32Array.from(value.values.slice(0, index), Number),
  );
}
