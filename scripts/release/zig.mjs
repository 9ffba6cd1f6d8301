// zig as a C++ compiler for systems that are not this one, with their C libraries' headers, and with old ones' symbols.
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pythonPackage } from '../pythonPackage.mjs';

/** The Python package that brings the compiler. */
const PACKAGE = 'ziglang==0.17.1';

/**
 * A program to link Rust's shared libraries for another system with. Of ours nothing is one, but llguidance is made
 * into one besides, which would need that system's libraries and which nobody looks at: it becomes an empty file.
 * @returns its path
 */
export function emptyLinker(folder) {
  const program = join(folder, 'empty-linker');
  mkdirSync(folder, { recursive: true });
  writeFileSync(program, '#!/bin/sh\nwhile [ $# -gt 0 ]; do [ "$1" = -o ] && : > "$2"; shift; done\n');
  chmodSync(program, 0o755);
  return program;
}

/**
 * Programs that CMake takes for a compiler's, in `folder`; installs zig there if that has not been done.
 * @returns their paths, by CMake's names for them
 */
export function zigTools(folder, target) {
  const python = join(pythonPackage(join(folder, 'zig'), PACKAGE), 'python');
  const tools = {
    CMAKE_C_COMPILER: `cc -target ${target}`,
    CMAKE_CXX_COMPILER: `c++ -target ${target}`,
    CMAKE_AR: 'ar',
    CMAKE_RANLIB: 'ranlib',
  };
  const programs = join(folder, target);
  mkdirSync(programs, { recursive: true });
  return Object.fromEntries(
    Object.entries(tools).map(([name, words]) => {
      const program = join(programs, `zig-${words.split(' ')[0]}`);
      writeFileSync(program, `#!/bin/sh\nexec '${python}' -m ziglang ${words} "$@"\n`);
      chmodSync(program, 0o755);
      return [name, program];
    }),
  );
}
