import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { readJsonObject, readText } from '../../../src/model/files/readJson.js';
import { makeFolder } from '../support/folders.js';

const read = async (content: string | Uint8Array, maxBytes = 2 ** 26): ReturnType<typeof readJsonObject> =>
  readJsonObject(join(await makeFolder({ 'x.json': content }), 'x.json'), maxBytes);

test('an object, with a byte order mark too', async () => {
  expect(await read('{"a": [1]}')).toEqual({ a: [1] });
  expect(await read('\u{feff}{"a": "é"}')).toEqual({ a: 'é' });
});

test('infinities, as Python writes them, but no other words', async () => {
  expect(await read('{"limit": [0.0, Infinity, -Infinity], "Infinity": "Infinity \\" Infinity"}')).toEqual({
    limit: [0, Infinity, -Infinity],
    Infinity: 'Infinity " Infinity',
  });
  await expect(read('{"limit": Infinit}')).rejects.toThrow(/found no JSON/);
  await expect(read('{"limit": Infinity1}')).rejects.toThrow(/found no JSON/);
});

test('`__proto__` is a key like any other and changes no prototype', async () => {
  const value = await read('{"__proto__": {"polluted": true}, "constructor": {"prototype": {"polluted": true}}}');
  expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
  expect(Object.keys(value)).toEqual(['__proto__', 'constructor']);
  expect('polluted' in {}).toBe(false);
});

test.each([
  ['[1]', /found JSON that is an array of 1, expected a JSON object/],
  ['null', /found JSON that is null/],
  ['"text"', /found JSON that is "text"/],
  ['{"a":', /found no JSON \(.*\), expected a JSON object/],
  ['', /found no JSON/],
  [Uint8Array.of(0x7b, 0xff, 0x7d), /found bytes that are no UTF-8/],
])('%j is refused', async (content, message) => {
  await expect(read(content)).rejects.toThrow(message);
});

test('sizes are bounded, and so is what the text would take in memory', async () => {
  await expect(read('{"a": 1}', 7)).rejects.toThrow(/found 8 bytes, expected at most 7 bytes/);
  await expect(read(`{"a":${'['.repeat(3_200_000)}`)).rejects.toThrow(/JSON that takes more than 192 MiB of memory/);
  await expect(read(`{${'"":0,'.repeat(2_100_000)}"":0}`)).rejects.toThrow(
    /JSON that takes more than 192 MiB of memory/,
  );
});

test('a text that nothing closes is gone through once', async () => {
  await expect(read(`{"a":-Infinity,"b":"${'\\"'.repeat(2 ** 20)}`)).rejects.toThrow(/found no JSON/);
});

test('a tokenizer larger than any known one is read', async () => {
  const tokens = Array.from({ length: 300_000 }, (_, id) => `token,${id}`);
  const tokenizer = {
    model: {
      vocab: Object.fromEntries(tokens.map((token, id) => [token, id])),
      merges: tokens.flatMap((token) => [
        [token, 'a'],
        [token, 'b'],
      ]),
    },
  };
  const text = JSON.stringify(tokenizer);
  expect(JSON.stringify(await read(text)) === text).toBe(true);
});

test('text is as it stands', async () => {
  const path = join(await makeFolder({ x: '{{ a }}\r\n' }), 'x');
  expect(await readText(path, 100)).toBe('{{ a }}\r\n');
});
