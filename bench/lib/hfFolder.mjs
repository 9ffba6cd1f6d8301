// A GGUF file's model as vLLM reads it, made once where none is given.
import { spawnSync } from 'node:child_process';
import { existsSync, renameSync, rmSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { cacheFolder } from './cacheFolder.mjs';

const MAKER = fileURLToPath(new URL('../models/makeHfFolder.py', import.meta.url));

/**
 * @param {string} python an interpreter that has vllm, and so what the maker needs
 * @returns the folder; throws an Error that says why there is none
 */
export function hfFolder(model, python, cache = cacheFolder()) {
  const { size, mtimeMs } = statSync(model);
  const folder = join(cache, 'hf', `${basename(model, '.gguf')}-${size}-${Math.floor(mtimeMs)}`);
  if (existsSync(folder)) return folder;
  process.stderr.write(`${basename(model)}: its weights are written in 16 bits, for vLLM\n`);
  const part = `${folder}.part`;
  rmSync(part, { recursive: true, force: true });
  const { status, error } = spawnSync(python, [MAKER, model, part], { stdio: ['ignore', 2, 2] });
  if (status !== 0) throw new Error(error ? error.message : `${basename(MAKER)} ended with ${status}`);
  renameSync(part, folder);
  return folder;
}
