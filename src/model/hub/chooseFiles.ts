import { basename } from 'node:path';
import { formatSplitName, MODEL_SETTINGS, parseSplitName } from '../modelFiles.js';

/** A file of a repository, or of a folder. */
export interface ListedFile {
  /** Within the repository, with slashes. */
  readonly path: string;
  readonly bytes: number;
}

/** What of a repository makes a model. */
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
/** Files beside a model's weights that are GGUF, too. */
const NO_MODEL = /(^|[-._/])(mmproj|imatrix|vocab)/i;
const OTHER_SETTINGS = new Set(['vocab.json', 'merges.txt', 'tokenizer.model', 'model.safetensors.index.json']);
/** What sentence-transformers' modules do: how embeddings are pooled, and whether anything follows. */
const MODULE_SETTINGS = /^\d+_\w+\/config\.json$/;
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
  const gguf = files.filter(({ path }) => /\.gguf$/i.test(path) && !NO_MODEL.test(path));
  const named = files.find(({ path }) => path === wanted);
  if (named !== undefined)
    return /\.gguf$/i.test(named.path)
      ? whole(files, named)
      : { found: `the file ${named.path}`, expected: 'a GGUF file, or none for a model of safetensors' };
  const models = gguf.filter(({ path }) => (parseSplitName(basename(path))?.number ?? 1) === 1);
  if (wanted !== undefined) {
    const matching = models.filter(({ path }) => hasQuant(path, wanted));
    const [first] = byLength(matching);
    return first === undefined
      ? { found: `no file or quant ${JSON.stringify(wanted)}`, expected: listed(models.map(({ path }) => path)) }
      : whole(files, first);
  }
  for (const quant of USUAL) {
    const [first] = byLength(models.filter(({ path }) => hasQuant(path, quant)));
    if (first !== undefined) return whole(files, first);
  }
  const [only] = models;
  if (only !== undefined && models.length === 1) return whole(files, only);
  if (models.length > 0)
    return { found: 'several GGUF files', expected: `one by name: ${listed(models.map(({ path }) => path))}` };
  return safetensors(files);
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
    ({ path }) => MODEL_SETTINGS.has(path) || OTHER_SETTINGS.has(path) || MODULE_SETTINGS.test(path),
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
  return { files: [...settings, ...weights], entry: undefined };
}

function listed(names: readonly string[]): string {
  if (names.length === 0) return 'no files';
  return names.length > MOST_NAMES
    ? `${names.slice(0, MOST_NAMES).join(', ')} and ${names.length - MOST_NAMES} more`
    : names.join(', ');
}
