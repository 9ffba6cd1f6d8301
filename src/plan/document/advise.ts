import type { Work } from '../../collections/drained.js';
import { TIERS, type ComputeTier } from '../../engine/grid/Tier.js';
import { computeAtSpeed } from '../atSpeed.js';
import { choosePolicyInParts } from '../search/choosePolicy.js';
import type { HardwareProfile } from '../HardwareProfile.js';
import type { Policy } from '../Policy.js';
import { predict } from '../predict.js';
import type { PlanRequest } from '../PlanRequest.js';

/** Something that would make the plan faster. */
export interface Advice {
  /** In words: what would have to change. */
  readonly change: string;
  readonly tokensPerSecond: number;
  /** Over the plan's own. */
  readonly factor: number;
  /** Results would differ a little: used only where it is allowed. */
  readonly changesResults: boolean;
}

/** A gain under 2% is not worth a word. */
const WORTH = 1.02;
const TWICE = { fewRows: 2, manyRows: 2 };

/**
 * Lists what would lift a plan, the most first: twice as much of each memory (planned anew, blocks of the same kind),
 * each link and processor twice as fast (under the same policy, so at least that much), and what is not allowed:
 * compression. Pure; made in slices.
 */
export function* advise(request: PlanRequest, policy: Policy, tokensPerSecond: number): Work<Advice[]> {
  const { hardware, caps = {}, allow = {} } = request;
  const found: Advice[] = [];
  const consider = (change: string, value: number): void => {
    if (value > tokensPerSecond * WORTH)
      found.push({ change, tokensPerSecond: value, factor: value / tokensPerSecond, changesResults: false });
  };
  const kind = {
    ...allow,
    schedules: [policy.schedule],
    cpuAttention: [policy.cpuAttention],
    compressWeights: [policy.compressWeights],
    compressCache: [policy.compressCache],
  };
  const best = (changed: Partial<PlanRequest>): Work<number> => bestOf({ ...request, allow: kind, ...changed });
  for (const tier of TIERS) {
    const bytes = hardware.memory[`${tier}Bytes`];
    if (bytes <= 0 || caps[tier] === 0) continue;
    const cap = caps[tier];
    const more = { ...hardware, memory: { ...hardware.memory, [`${tier}Bytes`]: bytes * 2 } };
    consider(
      `twice as much ${tier} memory`,
      yield* best({ hardware: more, ...(cap !== undefined && { caps: { ...caps, [tier]: cap * 2 } }) }),
    );
  }
  const links = {
    hostToDeviceBytesPerSecond: 'link from CPU to GPU',
    deviceToHostBytesPerSecond: 'link from GPU to CPU',
    diskReadBytesPerSecond: 'disk to read from',
    diskWriteBytesPerSecond: 'disk to write to',
  } as const;
  for (const key of Object.keys(links) as (keyof typeof links)[]) {
    const rate = hardware.links[key];
    if (rate === undefined) continue;
    consider(
      `a ${links[key]} that is twice as fast`,
      predict({ ...request, hardware: { ...hardware, links: { ...hardware.links, [key]: rate * 2 } } }, policy)
        .tokensPerSecond,
    );
    yield;
  }
  for (const processor of ['gpu', 'cpu'] as const) {
    consider(
      `a ${processor.toUpperCase()} that computes twice as fast`,
      predict({ ...request, hardware: fasterProcessor(hardware, processor) }, policy).tokensPerSecond,
    );
    yield;
  }
  const compressed = yield* recommendCompression({ ...request, allow: kind }, policy, tokensPerSecond, WORTH);
  return [...found, ...compressed].sort((a, b) => b.factor - a.factor);
}

/**
 * Says what 4-bit weights or a 4-bit cache would gain over a plan that has none, planned anew, the most first. Pure;
 * made in slices.
 * @param worth factors below this are not named
 */
export function* recommendCompression(
  request: PlanRequest,
  policy: Policy,
  tokensPerSecond: number,
  worth: number,
): Work<Advice[]> {
  const found: Advice[] = [];
  for (const [change, key] of [
    ['a 4-bit KV cache', 'compressCache'],
    ['4-bit weights', 'compressWeights'],
  ] as const) {
    if (policy[key] !== 'none') continue;
    const value = yield* bestOf({ ...request, allow: { ...request.allow, [key]: ['4bit'] } });
    if (value > tokensPerSecond * worth)
      found.push({ change, tokensPerSecond: value, factor: value / tokensPerSecond, changesResults: true });
  }
  return found.sort((a, b) => b.factor - a.factor);
}

/** Tokens a second of the best plan; 0 where nothing fits, which is no advice. */
function* bestOf(request: PlanRequest): Work<number> {
  try {
    return (yield* choosePolicyInParts(request)).predicted.tokensPerSecond;
  } catch {
    return 0;
  }
}

function fasterProcessor(hardware: HardwareProfile, which: ComputeTier): HardwareProfile {
  const on = hardware[which];
  if (on === undefined) return hardware;
  const { oneThread, oneThreadACore } = on;
  return {
    ...hardware,
    [which]: {
      ...on,
      ...computeAtSpeed(on, TWICE),
      ...(oneThread && { oneThread: { ...oneThread, ...computeAtSpeed(oneThread, TWICE) } }),
      ...(oneThreadACore && { oneThreadACore: { ...oneThreadACore, ...computeAtSpeed(oneThreadACore, TWICE) } }),
    },
  };
}
