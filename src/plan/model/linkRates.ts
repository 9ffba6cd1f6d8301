import type { HardwareProfile } from '../HardwareProfile.js';

/** Bytes a second of what goes to a GPU and comes from it. Infinite where there is no link. */
export interface LinkRates {
  readonly up: number;
  readonly down: number;
}

/** What was measured, with what runs taught of it. */
export function linkRates({ links, corrections = {} }: Pick<HardwareProfile, 'links' | 'corrections'>): LinkRates {
  return {
    up: (links.hostToDeviceBytesPerSecond ?? Infinity) / (corrections['link.up'] ?? 1),
    down: (links.deviceToHostBytesPerSecond ?? Infinity) / (corrections['link.down'] ?? 1),
  };
}
