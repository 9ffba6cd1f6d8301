import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Where Linux shows what processors count of their own energy (RAPL, of Intel and AMD). */
const FOLDER = '/sys/class/powercap';
/** A package, or each die of one that has several. */
const PACKAGE = /^package-\d+(-die-\d+)?$/;
/** Its memory. Others are parts of a package, or the whole board with these in it. */
const MEMORY = 'dram';
const MICROJOULES = 1e6;
/** A counter of 262 kJ, the usual one, begins anew after so long at 8 kW. */
const LOOK_MILLISECONDS = 30_000;

interface Counter {
  readonly path: string;
  /** From here on it begins at 0 again. */
  readonly range: number;
  last: number;
}

/** Energy that processors and their memory have drawn, added up over the beginnings of their counters. */
export class EnergyCounters {
  private microjoules = 0;

  private constructor(private readonly counters: readonly Counter[]) {}

  /** @returns undefined where the system has no counters, or does not let this process read all of them */
  static open(folder = FOLDER): EnergyCounters | undefined {
    try {
      const zones = readdirSync(folder)
        .filter((zone) => zone.startsWith('intel-rapl:'))
        .map((zone) => ({ zone, name: text(join(folder, zone, 'name')) }));
      if (!zones.some(({ name }) => PACKAGE.test(name))) return undefined;
      const counters = zones
        .filter(({ name }) => PACKAGE.test(name) || name === MEMORY)
        .map(({ zone }): Counter => {
          const path = join(folder, zone, 'energy_uj');
          return { path, range: number(join(folder, zone, 'max_energy_range_uj')), last: number(path) };
        });
      return new EnergyCounters(counters);
    } catch {
      return undefined;
    }
  }

  /** Joules since it was opened: to be asked often enough that no counter goes round twice in between. */
  joules(): number {
    for (const counter of this.counters) {
      let now: number;
      try {
        now = number(counter.path);
      } catch {
        // Gone for the moment: the next look has it.
        continue;
      }
      this.microjoules += now >= counter.last ? now - counter.last : now + counter.range - counter.last;
      counter.last = now;
    }
    return this.microjoules / MICROJOULES;
  }
}

let opened: { readonly counters: EnergyCounters | undefined } | undefined;

/** Joules that this machine has drawn since some time before; undefined where that is not known. */
export function joulesDrawn(): number | undefined {
  if (!opened) {
    const counters = EnergyCounters.open();
    opened = { counters };
    if (counters) setInterval(() => counters.joules(), LOOK_MILLISECONDS).unref();
  }
  return opened.counters?.joules();
}

function text(path: string): string {
  return readFileSync(path, 'utf8').trim();
}

/** @throws RangeError for a file that holds something else */
function number(path: string): number {
  const value = Number(text(path));
  if (!Number.isFinite(value) || value < 0) throw new RangeError(`${path} holds no number`);
  return value;
}
