import type { Value } from './values.js';

/** A rendering under way: what it has written, and what names it is given. */
export interface Rendering {
  out: string;
  readonly resolve: (name: string) => Value | undefined;
}

/** The variables of a function that runs. One that is not set is undefined. */
export class Frame {
  readonly variables: (Value | undefined)[];

  constructor(
    size: number,
    readonly rendering: Rendering,
    readonly parent?: Frame,
  ) {
    this.variables = new Array<Value | undefined>(size).fill(undefined);
  }
}

/** The way a loop goes on, or not, after a statement. */
export const enum Flow {
  Next,
  Break,
  Continue,
}

export type Evaluate = (frame: Frame) => Value;
export type Execute = (frame: Frame) => Flow;

/** Captures what a body writes, apart. */
export function captured(frame: Frame, work: () => void): string {
  const { rendering } = frame;
  const before = rendering.out;
  rendering.out = '';
  work();
  const { out } = rendering;
  rendering.out = before;
  return out;
}
