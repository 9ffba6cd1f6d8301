import { open, stat } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { ModelFileError } from '../../errors/ModelFileError.js';

/** An open, regular file of known size. Every read is checked against that size before a buffer is made for it. */
export class ModelFile {
  private constructor(
    readonly path: string,
    /** Size in bytes when it was opened. */
    readonly bytes: number,
    readonly handle: FileHandle,
  ) {}

  /**
   * Opens a file for the duration of `body`. @throws ModelFileError if it is missing, no regular file or not readable
   */
  static async use<T>(path: string, body: (file: ModelFile) => Promise<T>): Promise<T> {
    // Looked at before it is opened: opening a named pipe would wait for its writer for ever.
    const status = await orModelFileError(path, () => stat(path));
    if (!status.isFile())
      throw new ModelFileError(
        path,
        'file',
        status.isDirectory() ? 'a folder' : 'something that is no regular file',
        'a file',
      );
    const handle = await orModelFileError(path, () => open(path, 'r'));
    try {
      // Of what was opened: another file may have taken the place meanwhile.
      const { size } = await orModelFileError(path, () => handle.stat());
      return await body(new ModelFile(path, size, handle));
    } finally {
      await handle.close();
    }
  }

  /** Fills `target` from `offset` on. The caller has checked that the range lies inside the file. */
  async fill(target: Uint8Array, offset: number): Promise<void> {
    for (let done = 0; done < target.byteLength;) {
      const { bytesRead } = await orModelFileError(this.path, () =>
        this.handle.read(target, done, Math.min(target.byteLength - done, 2 ** 30), offset + done),
      );
      if (bytesRead === 0) {
        throw new ModelFileError(
          this.path,
          'file',
          `its end at byte ${offset + done}`,
          `${this.bytes} bytes, its size when it was opened`,
        );
      }
      done += bytesRead;
    }
  }
}

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'nothing at that path',
  ENOTDIR: 'nothing at that path',
  EACCES: 'no permission to read it',
  EISDIR: 'a folder',
  ELOOP: 'symbolic links that go in circles',
  EIO: 'a read error of the disk',
};

/** Runs a file operation; whatever the system says against it becomes a ModelFileError. */
export async function orModelFileError<T>(path: string, operation: () => Promise<T>): Promise<T> {
  try {
    return await operation();
  } catch (error) {
    const code =
      error instanceof Error || (typeof error === 'object' && error !== null)
        ? (error as NodeJS.ErrnoException).code
        : undefined;
    throw new ModelFileError(
      path,
      'file',
      REASONS[code ?? ''] ?? `the error ${code ?? String(error)}`,
      'a readable file',
      {
        cause: error,
      },
    );
  }
}
