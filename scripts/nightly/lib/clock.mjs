// A clock of the day that is wrong, or jumps, for one process: libfaketime, never the machine's own. The clock of
// elapsed time is left alone, as a kernel leaves it.
import { existsSync, readdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const LIBRARY = 'faketime/libfaketimeMT.so.1';

/** The library, or undefined where it is not installed. */
export function faketimeLibrary() {
  const folders = [
    '/usr/lib',
    '/usr/local/lib',
    ...readdirSync('/usr/lib')
      .filter((name) => name.includes('-linux-'))
      .map((name) => join('/usr/lib', name)),
  ];
  return folders.map((folder) => join(folder, LIBRARY)).find((path) => existsSync(path));
}

/** @param offset as faketime writes them: `-1d`, `+90` (seconds) */
export function setClock(file, offset) {
  // As a whole, since the library reads the file at any time.
  writeFileSync(`${file}.new`, offset);
  renameSync(`${file}.new`, file);
}

/** The environment of a process whose clock a file sets. */
export function clockEnvironment(library, file) {
  return {
    LD_PRELOAD: library,
    FAKETIME_TIMESTAMP_FILE: file,
    FAKETIME_NO_CACHE: '1',
    FAKETIME_DONT_FAKE_MONOTONIC: '1',
    NO_FAKE_STAT: '1',
  };
}
