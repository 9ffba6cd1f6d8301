import type { CommandContext } from './CommandContext.js';
import { loadSchedule, scheduleNamed } from './scheduleModule.js';
import { planSweep, readPolicyFile, readSweepFile, type PlanRequest, type Sweep, type SweepLine } from './library.js';

const TIERS = ['gpu', 'cpu', 'disk'] as const;
type Cell = string | number | boolean | undefined;

/** The columns of a sweep's table. */
const COLUMNS: Readonly<Record<string, (line: SweepLine) => Cell>> = {
  hardware: ({ hardware }) => hardware,
  policy: ({ policy }) => policy,
  costModel: ({ costModel }) => costModel,
  schedule: ({ schedule }) => schedule,
  batchSize: ({ plan }) => plan?.policy.batchSize,
  batches: ({ plan }) => plan?.policy.batches,
  tokensPerSquare: ({ plan }) => plan?.policy.tokensPerSquare,
  compressWeights: ({ plan }) => plan?.policy.compressWeights,
  compressCache: ({ plan }) => plan?.policy.compressCache,
  cpuAttention: ({ plan }) => plan?.policy.cpuAttention,
  ...Object.fromEntries(
    (['weights', 'cache', 'activations'] as const).flatMap((what) =>
      TIERS.map((tier) => [`${what}.${tier}`, ({ plan }: SweepLine) => plan?.policy[what][tier]]),
    ),
  ),
  fits: ({ plan }) => plan?.predicted.fits,
  predictedSeconds: ({ predictedSeconds }) => predictedSeconds,
  predictedTokensPerSecond: ({ plan, predictedSeconds }) =>
    predictedSeconds === undefined ? undefined : plan?.predicted.tokensPerSecond,
  tokensPerDollar: ({ plan, predictedSeconds }) =>
    predictedSeconds === undefined ? undefined : plan?.predicted.spending?.tokensPerDollar,
  joulesPerToken: ({ plan, predictedSeconds }) =>
    predictedSeconds === undefined ? undefined : plan?.predicted.spending?.joulesPerToken,
  bottleneck: ({ plan, predictedSeconds }) => (predictedSeconds === undefined ? undefined : plan?.bottleneck),
  ...Object.fromEntries(
    TIERS.map((tier) => [`${tier}Bytes`, ({ plan }: SweepLine) => plan?.predicted.memoryBytes[tier]]),
  ),
  simulatedSeconds: ({ simulatedSeconds }) => simulatedSeconds,
  simulatedTokensPerSecond: ({ simulatedTokensPerSecond }) => simulatedTokensPerSecond,
  error: ({ error }) => error,
};

/**
 * Prints a table of plans as CSV, line by line as they come: every schedule with every policy on every machine by every
 * cost model, as a file says.
 *
 * @param requestOn the request of a machine by its name
 * @param simulate with the time in virtual seconds
 */
export async function printSweep(
  file: string,
  requestOn: (hardware: string) => Promise<PlanRequest>,
  simulate: boolean,
  context: CommandContext,
): Promise<void> {
  const { hardware, policies, costModels, schedules } = await readSweepFile(file);
  const chosen = schedules.map((each) => scheduleNamed(each, file));
  const sweep: Sweep = {
    costModels,
    schedules: await Promise.all(
      chosen.map(async (each) =>
        typeof each === 'string' ? each : { name: each.file, schedule: await loadSchedule(each.file) },
      ),
    ),
    policies: await Promise.all(
      policies.map(async (name) => ({ name, ...(name !== 'search' && { policy: await readPolicyFile(name) }) })),
    ),
    // One after the other: a machine may have to be measured.
    hardware: await hardware.reduce<Promise<Sweep['hardware'][number][]>>(
      async (before, name) => [...(await before), { name, request: await requestOn(name) }],
      Promise.resolve([]),
    ),
  };
  await context.print(`${Object.keys(COLUMNS).join(',')}\n`);
  const lines = planSweep(sweep, { simulate, signal: context.signal });
  const next = (): Promise<IteratorResult<SweepLine>> => context.endingAtOnce(() => lines.next());
  for (let step = await next(); step.done !== true; step = await next()) {
    const line = step.value;
    await context.print(
      `${Object.values(COLUMNS)
        .map((cell) => quoted(cell(line)))
        .join(',')}\n`,
    );
  }
}

function quoted(cell: Cell): string {
  const text = String(cell ?? '');
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
