import { Option, type Command } from 'commander';
import type { CommandContext } from './CommandContext.js';
import { requireFlags } from './flags/commandFlags.js';
import {
  addBlockFlags,
  addCompressionFlags,
  addMachineFlags,
  addModelFlag,
  engineOptions,
  type EngineFlags,
} from './flags/engineFlags.js';
import { addPeerFlags, address, layerRange, layerShare, socketOptions, type PeerFlags } from './flags/peerFlags.js';
import { Engine, UsageError, type EngineOptions, type LayerRange, type LayerShare, type ServedRun } from './library.js';
import { pulledModel, showOpening } from './openModel.js';
import { ProgressMeter } from './ProgressMeter.js';
import { checkStandardOutput } from './standardStreams.js';

interface FollowFlags extends EngineFlags, PeerFlags {
  readonly layers?: LayerRange;
  readonly tensorParallel?: LayerShare;
  readonly prompts?: boolean;
  readonly listen: string;
}

/** Strangers do not fill a log: of those who are refused, one is told of in so long. */
const REFUSALS_MILLISECONDS = 1000;

const EXAMPLES = `
Examples:
  spillway follow --model m.gguf --layers 16-31 --listen 0.0.0.0:7000 \\
    --shared-key-file ring.key
  spillway generate --model m.gguf --peers that-machine:7000 \\
    --shared-key-file ring.key --input rows.jsonl --output answers.jsonl
  spillway follow --model m.gguf --tensor-parallel 1/2 --listen unix:/run/m.sock
  spillway generate --model m.gguf --peers unix:/run/m.sock \\
    --input rows.jsonl --output answers.jsonl
  spillway follow --model m.gguf --prompts --listen unix:/run/p.sock
  spillway generate --model m.gguf --peers unix:/run/p.sock \\
    --input rows.jsonl --output answers.jsonl`;

export function addFollow(program: Command, context: CommandContext): void {
  const command = program
    .command('follow')
    .description(
      "Computes some of a model's layers, a share of each, or prompts, for `generate --peers` on another machine, run after run, until it is stopped. Prints where it listens as a line of JSON.",
    );
  command.optionsGroup('Model and engines of other layers:');
  addModelFlag(command);
  command.addOption(
    new Option(
      '--layers <a-b>',
      'necessary, or --tensor-parallel or --prompts: these of its layers, counted from 0',
    ).argParser(layerRange),
  );
  command.addOption(
    new Option(
      '--tensor-parallel <k/n>',
      'instead: this share of every layer, of n engines; the command that generates has share 0. Results depend on n. K/N:rows: each engine attends to some rows with all heads, and keeps the cache of these alone; the same in all',
    ).argParser(layerShare),
  );
  command.addOption(
    new Option(
      '--prompts',
      'instead: all layers, for prompts alone, whose keys and values go to the command that generates',
    ),
  );
  command.addOption(
    new Option(
      '--listen <address>',
      'necessary: host:port, [ipv6]:port (port 0: any) or unix:path; beyond this machine with a shared key or certificates only',
    ).argParser((text) => address(text)),
  );
  addPeerFlags(command);
  command.optionsGroup('Block, no smaller than that of the engine of the first layers:');
  addBlockFlags(command);
  addMachineFlags(command);
  addCompressionFlags(command);
  command.addHelpText('after', EXAMPLES);
  command.action((flags: FollowFlags) => follow(flags, context));
}

async function follow(flags: FollowFlags, context: CommandContext): Promise<void> {
  requireFlags(flags, 'model', 'listen');
  const has = placeOf(flags);
  checkStandardOutput();
  const { signal } = context;
  const { signal: _opening, ...options } = await socketOptions(flags, signal);
  const meter = new ProgressMeter('auto', process.stderr);
  try {
    await Engine.check({ ...engineOptions(flags, flags.model), ...has });
    const model = await pulledModel(flags.model, signal, meter);
    await using engine = await Engine.open({
      ...engineOptions(flags, model),
      ...has,
      policy: 'default',
      signal,
      ...showOpening(meter, context),
    });
    meter.stop();
    const listener = await engine.listen(flags.listen, {
      ...options,
      onRun: (run) => void tellOf(run, context),
      onRefused: refusals(context),
    });
    await context.print(
      `${JSON.stringify({ address: listener.address, ...has, ...(flags.prompts === true && { prompts: true }) })}\n`,
    );
    await aborted(signal);
  } finally {
    meter.stop();
  }
}

/** Says which part of the model this engine has, or none where it computes prompts. @throws UsageError */
function placeOf({ layers, tensorParallel, prompts }: FollowFlags): Pick<EngineOptions, 'layers' | 'tensorParallel'> {
  const given = Object.entries({ '--layers': layers, '--tensor-parallel': tensorParallel, '--prompts': prompts })
    .filter(([, value]) => value !== undefined)
    .map(([name]) => name);
  if (given.length > 1) throw new UsageError(`${given[0]}: found it beside ${given[1]}, expected one of them`);
  if (given.length === 0)
    throw new UsageError('missing: --layers, --tensor-parallel or --prompts (--help lists all flags)');
  return { ...(layers && { layers }), ...(tensorParallel && { tensorParallel }) };
}

async function tellOf({ peer, ended }: ServedRun, context: CommandContext): Promise<void> {
  context.say(`a run of ${peer} has begun`);
  const error = await ended;
  context.say(error ? `the run of ${peer} has failed: ${error.message}` : `the run of ${peer} is over`);
}

function refusals(context: CommandContext): (error: Error) => void {
  let [said, unsaid] = [-Infinity, 0];
  return (error) => {
    if (performance.now() - said < REFUSALS_MILLISECONDS) {
      unsaid++;
      return;
    }
    context.say(`refused: ${error.message}${unsaid > 0 ? ` (and ${unsaid} more)` : ''}`);
    [said, unsaid] = [performance.now(), 0];
  };
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
