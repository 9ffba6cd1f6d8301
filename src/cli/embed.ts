import type { Command } from 'commander';
import type { CommandContext } from './CommandContext.js';
import { addEmbeddingFlags, embeddingOptions, type EmbeddingFlags } from './flags/answerFlags.js';
import { addChunkFlags, embedChunkOptions, type ChunkFlags } from './flags/chunkFlags.js';
import { addPromptFlags } from './flags/promptFlags.js';
import { addRowFileFlags, addRowJobFlags, type RowJobFlags } from './flags/rowJobFlags.js';
import { runRowJob } from './rowJob.js';

export function addEmbed(program: Command, context: CommandContext): void {
  const command = program
    .command('embed')
    .description('Makes an embedding of each row of a file: its hidden states after the final norm, pooled.');
  addRowFileFlags(command);
  command.optionsGroup('Embeddings:');
  addEmbeddingFlags(command);
  addChunkFlags(command, false);
  addPromptFlags(command, false);
  addRowJobFlags(command);
  command.action((flags: RowJobFlags & EmbeddingFlags & ChunkFlags) => {
    const chunks = embedChunkOptions(flags);
    const options = { ...embeddingOptions(flags), ...chunks };
    return runRowJob(flags, new Set(command.options.map(({ long }) => long ?? '')), context, {
      name: 'embed',
      expected: { maxNewTokens: 1, ...chunks },
      task: ({ reasoning: _none, toolChoice: _choice, parallelToolCalls: _several, ...common }) => ({
        embed: { ...options, ...common },
      }),
      answer: (engine, composition) => ({
        embed: (rows, rowsOptions) => engine.embed(rows, { ...rowsOptions, ...composition }),
      }),
    });
  });
}
