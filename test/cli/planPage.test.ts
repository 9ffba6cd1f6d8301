import { describe, expect, test } from '@jest/globals';
import { drawnBy } from './drawnBy.js';
import { planPage } from '../../src/cli/planPage.js';
import { planCurves } from '../../src/plan/document/planCurves.js';
import { planDocument } from '../../src/plan/document/planDocument.js';
import { readHardware } from '../../src/profile/readHardware.js';
import { readModelShape } from '../../src/engine/open/readModelShape.js';

async function pageOf(rows: number | undefined): Promise<string> {
  const request = {
    shape: await readModelShape('opt-30b'),
    hardware: await readHardware('flexgen-t4'),
    workload: { promptTokens: 512, newTokens: 32, rows },
    costModel: 'flexgen' as const,
  };
  const plan = planDocument(request);
  return planPage(plan, planCurves(request, plan.policy));
}

describe('the page of a plan', () => {
  test('says and draws what it costs, where the hardware file has a price', async () => {
    const request = {
      shape: await readModelShape('opt-30b'),
      hardware: { ...(await readHardware('flexgen-t4')), dollarsPerHour: 1.5 },
      workload: { promptTokens: 512, newTokens: 32 },
      costModel: 'flexgen' as const,
    };
    const plan = planDocument(request);
    const page = await planPage(plan, planCurves(request, plan.policy));
    expect(page).toMatch(/It takes [\d.]+ dollars \([\d.]+K tokens a dollar\)\./);
    const drawn = drawnBy(page, 368).map(({ title }) => title);
    expect(drawn).toContain('Latency and cost');
    expect(await pageOf(undefined)).not.toContain('Latency and cost');
  });

  test('draws curves as wide as the screen, in colours of the page, with short labels', async () => {
    const page = await pageOf(1000);
    const drawn = drawnBy(page, 368);
    expect(drawn.map(({ title }) => title)).toEqual(
      expect.arrayContaining(['Throughput by batch size', 'Latency and throughput', 'Roofline of the products']),
    );
    for (const { width, axes, data } of drawn) {
      expect(width).toBe(368);
      expect(axes.map(({ stroke }) => stroke)).toEqual(['ink', 'ink']);
      expect(axes[1]?.values(undefined, [null, 1.2345e15, 0.5, 20_000])).toEqual(['', '1230T', '0.5', '20K']);
      // No curve is promised where there is a point.
      expect(data[1]?.filter((value) => value !== null).length).toBeGreaterThan(1);
    }
    const [latency] = drawn.filter(({ title }) => title === 'Latency and throughput');
    expect(latency?.data[0]?.length).toBeGreaterThan(4);
  });

  test.each([undefined, 1000])(
    'shows the plan on each of its curves, the highest point of which it is (%s rows)',
    async (rows) => {
      const request = {
        shape: await readModelShape('opt-30b'),
        hardware: await readHardware('flexgen-t4'),
        workload: { promptTokens: 512, newTokens: 32, rows },
        costModel: 'flexgen' as const,
      };
      const plan = planDocument(request);
      const { byBlock, byMemory, frontier } = planCurves(request, plan.policy, plan.predicted);
      const [own, ...others] = [byBlock, byMemory].map(({ y, chosen }) => y[chosen]);
      expect([own, ...others]).toEqual([plan.predicted.tokensPerSecond, plan.predicted.tokensPerSecond]);
      expect(byBlock.x[byBlock.chosen]).toBe(plan.policy.batchSize);
      for (const { x, y } of [byBlock, byMemory, frontier]) {
        expect([...x].sort((a, b) => a - b)).toEqual(x);
        expect(new Set(x).size).toBe(x.length);
        expect(x).toHaveLength(y.length);
      }
      // A frontier rises, and the plan is on it, or below.
      const rates = frontier.y.filter((value) => value !== undefined);
      expect([...rates].sort((a, b) => a - b)).toEqual(rates);
      expect(frontier.chosen).toBeGreaterThanOrEqual(0);
      const [drawn] = drawnBy(
        await planPage(plan, { byBlock, byMemory, frontier, roofline: planCurves(request, plan.policy).roofline }),
        800,
      );
      expect(drawn?.data[2]?.filter((value) => value !== null)).toEqual([plan.predicted.tokensPerSecond]);
    },
  );

  test('has its facts in tables, the JSON folded away, and knows narrow screens and the dark', async () => {
    const page = await pageOf(undefined);
    expect(page).toContain('<meta name="viewport" content="width=device-width,initial-scale=1">');
    expect(page).toContain('@media (prefers-color-scheme:dark)');
    expect(page).toMatch(
      /<p>[\d.]+ tokens\/s \(flexgen&#39;s model\), [\d.]+ (s|min|h \d+ min|min \d+ s|d \d+ h) for \d+ rows, .* queue is busiest\.<\/p>/,
    );
    // What is wider than the screen scrolls in a box of its own; words of tables are not broken for it.
    expect(page.match(/<table>/g)?.length).toBe(page.match(/<div class="wide"><table>/g)?.length);
    expect(page).toMatch(/\.wide\{overflow-x:auto\}/);
    expect(page).not.toMatch(/(body|td|table)[^{}]*\{[^}]*overflow-wrap/);
    for (const title of ['Where things are', 'Time of the queues', 'What would lift it'])
      expect(page).toContain(`<h2>${title}</h2>`);
    expect(page.indexOf('<details>')).toBeLessThan(page.indexOf('<pre>'));
    expect(page).not.toMatch(/(src|href)=/);
  });

  test('one point, or none, is a sentence', async () => {
    const request = {
      shape: await readModelShape('opt-30b'),
      hardware: await readHardware('flexgen-t4'),
      workload: { promptTokens: 512, newTokens: 32 },
      costModel: 'flexgen' as const,
    };
    const plan = planDocument(request);
    const curves = planCurves(request, plan.policy);
    const page = await planPage(plan, {
      ...curves,
      frontier: { x: [7558], y: [3.456], chosen: 0, own: 3.456 },
      byBlock: { x: [1, 2], y: [undefined, undefined], chosen: 0, own: 1 },
      byMemory: { ...curves.byMemory, x: [8, 16], y: [undefined, 2], chosen: 1, own: 2 },
    });
    expect(page).toContain(
      'Latency and throughput: of blocks under these caps one is best in both, done after 2 h 6 min: 3.46 tokens/s.',
    );
    expect(page).toContain('Throughput by batch size: nothing fits, of what was tried.');
    expect(page).toMatch(
      /Throughput by GPU memory: it fits in all of 16\.0 GiB, and in no less that was tried: 2\.00 tokens/,
    );
    expect(drawnBy(page, 1000).map(({ title }) => title)).not.toContain('Latency and throughput');
  });
});
