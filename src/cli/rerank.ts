import type { Command } from 'commander';
import type { CommandContext } from './CommandContext.js';
import { addPairFlags } from './flags/promptFlags.js';
import { addRowFileFlags, addRowJobFlags, type RowJobFlags } from './flags/rowJobFlags.js';
import { PAIRS } from './flags/tableFlags.js';
import { runRowJob } from './rowJob.js';

const EXAMPLES = `
Examples:
  spillway rerank --model ./ms-marco-MiniLM-L6-v2 --input pairs.jsonl --output ranked.jsonl
  A row: {"query": "who wrote Faust?", "documents": ["Goethe did.", "It rained."]}`;

export function addRerank(program: Command, context: CommandContext): void {
  const command = program
    .command('rerank')
    .description(
      "Tells how well each of a row's `documents`, or its `document`, answers its `query`: by a cross-encoder, or by Qwen3-Reranker, which is asked.",
    );
  addRowFileFlags(command, PAIRS);
  addPairFlags(command);
  command.option(
    '--instruction <text>',
    'what Qwen3-Reranker is told of the documents that are looked for (default: passages that answer a web search query)',
  );
  addRowJobFlags(command);
  command.addHelpText('after', EXAMPLES);
  command.action((flags: RowJobFlags & { readonly instruction?: string }) =>
    runRowJob(flags, new Set(command.options.map(({ long }) => long ?? '')), context, {
      name: 'rerank',
      expected: { maxNewTokens: 1 },
      task: ({ order, rowTimeout, signal, onProgress, onStats, onTrace, escapeSpecialTokens, truncate }) => ({
        rerank: {
          ...(order !== undefined && { order }),
          ...(rowTimeout !== undefined && { rowTimeout }),
          ...(signal && { signal }),
          ...(onProgress && { onProgress }),
          ...(onStats && { onStats }),
          ...(onTrace && { onTrace }),
          ...(escapeSpecialTokens !== undefined && { escapeSpecialTokens }),
          ...(truncate !== undefined && { truncate }),
          ...(flags.instruction !== undefined && { instruction: flags.instruction }),
        },
      }),
      answer: (engine, composition) => ({
        rerank: (rows, rowsOptions) => engine.rerank(rows, { ...rowsOptions, ...composition }),
      }),
    }),
  );
}
