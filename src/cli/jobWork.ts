import { Option, type Command } from 'commander';
import type { CommandContext } from './CommandContext.js';
import { EXIT } from './exitCodes.js';
import { addWorkerEngineFlags, workerEngineOptions, type WorkerEngineFlags } from './flags/engineFlags.js';
import { addLogFlag, addProgressFlag } from './flags/logFlags.js';
import { path } from './flags/parsers.js';
import { addQueueFlags, queueOf, type QueueFlags } from './flags/queueFlags.js';
import {
  Engine,
  estimateRows,
  JOB_OPTIONS,
  type JobManifest,
  jobStatus,
  QueueError,
  runWork,
  type ShardEvent,
  type Tokenizer,
} from './library.js';
import { pulledModel, showOpening, showPlanning } from './openModel.js';
import { ProgressMeter, type ProgressMode } from './ProgressMeter.js';

interface WorkFlags extends QueueFlags, WorkerEngineFlags {
  readonly parts?: string;
  readonly input?: string;
  readonly progress: ProgressMode;
}

const EXAMPLES = `
Examples:
  SPILLWAY_QUEUE=nats://queue.example:4222 spillway job work --job tickets
  spillway job work --queue postgres://db.example/jobs --job tickets --cpu-memory 8GiB`;

export function addJobWork(job: Command, context: CommandContext): void {
  const command = job
    .command('work')
    .description(
      'Works on a job of a queue, shard after shard, until all are done or given up. Workers may join and leave at any time; one that is told to stop gives its shard back.',
    );
  addQueueFlags(command);
  command.addOption(
    new Option('--parts <folder>', 'where parts go, as this machine sees it (default: what the job says)').argParser(
      path,
    ),
  );
  command.addOption(
    new Option(
      '--input <file>',
      'the rows, as this machine sees them; their contents have to be those that were submitted (default: what the job says)',
    ).argParser(path),
  );
  addWorkerEngineFlags(command);
  addProgressFlag(command);
  addLogFlag(command);
  command.addHelpText('after', EXAMPLES);
  command.action(async (flags: WorkFlags) => {
    await using source = await queueOf(flags, context.signal);
    const manifest = await source.manifest();
    const meter = new ProgressMeter(flags.progress, process.stderr);
    const engine = await openEngine(flags, manifest, context, meter);
    try {
      const { committed, results, failed } = await runWork({
        source,
        engine,
        ...(flags.parts !== undefined && { parts: flags.parts }),
        ...(flags.input !== undefined && { input: flags.input }),
        signal: context.signal,
        onShard: (event) => context.say(describeShard(event)),
      });
      meter.stop();
      context.say(
        `${committed} of ${manifest.shards.count} shards, ${results} results${failed === 0 ? '' : ` (${failed} with an error)`}`,
      );
      const { shards } = await jobStatus(source);
      if (shards.failed > 0)
        throw new QueueError(source.name, `${shards.failed} shards were given up: \`job status\` says which, and why`);
      context.exitCode = failed === 0 ? EXIT.fine : EXIT.rowErrors;
    } finally {
      meter.stop();
      await engine.close();
    }
  });
}

async function openEngine(
  flags: WorkFlags,
  { engine: shared, options, input, rows, shards }: JobManifest,
  context: CommandContext,
  meter: ProgressMeter,
): Promise<Engine> {
  const { model: named, ...own } = await workerEngineOptions(flags, shared);
  await Engine.check({ ...own, model: named });
  const model = await pulledModel(named, context.signal, meter);
  const { inputFormat, columns, delimiter } = options;
  const task = JOB_OPTIONS.tasks.find((name) => options[name] !== undefined) ?? 'generate';
  // What is not generated has one token at most behind its prompt.
  const told = task === 'generate' ? (options.generate ?? {}) : { ...options[task], maxNewTokens: 1 };
  return Engine.open({
    ...own,
    model,
    expectedRows: (tokenizer: Tokenizer) =>
      estimateRows(flags.input ?? input, tokenizer, {
        read: {
          ...(inputFormat !== undefined && { format: inputFormat }),
          task,
          templated: told.promptTemplate !== undefined,
          ...(columns && { columns }),
          ...(delimiter !== undefined && { delimiter }),
        },
        generate: told,
        rows: Math.ceil(rows / shards.count),
      }),
    signal: context.signal,
    ...showPlanning(meter, context),
    ...showOpening(meter, context),
  });
}

const WORDS: Readonly<Record<ShardEvent['what'], string>> = {
  leased: 'begun',
  committed: 'done',
  lost: 'lost: another worker has it',
  givenBack: 'given back',
  failed: 'failed',
};

function describeShard({ shard, what, delivery, reason }: ShardEvent): string {
  const again = what === 'leased' && delivery > 1 ? `, delivery ${delivery}` : '';
  return `shard ${shard} ${WORDS[what]}${again}${reason === undefined ? '' : `: ${reason}`}`;
}
