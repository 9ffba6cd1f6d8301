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
  // As in a grid of two columns: a box that is alone is as wide as both.
  let boxes = 0;
  const element = (): object => ({
    get clientWidth() {
      return boxes === 1 ? 2 * width : width;
    },
    textContent: '',
    setAttribute: () => undefined,
    appendChild: (child: object) => {
      boxes += 1;
      return child;
    },
  });
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
