import type { Command } from 'commander';
import { checkJobOptions, type EmbedOptions, type GenerateOptions } from '../library.js';
import { wholeNumber } from './parsers.js';

/** How rows' own texts are parted. */
export interface ChunkFlags {
  readonly chunkTokens?: number;
  readonly chunkOverlap?: number;
  readonly merge?: string;
}

/** @param merges whether answers of parts can become one */
export function addChunkFlags(command: Command, merges: boolean): void {
  command.optionsGroup('Documents longer than the context:');
  command.option(
    '--chunk-tokens <n>',
    `most tokens of a part of a row's own text; all else stands whole in each part; results have a row for each part${merges ? ', unless --merge makes one of them' : ''} (default: the text stays whole)`,
    wholeNumber(1),
  );
  command.option(
    '--chunk-overlap <n>',
    'tokens at the end of a part that the next one begins with (default: 0)',
    wholeNumber(0),
  );
  if (merges)
    command.option(
      '--merge <prompt>',
      "what the model is told to make one answer of those of a row's parts, which stand in the place of {{answers}}, else after it (default: none)",
    );
}

/** Turns the flags into `generate` options. @throws UsageError */
export function chunkOptions(flags: ChunkFlags): Pick<GenerateOptions, keyof ChunkFlags> {
  const options = { ...embedChunkOptions(flags), ...(flags.merge !== undefined && { merge: flags.merge }) };
  checkJobOptions({ generate: options });
  return options;
}

/** Turns the flags into `embed` options. @throws UsageError */
export function embedChunkOptions({
  chunkTokens,
  chunkOverlap,
}: ChunkFlags): Pick<EmbedOptions, 'chunkTokens' | 'chunkOverlap'> {
  return {
    ...(chunkTokens !== undefined && { chunkTokens }),
    ...(chunkOverlap !== undefined && { chunkOverlap }),
  };
}
