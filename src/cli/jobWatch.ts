import type { CommandContext } from './CommandContext.js';
import { apiKeyOf } from './flags/serveFlags.js';
import type { WatchAddress } from './flags/watchFlags.js';
import { EXIT } from './exitCodes.js';
import { type Engine, type EnginePlan, type Fact, InterruptedError, JobWatch } from './library.js';

/** Opens the page of a job, where one is asked for, and says where it is. @throws UsageError */
export async function watchJob(
  address: WatchAddress | undefined,
  title: string,
  facts: Readonly<Record<string, string | undefined>>,
  context: CommandContext,
): Promise<JobWatch | undefined> {
  if (address === undefined) return undefined;
  const apiKey = await apiKeyOf({}, process.env, context.signal);
  const watch = await JobWatch.open({
    ...address,
    title,
    facts: [
      ...Object.entries(facts).flatMap(([name, value]): Fact[] => (value === undefined ? [] : [[name, value]])),
      ['Process', String(process.pid)],
      ['Begun', new Date().toISOString()],
    ],
    ...(apiKey !== undefined && { apiKey }),
  });
  context.say(`watch: ${watch.url}`);
  return watch;
}

/** Shows an engine in the watch. */
export function watchEngine(watch: JobWatch | undefined, name: string, engine: Engine): void {
  watch?.opened({ name, plan: planFacts(engine.plan), activity: () => engine.activity() });
}

/** Lets the page tell how a job ended. @throws what the job did */
export async function watchedEnd(
  done: Promise<void>,
  watch: () => JobWatch | undefined,
  context: CommandContext,
): Promise<void> {
  try {
    await done;
  } catch (error) {
    const words = error instanceof Error ? error.message : String(error);
    await watch()?.close(error instanceof InterruptedError ? 'stopped' : 'failed', words);
    throw error;
  }
  if (context.exitCode === EXIT.stopped)
    await watch()?.close('failed', 'more rows failed than --max-errors allows; --resume goes on');
  else await watch()?.close('finished');
}

const TIERS = ['gpu', 'cpu', 'disk'] as const;

/** A plan in a few names and values. */
export function planFacts({ origin, why, policy, predicted, smallerBlock }: EnginePlan): Fact[] {
  const where = (shares: Readonly<Record<(typeof TIERS)[number], number>>): string =>
    TIERS.filter((tier) => shares[tier] > 0)
      .map((tier) => `${Math.round(100 * shares[tier])}% ${tier === 'disk' ? tier : tier.toUpperCase()}`)
      .join(', ');
  const block = smallerBlock ?? policy;
  return [
    ['Origin', why === undefined ? ORIGINS[origin] : `${ORIGINS[origin]} (${why})`],
    ...(block ? [['Block', `${block.batches} x ${block.batchSize} rows`] as const] : []),
    ...(policy
      ? ([
          ['Schedule', policy.schedule],
          ['Weights', withCompression(where(policy.weights), policy.compressWeights)],
          ['Cache', withCompression(where(policy.cache), policy.compressCache)],
          ['Activations', where(policy.activations)],
        ] as const)
      : []),
    ...(predicted ? [['Expected', `${predicted.tokensPerSecond.toPrecision(3)} tokens/s`] as const] : []),
  ];
}

const ORIGINS: Readonly<Record<EnginePlan['origin'], string>> = {
  auto: 'planned for this machine',
  policy: 'given',
  default: 'the defaults: nothing was planned',
};

function withCompression(where: string, compression: string): string {
  return compression === 'none' ? where : `${where}, ${compression}`;
}
