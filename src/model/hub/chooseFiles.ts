import { basename } from 'node:path';
import { ADDITIONAL_TEMPLATES, formatSplitName, MODEL_SETTINGS, parseSplitName } from '../modelFiles.js';

/** A file of a repository, or of a folder. */
export interface ListedFile {
  /** Within the repository, with slashes. */
  readonly path: string;
  readonly bytes: number;
}

/** A repository's files that make a model. */
export interface ChosenFiles<File extends ListedFile> {
  /** Settings first, weights last: where the weights are there, all is. */
  readonly files: readonly File[];
  /** The first GGUF file; undefined where the model is the folder. */
  readonly entry: string | undefined;
}

/** Why nothing was chosen. */
export interface NoChoice {
  readonly found: string;
  readonly expected: string;
}

/** In which order a quant is chosen where nobody says which: small, and nearly as good as the whole. */
const USUAL = [
  'Q4_K_M',
  'Q4_K_S',
  'Q4_0',
  'Q4_1',
  'IQ4_NL',
  'IQ4_XS',
  'MXFP4',
  'Q5_K_M',
  'Q5_K_S',
  'Q5_0',
  'Q8_0',
  'Q6_K',
  'Q3_K_M',
  'BF16',
  'F16',
  'Q2_K',
  'F32',
] as const;
/** Files beside a model's weights that are GGUF, too, and never a model: what images go through, statistics, words. */
const NO_MODEL = /(^|[-._/])(mmproj|mm-?projector|imatrix|vocab)/i;
/**
 * Helpers of a model, by a word of their names or folders: small models that draft for it, heads that guess ahead,
 * adapters, vectors that steer it, tables of embeddings. Where all files have the word it is the model's own name.
 */
const HELPER =
  /(^|[-._/ ])(mtp|draft|drafter|drafts|eagle\d?|medusa|speculator|speculative|dflash|lora|qlora|adapters?|control-?vectors?|cvectors?|(tok|token)?_?embeddings|token_embd)(?=[-._/ ]|$)/i;
/** A word that says how weights are stored, or made so: `Q4_K_M`, `fp16`, `4bit`; `UD` and `i1` are kinds of these. */
const QUANT_WORD =
  /^(T?I?Q\d+(_[0-9A-Z]+)*|B?F16|F32|FP?(4|8|16|32)|[MN][XV]FP4(_MOE)?|INT[48]|[248]-?BITS?|UD|I1|IMAT|GGUF)$/i;
const OTHER_SETTINGS = new Set(['vocab.json', 'merges.txt', 'tokenizer.model', 'model.safetensors.index.json']);
/** The settings of sentence-transformers' modules: how embeddings are pooled, and whether anything follows. */
const MODULE_SETTINGS = /^\d+_\w+\/config\.json$/;
const NAMED_TEMPLATE = new RegExp(`^${ADDITIONAL_TEMPLATES}/[^/]+\\.jinja$`);
/** And the weights of those that have some. */
const MODULE_WEIGHTS = /^\d+_\w+\/model\.safetensors$/;
const SHARD = /^model-(\d{5})-of-(\d{5})\.safetensors$/;
const MOST_NAMES = 12;

/**
 * The files of the model that is wanted. Pure; nothing that the list says is trusted beyond its names and sizes.
 * @param wanted a file's path, or a quant; undefined: what is usual
 */
export function chooseFiles<File extends ListedFile>(
  files: readonly File[],
  wanted: string | undefined,
): ChosenFiles<File> | NoChoice {
  const named = files.find(({ path }) => path === wanted);
  if (named !== undefined)
    return /\.gguf$/i.test(named.path)
      ? whole(files, named)
      : { found: `the file ${named.path}`, expected: 'a GGUF file, or none for a model of safetensors' };
  const models = modelsOf(files);
  if (wanted === undefined && models.length === 0) return safetensors(files);
  const candidates = wanted === undefined ? models : models.filter(({ path }) => hasQuant(path, wanted));
  if (wanted !== undefined && candidates.length === 0)
    return { found: `no file or quant ${JSON.stringify(wanted)}`, expected: listed(models.map(({ path }) => path)) };
  const several = new Set(candidates.map(({ path }) => modelName(path))).size;
  if (several > 1)
    return {
      found: `files of ${several} models${wanted === undefined ? '' : ` with ${JSON.stringify(wanted)}`}`,
      expected: `one by name: ${listed(candidates.map(({ path }) => path))}`,
    };
  const isQuant = wanted !== undefined && QUANT_WORD.test(wanted);
  const usual = USUAL.find((quant) => candidates.some(({ path }) => hasQuant(path, quant)));
  const [first] = byLength(
    isQuant || usual === undefined ? candidates : candidates.filter(({ path }) => hasQuant(path, usual)),
  );
  if (first !== undefined && (isQuant || usual !== undefined || candidates.length === 1)) return whole(files, first);
  return { found: 'several GGUF files', expected: `one by name: ${listed(candidates.map(({ path }) => path))}` };
}

/** The GGUF files that are models, or begin one, without what helps another one. */
export function modelsOf<File extends ListedFile>(files: readonly File[]): File[] {
  const models = files.filter(
    ({ path }) => /\.gguf$/i.test(path) && !NO_MODEL.test(path) && (parseSplitName(basename(path))?.number ?? 1) === 1,
  );
  const others = models.filter(({ path }) => !HELPER.test(withoutEnding(path)));
  return others.length > 0 ? others : models;
}

/** Gives what a file's path says beside how its weights are stored: the same for all quants of a model. */
function modelName(path: string): string {
  return withoutEnding(path)
    .split('/')
    .map((part) =>
      part
        .split(/[-. ]/)
        .filter((word) => !QUANT_WORD.test(word))
        .join('-'),
    )
    .filter((part) => part !== '')
    .join('/')
    .toUpperCase();
}

function withoutEnding(path: string): string {
  return path.replace(/(-\d{5}-of-\d{5})?\.gguf$/i, '');
}

/**
 * A quant stands in a name between separators, or is a folder: `model-Q4_K_M.gguf`, `Q8_0/model-00001-of-00002.gguf`.
 */
function hasQuant(path: string, quant: string): boolean {
  const escaped = quant.toUpperCase().replace(/[^A-Z0-9_]/g, '\\$&');
  return new RegExp(`(^|[-./])${escaped}([-./]|$)`).test(path.toUpperCase());
}

function byLength<File extends ListedFile>(files: readonly File[]): File[] {
  return [...files].sort((a, b) => a.path.length - b.path.length || (a.path < b.path ? -1 : 1));
}

/** A GGUF file, with all others where it is split. */
function whole<File extends ListedFile>(files: readonly File[], first: File): ChosenFiles<File> | NoChoice {
  const split = parseSplitName(basename(first.path));
  if (split === undefined) return { files: [first], entry: first.path };
  const folder = first.path.slice(0, first.path.length - basename(first.path).length);
  // Of a count that nobody checked: no more files than there are can be its parts.
  const paths =
    split.count > files.length
      ? []
      : Array.from({ length: split.count }, (_, at) => `${folder}${formatSplitName({ ...split, number: at + 1 })}`);
  const parts = paths.map((path) => files.find((file) => file.path === path)).filter((file) => file !== undefined);
  const [entry] = parts;
  if (entry === undefined || parts.length < split.count)
    return { found: `${parts.length} of the ${split.count} files of ${first.path}`, expected: 'all of them' };
  return { files: parts, entry: entry.path };
}

function safetensors<File extends ListedFile>(files: readonly File[]): ChosenFiles<File> | NoChoice {
  const inRoot = new Map(files.map((file) => [file.path, file]));
  const settings = files.filter(
    ({ path }) =>
      MODEL_SETTINGS.has(path) || OTHER_SETTINGS.has(path) || MODULE_SETTINGS.test(path) || NAMED_TEMPLATE.test(path),
  );
  const single = inRoot.get('model.safetensors');
  const shards = files.filter(({ path }) => SHARD.test(path)).sort((a, b) => (a.path < b.path ? -1 : 1));
  const count = Number(SHARD.exec(shards[0]?.path ?? '')?.[2] ?? 0);
  const weights = single !== undefined ? [single] : shards.length > 0 && shards.length === count ? shards : [];
  if (weights.length === 0 || !inRoot.has('config.json')) {
    return {
      found: listed(files.map(({ path }) => path)),
      expected: 'a GGUF file, or config.json and model.safetensors',
    };
  }
  const modules = files.filter(({ path }) => MODULE_WEIGHTS.test(path));
  return { files: [...settings, ...modules, ...weights], entry: undefined };
}

function listed(names: readonly string[]): string {
  if (names.length === 0) return 'no files';
  return names.length > MOST_NAMES
    ? `${names.slice(0, MOST_NAMES).join(', ')} and ${names.length - MOST_NAMES} more`
    : names.join(', ');
}
