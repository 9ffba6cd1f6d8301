import { lstat, readdir, readFile } from 'node:fs/promises';
import { join, relative, sep } from 'node:path';
import { found } from '../arguments/found.js';
import { isObject } from '../arguments/isObject.js';
import { UsageError } from '../errors/UsageError.js';
import { type Draft, draftNamed } from './drafts.js';
import { SCHEMA_LIMITS } from './limits.js';
import { SchemaDocument } from './SchemaDocument.js';

/** Limits of a folder of schemas: with larger ones a job takes too long to begin. */
const SCHEMA_FOLDER = { files: 10_000, bytes: 64 * 2 ** 20 } as const;

/** A file of a folder of schemas. */
interface SchemaFile {
  /** Within the folder, with slashes. */
  readonly path: string;
  readonly schema: Readonly<Record<string, unknown>>;
  readonly id: string | undefined;
}

/**
 * A schema with what it refers to outside of itself, as far as files of a folder have it: those `*.json` whose `$id` is
 * the address, or whose path the address ends with. Nothing is fetched, and no link is followed. What no file has stays
 * as it is, and is refused where the schema is read.
 * @param folder as `--schema-dir` names it
 * @throws UsageError for a folder that cannot be read, or holds too much; UnsupportedSchema for what is no schema
 */
export async function bundledSchema(schema: unknown, folder: string): Promise<unknown> {
  const files = await schemaFiles(folder);
  let bundle = schema;
  for (let known = 0; known < SCHEMA_LIMITS.schemas; known++) {
    const document = SchemaDocument.of(bundle);
    const [address, file] =
      document
        .outside()
        .map((outside) => [outside, fileOf(files, outside)] as const)
        .find((pair): pair is readonly [string, SchemaFile] => pair[1] !== undefined) ?? [];
    if (address === undefined || file === undefined || !isObject(bundle)) return bundle;
    bundle = withSchema(bundle, document.root.draft, address, file);
  }
  return bundle;
}

/** One of them more, under its address. */
function withSchema(
  bundle: Readonly<Record<string, unknown>>,
  draft: Draft | undefined,
  address: string,
  { schema }: SchemaFile,
): Readonly<Record<string, unknown>> {
  const keyword = draft !== undefined && draft <= 7 ? 'definitions' : '$defs';
  const own = typeof schema['$schema'] === 'string' ? draftNamed(schema['$schema']) : draft;
  const { $id: _newer, id: older, ...rest } = schema;
  const named =
    own === 4 ? { ...rest, id: address } : { ...rest, ...(older !== undefined && { id: older }), $id: address };
  return { ...bundle, [keyword]: { ...(isObject(bundle[keyword]) ? bundle[keyword] : {}), [address]: named } };
}

function fileOf(files: readonly SchemaFile[], address: string): SchemaFile | undefined {
  const path = decodeURIComponent(new URL(address).pathname).replace(/\.json$/, '');
  const endsWith = (file: SchemaFile): boolean => `/${path}`.endsWith(`/${file.path.replace(/\.json$/, '')}`);
  return (
    files.find(({ id }) => id === address) ??
    files.filter(endsWith).sort((a, b) => b.path.length - a.path.length || (a.path < b.path ? -1 : 1))[0]
  );
}

async function schemaFiles(folder: string): Promise<readonly SchemaFile[]> {
  const files: SchemaFile[] = [];
  let bytes = 0;
  try {
    for (const entry of await readdir(folder, { withFileTypes: true, recursive: true })) {
      if (!entry.isFile() || !entry.name.endsWith('.json')) continue;
      const file = join(entry.parentPath, entry.name);
      bytes += (await lstat(file)).size;
      if (files.length >= SCHEMA_FOLDER.files || bytes > SCHEMA_FOLDER.bytes)
        throw new UsageError(
          `--schema-dir: found more than ${SCHEMA_FOLDER.files} files or ${SCHEMA_FOLDER.bytes} bytes of *.json in ${folder}, expected a folder of schemas alone`,
        );
      const schema = parsed(await readFile(file, 'utf8'));
      // What is no schema is nobody's reference.
      if (isObject(schema)) files.push({ path: relative(folder, file).split(sep).join('/'), schema, id: idOf(schema) });
    }
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw new UsageError(
      `--schema-dir: found ${found(folder)}, which cannot be read (${error instanceof Error ? error.message : String(error)}), expected a folder`,
      { cause: error },
    );
  }
  return files;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text.replace(/^\uFEFF/, ''));
  } catch {
    return undefined;
  }
}

function idOf({ $id: id, id: older }: Readonly<Record<string, unknown>>): string | undefined {
  const name = id ?? older;
  return typeof name === 'string' && URL.canParse(name) ? new URL(name).href.replace(/#$/, '') : undefined;
}
