import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { transformFileSync } from '@swc/core';

/** The stub engine as plain JavaScript, for a process without jest. @returns the file */
export function compiledStub(file: string): string {
  const { code } = transformFileSync(fileURLToPath(new URL('./stubEngine.ts', import.meta.url)), {
    jsc: { target: 'es2022', parser: { syntax: 'typescript' } },
    module: { type: 'es6' },
  });
  writeFileSync(file, code);
  return file;
}
