import type { Work } from '../collections/drained.js';
import { Matcher } from '../regex/Matcher.js';
import { PatternTooLarge } from '../regex/Program.js';
import { StepLimit, type Steps } from '../regex/Steps.js';

/** PatternTests of one schema, made when they are first tried. */
export class PatternTests {
  readonly #matchers = new Map<string, Matcher | undefined>();

  /** Tells whether a text has a match of a translated pattern. @throws StepLimit */
  *test(source: string, text: string, steps: Steps): Work<boolean> {
    if (steps.due) yield;
    if (!this.#matchers.has(source)) {
      steps.take(source.length);
      this.#matchers.set(source, made(source));
    }
    const matcher = this.#matchers.get(source);
    if (matcher === undefined) throw new StepLimit(steps.most);
    return (yield* matcher.search(text, steps).find(0)) !== undefined;
  }
}

/** @returns undefined of one that is too large to be tried at all */
function made(source: string): Matcher | undefined {
  try {
    return new Matcher(source);
  } catch (error) {
    if (error instanceof PatternTooLarge) return undefined;
    throw error;
  }
}
