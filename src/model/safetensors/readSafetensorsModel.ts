import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { ModelFileError } from '../../errors/ModelFileError.js';
import { Fields, LIMITS } from '../architectures/Fields.js';
import { codedSchemeOf, packedSchemeOf, refuseQuantised } from '../architectures/refuseQuantised.js';
import { HEADER_LIMITS } from '../files/limits.js';
import { ModelFile, orModelFileError } from '../files/ModelFile.js';
import { listMissing, printable } from '../files/printable.js';
import { modelsOf } from '../hub/chooseFiles.js';
import { readJsonObject } from '../files/readJson.js';
import {
  DESCRIBING_NUMBERS,
  type ModelHeader,
  type ModelSource,
  type TensorInfo,
  type TokenizerSource,
} from '../ModelSource.js';
import { findScales } from './findScales.js';
import { joinBlocks } from './joinBlocks.js';
import { isCodedScale, joinCoded } from './joinCoded.js';
import { joinPacked } from './joinPacked.js';
import { readModules } from './readModules.js';
import { readQuantStates, type QuantState } from './readQuantStates.js';
import { readSafetensorsFile } from './readSafetensorsFile.js';
import { readShards, type Shards } from './readShards.js';
import { readTokenizerFiles } from './readTokenizerFiles.js';

/** The content of the headers of a folder of safetensors. */
export interface SafetensorsModel {
  readonly header: Extract<ModelHeader, { format: 'safetensors' }>;
  readonly files: readonly string[];
  readonly tokenizer: TokenizerSource;
  readonly pooling?: ModelSource['pooling'];
  readonly prompts?: ModelSource['prompts'];
}

const NO_STATES: ReadonlyMap<string, QuantState> = new Map();
const SINGLE = 'model.safetensors';
const INDEX = 'model.safetensors.index.json';

/**
 * Reads the headers of a folder as transformers writes it: config.json, the weights in model.safetensors or in the
 * files that model.safetensors.index.json lists, and the tokenizer's files.
 * @throws ModelFileError
 */
export async function readSafetensorsModel(folder: string): Promise<SafetensorsModel> {
  const present = new Set(await orModelFileError(folder, () => readdir(folder)));
  checkPresent(folder, present);
  const config = await readJsonObject(join(folder, 'config.json'), HEADER_LIMITS.configJsonBytes);
  const fields = Fields.ofObject(join(folder, 'config.json'), config);
  refuseQuantised(fields);
  const scheme = packedSchemeOf(fields);
  const coded = codedSchemeOf(fields);
  const { files, tensors: floats, bytes } = await readWeights(folder, present, (scheme ?? coded) !== undefined);
  const states = coded === 'bitsandbytes' ? await readQuantStates(files, bytes) : NO_STATES;
  const unscaled = coded ? floats.filter((tensor) => !isCodedScale(coded, tensor)) : floats;
  const tensors = [
    ...findScales(fields, files, unscaled),
    ...joinBlocks(fields, files, bytes),
    ...(scheme ? joinPacked(scheme, files, unscaled, bytes) : []),
    ...(coded ? joinCoded(coded, files, floats, bytes, states) : []),
  ];
  const numbers = await readNumbers(files, tensors);
  const tokenizer = await readTokenizerFiles(folder, present, config);
  const { modules, files: others, pooling, prompts, rowTokens } = await readModules(folder, present, files.length);
  return {
    header: {
      format: 'safetensors',
      path: folder,
      config,
      tensors,
      modules,
      ...(numbers.size > 0 && { numbers }),
      ...(rowTokens !== undefined && { rowTokens }),
    },
    files: [...files, ...others],
    tokenizer,
    ...(pooling && { pooling }),
    ...(prompts && { prompts }),
  };
}

/** The elements of tensors that belong to the description, by name. */
async function readNumbers(files: readonly string[], tensors: readonly TensorInfo[]): Promise<Map<string, number>> {
  const numbers = new Map<string, number>();
  for (const { name, type, shape, file, offset } of tensors) {
    const path = files[file];
    if (!DESCRIBING_NUMBERS.test(name) || path === undefined || numbers.size === MOST_NUMBERS) continue;
    if ((type !== 'F32' && type !== 'BF16') || shape.reduce((all, size) => all * size, 1) !== 1)
      throw new ModelFileError(
        path,
        `tensor ${name}`,
        `type ${type}, shape [${shape.join(', ')}]`,
        'F32 or BF16, one element',
      );
    const bytes = new Uint8Array(4);
    await ModelFile.use(path, (opened) => opened.fill(bytes.subarray(type === 'F32' ? 0 : 2), offset));
    numbers.set(name, new DataView(bytes.buffer).getFloat32(0, true));
  }
  return numbers;
}
/** Four of a layer. */
const MOST_NUMBERS = 4 * LIMITS.layers.max;

async function readWeights(folder: string, present: ReadonlySet<string>, packed: boolean): Promise<Shards> {
  // As transformers does, the single file goes first where a folder has both.
  if (!present.has(SINGLE)) return readShards(folder, INDEX, present, packed);
  const { path, tensors, bytes } = await readSafetensorsFile(join(folder, SINGLE), 0, packed);
  return { files: [path], tensors, bytes };
}

function checkPresent(folder: string, present: ReadonlySet<string>): void {
  if (!present.has('config.json')) {
    const models = modelsOf([...present].sort().map((path) => ({ path, bytes: 0 }))).map(({ path }) => path);
    const found =
      models.length === 0
        ? 'a folder without one'
        : `a folder without one, but with ${listMissing(models)}; name ${models.length === 1 ? 'that file itself' : 'one of these files'}`;
    throw new ModelFileError(folder, 'config.json', found, 'a folder with config.json and safetensors, or a GGUF file');
  }
  if (!present.has(SINGLE) && !present.has(INDEX)) {
    const pickle = [...present].find((name) => /^pytorch_model.*\.bin$/.test(name));
    const found = pickle === undefined ? 'neither' : `only ${printable(pickle)}, a pickle, which is not read`;
    throw new ModelFileError(folder, 'weights', found, `${SINGLE} or ${INDEX}`);
  }
}
