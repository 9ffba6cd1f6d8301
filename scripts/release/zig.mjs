// zig as a C++ compiler for systems that are not this one, with their C libraries' headers, and with old ones' symbols.
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pythonPackage } from '../pythonPackage.mjs';

/** The Python package that brings the compiler. */
const PACKAGE = 'ziglang==0.17.1';

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
