import type { Fields } from './Fields.js';

/** How a checkpoint's quantiser made 4-bit floats, as its configuration says. */
export type CodedScheme = 'bitsandbytes' | 'modelopt' | 'nvfp4-pack-quantized' | 'mxfp4-pack-quantized';

/**
 * The scheme of one quantization_config; undefined for those that make no 4-bit floats.
 * @throws ModelFileError for groups of another size
 */
export function codedScheme(quantisation: Fields): CodedScheme | undefined {
  switch (quantisation.raw('quant_method')) {
    case 'bitsandbytes':
      return quantisation.raw('load_in_4bit') === true ? 'bitsandbytes' : undefined;
    case 'modelopt':
      return quantisation.raw('quant_algo') === 'NVFP4' ? 'modelopt' : undefined;
    case 'compressed-tensors': {
      const format = quantisation.raw('format');
      return format === 'nvfp4-pack-quantized' || format === 'mxfp4-pack-quantized' ? format : undefined;
    }
    default:
      return undefined;
  }
}
