import { createHash } from 'node:crypto';
import { readdir, readFile, rm, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { isObject } from '../../arguments/isObject.js';
import { replaceFile } from '../../files/atomicFile.js';
import { userCacheFolder } from '../../files/userFolders.js';
import { makeFolder } from '../../files/makeFolder.js';
import { defaultDiskFolder } from '../open/diskFolder.js';

/** A model in the kernels' own layout, which an engine has left on disk for the next one. */
export interface RepackedStore {
  readonly path: string;
  /** On disk; one that is not complete counts. */
  readonly bytes: number;
  /** The first file of the model that it was made of; undefined where nobody noted that. */
  readonly model: string | undefined;
  /** When it was made, in milliseconds since 1970. */
  readonly made: number;
}

const STORE = /^[0-9a-f]{24}-[0-9a-f]{16}\.weights(\.partial)?$/;
const MOST_NOTES = 10_000;

/** Notes say where stores are, as each run may name a folder of its own for them. */
function notesFolder(): string {
  return join(userCacheFolder(), 'stores');
}

function noteOf(path: string): string {
  return join(notesFolder(), `${createHash('sha256').update(path).digest('hex').slice(0, 32)}.json`);
}

/** Notes which model a store is of. One that cannot be noted is found all the same, in the usual folder. */
export async function noteStore(store: string, model: string): Promise<void> {
  const note = { path: resolve(store), model: resolve(model) };
  try {
    const text = `${JSON.stringify(note)}\n`;
    const place = noteOf(note.path);
    if ((await readFile(place, 'utf8').catch(() => '')) === text) return;
    makeFolder(notesFolder());
    await replaceFile(place, text);
  } catch {
    // It is left unsaid.
  }
}

/** The repacked models of this user: those in the usual folder, and those that runs have put elsewhere. */
export async function repackedStores(): Promise<RepackedStore[]> {
  const models = new Map<string, string | undefined>();
  for (const name of await readdir(defaultDiskFolder()).catch(() => []))
    if (STORE.test(name)) models.set(resolve(defaultDiskFolder(), name), undefined);
  const notes = await readdir(notesFolder()).catch(() => []);
  for (const name of notes.slice(0, MOST_NOTES)) {
    const note = await readNote(join(notesFolder(), name));
    // What a note says is a place to look at, and nothing else is.
    if (note !== undefined) for (const path of [note.path, `${note.path}.partial`]) models.set(path, note.model);
  }
  const found = await Promise.all(
    [...models].map(async ([path, model]) => {
      const facts = await stat(path).catch(() => undefined);
      return facts?.isFile() === true ? [{ path, model, bytes: facts.size, made: facts.mtimeMs }] : [];
    }),
  );
  return found.flat().sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** Removes a repacked model: the next run that wants it makes it again. @throws the file system's errors */
export async function removeRepackedStore({ path }: Pick<RepackedStore, 'path'>): Promise<void> {
  await rm(path, { force: true });
  await rm(noteOf(path), { force: true });
}

async function readNote(path: string): Promise<{ readonly path: string; readonly model: string } | undefined> {
  try {
    const note: unknown = JSON.parse(await readFile(path, 'utf8'));
    if (!isObject(note) || typeof note['path'] !== 'string' || typeof note['model'] !== 'string') return undefined;
    const named = /[^/]*$/.exec(note['path'])?.[0] ?? '';
    return STORE.test(named) ? { path: note['path'], model: note['model'] } : undefined;
  } catch {
    return undefined;
  }
}
