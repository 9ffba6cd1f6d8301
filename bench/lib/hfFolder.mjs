// A GGUF file's model as vLLM reads it, made once where none is given.
import { spawnSync } from 'node:child_process';
import { existsSync, renameSync, rmSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { cacheFolder } from './cacheFolder.mjs';

const maker = (name) => fileURLToPath(new URL(`../models/${name}`, import.meta.url));

/**
 * @param {string} python an interpreter that has vllm, and so what the maker needs
 * @returns the folder; throws an Error that says why there is none
 */
export function hfFolder(model, python, cache = cacheFolder()) {
  const { size, mtimeMs } = statSync(model);
  const folder = join(cache, 'hf', `${basename(model, '.gguf')}-${size}-${Math.floor(mtimeMs)}`);
  return made(folder, 'makeHfFolder.py', model, python, 'in 16 bits');
}

/** @returns the same with the layers' matrices and activations in 8 bits, beside it */
export function w8a8Folder(folder, python) {
  return made(`${folder}-w8a8`, 'makeW8a8.py', folder, python, 'in 8 bits');
}

function made(folder, script, source, python, how) {
  if (existsSync(folder)) return folder;
  process.stderr.write(`${basename(source)}: its weights are written ${how}, for vLLM\n`);
  const part = `${folder}.part`;
  rmSync(part, { recursive: true, force: true });
  const { status, error } = spawnSync(python, [maker(script), source, part], { stdio: ['ignore', 2, 2] });
  if (status !== 0) throw new Error(error ? error.message : `${script} ended with ${status}`);
  renameSync(part, folder);
  return folder;
}
