import { readdir, readFile, readlink, rename, stat, symlink } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { isObject } from '../../arguments/isObject.js';
import { replaceFile } from '../../files/atomicFile.js';
import { temporaryPath } from '../../files/temporaryFiles.js';
import type { ListedFile } from './chooseFiles.js';
import { COMMIT, isSafePath } from './hubName.js';
import { makeFolder } from '../../files/makeFolder.js';

/** A model has far fewer. */
const MOST_FILES = 10_000;

/**
 * One repository in the cache that all of Hugging Face's tools share: `blobs` by their hash, `snapshots/COMMIT` with a
 * link to a blob for each file, and `refs/BRANCH` that says which commit a branch was at.
 */
export class HubRepository {
  readonly folder: string;

  /** @param cache the cache's folder @param repo `owner/repo` */
  constructor(cache: string, repo: string) {
    this.folder = join(cache, `models--${repo.replace('/', '--')}`);
  }

  blob(digest: string): string {
    return join(this.folder, 'blobs', digest);
  }

  snapshot(commit: string): string {
    return join(this.folder, 'snapshots', commit);
  }

  /** The commit that a revision was at when it was last asked after. */
  async commitOf(revision: string): Promise<string | undefined> {
    if (COMMIT.test(revision)) return revision;
    const text = await readFile(join(this.folder, 'refs', revision), 'utf8').catch(() => '');
    return COMMIT.test(text.trim()) ? text.trim() : undefined;
  }

  async setCommit(revision: string, commit: string): Promise<void> {
    if (revision === commit) return;
    const path = join(this.folder, 'refs', revision);
    makeFolder(dirname(path));
    if ((await readFile(path, 'utf8').catch(() => '')) !== commit) await replaceFile(path, commit);
  }

  /** Gives a blob its name in a snapshot. */
  async link(commit: string, path: string, digest: string): Promise<void> {
    const place = join(this.snapshot(commit), path);
    const to = relative(dirname(place), this.blob(digest));
    makeFolder(dirname(place));
    if ((await readlink(place).catch(() => undefined)) === to) return;
    const temporary = temporaryPath(place);
    await symlink(to, temporary);
    await rename(temporary, place);
  }

  /**
   * Gives the files that the hub listed at a commit, as the list was kept when files were fetched from there: of what
   * is in the cache alone nobody could tell which file is meant where none is named.
   */
  async listed(commit: string): Promise<readonly ListedFile[] | undefined> {
    try {
      const text = await readFile(this.#listing(commit), 'utf8');
      const files: unknown = JSON.parse(text);
      const isFile = (file: unknown): file is ListedFile =>
        isObject(file) &&
        typeof file['path'] === 'string' &&
        isSafePath(file['path']) &&
        typeof file['bytes'] === 'number';
      return Array.isArray(files) && files.every(isFile) ? files : undefined;
    } catch {
      return undefined;
    }
  }

  async keepListing(commit: string, files: readonly ListedFile[]): Promise<void> {
    const path = this.#listing(commit);
    makeFolder(dirname(path));
    await replaceFile(path, JSON.stringify(files.map(({ path: file, bytes }) => ({ path: file, bytes }))));
  }

  #listing(commit: string): string {
    return join(this.folder, '.spillway', `${commit}.json`);
  }

  /** Lists a snapshot's files by now; links to what is not there are left out. */
  async files(commit: string): Promise<ListedFile[]> {
    const root = this.snapshot(commit);
    const names = await readdir(root, { recursive: true }).catch(() => []);
    const files = await Promise.all(
      names
        .slice(0, MOST_FILES)
        .map(async (path) => ({ path, facts: await stat(join(root, path)).catch(() => undefined) })),
    );
    return files.flatMap(({ path, facts }) => (facts?.isFile() === true ? [{ path, bytes: facts.size }] : []));
  }
}
