import { createContext, runInContext } from 'node:vm';

/** What a page gives uPlot. */
export interface Drawn {
  readonly title: string;
  readonly width: number;
  readonly axes: readonly {
    readonly stroke: string;
    readonly values: (plot: unknown, values: readonly (number | null)[]) => readonly string[];
  }[];
  readonly data: readonly (readonly unknown[])[];
}

/** Runs the page's own script in a window of a width, without a browser: what it would draw. */
export function drawnBy(page: string, width: number): Drawn[] {
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
