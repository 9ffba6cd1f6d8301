import { describe, expect, test } from '@jest/globals';
import { describeModel } from '../../../src/model/architectures/index.js';
import type { ModelHeader } from '../../../src/model/ModelSource.js';
import { ggufHeader, type Shapes } from '../../support/syntheticModel.js';

const HIDDEN = 8;
const SIZES = {
  block_count: 5,
  embedding_length: HIDDEN,
  context_length: 32,
  feed_forward_length: 12,
  'attention.head_count': 2,
};
const layers = (shapes: Shapes, first = 0): Shapes =>
  Object.fromEntries(
    Array.from({ length: SIZES.block_count - first }, (_, i) =>
      Object.entries(shapes).map(([name, shape]) => [`blk.${first + i}.${name}`, shape] as const),
    ).flat(),
  );
const norm = (name: string): Shapes => ({ [`${name}.weight`]: [HIDDEN], [`${name}.bias`]: [HIDDEN] });
const HEAD: Shapes = { 'cls.weight': [HIDDEN, HIDDEN], 'cls.bias': [HIDDEN], 'cls.output.weight': [2, HIDDEN] };

const bert = (more: Shapes): ModelHeader =>
  ggufHeader('bert', SIZES, {
    'token_embd.weight': [10, HIDDEN],
    'position_embd.weight': [32, HIDDEN],
    ...norm('token_embd_norm'),
    ...layers({
      ...Object.fromEntries(
        ['attn_q', 'attn_k', 'attn_v', 'attn_output'].map((n) => [`${n}.weight`, [HIDDEN, HIDDEN]]),
      ),
      'ffn_up.weight': [12, HIDDEN],
      'ffn_down.weight': [HIDDEN, 12],
      ...norm('attn_output_norm'),
      ...norm('layer_output_norm'),
    }),
    ...more,
  });
const modernBert = (fields: Readonly<Record<string, unknown>>): ModelHeader =>
  ggufHeader(
    'modern-bert',
    { ...SIZES, ...fields },
    {
      'token_embd.weight': [10, HIDDEN],
      'token_embd_norm.weight': [HIDDEN],
      'output_norm.weight': [HIDDEN],
      ...layers({ 'attn_norm.weight': [HIDDEN] }, 1),
      ...layers({
        'attn_qkv.weight': [3 * HIDDEN, HIDDEN],
        'attn_output.weight': [HIDDEN, HIDDEN],
        'ffn_norm.weight': [HIDDEN],
        'ffn_up.weight': [24, HIDDEN],
        'ffn_down.weight': [HIDDEN, 12],
      }),
      ...HEAD,
    },
  );

describe('heads of bert', () => {
  const types = { 'token_types.weight': [2, HIDDEN] };

  test("BERT's and RoBERTa's activate by tanh; DistilBERT's, whose tokens have no types, by relu", () => {
    const activationOf = (more: Shapes) => describeModel(bert({ ...HEAD, ...more })).decoder.pooled;
    expect(activationOf(types)).toMatchObject([{ activation: 'tanh' }, { activation: 'none', outputs: 2 }]);
    expect(activationOf({})).toMatchObject([{ activation: 'relu' }, { activation: 'none', outputs: 2 }]);
  });

  test.each(['cls', 'cls.output'])('one whose pooler is lost, %s alone, is refused', (last) => {
    expect(() => describeModel(bert({ ...types, [`${last}.weight`]: [2, HIDDEN] }))).toThrow(
      `model.gguf: the head that classifies: found ${last}.weight alone, expected cls.weight and cls.output.weight: the pooler`,
    );
  });

  test('without any it embeds', () => {
    expect(describeModel(bert(types)).classifier).toBeUndefined();
  });
});

test.each([
  [{}, 'mean', 3, 65],
  [{ 'classifier.pooling_type': 2, 'attention.sliding_window_pattern': 2, 'attention.sliding_window': 8 }, 'cls', 2, 5],
  [{ 'classifier.pooling_type': 1, 'attention.sliding_window_pattern': 4 }, 'mean', 4, 65],
] as const)('modern-bert with %j: what its head takes, and which layers slide', (fields, pooling, every, window) => {
  const { classifier, decoder } = describeModel(modernBert(fields));
  expect(classifier?.pooling).toBe(pooling);
  expect(decoder.layerSpecs.map((layer) => layer.window)).toEqual(
    [0, 1, 2, 3, 4].map((layer) => (layer % every === 0 ? 0 : window)),
  );
});
