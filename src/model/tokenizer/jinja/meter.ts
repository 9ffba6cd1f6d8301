import { ROW_LIMITS } from '../../files/limits.js';
import { Refused, TooLong } from './errors.js';

/** All that is made in one rendering, in multiples of the longest text; loops that append to a text make it again. */
const TOTAL_MADE = 64;
/** All text that is gone through in one rendering, likewise. */
const TOTAL_SCANNED = 512;

/**
 * The work that the rendering under way may still do. There is one rendering at a time, as rendering is synchronous;
 * its operations count their work here beforehand, so that no template works or grows without end, whatever the clock
 * says.
 */
const left = { steps: 0, longest: 0, made: 0, scanned: 0, calls: 0, atOnce: false };

/** The part of the work that is done in one turn of the event loop: some tens of milliseconds. */
const AT_ONCE = { steps: 120_000, made: 2 ** 20, scanned: 2 ** 21 };

/** Calls of macros, loops and blocks inside each other; Python gives up at some two hundred. */
const MOST_CALLS = 150;

/**
 * Begins to count anew.
 * @param messages that the template is given @param size of all that it is given, in UTF-16 units
 * @param atOnce beyond what is done in one turn it is `TooLong`
 */
export function beginRendering(messages: number, size: number, atOnce: boolean): void {
  const { templateSteps, templateStepsPerMessage, templateStepsInAll } = ROW_LIMITS;
  left.steps = Math.min(templateSteps + templateStepsPerMessage * messages, templateStepsInAll);
  left.longest = ROW_LIMITS.templateTextUnits + 8 * size;
  left.made = Math.min(TOTAL_MADE * left.longest, ROW_LIMITS.templateMadeUnits);
  left.scanned = Math.min(TOTAL_SCANNED * left.longest, ROW_LIMITS.templateScannedUnits);
  left.calls = MOST_CALLS;
  left.atOnce = atOnce;
  if (!atOnce) return;
  left.steps = Math.min(left.steps, AT_ONCE.steps);
  left.made = Math.min(left.made, AT_ONCE.made);
  left.scanned = Math.min(left.scanned, AT_ONCE.scanned);
}

/** The error of work that is used up. */
function usedUp(words: string): Error {
  return left.atOnce ? new TooLong() : new Refused(words);
}

/** Counts steps of work. */
export function spend(steps: number): void {
  left.steps -= steps;
  if (left.steps < 0) throw usedUp('the template takes too many steps');
}

/** Counts text that an operation goes through. */
export function scan(units: number): void {
  left.scanned -= units;
  if (left.scanned < 0) throw usedUp('the template goes through too much text');
}

/** Counts a text, in UTF-16 units, or a list, in members, that an operation is about to make. */
export function make(units: number): void {
  if (units > left.longest)
    throw new Refused(`the template makes a text or a list of ${units} units, expected at most ${left.longest}`);
  left.made -= units;
  if (left.made < 0) throw usedUp('the template makes too much text');
}

/** Counts a list, in members, that an operation is about to make of members that are there. */
export function makeList(members: number): void {
  make(members);
  spend(members / 16);
}

/** A text with more after it, which is about to be made. */
export function extended(text: string, more: string): string {
  left.made -= more.length;
  if (left.made < 0) throw usedUp('the template makes too much text');
  if (text.length + more.length > left.longest)
    throw new Refused(`the template makes a text of more than ${left.longest} units`);
  return text + more;
}

/** A text that has been made, of parts that were counted already. */
export function made(text: string): string {
  make(text.length);
  return text;
}

/** Does work inside a call, as deep as calls may go. */
export function inCall<T>(work: () => T): T {
  if (--left.calls < 0) throw new Refused(`the template calls itself more than ${MOST_CALLS} deep`);
  try {
    return work();
  } finally {
    left.calls++;
  }
}
