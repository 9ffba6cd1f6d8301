import type { Fields } from './Fields.js';

/**
 * Safetensors whose weights were quantised are refused by the name of the method (awq, gptq, compressed-tensors,
 * bitsandbytes, fp8, mxfp4, …), before a tensor is looked at.
 * @param config config.json, also of a model whose language part stands in `text_config`
 * @throws ModelFileError
 */
export function refuseQuantised(config: Fields): void {
  refuseIn(config);
  if (config.has('text_config')) refuseIn(config.child('text_config'));
}

function refuseIn(config: Fields | undefined): void {
  const quantisation = config?.child('quantization_config');
  if (quantisation === undefined) return;
  const gguf =
    quantisation.raw('quant_method') === 'mxfp4' ? 'its GGUF file, which has the same MXFP4' : 'a GGUF file of it';
  quantisation.refuse(
    'quant_method',
    'no quantization_config, since safetensors are read as F32, F16 or BF16: ' +
      `use the model that was quantised (compressWeights makes 8 or 4 bits of its weights), or ${gguf}`,
  );
}
