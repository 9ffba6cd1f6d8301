import { type Corrections, WORK_KIND, mostCorrection } from '../../plan/corrections.js';

/**
 * The time that a run took for each kind of work, and the time that its profile alone says of the same work; both in
 * seconds.
 */
export type WorkDone = Readonly<Record<string, { readonly seconds: number; readonly profileSeconds: number }>>;

/** The knowledge of one kind of work. */
export interface LearnedKind {
  /** Natural logarithm of seconds over those of the profile: what predictions are corrected by. */
  readonly logRatio: number;
  /** The same of the latest run alone. */
  readonly lastLogRatio: number;
  /** How many full, undisturbed runs it rests on; runs of long ago count no more. */
  readonly weight: number;
  readonly runs: number;
}

/** The lessons of earlier runs, by kind of work. */
export type Learned = Readonly<Record<string, LearnedKind>>;

/** Less work than this, in seconds, says nothing; */
const LEAST_SECONDS = 0.2;
/** and from here on more says no more. */
const FULL_SECONDS = 2;
/** Nothing is learned of a run in which threads waited for others more than this leaves. */
const LEAST_UNDISTURBED = 0.3;
/** That the profile is right counts as much as so many runs. */
const PRIOR = 0.3;
/** No more runs than this outweigh the next one, so that a machine that changes is followed. */
const MOST_WEIGHT = 4;
/** The first run may have been out of the ordinary, and nothing is there to tell: it counts no more than this. */
const FIRST_STEP = Math.log(1.35);

function limitOf(kind: string): number {
  return Math.log(mostCorrection(kind));
}

/**
 * Gives what is known after one more run. The estimate moves towards the median of itself, the run before and this run,
 * by as much as these weigh: a single run that was disturbed moves nothing, two that agree are believed. It is an
 * exponentially weighted mean of logarithms otherwise. Pure.
 *
 * @param undisturbed how much of the machine the run had, from 0 (nothing) to 1 (all of it)
 */
export function learn(learned: Learned, work: WorkDone, undisturbed: number): Learned {
  if (!(undisturbed >= LEAST_UNDISTURBED)) return learned;
  const next: Record<string, LearnedKind> = { ...learned };
  for (const [kind, { seconds, profileSeconds }] of Object.entries(work)) {
    if (
      !WORK_KIND.test(kind) ||
      !(seconds > 0) ||
      !(profileSeconds > 0) ||
      Math.max(seconds, profileSeconds) < LEAST_SECONDS
    )
      continue;
    const found = clamp(Math.log(seconds / profileSeconds), limitOf(kind));
    const weight = Math.min(1, Math.max(seconds, profileSeconds) / FULL_SECONDS) * Math.min(1, undisturbed);
    next[kind] = after(next[kind], found, weight);
  }
  return next;
}

function after(known: LearnedKind | undefined, found: number, weight: number): LearnedKind {
  if (known === undefined) {
    const step = clamp(found, FIRST_STEP);
    const counts = weight * (found === 0 ? 1 : step / found);
    return { logRatio: (step * counts) / (counts + PRIOR), lastLogRatio: found, weight: counts, runs: 1 };
  }
  const target = median(known.logRatio, known.lastLogRatio, found);
  // Where the estimate itself is in the middle, runs do not agree: nothing was learned, not even that it is right.
  const counts = target === known.logRatio && found !== target ? 0 : weight;
  const gain = counts / (known.weight + counts + PRIOR);
  return {
    logRatio: known.logRatio + gain * (target - known.logRatio),
    lastLogRatio: found,
    weight: Math.min(MOST_WEIGHT, known.weight + counts),
    runs: known.runs + 1,
  };
}

/** The factors that predictions are corrected by; undefined where nothing is known. */
export function correctionsOf(learned: Learned): Corrections | undefined {
  const factors = Object.entries(learned).map(([kind, { logRatio }]): [string, number] => [
    kind,
    Number(Math.exp(clamp(logRatio, limitOf(kind))).toPrecision(4)),
  ]);
  return factors.length === 0 ? undefined : Object.fromEntries(factors);
}

function clamp(value: number, most: number): number {
  return Math.min(most, Math.max(-most, value));
}

function median(a: number, b: number, c: number): number {
  return Math.max(Math.min(a, b), Math.min(Math.max(a, b), c));
}

/**
 * By what a run's prediction was corrected, and what the run took of each kind of work: the object `corrections` of
 * `--stats`.
 */
export interface RunCorrections {
  /** Factors on seconds in the prediction, from runs before this one; empty where there were none. */
  readonly applied: Corrections;
  /** The speed of the same rows and policy by the profile alone. */
  readonly uncorrectedTokensPerSecond: number;
  /** Seconds of every kind of work, and those by the profile alone. */
  readonly work: WorkDone;
  /** How much of the machine the run had for itself: 1, nobody else was there, to 0. */
  readonly undisturbed: number;
  /** True where later runs on this machine are corrected by this run. */
  readonly learned: boolean;
}
