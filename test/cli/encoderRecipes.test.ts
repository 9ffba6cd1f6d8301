import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';
import { parquetReadObjects } from 'hyparquet';
import { Engine } from '../../src/index.js';
import { collect, temporaryFolder } from '../jobs/support/files.js';
import { encoderNamed } from '../support/model/fixtureEncoders.js';
import { runCli } from './support.js';

const path = temporaryFolder();
const RECIPES = readFileSync(fileURLToPath(new URL('../../docs/recipes.md', import.meta.url)), 'utf8');

/** The command of docs/recipes.md that begins so, as a shell would part it. */
function recipe(beginning: string): string[] {
  const at = RECIPES.indexOf(`    spillway ${beginning}`);
  expect(at).toBeGreaterThan(0);
  const line = RECIPES.slice(at).replaceAll('\\\n', ' ').split('\n')[0] ?? '';
  return (line.match(/'[^']*'|\S+/g) ?? []).slice(1).map((word) => word.replace(/^'(.*)'$/, '$1'));
}

/** Runs it in the folder, with a model of the fixtures, or the real one of SPILLWAY_MINILM, in the place of its own. */
async function run(beginning: string, model: string): Promise<void> {
  const args = recipe(beginning);
  args[args.indexOf('--model') + 1] = model;
  const { code, stdout, stderr } = await runCli(args, '', { XDG_CACHE_HOME: path('cache') }, path('.'));
  expect([code, stdout, code === 0 ? '' : stderr]).toEqual([0, '', '']);
}

/** An encoder that embeds, with the tokenizer of one that classifies. */
function embedder(): string {
  const { SPILLWAY_MINILM } = process.env;
  if (SPILLWAY_MINILM !== undefined) return SPILLWAY_MINILM;
  const folder = path('minilm');
  mkdirSync(folder);
  for (const name of ['config.json', 'model.safetensors'])
    cpSync(join(encoderNamed('bert').path, name), join(folder, name));
  cpSync(join(encoderNamed('bert-pairs').path, 'tokenizer.json'), join(folder, 'tokenizer.json'));
  return folder;
}

const BODIES = ['who wrote faust?', 'it rained, and it is cold', 'goethe did.'];

test('vectors of a CSV file, in Parquet', async () => {
  const model = embedder();
  writeFileSync(path('articles.csv'), `id,body\n${BODIES.map((body, id) => `a${id},"${body}"\n`).join('')}`);
  await run('embed', model);
  const bytes = readFileSync(path('vectors.parquet'));
  const file = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
  const rows = await parquetReadObjects({ file });
  await using engine = await Engine.open({ model });
  const made = await collect(engine.embed(BODIES.map((prompt) => ({ prompt }))));
  // Parquet has 32 bits of each number.
  const rounded = (vector: unknown): number[] => (vector as number[]).map(Math.fround);
  expect(rows.map(({ id, body, embedding }) => [id, body, rounded(embedding)])).toEqual(
    BODIES.map((body, at) => [`a${at}`, body, rounded(made[at]?.embedding)]),
  );
});

test('ranks of what a search has found', async () => {
  const { path: model } = encoderNamed('bert-pairs');
  const [query = '', second = '', first = ''] = BODIES;
  const row = { id: 1, query, documents: [first, second] };
  writeFileSync(path('found.jsonl'), `${JSON.stringify(row)}\n`);
  await run('rerank', model);
  const result = JSON.parse(readFileSync(path('ranked.jsonl'), 'utf8')) as object;
  await using engine = await Engine.open({ model });
  expect([result]).toEqual(await collect(engine.rerank([row])));
});

test('labels without training', async () => {
  const { path: model } = encoderNamed('deberta-v3-labels');
  writeFileSync(path('tickets.csv'), `nr,body\n${BODIES.map((body, nr) => `${nr},"${body}"\n`).join('')}`);
  await run('classify --model hf:MoritzLaurer', model);
  const lines = readFileSync(path('sorted.csv'), 'utf8').trim().split('\n');
  await using engine = await Engine.open({ model });
  const labels = ['billing', 'delivery', 'praise'];
  const made = await collect(
    engine.classify(
      BODIES.map((prompt) => ({ prompt })),
      { labels, hypothesisTemplate: 'This text is about {}.' },
    ),
  );
  expect(lines[0]).toMatch(/^nr,body,label,probability,/);
  made.forEach(({ label }, at) => {
    expect(lines[at + 1]).toContain(`${at},"${BODIES[at] ?? ''}",${label ?? ''},`);
  });
});
