import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { isObject, membersOf } from '../../arguments/isObject.js';
import { ModelFileError } from '../../errors/ModelFileError.js';
import type { PooledLayer } from '../DecoderSpec.js';
import { Fields, LIMITS } from '../architectures/Fields.js';
import { HEADER_LIMITS } from '../files/limits.js';
import { orModelFileError } from '../files/ModelFile.js';
import { printable } from '../files/printable.js';
import { readJson, readJsonObject } from '../files/readJson.js';
import type { EmbeddingPrompts, ModelSource, PooledModule, TensorInfo } from '../ModelSource.js';
import { readSafetensorsFile } from './readSafetensorsFile.js';

/** The modules that sentence-transformers puts after a model, as a folder has them. */
export interface SentenceModules {
  readonly pooling?: ModelSource['pooling'];
  readonly prompts?: EmbeddingPrompts;
  /** Layers over the pooled states, in order, and the files that hold their weights: those after the model's own. */
  readonly modules: readonly PooledModule[];
  readonly files: readonly string[];
  /** Tokens of the longest row that the model is meant for. */
  readonly rowTokens?: number;
}

interface Module {
  readonly type: string;
  readonly path: string;
}

/** Where modules are listed, and where a model's prompts are. */
const MODULES = 'modules.json';
const PROMPTS = 'config_sentence_transformers.json';
/** How long rows are: sentence-transformers has a name for each kind of model. */
const LENGTH = /^sentence_(bert|roberta|xlm-roberta|distilbert)_config\.json$/;
const MOST_MODULES = 16;
const MOST_PROMPTS = 1000;
const MOST_PROMPT_UNITS = 65_536;
/** Modules that are folders: a name with a number before it. */
const NUMBERED = /^\d+_\w+$/;

const POOLING_MODES = {
  pooling_mode_lasttoken: 'last',
  pooling_mode_mean_tokens: 'mean',
  pooling_mode_cls_token: 'cls',
  pooling_mode_max_tokens: 'max',
  pooling_mode_weightedmean_tokens: 'weightedmean',
} as const;
/** The same in the one word of newer files. */
const POOLING_WORDS = {
  lasttoken: 'last',
  mean: 'mean',
  cls: 'cls',
  max: 'max',
  weightedmean: 'weightedmean',
} as const;

const ACTIVATIONS: Readonly<Record<string, Extract<PooledLayer, { kind: 'dense' }>['activation']>> = {
  'torch.nn.modules.linear.Identity': 'none',
  'torch.nn.modules.activation.Tanh': 'tanh',
  'torch.nn.modules.activation.ReLU': 'relu',
  'torch.nn.modules.activation.GELU': 'gelu',
  'torch.nn.modules.activation.SiLU': 'silu',
};
/** torch's, which no file states. */
const NORM_EPSILON = 1e-5;

/**
 * Reads what a folder says of embeddings, as sentence-transformers writes it.
 * @param present names of what is in the folder
 * @param firstFile the number of the first file that is read here
 * @param hiddenSize of the model, if it says one
 * @throws ModelFileError
 */
export async function readModules(
  folder: string,
  present: ReadonlySet<string>,
  firstFile: number,
): Promise<SentenceModules> {
  const prompts = present.has(PROMPTS) ? await readPrompts(join(folder, PROMPTS)) : undefined;
  const list = present.has(MODULES) ? await readList(join(folder, MODULES)) : unlisted(present);
  let pooling: ModelSource['pooling'];
  const modules: PooledModule[] = [];
  const files: string[] = [];
  for (const { type, path } of list) {
    const kind = type.split('.').at(-1) ?? '';
    if (kind === 'Transformer' || kind === 'Normalize') continue;
    const place = join(folder, path);
    if (kind === 'Pooling') pooling = await readPooling(place);
    else if (kind === 'Dense' || kind === 'LayerNorm') {
      modules.push(await readLayer(kind, place, modules.length, firstFile + files.length));
      files.push(join(place, 'model.safetensors'));
    } else if (kind !== 'Dropout') {
      pooling = { unknown: `a module ${printable(type)} after the pooling` };
      break;
    }
  }
  const rowTokens = await readRowTokens(folder, present);
  return {
    modules,
    files,
    ...(pooling && { pooling }),
    ...(prompts && { prompts }),
    ...(rowTokens !== undefined && { rowTokens }),
  };
}

async function readRowTokens(folder: string, present: ReadonlySet<string>): Promise<number | undefined> {
  const name = [...present].sort().find((each) => LENGTH.test(each));
  if (name === undefined) return undefined;
  const path = join(folder, name);
  const config = Fields.ofObject(path, await readJsonObject(path, HEADER_LIMITS.configJsonBytes));
  if (config.boolean('do_lower_case', false))
    config.refuse('do_lower_case', 'false: texts are tokenized as they are, and as the tokenizer has them');
  // Where it says null there are as many as positions.
  if (config.raw('max_seq_length') === undefined || config.raw('max_seq_length') === null) return undefined;
  return config.integer('max_seq_length', LIMITS.context);
}

/** Modules of a folder without a list: the one that pools, and any others that change what comes of it. */
function unlisted(present: ReadonlySet<string>): readonly Module[] {
  return [...present]
    .filter((name) => NUMBERED.test(name))
    .sort((a, b) => parseInt(a, 10) - parseInt(b, 10))
    .map((path) => ({ type: path.replace(/^\d+_/, ''), path }));
}

async function readList(file: string): Promise<readonly Module[]> {
  const list: unknown = await readJson(file, HEADER_LIMITS.configJsonBytes);
  if (!Array.isArray(list) || list.length > MOST_MODULES)
    throw new ModelFileError(file, 'modules', 'no such list', `an array of up to ${MOST_MODULES} modules`);
  return list.map((item: unknown, at) => {
    const fields = Fields.ofObject(file, item, `[${at}]`);
    const path = fields.string('path', '');
    // A module is in a folder of the model's own.
    if (path !== '' && !NUMBERED.test(path)) fields.refuse('path', 'the name of a folder, such as 1_Pooling');
    return { type: fields.string('type'), path };
  });
}

async function readPooling(folder: string): Promise<ModelSource['pooling']> {
  const inside = await orModelFileError(folder, () => readdir(folder));
  if (!inside.includes('config.json')) return undefined;
  const config = membersOf(await readJsonObject(join(folder, 'config.json'), HEADER_LIMITS.configJsonBytes));
  const word = config['pooling_mode'];
  if (typeof word === 'string') {
    const known = Object.entries(POOLING_WORDS).find(([name]) => name === word)?.[1];
    return known ?? { unknown: `pooling_mode ${printable(word)}` };
  }
  const chosen = Object.keys(config).filter((key) => key.startsWith('pooling_mode_') && config[key] === true);
  const [only = ''] = chosen;
  const mode = Object.entries(POOLING_MODES).find(([name]) => name === only)?.[1];
  if (chosen.length === 1 && mode !== undefined) return mode;
  return { unknown: chosen.length === 0 ? 'no pooling_mode' : printable(chosen.join(' and ')) };
}

async function readLayer(kind: 'Dense' | 'LayerNorm', folder: string, at: number, file: number): Promise<PooledModule> {
  const path = join(folder, 'config.json');
  const config = Fields.ofObject(path, await readJsonObject(path, HEADER_LIMITS.configJsonBytes));
  const { tensors } = await readSafetensorsFile(join(folder, 'model.safetensors'), file);
  const prefix = kind === 'Dense' ? 'linear' : 'norm';
  const named = (part: string): TensorInfo | undefined => {
    const tensor = tensors.find(({ name }) => name === `${prefix}.${part}`);
    // Every module's tensors have the same names.
    return tensor && { ...tensor, name: `${at}.${prefix}.${part}` };
  };
  const [weight, bias] = [named('weight'), named('bias')];
  if (weight === undefined)
    throw new ModelFileError(join(folder, 'model.safetensors'), `tensor ${prefix}.weight`, 'no such tensor', 'one');
  const layer = kind === 'Dense' ? denseLayer(config) : normLayer(config);
  return { layer, weight, ...(bias && { bias }) };
}

function denseLayer(config: Fields): PooledLayer {
  const name = config.string('activation_function', 'torch.nn.modules.activation.Tanh');
  const activation = Object.hasOwn(ACTIVATIONS, name) ? ACTIVATIONS[name] : undefined;
  return {
    kind: 'dense',
    outputs: config.integer('out_features', LIMITS.hidden),
    activation: activation ?? config.refuse('activation_function', `one of ${Object.keys(ACTIVATIONS).join(', ')}`),
  };
}

function normLayer(config: Fields): PooledLayer {
  return { kind: 'norm', outputs: config.integer('dimension', LIMITS.hidden), epsilon: NORM_EPSILON };
}

async function readPrompts(file: string): Promise<EmbeddingPrompts | undefined> {
  const config = await readJsonObject(file, HEADER_LIMITS.configJsonBytes);
  const fields = Fields.ofObject(file, config);
  const given: unknown = config['prompts'];
  if (!isObject(given)) return undefined;
  const entries = Object.entries(given);
  if (entries.length > MOST_PROMPTS) fields.refuse('prompts', `at most ${MOST_PROMPTS}`, entries.length);
  const texts = entries.map(([name, text]): [string, string] => {
    if (typeof text !== 'string' || text.length > MOST_PROMPT_UNITS)
      return fields.refuse(`prompts.${printable(name)}`, `a text of up to ${MOST_PROMPT_UNITS} units`, text);
    return [name, text];
  });
  const usual = config['default_prompt_name'];
  if (usual === undefined || usual === null) return { texts: Object.fromEntries(texts) };
  if (typeof usual !== 'string' || !texts.some(([name]) => name === usual))
    return fields.refuse('default_prompt_name', 'the name of one of the prompts', usual);
  return { texts: Object.fromEntries(texts), usual };
}
