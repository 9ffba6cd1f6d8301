// Models and inputs for campaigns: tiny ones that are always there, and the small real one where it can be had.
import { cpSync, existsSync, writeFileSync } from 'node:fs';
import { register } from 'node:module';
import { join } from 'node:path';
import { ROOT } from './commandLine.mjs';

/** A tiny LLaMA of random weights in one file: 256 ids, no tokenizer, a context of 128 tokens. */
export const TINY = join(ROOT, 'test/fixtures/models/llama-Q8_0.gguf');

/**
 * The same shape as a folder, with a tokenizer (a token a byte) and a chat template. @returns its path, in the
 * campaign's folder
 * @param form whose calls of tools the template has; default: none
 */
export async function tinyTextModel(campaign, form) {
  process.chdir(ROOT);
  register('../../typescriptHooks.mjs', import.meta.url);
  const { tinyChatModel } = await import('../../../test/support/tinyChatModel.ts');
  const { TEMPLATES } = await import('../../../test/engine/tools/templates.ts');
  const made = await tinyChatModel(TEMPLATES.find((each) => each.form === form));
  const path = join(campaign.folder, 'text-model');
  cpSync(made.path, path, { recursive: true });
  await made[Symbol.asyncDispose]();
  return path;
}

/** The path of the small real model, or undefined (said) where it is not there and cannot be fetched. */
export async function realModel(campaign) {
  const { resolveModel } = await import('../../../dist/api/models.js');
  try {
    return await resolveModel('smollm2-135m-instruct', { signal: campaign.signal });
  } catch (error) {
    campaign.say(`without the real model: ${error.message}`);
    campaign.count('skipped without a model');
    return undefined;
  }
}

/** Rows of ids of unequal lengths, all different; every so many one that is an error. */
export function writeTokenRows(file, rows, brokenEvery = Infinity) {
  const tokens = (at) => [
    1,
    ...Array.from({ length: 1 + ((at * 7) % 40) }, (_, token) => 3 + ((at * 37 + token * 11) % 250)),
  ];
  writeFileSync(
    file,
    Array.from({ length: rows }, (_, at) =>
      at % brokenEvery === brokenEvery - 1
        ? 'broken\n'
        : `${JSON.stringify({ id: `row-${at}`, tokens: tokens(at) })}\n`,
    ).join(''),
  );
  return file;
}

/** Lines of text of unequal lengths, all different. */
export function writeTextRows(file, rows) {
  writeFileSync(
    file,
    Array.from({ length: rows }, (_, at) => `Line ${at} says: ${'what is so '.repeat(at % 9)}now.\n`).join(''),
  );
  return file;
}

/** A policy that keeps all weights of the layers on disk. */
export function writeStreamingPolicy(file, block = {}) {
  writeFileSync(
    file,
    JSON.stringify({ schedule: 'diagonal', batchSize: 4, batches: 2, weights: { cpu: 0, disk: 1 }, ...block }),
  );
  return file;
}

/** Ends a campaign that cannot begin. */
export function needBuild() {
  if (!existsSync(join(ROOT, 'dist/cli/main.js'))) throw new Error('dist is missing: npm run build');
}
