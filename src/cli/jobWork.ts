import { Option, type Command } from 'commander';
import type { CommandContext } from './CommandContext.js';
import { EXIT } from './exitCodes.js';
import { addWorkerEngineFlags, workerEngineOptions, type WorkerEngineFlags } from './flags/engineFlags.js';
import { addLogFlag, addProgressFlag } from './flags/logFlags.js';
import { path } from './flags/parsers.js';
import { addQueueFlags, queueOf, type QueueFlags } from './flags/queueFlags.js';
import { addWatchFlag, type WatchFlags } from './flags/watchFlags.js';
import {
  Engine,
  estimateRows,
  JOB_OPTIONS,
  type JobManifest,
  type JobWatch,
  jobStatus,
  QueueError,
  runWork,
  type RunWorkOptions,
  type ShardEvent,
  type Tokenizer,
  type WorkSource,
} from './library.js';
import { watchedEnd, watchEngine, watchJob } from './jobWatch.js';
import { pulledModel, showOpening, showPlanning } from './openModel.js';
import { RunWatch } from './RunWatch.js';
import { ProgressMeter, type ProgressMode } from './ProgressMeter.js';

interface WorkFlags extends QueueFlags, WorkerEngineFlags, WatchFlags {
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
  addWatchFlag(command);
  addProgressFlag(command);
  addLogFlag(command);
  command.addHelpText('after', EXAMPLES);
  command.action(async (flags: WorkFlags) => {
    await using source = await queueOf(flags, context.signal);
    const manifest = await source.manifest();
    const meter = new ProgressMeter(flags.progress, process.stderr);
    const { model = '' } = flags;
    const watch = await watchJob(
      flags.watch,
      `spillway job work: ${flags.job ?? ''}`,
      {
        Model: model === '' ? undefined : model,
        Queue: source.name,
        Input: manifest.input.join(', '),
        Output: manifest.output,
      },
      context,
    );
    await watchedEnd(work(source, manifest, { flags, context, meter, watch }), () => watch, context);
  });
}

interface Work {
  readonly flags: WorkFlags;
  readonly context: CommandContext;
  readonly meter: ProgressMeter;
  readonly watch: JobWatch | undefined;
}

async function work(source: WorkSource, manifest: JobManifest, { flags, context, meter, watch }: Work): Promise<void> {
  let engine: Engine | undefined;
  try {
    engine = await openEngine(flags, manifest, context, meter);
    meter.stop();
    watchEngine(watch, engine.source.path, engine);
    const { committed, results, failed } = await runWork({
      source,
      engine: watch ? watched(engine, watch) : engine,
      ...(flags.parts !== undefined && { parts: flags.parts }),
      ...(flags.input !== undefined && { input: flags.input }),
      signal: context.signal,
      onShard: (event) => context.say(describeShard(event)),
    });
    context.say(
      `${committed} of ${manifest.shards.count} shards, ${results} results${failed === 0 ? '' : ` (${failed} with an error)`}`,
    );
    const { shards } = await jobStatus(source);
    if (shards.failed > 0)
      throw new QueueError(source.name, `${shards.failed} shards were given up: \`job status\` says which, and why`);
    context.exitCode = failed === 0 ? EXIT.fine : EXIT.rowErrors;
  } finally {
    meter.stop();
    await engine?.close();
  }
}

/** The engine, whose results are shown. */
function watched(engine: Engine, watch: JobWatch): RunWorkOptions['engine'] {
  const { source, resultIdentity } = engine;
  const all = new RunWatch(false, (result) => watch.answered(result)).engine({
    resultIdentity,
    generate: (rows, options) => engine.generate(rows, options),
    classify: (rows, options) => engine.classify(rows, options),
    score: (rows, options) => engine.score(rows, options),
    rerank: (rows, options) => engine.rerank(rows, options),
    embed: (rows, options) => engine.embed(rows, options),
  });
  return { ...all, source };
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
  // What is not generated has one token at most after its prompt.
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
        generate: { ...told, signal: context.signal },
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
  lost: 'lost: another worker has it, or the job was cancelled',
  givenBack: 'given back',
  failed: 'failed',
};

function describeShard({ shard, what, delivery, reason }: ShardEvent): string {
  const again = what === 'leased' && delivery > 1 ? `, delivery ${delivery}` : '';
  return `shard ${shard} ${WORDS[what]}${again}${reason === undefined ? '' : `: ${reason}`}`;
}
