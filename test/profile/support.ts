import type { MachineFigure } from '../../src/bindings/Profile.js';

/** A figure as the addon gives it, of which most says nothing. */
export const figure = (
  what: MachineFigure['what'],
  perSecond: number,
  more: Partial<MachineFigure> = {},
): MachineFigure => ({
  what,
  perSecond,
  kind: '',
  instructionSet: '',
  threads: 0,
  tokens: 0,
  inputs: 0,
  groupHeads: 0,
  requestBytes: 0,
  depth: 0,
  spread: 0.125,
  samples: 9,
  ...more,
});
