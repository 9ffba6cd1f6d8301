import { describe, expect, test } from '@jest/globals';
import { Disturbance, type BusyClocks } from '../../src/profile/disturbance.js';

/** Two looks at a machine of two processors, ten seconds apart; figures in ticks of a hundredth, stalls in seconds. */
function between(
  { others = 0, own = 20, stolen = 0, waiting = 0 }: Partial<Record<'others' | 'own' | 'stolen' | 'waiting', number>>,
  pressure = true,
): string | undefined {
  let after = false;
  const clocks: BusyClocks = {
    now: () => (after ? 10 : 0),
    used: () => (after ? own : 0),
    read: (path) => {
      if (path === '/proc/stat') {
        const [busy, stole] = after ? [(others + own) * 100, stolen * 100] : [0, 0];
        return `cpu  ${5000 + busy} 0 0 ${after ? 9000 + 2000 - busy - stole : 9000} 0 0 0 ${stole} 0 0\n`;
      }
      if (!pressure) throw new Error('ENOENT');
      return `some avg10=0 avg60=0 avg300=0 total=${after ? waiting * 1e6 : 0}\nfull avg10=0 total=0\n`;
    },
  };
  const disturbance = new Disturbance(clocks);
  after = true;
  return disturbance.words({ 'cpu.a': 0.02, 'cpu.b': 0.4 });
}

describe('a machine that was measured', () => {
  test('in peace, alone or beside others who left it what it needs', () => {
    expect(between({ own: 20 })).toBeUndefined();
    expect(between({ own: 2, others: 1 })).toBeUndefined();
    expect(between({ own: 8, others: 8, waiting: 0.1 })).toBeUndefined();
  });

  test.each([
    [{ own: 10, others: 8, waiting: 9 }, true, 'other programs had 40% of the processors'],
    [{ own: 10, others: 8 }, false, 'other programs had 40% of the processors'],
    [{ own: 10, stolen: 4 }, true, 'the owner of this virtual machine took 20% of them away'],
  ])('beside others: %j', (figures, pressure, words) => {
    expect(between(figures, pressure)).toBe(words);
  });

  test('and varied; where the system tells nothing, that is what is known', () => {
    const blind = new Disturbance({
      now: () => 0,
      used: () => 0,
      read: () => {
        throw new Error('ENOENT');
      },
    });
    expect(blind.words({ a: 0.1, b: 2.96 })).toBe('1 of 2 figures vary by more than ±50%, up to ±296%');
    expect(blind.words({ a: 0.1 })).toBeUndefined();
  });
});
