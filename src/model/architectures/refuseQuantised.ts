import { codedScheme, type CodedScheme } from './codedScheme.js';
import type { Fields } from './Fields.js';
import { packedScheme, type PackedScheme } from './packedScheme.js';
import { languageConfigs } from './textParts.js';

/** Methods whose weights are 8-bit floats with scales, and the values of the field that says so, where there is one. */
const FLOAT8: Readonly<Record<string, readonly [key: string, usual: string, ...others: string[]] | undefined>> = {
  fp8: ['fmt', 'e4m3', 'float8_e4m3fn'],
  fbgemm_fp8: ['fmt', 'e4m3'],
  'compressed-tensors': ['format', 'float-quantized'],
  modelopt: ['quant_algo', 'FP8'],
};

/** Families whose MXFP4 is known to lie as `joinBlocks` takes it. */
const MXFP4_MODELS: readonly unknown[] = ['gpt_oss'];

/** The fields that change weights otherwise than by scales: in compressed-tensors' configurations. */
const TRANSFORMS = ['transform_config', 'sparsity_config'] as const;

/**
 * Safetensors whose weights were quantised otherwise than to 8-bit floats, to integers that `packedScheme` knows, or to
 * MXFP4 as gpt-oss has it, are refused by the name of the method (bitsandbytes, …), before a tensor is looked at.
 * @param config config.json, also of a model whose language part stands in a member of it
 * @throws ModelFileError
 */
export function refuseQuantised(config: Fields): void {
  for (const quantisation of quantisations(config))
    if (!isMxfp4(quantisation) || !MXFP4_MODELS.includes(config.raw('model_type'))) refuseIn(quantisation);
}

/** Tells whether the configuration says that some of its weights are MXFP4, as blocks and scales. */
export function hasMxfp4(config: Fields): boolean {
  return [...quantisations(config)].some(isMxfp4);
}

/** How integers are packed, where the configuration says that some of the weights are. @throws ModelFileError */
export function packedSchemeOf(config: Fields): PackedScheme | undefined {
  for (const quantisation of quantisations(config)) {
    const scheme = packedScheme(quantisation);
    if (scheme !== undefined) return scheme;
  }
  return undefined;
}

/** How 4-bit floats are coded, where the configuration says that some of the weights are. @throws ModelFileError */
export function codedSchemeOf(config: Fields): CodedScheme | undefined {
  for (const quantisation of quantisations(config)) {
    const scheme = codedScheme(quantisation);
    if (scheme !== undefined) return scheme;
  }
  return undefined;
}

const isMxfp4 = (quantisation: Fields): boolean => quantisation.raw('quant_method') === 'mxfp4';

/**
 * The blocks that share a scale, [rows, columns], where the configuration says so: `weight_block_size` of DeepSeek's
 * and Qwen's FP8 models, `block_structure` of compressed-tensors.
 * @throws ModelFileError
 */
export function float8Block(config: Fields): readonly [rows: number, columns: number] | undefined {
  for (const quantisation of quantisations(config)) {
    const [fields, key] = has(quantisation, 'weight_block_size')
      ? [quantisation, 'weight_block_size']
      : [quantisation.child('config_groups')?.child('group_0')?.child('weights'), 'block_structure'];
    if (fields === undefined || !has(fields, key)) continue;
    const [rows = 0, columns = 0] = fields.numbers(key, 2, { min: 1, max: 2 ** 20 });
    return Number.isInteger(rows) && Number.isInteger(columns) ? [rows, columns] : fields.refuse(key, 'two integers');
  }
  return undefined;
}

function* quantisations(config: Fields): Generator<Fields> {
  for (const each of languageConfigs(config)) {
    const quantisation = each.child('quantization_config');
    if (quantisation !== undefined) yield quantisation;
  }
}

const has = (fields: Fields, key: string): boolean => (fields.raw(key) ?? null) !== null;

function refuseIn(quantisation: Fields): void {
  if (packedScheme(quantisation) !== undefined || codedScheme(quantisation) !== undefined) {
    refuseTransforms(quantisation);
    return;
  }
  const method = quantisation.raw('quant_method');
  const float8 = typeof method === 'string' && Object.hasOwn(FLOAT8, method) ? FLOAT8[method] : undefined;
  if (float8 !== undefined) {
    const [key, usual, ...others] = float8;
    if (
      has(quantisation, key)
        ? ![usual, ...others].includes(String(quantisation.raw(key)))
        : method === 'compressed-tensors'
    )
      quantisation.refuse(
        key,
        `${usual}: of what this method makes, only 8-bit floats${method === 'compressed-tensors' ? ', pack-quantized and int-quantized integers, nvfp4- and mxfp4-pack-quantized floats' : method === 'modelopt' ? ' and NVFP4' : ''} are read; use the model that was quantised, or a GGUF file of it`,
      );
    refuseTransforms(quantisation);
    return;
  }
  const gguf = method === 'mxfp4' ? 'its GGUF file, which has the same MXFP4' : 'a GGUF file of it';
  quantisation.refuse(
    'quant_method',
    'no quantization_config, or one of fp8, gptq, awq, torchao, bitsandbytes (load_in_4bit or load_in_8bit), modelopt or compressed-tensors, since safetensors are read as floats, floats of 8 or 4 bits, or packed integers: ' +
      `use the model that was quantised (compressWeights makes 8 or 4 bits of its weights), or ${gguf}`,
  );
}

function refuseTransforms(quantisation: Fields): void {
  for (const transform of TRANSFORMS)
    if (has(quantisation, transform) && Object.keys(quantisation.raw(transform) as object).length > 0)
      quantisation.refuse(transform, 'none: weights are read as numbers with scales');
}
