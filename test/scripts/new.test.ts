import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { expect, test } from '@jest/globals';
import ts from 'typescript';

type Files = Readonly<Record<string, string>>;
const script = '../../scripts/new.mjs';
const { newFiles } = (await import(script)) as { newFiles(kind: string, name: string): Files };
const KINDS = ['operator', 'family', 'format'];

test('new operators, families and formats compile beside all that is there', () => {
  const files = new Map(
    KINDS.flatMap((kind) => Object.entries(newFiles(kind, 'sampleThing'))).map(([path, text]) => [resolve(path), text]),
  );
  const { config } = ts.readConfigFile('tsconfig.json', (path) => ts.sys.readFile(path));
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, process.cwd());
  const host = ts.createCompilerHost(options);
  const { fileExists, readFile, getSourceFile } = host;
  host.fileExists = (path) => files.has(path) || fileExists(path);
  host.readFile = (path) => files.get(path) ?? readFile(path);
  host.getSourceFile = (path, version, ...more) => {
    const text = files.get(path);
    return text === undefined ? getSourceFile(path, version, ...more) : ts.createSourceFile(path, text, version);
  };
  const program = ts.createProgram([...files.keys()], { ...options, noEmit: true }, host);
  const faults = [...files.keys()].flatMap((path) => [
    ...program.getSyntacticDiagnostics(program.getSourceFile(path)),
    ...program.getSemanticDiagnostics(program.getSourceFile(path)),
  ]);
  expect(faults.map(({ messageText }) => messageText)).toEqual([]);
  expect(files.size).toBe(6);
});

const compiler = spawnSync('g++', ['-std=c++17', '-fsyntax-only', '-x', 'c++', '-'], {
  input: '#include <gtest/gtest.h>',
});

(compiler.status === 0 ? test : test.skip)('a new kernel compiles, and so does its test', () => {
  const folder = mkdtempSync(join(tmpdir(), 'spillway-new-'));
  try {
    const files = Object.entries(newFiles('kernel', 'sampleThing'));
    for (const [path, text] of files) {
      mkdirSync(dirname(join(folder, path)), { recursive: true });
      writeFileSync(join(folder, path), text);
    }
    const sources = files.map(([path]) => path).filter((path) => path.endsWith('.cpp'));
    expect(
      execFileSync('g++', ['-std=c++17', '-Wall', '-Werror', '-fsyntax-only', ...sources], { cwd: folder }).length,
    ).toBe(0);
    expect(sources).toHaveLength(2);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test('each test of a new part says what is to do', () => {
  for (const kind of [...KINDS, 'kernel']) {
    const tests = Object.entries(newFiles(kind, 'sampleThing')).filter(([path]) => /test/.test(path));
    expect(tests.map(([, text]) => /['"]to do: [^'"]+['"]|'to do'/.test(text))).toEqual([true]);
  }
});

test('other kinds and names are refused', () => {
  expect(() => newFiles('stage', 'x')).toThrow('found stage, expected one of operator, family, kernel, format');
  for (const name of ['', 'Big', 'a-b', '../x']) expect(() => newFiles('format', name)).toThrow('expected a name');
  expect(() => newFiles('toString', 'x')).toThrow('found toString');
});
