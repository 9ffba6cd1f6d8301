import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { tinyModelWithTokenizer } from '../../cli/support.js';

/** A case of `test/fixtures/hostile`, as its README describes it. */
export interface HostileCase {
  readonly about: string;
  readonly command: string | readonly string[];
  readonly set?: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  readonly write?: Readonly<Record<string, unknown>>;
  readonly rows?: unknown;
  readonly exit: number;
  readonly stdout?: string;
  readonly stderr?: string;
}

const FOLDER = fileURLToPath(new URL('../../fixtures/hostile/', import.meta.url));

/** All cases, by the file that they stand in. */
export function hostileCases(): [file: string, about: string, one: HostileCase][] {
  return readdirSync(FOLDER)
    .filter((name) => name.endsWith('.json'))
    .flatMap((file) => {
      const cases = JSON.parse(readFileSync(join(FOLDER, file), 'utf8')) as HostileCase[];
      return cases.map((one): [string, string, HostileCase] => [file, one.about, one]);
    });
}

/** Makes the model of a case. @param good folder of the good model, made when it is not there */
export function writeModel(one: HostileCase, good: string, folder: string): void {
  cpSync(tinyModelWithTokenizer(good), folder, { recursive: true });
  for (const [name, members] of Object.entries(one.set ?? {})) {
    const before = JSON.parse(readFileSync(join(folder, name), 'utf8')) as Record<string, unknown>;
    writeFileSync(join(folder, name), JSON.stringify({ ...before, ...(made(members) as object) }));
  }
  for (const [name, text] of Object.entries(one.write ?? {})) writeFileSync(join(folder, name), made(text) as string);
}

/** The lines of a case's input. */
export function inputOf(one: HostileCase): string {
  return (made(one.rows ?? []) as unknown[])
    .map((row) => `${typeof row === 'string' ? row : JSON.stringify(row)}\n`)
    .join('');
}

/** A value with what is to be made in it made. */
function made(value: unknown, index = 0): unknown {
  if (value === '$index') return index;
  if (Array.isArray(value)) return value.map((item) => made(item, index));
  if (typeof value !== 'object' || value === null) return value;
  if ('$repeat' in value) return repeated(value.$repeat as unknown[], index);
  if ('$list' in value) {
    const [item, count] = value.$list as [unknown, number];
    return Array.from({ length: count }, (_, at) => made(item, at));
  }
  if ('$vocabulary' in value) return vocabulary(made(value.$vocabulary) as string);
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, made(member, index)]));
}

/** Texts, each followed by how often it stands there; once where no number follows. */
function repeated(parts: readonly unknown[], index: number): string {
  return parts
    .map((part, at) => {
      if (typeof part === 'number') return '';
      const next = parts[at + 1];
      return String(made(part, index)).repeat(typeof next === 'number' ? next : 1);
    })
    .join('');
}

function vocabulary(prefix: string): Record<string, number> {
  const tokens = [
    '<pad>',
    '<s>',
    '</s>',
    ...Array.from({ length: 253 }, (_, id) => `${prefix}${String(id + 3).padStart(3, '0')}`),
  ];
  return Object.fromEntries(tokens.map((token, id) => [token, id]));
}
