import type { Fields } from './Fields.js';

/** How a checkpoint's quantiser packed integers, as its configuration says. */
export interface PackedScheme {
  readonly method: 'gptq' | 'awq' | 'compressed-tensors' | 'bitsandbytes' | 'torchao';
  readonly bits: 4 | 8;
  /** Inputs that share a scale; undefined: all of them, or as the scales' shape says (torchao). */
  readonly group: number | undefined;
  /** No zero points but the middle. */
  readonly symmetric: boolean;
  /** Groups are of inputs in an order of their own, which a tensor tells. */
  readonly reordered: boolean;
  /** The number added to each stored zero point: 1 in GPTQ's first format. */
  readonly zeroAdd: 0 | 1;
}

const GROUP = { min: 1, max: 2 ** 20 };

/**
 * The scheme of one quantization_config; undefined for methods that pack no integers.
 * @throws ModelFileError for what those methods can say and is not read
 */
export function packedScheme(quantisation: Fields): PackedScheme | undefined {
  switch (quantisation.raw('quant_method')) {
    case 'gptq':
      return gptq(quantisation);
    case 'awq':
      return awq(quantisation);
    case 'compressed-tensors':
      return compressedTensors(quantisation);
    case 'bitsandbytes':
      return quantisation.raw('load_in_8bit') === true ? BYTES_OF_ROWS : undefined;
    case 'torchao':
      return torchao(quantisation);
    default:
      return undefined;
  }
}

/** LLM.int8(): a row's scale is that of its largest number. */
const BYTES_OF_ROWS: PackedScheme = {
  method: 'bitsandbytes',
  bits: 8,
  group: undefined,
  symmetric: true,
  reordered: false,
  zeroAdd: 0,
};

function gptq(fields: Fields): PackedScheme {
  const format = fields.raw('checkpoint_format') ?? 'gptq';
  if (format !== 'gptq' && format !== 'gptq_v2')
    fields.refuse(
      'checkpoint_format',
      'gptq or gptq_v2: Marlin and others keep integers in the order of their kernels',
    );
  const dynamic = fields.child('dynamic');
  if (dynamic !== undefined) fields.refuse('dynamic', 'null: modules that are quantised in ways of their own');
  return {
    method: 'gptq',
    bits: bitsOf(fields, 'bits'),
    group: groupOf(fields, 'group_size'),
    symmetric: fields.boolean('sym', false),
    reordered: fields.boolean('desc_act', false),
    zeroAdd: format === 'gptq' ? 1 : 0,
  };
}

function awq(fields: Fields): PackedScheme {
  const version = fields.raw('version') ?? 'gemm';
  if (typeof version !== 'string' || version.toLowerCase() !== 'gemm')
    fields.refuse('version', 'gemm: other versions keep integers in the order of their kernels');
  const bits = bitsOf(fields, fields.has('w_bit') ? 'w_bit' : 'bits');
  if (bits !== 4) fields.refuse('bits', '4, as all of AWQ has');
  return {
    method: 'awq',
    bits,
    group: groupOf(fields, fields.has('q_group_size') ? 'q_group_size' : 'group_size'),
    symmetric: !fields.boolean('zero_point', true),
    reordered: false,
    zeroAdd: 0,
  };
}

/** Configurations of torchao whose integers are bytes, each beside a byte of its zero point and a scale. */
const BYTE_CONFIGS: readonly unknown[] = [
  'Int8WeightOnlyConfig',
  'Int8DynamicActivationInt8WeightConfig',
  'IntxWeightOnlyConfig',
  'Int8DynamicActivationIntxWeightConfig',
];

function torchao(fields: Fields): PackedScheme {
  const kind = fields.child('quant_type')?.child('default');
  const remedy = 'use the model that was quantised, or a GGUF file of it';
  if (kind === undefined || !BYTE_CONFIGS.includes(kind.raw('_type')))
    return (kind ?? fields).refuse(
      kind === undefined ? 'quant_type' : '_type',
      `one of ${BYTE_CONFIGS.join(', ')}: others are kept in the order of a GPU's kernels, or beside zero points of floats; ${remedy}`,
    );
  const packing = kind.child('_data')?.child('intx_packing_format')?.raw('_data') ?? 'UNPACKED_TO_INT8';
  if (packing !== 'UNPACKED_TO_INT8')
    kind.refuse(
      '_data.intx_packing_format',
      `UNPACKED_TO_INT8: others are in the order of kernels; ${remedy}`,
      packing,
    );
  return { method: 'torchao', bits: 8, group: undefined, symmetric: true, reordered: false, zeroAdd: 0 };
}

const INTEGER_FORMATS: readonly unknown[] = ['pack-quantized', 'int-quantized', 'naive-quantized'];

function compressedTensors(fields: Fields): PackedScheme | undefined {
  if (!INTEGER_FORMATS.includes(fields.raw('format'))) return undefined;
  const groups = fields.child('config_groups');
  const first = groups?.child('group_0')?.child('weights');
  if (groups?.raw('group_1') !== undefined)
    groups.refuse('group_1', 'one group of weights: those quantised in several ways are not read');
  if (first === undefined) return fields.refuse('config_groups', 'a group_0 with weights');
  if (first.raw('type') !== 'int') {
    if (fields.raw('format') === 'naive-quantized') return undefined;
    first.refuse('type', 'int');
  }
  return {
    method: 'compressed-tensors',
    bits: bitsOf(first, 'num_bits'),
    group: groupOf(first, 'group_size'),
    symmetric: first.boolean('symmetric', true),
    reordered: first.raw('actorder') === 'group',
    zeroAdd: 0,
  };
}

function bitsOf(fields: Fields, key: string): 4 | 8 {
  const bits = fields.raw(key);
  return bits === 4 || bits === 8 ? bits : fields.refuse(key, '4 or 8 bits');
}

/** -1, or nothing, means all inputs. */
function groupOf(fields: Fields, key: string): number | undefined {
  const size = fields.raw(key) ?? -1;
  return size === -1 ? undefined : fields.integer(key, GROUP);
}
