import { spendingWords } from './planReport.js';
import { formatDuration, type ProgressState } from './ProgressMeter.js';
import type { EnginePlan, JobSummary, Progress, RunStats, TakenColumns } from './library.js';

/**
 * Gives what the progress bar of `generate` shows.
 * @param expected results that there will be, if that is known; rows may ask for more samples
 * @param kept results of earlier runs
 */
export function rowProgress(progress: Progress, expected: number | undefined, kept: number): ProgressState {
  const { rowsDone, rowsFailed, rowsActive, seconds, tokensPerSecond, sharing } = progress;
  const now = rowsDone + rowsFailed;
  const total = expected !== undefined && kept + now <= expected ? expected : undefined;
  // First what a narrow terminal has room for. Rows that are under way are half done on average: of a first block all
  // of them end at about the same time.
  const finished = now + rowsActive / 2;
  const parts =
    total !== undefined && now > 0
      ? [`${formatDuration((seconds / finished) * Math.max(0, total - kept - finished))} left`]
      : [];
  parts.push(
    progress.generatedTokens === 0 && now > 0
      ? `${(now / seconds).toFixed(1)} rows/s`
      : `${tokensPerSecond.toFixed(0)} tokens/s`,
  );
  if (rowsFailed > 0) parts.push(`${rowsFailed} with an error`);
  parts.push(...saved(sharing, progress.promptTokens));
  return { done: kept + now, total, words: parts.join(', ') };
}

/**
 * Says what is read of a table's columns, in a line at the beginning: `columns: prompt=question, id=nr; all others are
 * data`.
 */
export function describeColumns({ fields, likeParameters }: TakenColumns): string {
  const taken = Object.entries(fields).map(([field, column]) => `${field}=${column}`);
  const [first] = likeParameters;
  const data =
    first === undefined
      ? ''
      : `, ${likeParameters.join(' and ')} among them (--columns ${first}=${first} makes it a parameter of its row)`;
  return `columns: ${taken.length === 0 ? 'all are data' : `${taken.join(', ')}; all others are data`}${data}`;
}

/**
 * The last line of `generate`: `40 rows (2 with an error), 3210 tokens in 12.3 s, 261 tokens/s, 84% of the prompts
 * shared (predicted: 270, 3% more)`.
 * @param ignoreEos whether all answers go on to their limit, so that none is cut off by it
 */
export function describeRun(
  summary: JobSummary,
  stats: RunStats | undefined,
  seconds: number,
  ignoreEos = false,
): string {
  const { done, failed, kept, keptFailed, stopped } = summary;
  const cut = ignoreEos ? 0 : (stats?.rows.cut ?? 0);
  const twice = stats?.rows.begunTwice ?? 0;
  const beside = [
    ...(failed > 0 ? [`${failed} with an error`] : []),
    ...(cut > 0 ? [`${cut} cut off at the limit of new tokens, which --max-new-tokens raises`] : []),
    ...(twice > 0 ? [`${twice} whose prompt has the begin token twice: in its text, where it is to be left out`] : []),
  ];
  const rows = `${done} ${done === 1 ? 'row' : 'rows'}${beside.length > 0 ? ` (${beside.join(', ')})` : ''}`;
  const before = kept > 0 ? `, ${kept} from before${keptFailed > 0 ? ` (${keptFailed} with an error)` : ''}` : '';
  const end =
    stopped === true ? '; more rows failed than --max-errors allows, so the run ended early, and --resume goes on' : '';
  if (stats === undefined) return `${rows}${before}, ${seconds.toFixed(1)} s${end}`;
  const { prompt, generated } = stats.tokens;
  const load = stats.seconds.load > 0 ? ` (and ${stats.seconds.load.toFixed(1)} s to load)` : '';
  // Rows that generate nothing, or that need not.
  if (generated === 0 && prompt + stats.sharing.rowsReused > 0)
    return `${rows}${before}, ${prompt} prompt tokens in ${seconds.toFixed(1)} s${load}, ${(done / seconds).toFixed(1)} rows/s${saved(
      stats.sharing,
      prompt,
    )
      .map((words) => `, ${words}`)
      .join('')}${end}`;
  return `${rows}${before}, ${generated} tokens in ${seconds.toFixed(1)} s${load}, ${stats.tokensPerSecond.generated.toFixed(1)} tokens/s${saved(
    stats.sharing,
    prompt,
  )
    .map((words) => `, ${words}`)
    .join('')}${predicted(stats)}${spent(stats)}${end}`;
}

/**
 * The last line of a run that ended early: `98 of 200 rows in answers.jsonl; go on with --resume`.
 * @param file what holds them; undefined for a stream
 * @param interrupted by a signal; else by an error, which is said, too
 */
export function describeRest(
  finished: number,
  expected: number | undefined,
  file: string | undefined,
  interrupted = true,
): string {
  const rows =
    expected === undefined ? `${finished} ${finished === 1 ? 'row' : 'rows'}` : `${finished} of ${expected} rows`;
  if (finished === 0) return 'interrupted before a row was finished';
  return file === undefined
    ? `${interrupted ? 'interrupted' : 'ended'} after ${rows}`
    : `${rows} in ${file}; go on with --resume`;
}

/** Says in words what was not computed: `84% of the prompts shared`, `12 equal rows`. */
function saved({ promptTokensSaved, rowsEqual, rowsReused }: RunStats['sharing'], promptTokens: number): string[] {
  const percent = Math.round((100 * promptTokensSaved) / Math.max(1, promptTokens));
  return [
    ...(percent > 0 ? [`${percent}% of the prompts shared`] : []),
    ...(rowsReused > 0 ? [`${rowsReused} from earlier runs`] : []),
    ...(rowsEqual > 0 ? [`${rowsEqual} equal ${rowsEqual === 1 ? 'row' : 'rows'}`] : []),
  ];
}

function spent({ spending }: RunStats): string {
  return spending ? `, ${spendingWords(spending)}` : '';
}

function predicted({ predicted: run, tokensPerSecond }: RunStats): string {
  if (run === undefined || !(tokensPerSecond.generated > 0)) return '';
  const percent = Math.round(100 * (run.tokensPerSecond / tokensPerSecond.generated - 1));
  const words = percent === 0 ? 'the same' : `${Math.abs(percent)}% ${percent > 0 ? 'more' : 'less'}`;
  return ` (predicted: ${run.tokensPerSecond.toPrecision(3)}, ${words})`;
}

/**
 * A line on the plan, where there is something to say: `plan: diagonal, 2 x 64 rows, weights 40% on disk; 12.3 tokens/s
 * expected`.
 * @returns undefined where the defaults stay as they are
 */
export function describeEnginePlan({
  origin,
  why,
  smallerBlock,
  policy,
  predicted: expected,
  recommended = [],
}: EnginePlan): string | undefined {
  if (smallerBlock !== undefined) {
    const { batches, batchSize, tokensPerSquare } = smallerBlock;
    return `memory is scarce: ${batches} x ${batchSize} rows, ${tokensPerSquare} tokens at a time`;
  }
  if (why !== undefined) return `nothing was planned (${why}): the defaults stay`;
  if (origin !== 'auto' || policy === undefined) return undefined;
  const onDisk = (['weights', 'cache', 'activations'] as const)
    .filter((kind) => policy[kind].disk > 0)
    .map((kind) => `, ${Math.round(100 * policy[kind].disk)}% of ${kind} on disk`);
  const compressed = [
    policy.compressWeights === 'none' ? '' : `, ${policy.compressWeights} weights`,
    policy.compressCache === 'none' ? '' : `, ${policy.compressCache} cache`,
  ];
  const advice = recommended
    .slice(0, 1)
    .map(
      ({ change, factor }) => `; ${change} would be ${factor.toFixed(1)} times as fast, and change results a little`,
    );
  return [
    `plan: ${policy.schedule}, ${policy.batches} x ${policy.batchSize} rows`,
    ...onDisk,
    ...compressed,
    ...(expected ? [`; ${expected.tokensPerSecond.toPrecision(3)} tokens/s expected`] : []),
    ...advice,
  ].join('');
}
