import { choosePolicy } from './choosePolicy.js';
import type { HardwareProfile } from './HardwareProfile.js';
import type { Policy } from './Policy.js';
import { predict } from './predict.js';
import type { PlanRequest } from './PlanRequest.js';

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

/**
 * What would lift a plan, the most first: twice as much of each memory (planned anew, blocks of the same kind), each link and processor twice as fast
 * (under the same policy, so at least that much), and what is not allowed: compression. Pure.
 */
export function advise(request: PlanRequest, policy: Policy, tokensPerSecond: number): Advice[] {
  const { hardware, caps = {}, allow = {} } = request;
  const found: Advice[] = [];
  const consider = (change: string, faster: () => number, changesResults = false): void => {
    const value = faster();
    if (value > tokensPerSecond * WORTH) found.push({ change, tokensPerSecond: value, factor: value / tokensPerSecond, changesResults });
  };
  const kind = { ...allow, schedules: [policy.schedule], cpuAttention: [policy.cpuAttention], compressWeights: [policy.compressWeights], compressCache: [policy.compressCache] };
  const best = (changed: Partial<PlanRequest>): number => {
    try {
      return choosePolicy({ ...request, allow: kind, ...changed }).predicted.tokensPerSecond;
    } catch {
      return 0; // does not fit, and so is no advice
    }
  };
  for (const tier of ['gpu', 'cpu', 'disk'] as const) {
    const bytes = hardware.memory[`${tier}Bytes`];
    if (bytes <= 0 || caps[tier] === 0) continue;
    const cap = caps[tier];
    const more = { ...hardware, memory: { ...hardware.memory, [`${tier}Bytes`]: bytes * 2 } };
    consider(`twice as much ${tier} memory`, () => best({ hardware: more, ...(cap !== undefined && { caps: { ...caps, [tier]: cap * 2 } }) }));
  }
  const links = { hostToDeviceBytesPerSecond: 'link from CPU to GPU', deviceToHostBytesPerSecond: 'link from GPU to CPU', diskReadBytesPerSecond: 'disk to read from', diskWriteBytesPerSecond: 'disk to write to' } as const;
  for (const key of Object.keys(links) as (keyof typeof links)[]) {
    const rate = hardware.links[key];
    if (rate === undefined) continue;
    consider(`a ${links[key]} that is twice as fast`, () => predict({ ...request, hardware: { ...hardware, links: { ...hardware.links, [key]: rate * 2 } } }, policy).tokensPerSecond);
  }
  for (const processor of ['gpu', 'cpu'] as const) {
    consider(`a ${processor.toUpperCase()} that computes twice as fast`, () => predict({ ...request, hardware: fasterProcessor(hardware, processor) }, policy).tokensPerSecond);
  }
  for (const [what, key] of [['KV cache', 'compressCache'], ['weights', 'compressWeights']] as const) {
    if (policy[key] !== 'none') continue;
    consider(`a 4-bit ${what}`, () => best({ allow: { ...kind, [key]: ['4bit'] } }), true);
  }
  return found.sort((a, b) => b.factor - a.factor);
}

function fasterProcessor(hardware: HardwareProfile, which: 'gpu' | 'cpu'): HardwareProfile {
  const on = hardware[which];
  if (on === undefined) return hardware;
  return {
    ...hardware,
    [which]: {
      ...on,
      matmul: on.matmul.map((point) => ({ ...point, flopsPerSecond: point.flopsPerSecond * 2 })),
      attention: { prefillFlopsPerSecond: on.attention.prefillFlopsPerSecond * 2, decodeBytesPerSecond: on.attention.decodeBytesPerSecond * 2 },
    },
  };
}
