/** Names and values of what a series is counted apart by. */
export type Labels = Readonly<Record<string, string>>;

/** One value, or several by what they are counted apart by. */
export type ReadValues = () => number | readonly (readonly [labels: Labels, value: number])[];

/** A metric, in Prometheus' text format. */
interface Metric {
  readonly name: string;
  readonly help: string;
  readonly type: 'counter' | 'gauge' | 'histogram';
  samples(): Iterable<string>;
}

/** The most series of one metric: what labels say may come from strangers. Those beyond are counted as `other`. */
const MOST_SERIES = 1000;

/** Counts and figures of a process, as Prometheus reads them. */
export class Registry {
  readonly #metrics: Metric[] = [];

  /** Adds a metric that only grows. @param read asked whenever it is looked at, in the place of what was added */
  counter(name: string, help: string, read?: ReadValues): Series {
    return this.#add(new Series(name, help, 'counter', read));
  }

  /** Adds a metric that goes up and down. @param read asked whenever it is looked at, in the place of what was set */
  gauge(name: string, help: string, read?: ReadValues): Series {
    return this.#add(new Series(name, help, 'gauge', read));
  }

  /** How often values came up to each of these bounds. @param bounds in rising order */
  histogram(name: string, help: string, bounds: readonly number[]): Histogram {
    return this.#add(new Histogram(name, help, bounds));
  }

  /** Prometheus' text format, version 0.0.4. */
  text(): string {
    return this.#metrics
      .map((metric) => {
        const { name, help, type } = metric;
        return [`# HELP ${name} ${escaped(help)}`, `# TYPE ${name} ${type}`, ...metric.samples()].join('\n');
      })
      .join('\n')
      .concat('\n');
  }

  #add<Kind extends Metric>(metric: Kind): Kind {
    this.#metrics.push(metric);
    return metric;
  }
}

/** The values of a counter or gauge, by labels. */
export class Series implements Metric {
  readonly #values = new Map<string, number>();

  constructor(
    readonly name: string,
    readonly help: string,
    readonly type: 'counter' | 'gauge',
    private readonly read?: ReadValues,
  ) {}

  add(amount = 1, labels: Labels = {}): void {
    const key = this.#key(labels);
    this.#values.set(key, (this.#values.get(key) ?? 0) + amount);
  }

  set(value: number, labels: Labels = {}): void {
    this.#values.set(this.#key(labels), value);
  }

  *samples(): Iterable<string> {
    const now = this.read?.();
    if (typeof now === 'number') yield `${this.name} ${numberText(now)}`;
    else if (now) for (const [labels, value] of now) yield `${this.name}${labelText(labels)} ${numberText(value)}`;
    else if (this.#values.size === 0) yield `${this.name} 0`;
    else for (const [labels, value] of this.#values) yield `${this.name}${labels} ${numberText(value)}`;
  }

  #key(labels: Labels): string {
    const key = labelText(labels);
    if (this.#values.has(key) || this.#values.size < MOST_SERIES) return key;
    return labelText(Object.fromEntries(Object.keys(labels).map((name) => [name, 'other'])));
  }
}

/** How values are spread. */
export class Histogram implements Metric {
  readonly type = 'histogram';
  readonly #counts: number[];
  #sum = 0;
  #count = 0;

  constructor(
    readonly name: string,
    readonly help: string,
    private readonly bounds: readonly number[],
  ) {
    this.#counts = bounds.map(() => 0);
  }

  observe(value: number): void {
    this.#sum += value;
    this.#count += 1;
    const at = this.bounds.findIndex((bound) => value <= bound);
    if (at >= 0) this.#counts[at] = (this.#counts[at] ?? 0) + 1;
  }

  *samples(): Iterable<string> {
    let upTo = 0;
    for (const [at, bound] of this.bounds.entries()) {
      upTo += this.#counts[at] ?? 0;
      yield `${this.name}_bucket{le="${bound}"} ${upTo}`;
    }
    yield `${this.name}_bucket{le="+Inf"} ${this.#count}`;
    yield `${this.name}_sum ${numberText(this.#sum)}`;
    yield `${this.name}_count ${this.#count}`;
  }
}

function labelText(labels: Labels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escaped(value).replaceAll('"', '\\"')}"`);
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`;
}

function escaped(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
}

function numberText(value: number): string {
  return value === Infinity ? '+Inf' : value === -Infinity ? '-Inf' : String(value);
}
