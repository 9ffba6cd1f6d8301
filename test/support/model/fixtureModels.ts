import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { readModel } from '../../../src/model/readModel.js';
import type { ModelSource } from '../../../src/model/ModelSource.js';

const MODELS = fileURLToPath(new URL('../../fixtures/models', import.meta.url));

/** What transformers computes for a prompt; see fixtures/scripts/make_models.py. */
export interface ReferenceRow {
  readonly tokens: readonly number[];
  readonly scores: readonly number[];
  readonly greedy: readonly number[];
  readonly margins: readonly number[];
  /** Logits after the prompt. */
  readonly logits: Float32Array | undefined;
}

export interface FixtureModel {
  readonly name: string;
  readonly rows: readonly ReferenceRow[];
  /** Reads the model's headers; `use` may open its files. */
  use<T>(use: (source: ModelSource) => T | Promise<T>): Promise<T>;
}

interface StoredReference {
  weights?: string;
  rows: (Omit<ReferenceRow, 'logits'> & { firstLogits?: string })[];
}

/** All tiny models: folders, some of which are another's weights under a configuration of their own, and GGUF files. */
export const fixtureModels: readonly FixtureModel[] = readdirSync(MODELS, { withFileTypes: true })
  .filter((entry) => entry.isDirectory() || entry.name.endsWith('.reference.json'))
  .map((entry) =>
    entry.isDirectory() ? folderModel(entry.name) : ggufModel(entry.name.replace('.reference.json', '')),
  );

function folderModel(name: string): FixtureModel {
  const folder = join(MODELS, name);
  const { weights, rows } = readReference(join(folder, 'reference.json'));
  if (weights === undefined) return { name, rows, use: async (use) => use(await readModel(folder)) };
  return {
    name,
    rows,
    async use(use) {
      const merged = mkdtempSync(join(tmpdir(), 'spillway-fixture-'));
      try {
        cpSync(join(MODELS, weights), merged, { recursive: true });
        cpSync(join(folder, 'config.json'), join(merged, 'config.json'));
        return await use(await readModel(merged));
      } finally {
        rmSync(merged, { recursive: true });
      }
    },
  };
}

function ggufModel(name: string): FixtureModel {
  const { rows } = readReference(join(MODELS, `${name}.reference.json`));
  const file = readdirSync(MODELS).find((entry) => entry === `${name}.gguf` || entry.startsWith(`${name}-00001-of-`));
  return { name: `${name}.gguf`, rows, use: async (use) => use(await readModel(join(MODELS, file ?? `${name}.gguf`))) };
}

function readReference(path: string): { weights: string | undefined; rows: ReferenceRow[] } {
  const { weights, rows } = JSON.parse(readFileSync(path, 'utf8')) as StoredReference;
  return {
    weights,
    rows: rows.map(({ firstLogits, ...row }) => ({
      ...row,
      logits:
        firstLogits === undefined
          ? undefined
          : new Float32Array(Uint8Array.from(Buffer.from(firstLogits, 'base64')).buffer),
    })),
  };
}
