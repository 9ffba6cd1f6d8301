import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { bundledSchema } from '../../src/schema/bundledSchema.js';
import { EnforcedSchema } from '../../src/schema/EnforcedSchema.js';

let folder = '';
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'schemas-'));
  await mkdir(join(folder, 'parts'));
  const write = (name: string, schema: unknown): Promise<void> => writeFile(join(folder, name), JSON.stringify(schema));
  await write('name.json', { type: 'string', maxLength: 3 });
  await write('parts/list.json', {
    $schema: 'http://json-schema.org/draft-07/schema#',
    items: [{ $ref: '../name.json' }],
  });
  await write('odd-name.json', { $id: 'https://example.com/age', definitions: { age: { type: 'integer' } } });
  await writeFile(join(folder, 'broken.json'), '{');
  await symlink('/etc/hostname', join(folder, 'link.json'));
});
afterAll(() => rm(folder, { recursive: true }));

test('what files have that a schema refers to is put into it, by name and by path, of any draft', async () => {
  const schema = {
    properties: {
      name: { $ref: 'name.json' },
      list: { $ref: 'https://example.org/schemas/parts/list.json' },
      age: { $ref: 'https://example.com/age#/definitions/age' },
    },
  };
  expect(() => new EnforcedSchema(schema)).toThrow(/nothing is fetched; .*--schema-dir/);
  const whole = new EnforcedSchema(await bundledSchema(schema, folder));
  expect(
    [{ name: 'abc' }, { name: 'abcd' }, { list: ['abc'] }, { list: ['abcd'] }, { age: 1 }, { age: 'x' }].map(
      (value) => whole.problem(value) === undefined,
    ),
  ).toEqual([true, false, true, false, true, false]);
});

test('what no file has is refused with its place, files beside the folder and links are none', async () => {
  for (const $ref of ['missing.json', 'broken.json', 'link.json', '../../etc/hostname']) {
    const bundle = await bundledSchema({ properties: { a: { $ref } } }, folder);
    expect(() => new EnforcedSchema(bundle)).toThrow('schema, at /properties/a/$ref: found');
  }
  await expect(bundledSchema({}, join(folder, 'nowhere'))).rejects.toThrow(/--schema-dir: found .*expected a folder/);
});
