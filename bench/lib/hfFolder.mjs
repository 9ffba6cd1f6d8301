// A GGUF file's model as tools read it that take no GGUF file, made once where none is given.
import { spawnSync } from 'node:child_process';
import { existsSync, renameSync, rmSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { cacheFolder } from './cacheFolder.mjs';

const maker = (name) => fileURLToPath(new URL(`../models/${name}`, import.meta.url));

/**
 * @param {string} python an interpreter that has what the maker needs: vllm brings it, optimum-intel all but gguf
 * @returns the folder; throws an Error that says why there is none
 */
export function hfFolder(model, python, cache = cacheFolder()) {
  const { size, mtimeMs } = statSync(model);
  const folder = join(cache, 'hf', `${basename(model, '.gguf')}-${size}-${Math.floor(mtimeMs)}`);
  return made(folder, 'makeHfFolder.py', model, python, 'in 16 bits, as safetensors');
}

/** @returns the same with the layers' matrices and activations in 8 bits, beside it */
export function w8a8Folder(folder, python) {
  return made(`${folder}-w8a8`, 'makeW8a8.py', folder, python, 'in 8 bits, for vLLM');
}

/**
 * @param {string} python an interpreter that has optimum-intel and nncf
 * @returns the same as an IR of OpenVINO with so many bits, beside it
 */
export function openvinoFolder(folder, python, bits) {
  return made(`${folder}-openvino-int${bits}`, 'makeOpenvino.py', folder, python, `in ${bits} bits, for OpenVINO`, [
    `--bits=${bits}`,
  ]);
}

function made(folder, script, source, python, how, flags = []) {
  if (existsSync(folder)) return folder;
  process.stderr.write(`${basename(source)}: its weights are written ${how}\n`);
  const part = `${folder}.part`;
  rmSync(part, { recursive: true, force: true });
  const { status, error } = spawnSync(python, [maker(script), source, part, ...flags], { stdio: ['ignore', 2, 2] });
  if (status !== 0) throw new Error(error ? error.message : `${script} ended with ${status}`);
  renameSync(part, folder);
  return folder;
}
