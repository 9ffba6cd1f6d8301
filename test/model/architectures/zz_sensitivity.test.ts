import { expect, test } from '@jest/globals';
import { fixtureModels } from '../../support/model/fixtureModels.js';
import { PlainDecoder } from '../../support/model/PlainDecoder.js';
import type { ModelSource } from '../../../src/model/ModelSource.js';

const difference = (source: ModelSource, rows: (typeof fixtureModels)[number]['rows']): number => {
  const d = new PlainDecoder(source);
  let worst = 0;
  for (const row of rows) {
    if (!row.logits) continue;
    const last = d.logits(row.tokens).at(-1) ?? new Float64Array();
    row.logits.forEach((x, i) => (worst = Math.max(worst, Math.abs(x - (last[i] ?? NaN)))));
  }
  return worst;
};
type S = ModelSource['decoder'];
const muts: Record<string, (s: S) => S | undefined> = {
  none: (s) => s,
  gelu: (s) => (s.feedForward.activation.startsWith('gelu') ? { ...s, feedForward: { ...s.feedForward, activation: s.feedForward.activation === 'gelu' ? 'gelu-tanh' : 'gelu' } } : undefined),
  window: (s) => (s.layerSpecs.some((l) => l.window) ? { ...s, layerSpecs: s.layerSpecs.map((l) => ({ ...l, window: l.window && l.window + 1 })) } : undefined),
  epsilon: (s) => ({ ...s, norm: { ...s.norm, epsilon: s.norm.epsilon * 10 } }),
  round: (s) => (s.position.kind === 'alibi' ? { ...s, position: { ...s.position, roundToBfloat16: false } } : undefined),
  style: (s) => (s.position.kind === 'rotary' ? { ...s, position: { ...s.position, style: s.position.style === 'pairs' ? 'halves' : 'pairs' } } : undefined),
  table: (s) => (s.position.kind === 'rotary' ? { ...s, position: { ...s.position, tables: s.position.tables.map((t) => ({ ...t, frequencies: t.frequencies.map((f, i) => (i === 2 ? f * 1.01 : f)) })) } } : undefined),
  scale: (s) => ({ ...s, attention: { ...s.attention, scale: s.attention.scale * 1.01 } }),
};
test('sensitivity', async () => {
  const out: string[] = [];
  for (const m of fixtureModels) {
    if (m.name.endsWith('.gguf')) continue;
    await m.use((source) => {
      const res = Object.entries(muts).map(([k, f]) => {
        const decoder = f(source.decoder);
        return decoder ? `${k} ${difference({ ...source, decoder }, m.rows).toExponential(1)}` : '';
      });
      out.push(`${m.name}: ${res.filter(Boolean).join(', ')}`);
    });
  }
  console.log(out.join('\n'));
  expect(1).toBe(1);
});
