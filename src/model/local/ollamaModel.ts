import { readFile, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { found } from '../../arguments/found.js';
import { isObject } from '../../arguments/isObject.js';
import { ModelFileError } from '../../errors/ModelFileError.js';
import { UsageError } from '../../errors/UsageError.js';
import { isSafePath } from '../hub/hubName.js';

type Environment = Readonly<Record<string, string | undefined>>;

export const OLLAMA = 'ollama:';
const MODEL_LAYER = 'application/vnd.ollama.image.model';
const ADAPTER_LAYER = 'application/vnd.ollama.image.adapter';
const PART = /^[A-Za-z0-9_][\w.-]{0,127}$/;
const MOST_MANIFEST_BYTES = 2 ** 20;

/** Where Ollama keeps models: as the variable says, the user's, or that of the service on Linux. */
function storesOf(environment: Environment): string[] {
  const chosen = environment['OLLAMA_MODELS'];
  return chosen !== undefined && chosen !== ''
    ? [chosen]
    : [join(homedir(), '.ollama', 'models'), '/usr/share/ollama/.ollama/models'];
}

/**
 * The GGUF file of a model that Ollama has fetched, `ollama:name[:tag]` (`ollama:someone/name:tag`). Nothing is
 * fetched.
 * @throws UsageError for a name of another shape; ModelFileError where there is no such model, or its manifest names
 * none
 */
export async function ollamaModel(name: string, environment: Environment = process.env): Promise<string> {
  const [path = '', tag = 'latest', ...rest] = name.slice(OLLAMA.length).split(':');
  const parts = path.split('/');
  const fine =
    rest.length === 0 && parts.length <= 3 && isSafePath(path) && [...parts, tag].every((part) => PART.test(part));
  if (!fine)
    throw new UsageError(`model: found ${found(name)}, expected ollama:NAME, ollama:NAME:TAG or ollama:OWNER/NAME:TAG`);
  const whole = [...['registry.ollama.ai', 'library'].slice(0, 3 - parts.length), ...parts];
  const stores = storesOf(environment);
  for (const store of stores) {
    const manifest = join(store, 'manifests', ...whole, tag);
    const facts = await stat(manifest).catch(() => undefined);
    if (facts?.isFile() === true)
      return blobOf(name, store, facts.size > MOST_MANIFEST_BYTES ? '' : await readFile(manifest, 'utf8'));
  }
  const remedy = `\`ollama pull ${path}:${tag}\` fetches it, and OLLAMA_MODELS names another store`;
  throw new ModelFileError(
    name,
    'model',
    `no ${path}:${tag} in ${stores.join(' or ')}`,
    `one that \`ollama list\` shows; ${remedy}`,
  );
}

async function blobOf(name: string, store: string, manifest: string): Promise<string> {
  const layers = layersOf(manifest);
  const models = layers.filter(({ mediaType }) => mediaType === MODEL_LAYER);
  if (layers.some(({ mediaType }) => mediaType === ADAPTER_LAYER) || models.length > 1)
    throw new ModelFileError(
      name,
      'manifest',
      models.length > 1 ? `${models.length} models` : 'an adapter beside the model',
      'one model by itself: without the adapter it would answer as another one',
    );
  const [layer] = models;
  const [, digest] = /^sha256:([0-9a-f]{64})$/.exec(String(layer?.['digest'])) ?? [];
  if (digest === undefined)
    throw new ModelFileError(name, 'manifest', 'no layer with a model', `one of type ${MODEL_LAYER}`);
  const path = join(store, 'blobs', `sha256-${digest}`);
  const size = await stat(path).then(
    (facts) => facts.size,
    () => undefined,
  );
  if (size === undefined || size !== layer?.['size']) {
    const what = size === undefined ? `no file ${path}` : `${size} bytes in ${path}`;
    throw new ModelFileError(
      name,
      'model',
      what,
      `the ${String(layer?.['size'])} bytes that its manifest names; fetch it again with \`ollama pull\``,
    );
  }
  return path;
}

function layersOf(manifest: string): Readonly<Record<string, unknown>>[] {
  try {
    const { layers } = JSON.parse(manifest) as { readonly layers?: unknown };
    return Array.isArray(layers) ? layers.filter(isObject) : [];
  } catch {
    return [];
  }
}
