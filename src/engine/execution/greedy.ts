import type { DeviceRow } from '../grid/Device.js';

/** How tokens are chosen of a row of which none is wanted. */
export const GREEDY = {
  temperature: 0,
  topP: 1,
  topK: 0,
  minP: 0,
  repetitionPenalty: 1,
  seed: 0,
  logprobs: -1,
} satisfies Partial<DeviceRow>;
