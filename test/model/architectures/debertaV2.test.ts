import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { describeDecoder } from '../../../src/model/architectures/index.js';
import { encoderNamed } from '../../support/model/fixtureEncoders.js';

const config = JSON.parse(readFileSync(join(encoderNamed('deberta-v3').path, 'config.json'), 'utf8')) as object;
const disentangled = (changes: object): unknown =>
  describeDecoder({ ...config, ...changes }, 'config.json').attention.disentangled;

describe('which distances there are', () => {
  test.each([
    [{}, { span: 16, distance: 128 }],
    [{ max_relative_positions: 60 }, { span: 16, distance: 60 }],
    [{ position_buckets: -1 }, { span: 128 }],
    [{ position_buckets: -1, max_relative_positions: 40 }, { span: 40 }],
    // Of rows so short that no distance is one of many.
    [{ position_buckets: 300 }, { span: 300 }],
    [{ max_position_embeddings: 3 }, { span: 16 }],
  ])('%j', (changes, expected) => {
    expect(disentangled(changes)).toEqual({
      ...expected,
      contentToPosition: true,
      positionToContent: true,
      ownProducts: false,
    });
  });

  test('and which scores', () => {
    expect(disentangled({ pos_att_type: ['c2p'] })).toMatchObject({
      contentToPosition: true,
      positionToContent: false,
    });
    expect(disentangled({ share_att_key: false })).toMatchObject({ ownProducts: true });
    expect(disentangled({ relative_attention: false })).toBeUndefined();
  });
});

test.each([
  [{ conv_kernel_size: 3 }, 'conv_kernel_size: found 3, expected none: the convolution'],
  [{ embedding_size: 32 }, 'embedding_size: found 32, expected 64'],
  [{ pooler_hidden_size: 32 }, 'pooler_hidden_size: found 32, expected 64'],
  [{ pos_att_type: ['p2p'] }, 'pos_att_type: found "p2p", expected c2p and p2c'],
  [{ position_buckets: 2 }, 'position_buckets: found 2, expected at least 4'],
  [{ max_relative_positions: 9 }, 'max_relative_positions: found 9, expected more than half of the 16'],
  [{ max_position_embeddings: 8192 }, 'max_position_embeddings: found 8192, expected at most 4096'],
])('%j is refused', (changes, message) => {
  expect(() => disentangled(changes)).toThrow(message);
});
