import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import type { DecoderSpec, Mixer } from '../../../src/model/DecoderSpec.js';
import { hasRole, isOfBlock, roleShape } from '../../../src/model/architectures/weightRoles.js';
import { readModel } from '../../../src/model/readModel.js';
import { model } from '../../e2e/support.js';

const MIXERS: readonly Mixer[] = [
  'attention',
  'delta-rule',
  'short-convolution',
  'state-space',
  'selective-scan',
  'lightning-attention',
  'rg-lru',
];
const withRole = (role: Parameters<typeof hasRole>[1]): Mixer[] => MIXERS.filter((mixer) => hasRole({ mixer }, role));
const shapeOf = (decoder: DecoderSpec, role: Parameters<typeof hasRole>[1], layer = 0): readonly number[] =>
  roleShape(decoder, role, decoder.layerSpecs[layer]);

test('the tables are what the addon has; node scripts/weight-roles.mjs makes them anew', async () => {
  const script = '../../../scripts/weight-roles.mjs';
  const { roleTables } = (await import(script)) as { roleTables(definition: string): Promise<string> };
  const read = (path: string): string => readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8');
  const definition = read('native/model/WeightRoles.def');
  expect(read('src/model/architectures/roleTables.ts')).toBe(await roleTables(definition));
  const another = definition.replace(
    '"lightning_out.weight", o, required, hidden,',
    '"lightning_out.weight", o, required, 2,',
  );
  expect(await roleTables(another)).toContain(`'lightning_out.weight': ({ lightningValues }) => [2, lightningValues],`);
});

describe('roles of weights', () => {
  test.each([
    ['q.weight', ['attention']],
    ['sinks', ['attention']],
    ['k_norm.bias', ['attention']],
    ['conv.bias', ['short-convolution']],
    ['delta_q.weight', ['delta-rule']],
    ['state_skip', ['state-space']],
    ['scan_step_norm.weight', ['selective-scan']],
    ['lightning_norm.weight', ['lightning-attention']],
    ['lru_rate', ['rg-lru']],
    ['decay.log', ['delta-rule', 'state-space', 'selective-scan']],
    ['norm1.weight', MIXERS],
    ['gate.weight', MIXERS],
    ['expert.3.up.weight', MIXERS],
  ] as const)('%s is of layers that have %j', (role, mixers) => {
    expect(withRole(role)).toEqual(mixers);
  });

  test('a state space beside attention has both of their roles', () => {
    const layer = { stateBeside: true };
    for (const role of ['q.weight', 'state_in.weight', 'decay.bias', 'beside_out.weight'] as const)
      expect(hasRole(layer, role)).toBe(true);
    expect(hasRole(layer, 'scan_in.weight')).toBe(false);
  });

  test('a layer that mixes alone has none of a block', () => {
    for (const role of ['down.weight', 'norm2.weight', 'router.weight', 'expert.0.gate.weight'] as const) {
      expect(isOfBlock(role)).toBe(true);
      expect(hasRole({ mixerOnly: true }, role)).toBe(false);
    }
    expect(isOfBlock('router_norm.weight')).toBe(false);
    expect(hasRole({ mixerOnly: true, mixer: 'state-space' }, 'state_out.weight')).toBe(true);
  });

  test('shapes follow from the decoder and from the layer', async () => {
    const { decoder } = await readModel(model('minimax')); // 4 heads of 12, of 32; 5 experts
    expect(shapeOf(decoder, 'lightning_in.weight', 1)).toEqual([144, 32]);
    expect(shapeOf(decoder, 'lightning_out.weight', 1)).toEqual([32, 48]);
    expect(shapeOf(decoder, 'q.weight')).toEqual([48, 32]);
    expect(shapeOf(decoder, 'k.weight')).toEqual([24, 32]);
    expect(shapeOf(decoder, 'router.weight')).toEqual([5, 32]);
    expect(shapeOf(decoder, 'expert.4.down.weight')).toEqual([32, 64]);
    expect(shapeOf(decoder, 'head.weight')).toEqual([128, 32]);
    expect(shapeOf(decoder, 'layer_scale')).toEqual([1]);
  });

  test('a role that nobody has is refused', async () => {
    const { decoder } = await readModel(model('minimax'));
    expect(() => shapeOf(decoder, 'q.wait' as 'q.weight')).toThrow('q.wait: found an unknown role');
  });

  test('a layer over pooled states that the decoder does not have is refused', async () => {
    const { decoder } = await readModel(model('minimax'));
    expect(() => roleShape(decoder, 'pooled.0.weight', undefined)).toThrow('pooled.0');
  });
});
