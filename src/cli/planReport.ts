import { formatBytes, type PlanDocument, type SimulatedPlan, type Spending } from './library.js';
import { formatTable } from './table.js';

/** A plan in words. @param own the same plan under a schedule of somebody's own */
export function describePlan(
  plan: PlanDocument,
  simulated: SimulatedPlan | undefined,
  own?: SimulatedPlan & { readonly name: string },
): string {
  const { model, hardware, predicted, advice } = plan;
  const lines = [
    `${model} on ${hardware}: ${speedWords(plan)}`,
    ...(predicted.spending ? [`it takes ${spendingWords(predicted.spending)}`] : []),
    `policy: ${policyWords(plan)}`,
    '',
  ];
  const blocks = [lines.join('\n'), formatTable(placementTable(plan)), '\n', formatTable(queueTable(plan, simulated))];
  if (simulated || own) {
    blocks.push(
      '\n',
      formatTable([
        ['', 'tokens/s', 'seconds'],
        ['closed form', predicted.tokensPerSecond.toPrecision(4), seconds(predicted.wallSeconds)],
        ...(simulated ? [simulatedRow('simulated', simulated)] : []),
        ...(own ? [simulatedRow(`simulated, ${own.name}`, own)] : []),
      ]),
    );
  }
  const others = runnersUpTable(plan);
  if (others.length > 0)
    blocks.push('\nrunners-up\n', formatTable(others.map(([first = '', ...rest]) => [`  ${first}`, ...rest])));
  if (advice.length > 0) {
    blocks.push(
      '\nwhat would lift it\n',
      formatTable(
        advice.map(({ change, factor, tokensPerSecond, changesResults }) => [
          `  ${change}`,
          `${factor.toFixed(2)}x`,
          rate(tokensPerSecond),
          changesResults ? '(changes results a little)' : '',
        ]),
      ),
    );
  }
  return blocks.join('');
}

function simulatedRow(name: string, { tokensPerSecond, seconds: all }: SimulatedPlan): string[] {
  return [name, tokensPerSecond.toPrecision(4), seconds(all)];
}

/** `12.4 tokens/s (spillway's model), 22 min for 504 rows, of which prompts 15 min` */
export function speedWords({ predicted, costModel }: PlanDocument): string {
  return `${rate(predicted.tokensPerSecond)} (${costModel}'s model), ${seconds(predicted.wallSeconds)} for ${predicted.rows} rows, of which prompts ${seconds(predicted.prefillSeconds)}${predicted.latencySeconds === undefined ? '' : `, a block by itself ${seconds(predicted.latencySeconds)}`}`;
}

/** `0.12 dollars (2.4M tokens a dollar), 61 kJ (0.9 J a token)` */
export function spendingWords({ dollars, tokensPerDollar, joules, joulesPerToken }: Spending): string {
  const beside = (value: number | undefined, unit: string): string =>
    value === undefined ? '' : ` (${shortNumber(value)} ${unit})`;
  return [
    ...(dollars === undefined ? [] : [`${shortNumber(dollars)} dollars${beside(tokensPerDollar, 'tokens a dollar')}`]),
    ...(joules === undefined ? [] : [`${shortNumber(joules)} joules${beside(joulesPerToken, 'a token')}`]),
  ].join(', ');
}

function shortNumber(value: number): string {
  return new Intl.NumberFormat('en', { notation: 'compact', maximumSignificantDigits: 3 }).format(value);
}

export function policyWords({ policy }: PlanDocument): string {
  return (
    `${policy.schedule}, ${policy.batches} x ${policy.batchSize} rows, weights ${policy.compressWeights === 'none' ? 'as they are' : policy.compressWeights}, ` +
    `cache ${policy.compressCache === 'none' ? 'as it is' : policy.compressCache}, attention ${attentionWords(policy)}`
  );
}

function attentionWords({ cpuAttention }: PlanDocument['policy']): string {
  if (typeof cpuAttention === 'boolean') return cpuAttention ? 'where the cache is' : 'on the GPU';
  return `to ${percent(cpuAttention)} of what is not on the GPU on the processor`;
}

/** Lists what lives on which tier, with a header. */
export function placementTable({ policy, predicted }: PlanDocument): string[][] {
  const kinds = ['weights', 'cache', 'activations'] as const;
  const tiers = ['gpu', 'cpu', 'disk'] as const;
  return [
    ['', ...kinds, 'memory'],
    ...tiers.map((tier) => [
      tier,
      ...kinds.map((kind) => percent(policy[kind][tier])),
      formatBytes(predicted.memoryBytes[tier]),
    ]),
  ];
}

/** How long each queue is busy, with a header. */
export function queueTable({ predicted, bottleneck }: PlanDocument, simulated?: SimulatedPlan): string[][] {
  const rows = Object.entries(predicted.queueSeconds).filter(([name, busy]) => busy > 0 || name === bottleneck);
  return [
    ['queue', 'busy', ...(simulated ? ['simulated'] : [])],
    ...rows.map(([name, busy]) => [
      name === bottleneck ? `${name} (busiest)` : name,
      seconds(busy),
      ...(simulated ? [seconds(simulated.queueSeconds[name] ?? 0)] : []),
    ]),
  ];
}

export function runnersUpTable({ runnersUp }: PlanDocument): string[][] {
  return runnersUp.map((each) => [
    `${each.policy.schedule} ${each.policy.batches} x ${each.policy.batchSize}`,
    rate(each.predicted.tokensPerSecond),
    `weights ${shares(each.policy.weights)}`,
    `cache ${shares(each.policy.cache)}`,
    each.policy.cpuAttention === true ? '' : `attention ${attentionWords(each.policy)}`,
  ]);
}

export function rate(tokensPerSecond: number): string {
  return `${tokensPerSecond.toPrecision(4)} tokens/s`;
}

/** `4.21 s`, `12 min`, `2 h 6 min`, `3 d 4 h`: as exact as a prediction is. */
export function seconds(value: number): string {
  if (value < 100) return `${value.toPrecision(3)} s`;
  const minutes = Math.round(value / 60);
  if (minutes < 10) return `${Math.floor(Math.round(value) / 60)} min ${Math.round(value) % 60} s`;
  if (minutes < 120) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48
    ? `${hours} h ${minutes % 60} min`
    : `${Math.floor(Math.round(minutes / 60) / 24)} d ${Math.round(minutes / 60) % 24} h`;
}

export function percent(share: number): string {
  return `${Number((share * 100).toFixed(1))}%`;
}

function shares({ gpu, cpu, disk }: PlanDocument['policy']['weights']): string {
  return [gpu, cpu, disk].map(percent).join(' / ');
}
