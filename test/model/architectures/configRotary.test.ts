import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { describeDecoder } from '../../../src/model/architectures/index.js';

interface Rotary {
  config: Record<string, unknown>;
  frequencies: number[];
  scale: number;
}
const { rotary } = JSON.parse(readFileSync(new URL('../../fixtures/configs.json', import.meta.url), 'utf8')) as {
  rotary: Record<string, Rotary>;
};

/** transformers 4 has theta beside the settings, and calls their kind `type`. */
function older({ rope_parameters, ...config }: Record<string, unknown>): Record<string, unknown> {
  const { rope_theta, rope_type, partial_rotary_factor, ...rest } = rope_parameters as Record<string, unknown>;
  return {
    ...config,
    rope_theta,
    ...(partial_rotary_factor !== undefined && { partial_rotary_factor }),
    rope_scaling: { type: rope_type, ...rest },
  };
}

describe('rotary tables', () => {
  for (const [name, { config, frequencies, scale }] of Object.entries(rotary)) {
    for (const [spelling, spelled] of [
      ['transformers 5', config],
      ['transformers 4', older(config)],
    ] as const) {
      test(`${name}, spelled as in ${spelling}, is transformers' within two units in the last place`, () => {
        const { position } = describeDecoder(spelled, 'config.json');
        if (position.kind !== 'rotary') throw new Error(`found ${position.kind}`);
        expect(position.dims).toBe(2 * frequencies.length);
        const [table] = position.tables;
        const worst = Math.max(
          ...frequencies.map((frequency, i) => Math.abs((table?.frequencies[i] ?? NaN) / frequency - 1)),
        );
        expect(worst).toBeLessThan(2 * 2 ** -23);
        expect(table?.scale).toBeCloseTo(scale, 12);
      });
    }
  }

  test('LongRoPE bounds the context to where its short factors hold', () => {
    expect(describeDecoder(rotary['longrope']?.config, 'config.json').contextTokens).toBe(4096);
  });

  test('YaRN widens the context where the configuration still has the original one', () => {
    const config = rotary['yarn']?.config;
    expect(describeDecoder(config, 'config.json').contextTokens).toBe(131072);
    expect(describeDecoder({ ...config, max_position_embeddings: 32768 }, 'config.json').contextTokens).toBe(131072);
  });

  const config = (rope: unknown): unknown => ({ model_type: 'llama', rope_parameters: rope });
  test.each([
    [
      { rope_type: 'spiral' },
      'rope_parameters.rope_type: found "spiral", expected default, linear, dynamic, llama3, yarn or longrope',
    ],
    [{ rope_type: 'linear' }, 'rope_parameters.factor: found nothing'],
    [{ rope_type: 'linear', factor: 0 }, 'rope_parameters.factor: found 0'],
    [{ rope_type: 'default', rope_theta: -1 }, 'rope_parameters.rope_theta: found -1'],
    [{ rope_type: 'default', partial_rotary_factor: 0.5 }, 'partial_rotary_factor: found 0.5'],
    [
      {
        rope_type: 'llama3',
        factor: 8,
        low_freq_factor: 4,
        high_freq_factor: 4,
        original_max_position_embeddings: 8192,
      },
      'more than low_freq_factor, 4',
    ],
    [
      { rope_type: 'longrope', short_factor: [1], long_factor: [1] },
      'found an array of 1, expected an array of 64 numbers',
    ],
    ['text', 'rope_parameters: found "text", expected a JSON object'],
  ])('%j is refused', (rope, message) => {
    expect(() => describeDecoder(config(rope), 'config.json')).toThrow(message);
  });
});
