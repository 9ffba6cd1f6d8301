import { describe, expect, test } from '@jest/globals';
import { Fields } from '../../../src/model/architectures/Fields.js';
import { refuseQuantised } from '../../../src/model/architectures/refuseQuantised.js';
import { ModelFileError } from '../../../src/errors/ModelFileError.js';

const refuse = (config: object) => (): void => refuseQuantised(Fields.ofObject('config.json', config));

describe('quantization_config', () => {
  test.each([['quanto'], ['bitsandbytes'], ['mxfp4'], ['constructor'], ['one of tomorrow']])(
    '%s is refused by name, with what to do instead',
    (method) => {
      const refusal = refuse({ quantization_config: { quant_method: method } });
      expect(refusal).toThrow(ModelFileError);
      expect(refusal).toThrow(
        `config.json: quantization_config.quant_method: found "${method}", expected no quantization_config`,
      );
      expect(refusal).toThrow(/use the model that was quantised .* or .* GGUF file/);
    },
  );

  test.each([
    [{ quant_method: 'fp8', fmt: 'e4m3', activation_scheme: 'dynamic', weight_block_size: [128, 128] }],
    [{ quant_method: 'fp8', activation_scheme: 'static' }],
    [{ quant_method: 'fbgemm_fp8', activation_scale_ub: 1200 }],
    [{ quant_method: 'compressed-tensors', format: 'float-quantized', sparsity_config: {}, transform_config: null }],
    [{ quant_method: 'modelopt', quant_algo: 'FP8' }],
  ])('8-bit floats are read: %j', (config) => {
    expect(refuse({ quantization_config: config })).not.toThrow();
  });

  test.each([
    [{ quant_method: 'fp8', fmt: 'e5m2' }, 'quantization_config.fmt: found "e5m2", expected e4m3: of what'],
    [{ quant_method: 'compressed-tensors', format: 'marlin-24' }, 'format: found "marlin-24"'],
    [{ quant_method: 'compressed-tensors' }, 'format: found nothing, expected float-quantized'],
    [{ quant_method: 'modelopt', quant_algo: 'W4A16_AWQ' }, 'quant_algo: found "W4A16_AWQ", expected FP8'],
    [{ quant_method: 'compressed-tensors', format: 'mxfp8-quantized' }, 'format: found "mxfp8-quantized"'],
    [
      { quant_method: 'compressed-tensors', format: 'nvfp4-pack-quantized', transform_config: { R1: {} } },
      'transform_config',
    ],
    [
      {
        quant_method: 'compressed-tensors',
        format: 'float-quantized',
        transform_config: { config_groups: { R1: {} } },
      },
      'transform_config: found',
    ],
  ])('of the same methods, others are not: %j', (config, words) => {
    expect(refuse({ quantization_config: config })).toThrow(words);
  });

  test.each([
    [{ quant_method: 'bitsandbytes', load_in_4bit: true, bnb_4bit_quant_type: 'nf4' }],
    [{ quant_method: 'bitsandbytes', load_in_8bit: true }],
    [{ quant_method: 'modelopt', quant_algo: 'NVFP4' }],
    [{ quant_method: 'compressed-tensors', format: 'nvfp4-pack-quantized' }],
    [{ quant_method: 'compressed-tensors', format: 'mxfp4-pack-quantized' }],
  ])('4-bit floats and bytes of bitsandbytes are read: %j', (config) => {
    expect(refuse({ quantization_config: config })).not.toThrow();
  });

  test('MXFP4 is read of gpt-oss; that of others is in GGUF files, too', () => {
    const quantization_config = { quant_method: 'mxfp4', modules_to_not_convert: ['lm_head'] };
    expect(refuse({ model_type: 'gpt_oss', quantization_config })).not.toThrow();
    expect(refuse({ model_type: 'llama', quantization_config })).toThrow('which has the same MXFP4');
  });

  test.each([['text_config'], ['llm_config'], ['thinker_config.text_config']])(
    'of the language model inside a multimodal one: %s',
    (place) => {
      const config = place
        .split('.')
        .reduceRight<object>((inner, name) => ({ [name]: inner }), { quantization_config: { quant_method: 'hqq' } });
      expect(refuse(config)).toThrow(`${place}.quantization_config.quant_method: found "hqq"`);
    },
  );

  test('that names no method', () => {
    expect(refuse({ quantization_config: { load_in_8bit: true } })).toThrow('quant_method: found nothing');
    expect(refuse({ quantization_config: 4 })).toThrow('quantization_config: found 4, expected a JSON object');
  });

  test.each([[{}], [{ quantization_config: null }], [{ text_config: null }], [{ text_config: {} }]])(
    'none in %j',
    (config) => {
      expect(refuse(config)).not.toThrow();
    },
  );
});
