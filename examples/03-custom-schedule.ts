// A schedule and a pipeline of one's own, made of the package's public parts.
// Usage: node scripts/run-example.mjs 03-custom-schedule [MODEL]
import { Engine, type RowResult, type RunResults } from 'spillway';
import {
  compute,
  loadActivation,
  loadCache,
  loadWeight,
  maxInFlight,
  overlap,
  serialize,
  storeActivation,
  storeCache,
  synchronize,
  type Stage,
  type StageContext,
} from 'spillway/operators';
import { diagonalBlock, type AdmittedRow, type Schedule } from 'spillway/schedules';

/**
 * Shortest job first: looks at up to `lookAhead` rows beyond those that are under way and starts those with the fewest
 * tokens first. Everything else is left to another schedule. Pure, as schedules are: what is known goes in, a new state
 * comes out.
 */
export function shortestFirst<Inner>(
  inner: Schedule<Inner>,
  lookAhead: number,
): Schedule<{ readonly inner: Inner; readonly waiting: readonly AdmittedRow[] }> {
  const length = ({ promptTokens, newTokens }: AdmittedRow): number => promptTokens + newTokens;
  return {
    name: `shortest first, ${inner.name}`,
    start: (grid) => ({ inner: inner.start(grid), waiting: [] }),
    free: (state, ended) => inner.free(state.inner, ended) + lookAhead - state.waiting.length,
    next: (state, { admitted, ended, ...observed }) => {
      const queue = [...state.waiting.filter(({ row }) => !ended.has(row)), ...admitted].sort(
        (a, b) => length(a) - length(b),
      );
      const starting = queue.slice(0, inner.free(state.inner, ended));
      const { state: after, squares } = inner.next(state.inner, { ...observed, admitted: starting, ended });
      return { state: { inner: after, waiting: queue.slice(starting.length) }, squares };
    },
  };
}

/**
 * Weights two layers ahead, cache and activations one; stores wait for one another, and the disk is asked for no more
 * than four reads at once.
 */
export function patientStores(run: StageContext): Stage {
  return overlap(
    maxInFlight(run, { queue: 'disk-read', tasks: 4, bytes: '1GiB' }),
    loadWeight(run, { ahead: 2 }),
    overlap(loadCache(run, { ahead: 1 }), loadActivation(run)),
    compute(run),
    serialize(storeActivation(run), storeCache(run)),
    synchronize(run),
  );
}

const PROMPTS = [
  'One, two, three,',
  'The capital of France is',
  'Water boils at',
  'A long time ago, in a village by the sea,',
  'Roses are red,',
  'Once',
];

async function collect<T>(results: RunResults<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const result of results) all.push(result);
  const { policy, tokensPerSecond } = await results.stats;
  console.log(`${JSON.stringify(policy)}: ${tokensPerSecond.generated.toFixed(1)} tokens/s`);
  return all;
}

export async function main(
  model: string,
): Promise<{ readonly plain: readonly RowResult[]; readonly custom: readonly RowResult[] }> {
  await using engine = await Engine.open({ model, batchSize: 2 });
  const rows = PROMPTS.map((prompt) => ({ prompt }));
  const plain = await collect(engine.generate(rows, { maxNewTokens: 16 }));
  const custom = await collect(
    engine.generate(rows, {
      maxNewTokens: 16,
      schedule: shortestFirst(diagonalBlock(), 4),
      pipeline: patientStores,
    }),
  );
  // How rows are scheduled never changes what they say.
  const same = plain.every(({ text }, index) => text === custom[index]?.text);
  console.log(same ? 'both schedules gave the same answers' : 'the answers differ');
  return { plain, custom };
}
