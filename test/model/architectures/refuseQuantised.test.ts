import { describe, expect, test } from '@jest/globals';
import { Fields } from '../../../src/model/architectures/Fields.js';
import { refuseQuantised } from '../../../src/model/architectures/refuseQuantised.js';
import { ModelFileError } from '../../../src/errors/ModelFileError.js';

const refuse = (config: object) => (): void => refuseQuantised(Fields.ofObject('config.json', config));

describe('quantization_config', () => {
  test.each([['awq'], ['gptq'], ['compressed-tensors'], ['bitsandbytes'], ['fp8'], ['mxfp4'], ['one of tomorrow']])(
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

  test('MXFP4 is in GGUF files, too', () => {
    expect(refuse({ quantization_config: { quant_method: 'mxfp4' } })).toThrow('which has the same MXFP4');
  });

  test('of the language model inside a multimodal one', () => {
    expect(refuse({ text_config: { quantization_config: { quant_method: 'awq' } } })).toThrow(
      'text_config.quantization_config.quant_method: found "awq"',
    );
  });

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
