import type { HardwareProfile } from './HardwareProfile.js';

/** Money and energy that a job takes, as far as they are known. */
export interface Spending {
  /** By the machine's price an hour. */
  readonly dollars?: number;
  /** New tokens. */
  readonly tokensPerDollar?: number;
  readonly joules?: number;
  readonly joulesPerToken?: number;
  /** `measured`: by the processor's own counters, of a run; `hardware`: by the watts of the hardware file. */
  readonly joulesFrom?: 'measured' | 'hardware';
}

type Rates = Pick<HardwareProfile, 'dollarsPerHour' | 'watts'>;

/**
 * Money and energy of `seconds` on a machine that is all the job's.
 * @param measuredJoules what was drawn, where somebody looked
 * @returns undefined where neither price nor energy is known
 */
export function spendingOf(
  { dollarsPerHour, watts }: Rates,
  seconds: number,
  newTokens: number,
  measuredJoules?: number,
): Spending | undefined {
  const joules = measuredJoules ?? (watts === undefined ? undefined : watts * seconds);
  if (dollarsPerHour === undefined && joules === undefined) return undefined;
  const dollars = dollarsPerHour === undefined ? undefined : (dollarsPerHour * seconds) / 3600;
  return {
    ...(dollars !== undefined && { dollars, ...(newTokens > 0 && { tokensPerDollar: newTokens / dollars }) }),
    ...(joules !== undefined && {
      joules,
      ...(newTokens > 0 && { joulesPerToken: joules / newTokens }),
      joulesFrom: measuredJoules === undefined ? 'hardware' : 'measured',
    }),
  };
}

/**
 * Begins to look at what a job takes.
 * @param joules that the machine has drawn since some time, if that is known
 * @returns what it has taken after so many seconds and new tokens
 */
export function spendingMeter(
  rates: Rates,
  joules: (() => number | undefined) | undefined,
): (seconds: number, newTokens: number) => { readonly spending?: Spending } {
  const before = joules?.();
  return (seconds, newTokens) => {
    const now = joules?.();
    const drawn = now === undefined || before === undefined ? 0 : now - before;
    // Counters that stand still, as in some virtual machines, count nothing.
    const spending = spendingOf(rates, seconds, newTokens, drawn > 0 ? drawn : undefined);
    return spending ? { spending } : {};
  };
}

/** Several jobs' spending, one after another: what is known of all. @returns undefined where that is nothing */
export function spendingTogether(all: readonly (Spending | undefined)[], newTokens: number): Spending | undefined {
  const known = all.map((each) => each ?? {});
  const [dollars, joules] = [sumOfAll(known, 'dollars'), sumOfAll(known, 'joules')];
  if (known.length === 0 || (dollars === undefined && joules === undefined)) return undefined;
  const joulesFrom = known.every((each) => each.joulesFrom === 'measured') ? 'measured' : 'hardware';
  return {
    ...(dollars !== undefined && { dollars, ...(newTokens > 0 && { tokensPerDollar: newTokens / dollars }) }),
    ...(joules !== undefined && { joules, ...(newTokens > 0 && { joulesPerToken: joules / newTokens }), joulesFrom }),
  };
}

/** The price and the watts of machines that are all taken for the same time. */
export function ratesTogether(machines: readonly Rates[]): Rates {
  return { dollarsPerHour: sumOfAll(machines, 'dollarsPerHour'), watts: sumOfAll(machines, 'watts') };
}

/** @returns undefined where one of them does not say */
function sumOfAll<Name extends string>(
  all: readonly Readonly<Partial<Record<Name, number | undefined>>>[],
  name: Name,
): number | undefined {
  return all.reduce<number | undefined>((sum, { [name]: value }) => {
    return sum === undefined || value === undefined ? undefined : sum + value;
  }, 0);
}
