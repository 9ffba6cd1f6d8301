import { stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { ModelFileError } from '../errors/ModelFileError.js';
import type { ModelSource } from './ModelSource.js';
import { describeModel } from './architectures/index.js';
import { orModelFileError } from './files/ModelFile.js';
import { readGgufModel } from './gguf/readGgufModel.js';
import { readSafetensorsModel } from './safetensors/readSafetensorsModel.js';

/**
 * Reads everything about a model but its weights.
 * @param path a GGUF file (of a split model: any of its files), or a folder with config.json and safetensors
 * @throws ModelFileError naming file, field, what was found and what was expected
 */
export async function readModel(path: string): Promise<ModelSource> {
  const status = await orModelFileError(path, () => stat(path));
  if (!status.isDirectory()) refuseFileOfFolder(path);
  const { header, files, tokenizer, pooling, prompts } = status.isDirectory()
    ? await readSafetensorsModel(path)
    : await readGgufModel(path);
  const { decoder, bindings, classifier, eightBits } = describeModel(header);
  return {
    path,
    format: header.format,
    files,
    decoder,
    bindings,
    tensors: header.tensors,
    tokenizer,
    ...(pooling && { pooling }),
    ...(classifier && { classifier }),
    ...(eightBits && { eightBits }),
    ...(prompts && { prompts }),
  };
}

/** A natural mistake, which deserves a better answer than "no GGUF file". */
function refuseFileOfFolder(path: string): void {
  const name = basename(path);
  if (name === 'config.json' || name.endsWith('.safetensors') || name.endsWith('.safetensors.index.json')) {
    throw new ModelFileError(
      path,
      'file',
      'one file of a safetensors model',
      'the folder that it lies in, or a GGUF file',
    );
  }
}
