import { expect, test } from '@jest/globals';
import { readModelShape } from '../../../src/engine/open/readModelShape.js';
import { UsageError } from '../../../src/errors/UsageError.js';

test.each<[unknown, string]>([
  [undefined, 'model: found undefined, expected a path or a name'],
  [5, 'model: found 5, expected a path or a name'],
  ['opt-3b', 'model: found "opt-3b", expected a model\'s file or folder, a config.json, or one of opt-125m, '],
])('%p is neither a name nor a path', async (value, sentence) => {
  const reading = readModelShape(value as string);
  await expect(reading).rejects.toThrow(UsageError);
  await expect(reading).rejects.toThrow(sentence);
});

test('a known name, in any case', async () => {
  expect(await readModelShape('OPT-125m')).toMatchObject({ name: 'opt-125m', layers: 12, hiddenSize: 768 });
});
