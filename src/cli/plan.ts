import { Option, type Command } from 'commander';
import type { CommandContext } from './CommandContext.js';
import { addSwitch, longFlag, requireFlags } from './flags/commandFlags.js';
import { decimal, path, size, sizeOrNone, wholeNumber } from './flags/parsers.js';
import {
  BLOCK_LIMITS,
  COST_MODEL_NAMES,
  inTurns,
  planCurvesInParts,
  planDocumentInParts,
  planPipelineInParts,
  planPromptsInParts,
  planTensorParallelInParts,
  readMachines,
  readPolicyFile,
  SCHEDULE_NAMES,
  simulatePipeline,
  simulatePlan,
  SOCKET_OPTIONS,
  UsageError,
  writeFileAtomic,
  type PlanRequest,
  type Policy,
} from './library.js';
import { addHiddenStates } from './flags/peerFlags.js';
import { shapeOf } from './openModel.js';
import { describePipeline } from './pipelineReport.js';
import { describePrompts } from './promptsReport.js';
import { describeTensorParallel } from './tensorParallelReport.js';
import { addChipFlags, planChips } from './planChips.js';
import { planPage } from './planPage.js';
import { withRowsOf } from './planRows.js';
import { measuring, requestOf, requestOn, withProcess, type PlanCommandFlags } from './planRequest.js';
import { printSweep } from './planSweep.js';
import { describePlan } from './planReport.js';
import { checkCommandPaths } from './reportFiles.js';
import { loadSchedule, scheduleFlag } from './scheduleModule.js';
import { checkStandardOutput } from './standardStreams.js';
import { TraceFile } from './TraceFile.js';

const COMPRESSION_FLAGS = ['none', '8bit', '4bit', 'auto'] as const;

export function addPlan(program: Command, context: CommandContext): void {
  const command = program
    .command('plan')
    .description(
      'Finds the fastest policy for a model on a machine, predicts its time, and says what would lift it. A known name or a config.json will do, without weights; other models are fetched.',
    );
  command.addOption(
    new Option('--model <name|path>', 'necessary: a known name such as opt-30b, a config.json, or a model').argParser(
      path,
    ),
  );
  command.addOption(
    new Option(
      '--hardware <this|name|file>',
      'the machine: this one, measured once and remembered; flexgen-t4, flexgen-t4-measured, lm-offload-a100, lm-offload-v100; or a file that profile wrote; with --chips a chip: a100, epyc-2-cores, h100, h200, tpu-v4, or a file',
    )
      .argParser(path)
      .default('this'),
  );
  command.addOption(
    new Option(
      '--machines <file>',
      'instead: several machines that share the model (`follow`); divides the layers, says who waits for whom (default: one machine)',
    ).argParser(path),
  );
  addHiddenStates(command, 'with --machines: how hidden states cross the links');
  command.option('--prompt-tokens <n>', 'necessary, or --input: tokens of a prompt', wholeNumber(1, 2 ** 26));
  command.addOption(
    new Option(
      '--input <file>',
      'instead: rows, of which the first ones say how long prompts are, what they share, and how many there are (default: none)',
    ).argParser(path),
  );
  command.option('--max-new-tokens <n>', 'new tokens a row', wholeNumber(1, 2 ** 26), 128);
  command.option(
    '--shared-prefix-tokens <n>',
    'tokens with which all prompts begin: computed and kept once',
    wholeNumber(0, 2 ** 26),
    0,
  );
  command.option('--rows <n>', 'rows in all (default: without end)', wholeNumber(1));
  command.addOption(
    new Option(
      '--cost-model <name>',
      "spillway: ours; flexgen: FlexGen's as shipped; flexgen-paper: as its paper prints it; lm-offload: LM-Offload's equations",
    )
      .choices(COST_MODEL_NAMES)
      .default('spillway'),
  );
  command.option(
    '--max-latency <seconds>',
    'most seconds that a block may take from its first prompt to its last token: the plan is the fastest that keeps it, or with --chips the cheapest (default: any)',
    decimal({ least: 0, above: true, most: BLOCK_LIMITS.latencySeconds }),
  );
  addChipFlags(command);
  command.optionsGroup('Memory:');
  for (const tier of ['gpu', 'cpu', 'disk'])
    command.option(
      `--${tier}-memory <size>`,
      `most ${tier} memory (default: what the machine has${tier === 'gpu' ? '; of this one none, and its GPU is not measured' : ''})`,
      tier === 'cpu' ? size : sizeOrNone,
    );
  command.addOption(
    new Option(
      '--disk <dir>',
      "with this machine: the folder for repacked models; what it has of the model's file takes no more of the disk (default: in the user's cache folder)",
    ).argParser(path),
  );
  command.optionsGroup('What is settled already:');
  command.addOption(
    new Option(
      '--policy <file>',
      'predict this policy (the object `policy` that --json prints, and --stats of a run writes) and search nothing (default: search)',
    ).argParser(path),
  );
  command.addOption(
    new Option(
      '--schedule <name|file>',
      `${SCHEDULE_NAMES.join(', ')}; or a module (.mjs) of your own, simulated beside the plan's (default: the best)`,
    ).argParser(scheduleFlag),
  );
  command.option('--batch-size <n>', 'rows in a batch (default: the best)', wholeNumber(1, BLOCK_LIMITS.batchSize));
  command.option(
    '--batches <n>',
    'batches that share one pass (default: the best)',
    wholeNumber(1, BLOCK_LIMITS.batches),
  );
  command.option(
    '--tokens-per-square <n>',
    'most tokens that a batch advances in one pass (default: the best)',
    wholeNumber(1, BLOCK_LIMITS.tokensPerSquare),
  );
  command.addOption(
    new Option('--compress-weights <kind>', 'auto: whatever is fastest').choices(COMPRESSION_FLAGS).default('none'),
  );
  command.addOption(
    new Option('--compress-cache <kind>', 'auto: whatever is fastest').choices(COMPRESSION_FLAGS).default('none'),
  );
  command.option(
    '--sparse-attention <f>',
    'share of the tokens before it whose values a generated token takes, as `generate` has it: few of those on disk are read (default: all)',
    decimal({ least: 0, above: true, most: 1 }),
  );
  command.option(
    '--threads <n>',
    'threads that compute (default: those that the machine was measured with)',
    wholeNumber(1, BLOCK_LIMITS.threads),
  );
  command.optionsGroup('Output:');
  addSwitch(command, '--json', 'print one JSON document, not words');
  command.addOption(new Option('--html <file>', 'write a page with plots (default: none)').argParser(path));
  addSwitch(command, '--simulate', 'run the plan task by task in virtual time, beside the closed form');
  command.addOption(
    new Option(
      '--sweep <file>',
      'instead of one plan a table of many, as CSV: of JSON with lists `schedules` (names, modules), `policies` (search, files), `hardware`, `costModels` (default: none)',
    ).argParser(path),
  );
  command.addOption(
    new Option(
      '--trace <file>',
      'with --simulate: write every task as a Chrome trace, for Perfetto (default: none)',
    ).argParser(path),
  );
  command.action(async (given: PlanCommandFlags) => {
    const flags = await withRowsOf(given, command, context);
    if (flags.chips !== undefined || flags.interconnect !== undefined) return planChips(flags, command, context);
    checkSearched(flags, command);
    return plan(flags, context);
  });
}

/** Flags that bound or settle the search. */
const SEARCHED = [
  'batchSize',
  'batches',
  'tokensPerSquare',
  'compressWeights',
  'compressCache',
  'sparseAttention',
  'threads',
  'maxLatency',
] as const satisfies readonly (keyof PlanCommandFlags)[];

/** @throws UsageError for a flag of the search beside a policy, which would change nothing */
function checkSearched({ policy, schedule }: PlanCommandFlags, command: Command): void {
  if (policy === undefined) return;
  const name =
    typeof schedule === 'string' ? 'schedule' : SEARCHED.find((each) => command.getOptionValueSource(each) === 'cli');
  if (name !== undefined)
    throw new UsageError(`${longFlag(name)} bounds the search: leave out --policy, which is one plan and no search`);
}

async function plan(flags: PlanCommandFlags, context: CommandContext): Promise<void> {
  requireFlags(flags, 'model', 'promptTokens');
  if (flags.trace !== undefined && !flags.simulate)
    throw new UsageError('--trace needs --simulate: without it nothing happens that could be traced');
  if (flags.machines !== undefined) {
    await planMachines(flags, flags.machines, context);
    return;
  }
  if (flags.hiddenStates !== SOCKET_OPTIONS.hiddenStates.fallback)
    throw new UsageError(
      `--hidden-states: found ${flags.hiddenStates} without --machines, expected links between some`,
    );
  const { model, policy, hardware: machine, trace, html, schedule } = flags;
  if (flags.sweep !== undefined) {
    await sweepOf(flags, flags.sweep, context);
    return;
  }
  checkDisk(flags);
  // A page or a trace is wanted for itself.
  if (html === undefined && trace === undefined) checkStandardOutput();
  await checkCommandPaths({
    model,
    read: { policy, hardware: machine === 'this' ? undefined : machine },
    reports: { html },
    trace,
  });
  const given = flags.policy === undefined ? undefined : await readPolicyFile(flags.policy);
  const own = typeof schedule === 'object' ? await loadSchedule(schedule.file) : undefined;
  const request = await requestOn(machine, flags, given?.compressWeights, context);
  const document = await context.endingAtOnce(() =>
    withProcess(flags, request, () => inTurns(planDocumentInParts(request, given))),
  );
  if (document.predicted.warning !== undefined) context.say(`warning: ${document.predicted.warning}`);
  const simulated = flags.simulate ? await simulate(flags, request, document.policy, context) : undefined;
  const ownSchedule = own && {
    name: own.name,
    ...(await simulatePlan(request, document.policy, { signal: context.signal, schedule: own })),
  };
  if (flags.html !== undefined)
    await writeFileAtomic(
      flags.html,
      await planPage(
        document,
        await context.endingAtOnce(() => inTurns(planCurvesInParts(request, document.policy, document.predicted))),
      ),
    );
  const whole = { ...document, ...(simulated && { simulated }), ...(ownSchedule && { ownSchedule }) };
  await context.print(
    flags.json ? `${JSON.stringify(whole, undefined, 2)}\n` : describePlan(document, simulated, ownSchedule),
  );
}

/** A table of plans. @throws UsageError for flags that its file says, or that are of one plan */
async function sweepOf(flags: PlanCommandFlags, file: string, context: CommandContext): Promise<void> {
  const { policy, schedule, trace, html, disk, hardware, costModel } = flags;
  const alone = {
    policy,
    schedule: typeof schedule === 'object' ? schedule.file : schedule,
    trace,
    html,
    disk,
    ...(flags.json && { json: 'it' }),
    ...(hardware !== 'this' && { hardware }),
    ...(costModel !== 'spillway' && { 'cost-model': costModel }),
  };
  for (const [flag, value] of Object.entries(alone))
    if (value !== undefined) throw new UsageError(`--${flag}: found ${value} beside --sweep, expected one of them`);
  checkStandardOutput();
  await checkCommandPaths({ model: flags.model, read: { sweep: file }, reports: {}, trace: undefined });
  await printSweep(file, (machine) => requestOn(machine, flags, undefined, context), flags.simulate, context);
}

/** @throws UsageError for a folder of this machine beside another one, of which it says nothing */
function checkDisk({ disk, hardware }: Pick<PlanCommandFlags, 'disk' | 'hardware'>): void {
  if (disk !== undefined && hardware !== 'this')
    throw new UsageError(
      `--disk: found ${disk} beside --hardware ${hardware}, expected none: it is a folder of this machine`,
    );
}

/** Divides the model over machines. */
async function planMachines(flags: PlanCommandFlags, file: string, context: CommandContext): Promise<void> {
  const { policy, trace, html, hardware, maxLatency, compressWeights, compressCache, costModel } = flags;
  const alone = { policy, trace, html, 'max-latency': maxLatency, ...(hardware !== 'this' && { hardware }) };
  for (const [flag, value] of Object.entries(alone))
    if (value !== undefined) throw new UsageError(`--${flag}: found ${value} beside --machines, expected one of them`);
  for (const [flag, kind] of Object.entries({ 'compress-weights': compressWeights, 'compress-cache': compressCache }))
    if (kind === 'auto') throw new UsageError(`--${flag}: found auto beside --machines, expected none, 8bit or 4bit`);
  checkStandardOutput();
  await checkCommandPaths({ model: flags.model, read: { machines: file }, reports: {}, trace: undefined });
  const shape = await shapeOf(flags.model, context);
  const machines = await measuring(context, flags, (options) => readMachines(file, options));
  const [first] = machines;
  if (!first) throw new UsageError('--machines: found none, expected two at least');
  const { hardware: _first, caps: _caps, ...rest } = requestOf(flags, shape, first.hardware);
  const request = {
    ...rest,
    costModel,
    hiddenStates: flags.hiddenStates,
    machines: machines.map((machine) => ({ ...machine, caps: requestOf(flags, shape, machine.hardware).caps })),
  };
  const plan = await context.endingAtOnce(() => inTurns(planPipelineInParts(request)));
  const simulated = flags.simulate ? await simulatePipeline(request, plan, { signal: context.signal }) : undefined;
  const tensorParallel = await context.endingAtOnce(() => orRefusal(() => inTurns(planTensorParallelInParts(request))));
  const prompts =
    machines.length === 2
      ? await context.endingAtOnce(() => orRefusal(() => inTurns(planPromptsInParts(request))))
      : undefined;
  const document = { ...plan, tensorParallel, ...(prompts && { prompts }), ...(simulated && { simulated }) };
  await context.print(
    flags.json
      ? `${JSON.stringify(document, undefined, 2)}\n`
      : describePipeline(plan, simulated) +
          describeTensorParallel(tensorParallel, plan) +
          (prompts ? describePrompts(prompts, plan) : ''),
  );
}

/** Layers can be divided where shares of them cannot: that is no error of the command's. */
async function orRefusal<T>(plan: () => T | Promise<T>): Promise<T | { readonly refused: string }> {
  try {
    return await plan();
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    return { refused: error.message };
  }
}

async function simulate(
  flags: PlanCommandFlags,
  request: PlanRequest,
  policy: Policy,
  { signal }: CommandContext,
): ReturnType<typeof simulatePlan> {
  const trace = flags.trace === undefined ? undefined : new TraceFile(flags.trace);
  try {
    return await simulatePlan(request, policy, { signal, ...(trace && { onTrace: (event) => trace.add(event) }) });
  } finally {
    trace?.close();
  }
}
