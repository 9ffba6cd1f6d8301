import { createContext, runInContext } from 'node:vm';
import { describe, expect, test } from '@jest/globals';
import { planPage } from '../../src/cli/planPage.js';
import { planCurves } from '../../src/plan/document/planCurves.js';
import { planDocument } from '../../src/plan/document/planDocument.js';
import { readHardware } from '../../src/profile/readHardware.js';
import { readModelShape } from '../../src/engine/open/readModelShape.js';

interface Drawn {
  readonly title: string;
  readonly width: number;
  readonly axes: readonly {
    readonly stroke: string;
    readonly values: (plot: unknown, values: readonly (number | null)[]) => readonly string[];
  }[];
  readonly data: readonly (readonly unknown[])[];
}

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

/** Runs the page's own script in a window of a width, without a browser: what it would draw. */
function draw(page: string, width: number): Drawn[] {
  const [, script = ''] =
    page
      .split('<script>')
      .slice(-1)[0]
      ?.match(/^([^]*)<\/script>/) ?? [];
  const drawn: Drawn[] = [];
  const element = (): object => ({ clientWidth: width, textContent: '', appendChild: (child: object) => child });
  const context = createContext({
    Intl,
    innerWidth: width,
    clearTimeout,
    setTimeout,
    document: { getElementById: element, createElement: element, documentElement: {} },
    getComputedStyle: () => ({ getPropertyValue: (name: string) => ` ${name.slice(2)} ` }),
    addEventListener: () => undefined,
    matchMedia: () => ({ addEventListener: () => undefined }),
    // A function that is called with `new`.
    uPlot: function uPlot(options: Omit<Drawn, 'data'>, data: Drawn['data']) {
      drawn.push({ ...options, data });
    },
  });
  runInContext(script, context);
  return drawn;
}

describe('the page of a plan', () => {
  test('draws curves as wide as the screen, in colours of the page, with short labels', async () => {
    const page = await pageOf(1000);
    const drawn = draw(page, 368);
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
  });

  test('has its facts in tables, the JSON folded away, and knows narrow screens and the dark', async () => {
    const page = await pageOf(undefined);
    expect(page).toContain('<meta name="viewport" content="width=device-width,initial-scale=1">');
    expect(page).toContain('@media (prefers-color-scheme:dark)');
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
      frontier: { x: [12], y: [3.456] },
      byBlock: { x: [1, 2], y: [undefined, undefined] },
    });
    expect(page).toContain(
      'Latency and throughput: one plan is best in both, with 3.46 tokens/s at 12.0 seconds until a block is done.',
    );
    expect(page).toContain('Throughput by batch size: nothing fits, of what was tried.');
    expect(draw(page, 1000).map(({ title }) => title)).not.toContain('Latency and throughput');
  });
});
