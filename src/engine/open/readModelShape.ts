import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { checkText } from '../../arguments/checks.js';
import { UsageError } from '../../errors/UsageError.js';
import { describeDecoder } from '../../model/architectures/index.js';
import { HEADER_LIMITS } from '../../model/files/limits.js';
import { readJsonObject } from '../../model/files/readJson.js';
import type { PullOptions } from '../../model/pull/pullModel.js';
import { readModel } from '../../model/readModel.js';
import { isModelName, resolveModel } from '../../model/resolveModel.js';
import { knownShape, knownShapeNames } from '../../plan/knownShapes.js';
import { shapeOfDecoder, shapeOfModel, type ModelShape } from '../../plan/ModelShape.js';

/** Families whose configurations mean tied embeddings where they say nothing. */
const TIED = ['opt', 'falcon', 'gemma2', 'gemma3_text', 'gemma3'];
const TYPES = { float32: 'F32', float16: 'F16', bfloat16: 'BF16' } as const;

/**
 * The sizes of a model, for planning: of a known name, a config.json (or a folder that has no weights beside it), or a
 * model's own files.
 * @param fetching of a model whose files are fetched first
 * @throws UsageError for what is no text, and for a word that is neither a known name nor something on disk
 * @throws ModelFileError for files that cannot be used
 */
export async function readModelShape(
  nameOrPath: string,
  fetching: Pick<PullOptions, 'signal' | 'onProgress'> = {},
): Promise<ModelShape> {
  checkText('model', nameOrPath, 'a path or a name');
  const known = knownShape(nameOrPath);
  if (known !== undefined) return known;
  const path = await modelPathOf(nameOrPath, fetching);
  if (path !== undefined) return shapeOfModel(await readModel(path), nameOrPath);
  return shapeOfConfig(nameOrPath.endsWith('.json') ? nameOrPath : join(nameOrPath, 'config.json'));
}

/**
 * Where a model's own files are, which are fetched where it is a name that is.
 * @returns undefined where there is a known shape alone, or a configuration
 * @throws as `readModelShape`
 */
export async function modelPathOf(nameOrPath: string, fetching: PullOptions = {}): Promise<string | undefined> {
  if (knownShape(nameOrPath) !== undefined) return undefined;
  if (isModelName(nameOrPath)) return resolveModel(nameOrPath, fetching);
  const status = await stat(nameOrPath).catch(() => undefined);
  if (status === undefined && !/[\\/]|\.(json|gguf)$/i.test(nameOrPath)) {
    throw new UsageError(
      `model: found ${JSON.stringify(nameOrPath)}, expected a model's file or folder, a config.json, or one of ${knownShapeNames.join(', ')}`,
    );
  }
  if (nameOrPath.endsWith('.json') || (status?.isDirectory() === true && !(await hasWeights(nameOrPath))))
    return undefined;
  return nameOrPath;
}

async function hasWeights(folder: string): Promise<boolean> {
  const found = await Promise.all(
    ['model.safetensors', 'model.safetensors.index.json'].map((name) =>
      stat(join(folder, name)).then(
        () => true,
        () => false,
      ),
    ),
  );
  return found.includes(true);
}

async function shapeOfConfig(path: string): Promise<ModelShape> {
  const config = await readJsonObject(path, HEADER_LIMITS.configJsonBytes);
  const decoder = describeDecoder(config, path);
  const { tie_word_embeddings: tied, torch_dtype: older, dtype = older } = config;
  const weightType =
    typeof dtype === 'string' && Object.hasOwn(TYPES, dtype) ? TYPES[dtype as keyof typeof TYPES] : 'F16';
  return shapeOfDecoder(decoder, path, {
    tied: typeof tied === 'boolean' ? tied : TIED.includes(decoder.family),
    weightType,
  });
}
