import { stat } from 'node:fs/promises';
import type { CommandContext } from './CommandContext.js';
import { cascadeOrder, learningOf, percent, type CascadeFlags, type CascadeLearning } from './flags/cascadeFlags.js';
import {
  Cascade,
  type CascadeStage,
  type Engine,
  type EngineOptions,
  isObject,
  type Job,
  type LearnedCascade,
  type LearnOptions,
  learnThresholds,
  MemoryBudget,
  MemoryBudgetError,
  readModel,
  type RowGenerator,
  type RunStats,
} from './library.js';
import { pulledModel } from './openModel.js';
import type { ProgressMeter } from './ProgressMeter.js';

/** A model of a cascade, in the order in which they answer. */
export interface CascadeModel {
  readonly name: string;
  readonly path: string;
  readonly bytes: number;
  readonly threshold?: number;
}

/** The parts a cascade is opened with. */
export interface CascadeParts {
  readonly flags: CascadeFlags & { readonly cpuMemory?: EngineOptions['cpuMemory']; readonly device?: string };
  readonly models: readonly CascadeModel[];
  readonly job: Job;
  readonly context: CommandContext;
  /** @param others in place of what the flags say */
  readonly open: (model: string, others: Partial<EngineOptions>) => Promise<Engine>;
  readonly answer: (engine: Engine) => Partial<RowGenerator>;
  /** The task done with rows. */
  readonly task: Pick<LearnOptions, 'generate' | 'classify'>;
}

export interface OpenedCascade {
  readonly engine: RowGenerator;
  /** The model that begins. */
  readonly first: Pick<Engine, 'tokenizer' | 'source'>;
  /** Closes what is still open. */
  close(): Promise<void>;
}

/** Models fit together where this times their files, and this much beside, is less than the budget. */
const TOGETHER_FACTOR = 2;
const TOGETHER_BYTES = 2 ** 30;

/** The models of the flags, fetched if need be, in order. */
export async function cascadeModels(
  flags: CascadeFlags & { readonly model: string },
  context: CommandContext,
  meter: ProgressMeter,
): Promise<readonly CascadeModel[]> {
  const paths = new Map<string, string>();
  const bytes = new Map<string, number>();
  for (const name of new Set([flags.model, ...(flags.cascade ?? []).map(({ model }) => model)])) {
    const path = await pulledModel(name, context.signal, meter);
    const { files } = await readModel(path);
    paths.set(name, path);
    let sum = 0;
    for (const file of files) sum += (await stat(file)).size;
    bytes.set(name, sum);
  }
  return cascadeOrder(flags, bytes).map(({ model, threshold }) => ({
    name: model,
    path: paths.get(model) ?? model,
    bytes: bytes.get(model) ?? 0,
    ...(threshold !== undefined && { threshold }),
  }));
}

/** Opens the models, both at once where they fit into the budget, and learns the lines where that is asked. */
export async function openCascade(parts: CascadeParts): Promise<OpenedCascade> {
  const { flags, models, job, context } = parts;
  const open = new Set<Engine>();
  const close = async (): Promise<void> => {
    for (const engine of open) await engine.close();
    open.clear();
  };
  try {
    const opened = (await openedTogether(parts, open)) ?? (await openedInTurn(parts, open));
    const { first } = opened;
    const learning = learningOf(flags, models.length);
    const stages = learning ? await learned(parts, opened.stages, learning) : opened.stages;
    context.say(`cascade: ${stages.map(({ name, threshold }) => describeStage(name, threshold)).join(', ')}`);
    const cascade = new Cascade(stages, learning && { learnt: learning });
    const { resultIdentity = {}, models: names } = cascade;
    const engine: RowGenerator = {
      resultIdentity,
      models: names,
      generate: (rows, options) => cascade.generate(rows, options),
      classify: (rows, options) => cascade.classify(rows, options),
    };
    return { engine, first, close };
  } catch (error) {
    await close().catch(() => undefined);
    throw error;
  }

  /** Lines as they were learnt when the job began, or now. */
  async function learned(
    { task }: CascadeParts,
    stages: readonly CascadeStage[],
    learning: CascadeLearning,
  ): Promise<readonly CascadeStage[]> {
    const known = recordedThresholds(job.begunWith, stages, learning);
    if (known)
      return stages.map((stage, at) => (at < known.length ? { ...stage, threshold: known[at] ?? null } : stage));
    const { target, certainty, sample, seed } = learning;
    const rows = await job.drawn(sample, seed);
    context.say(`cascade: all models answer ${rows.length} drawn rows, from which the lines are learnt …`);
    const result = await learnThresholds(stages, rows, { ...task, target, certainty });
    for (const words of describeLearned(result, learning)) context.say(words);
    return result.stages;
  }
}

interface OpenedStages {
  readonly stages: readonly CascadeStage[];
  readonly first: Engine;
}

/** Undefined where they do not fit. */
async function openedTogether(
  { flags, models, open, answer }: CascadeParts,
  opened: Set<Engine>,
): Promise<OpenedStages | undefined> {
  const files = models.reduce((sum, { bytes }) => sum + bytes, 0);
  const cap = typeof flags.cpuMemory === 'number' ? flags.cpuMemory : Math.floor(0.9 * process.availableMemory());
  if (TOGETHER_FACTOR * files + TOGETHER_BYTES > cap || (flags.device ?? 'auto') === 'cuda') return undefined;
  const memoryBudget = new MemoryBudget(cap);
  const stages: CascadeStage[] = [];
  let first: Engine | undefined;
  try {
    for (const [at, model] of models.entries()) {
      const isLast = at === models.length - 1;
      const engine = await open(model.path, {
        memoryBudget,
        cpuMemory: isLast ? undefined : Math.floor(cap / models.length),
      } as Partial<EngineOptions>);
      opened.add(engine);
      first ??= engine;
      stages.push({ ...lineOf(model), engine: { resultIdentity: engine.resultIdentity, ...answer(engine) } });
    }
  } catch (error) {
    if (!(error instanceof MemoryBudgetError)) throw error;
    for (const engine of opened) await engine.close();
    opened.clear();
    return undefined;
  }
  return first && { stages, first };
}

/**
 * Each is opened once, so that it is known to open, and what of it decides results; the one that begins last, which
 * stays.
 */
async function openedInTurn({ models, open, answer }: CascadeParts, opened: Set<Engine>): Promise<OpenedStages> {
  const stages: CascadeStage[] = [];
  let first: Engine | undefined;
  for (const [at, model] of [...models.entries()].reverse()) {
    const engine = await open(model.path, {});
    opened.add(engine);
    const { resultIdentity, compression } = engine;
    let kept: Engine | undefined = at === 0 ? engine : undefined;
    if (kept) first = kept;
    else {
      await engine.close();
      opened.delete(engine);
    }
    stages.unshift({
      ...lineOf(model),
      resultIdentity,
      open: async () => {
        // What was chosen once is not chosen again.
        const current = kept ?? (await open(model.path, compression));
        kept = undefined;
        opened.add(current);
        return {
          resultIdentity: current.resultIdentity,
          ...answer(current),
          [Symbol.asyncDispose]: async () => {
            opened.delete(current);
            await current.close();
          },
        };
      },
    });
  }
  if (!first) throw new TypeError('a cascade has models');
  return { stages, first };
}

function lineOf({ name, threshold }: CascadeModel): Pick<CascadeStage, 'name' | 'threshold'> {
  return { name, ...(threshold !== undefined && { threshold }) };
}

/** The lines of the run that began the job, if it learnt them from the same rows for the same models. */
function recordedThresholds(
  before: Readonly<Record<string, unknown>> | undefined,
  stages: readonly CascadeStage[],
  learning: CascadeLearning,
): readonly (number | null)[] | undefined {
  const { cascade, learnt } = before ?? {};
  if (!Array.isArray(cascade) || JSON.stringify(learnt) !== JSON.stringify(learning)) return undefined;
  const all = cascade as readonly unknown[];
  const same = stages.every(({ name }, at) => {
    const stage = all[at];
    return isObject(stage) && stage['name'] === name;
  });
  if (!same || all.length !== stages.length) return undefined;
  return all.slice(0, -1).map((stage) => {
    const threshold = isObject(stage) ? stage['threshold'] : null;
    return typeof threshold === 'number' ? threshold : null;
  });
}

function describeStage(name: string, threshold: number | null | undefined): string {
  if (threshold === undefined) return `${name} answers all that come to it`;
  return threshold === null ? `no answer of ${name} stands` : `answers of ${name} stand from ${threshold} on`;
}

function describeLearned({ learned }: LearnedCascade, { target, certainty }: CascadeLearning): readonly string[] {
  return learned.map(({ name, threshold, rows, stand, differ, bound }) =>
    threshold === null
      ? `cascade: ${rows} drawn rows do not show that ${percent(target)} of the answers would be the last model's with any from ${name}: none stands`
      : `cascade: of ${rows} drawn rows ${stand} have an answer of ${name} that stands, ${differ} of them another than the last model's: at most ${percent(Number(bound.toFixed(4)))} of all rows (${percent(certainty)} certain)`,
  );
}

/** Who answered how many, in a line; undefined where it was no cascade. */
export function describeCascade(stats: RunStats | undefined): string | undefined {
  return (
    stats?.cascade &&
    `cascade: ${stats.cascade.map(({ model, rows, answered }) => `${answered} of ${rows} rows by ${model}`).join(', ')}`
  );
}
