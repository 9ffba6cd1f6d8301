import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { parseHardware } from '../../../src/plan/HardwareProfile.js';
import { requireKnownShape } from '../../../src/plan/knownShapes.js';
import {
  decodeAttentionSeconds,
  finishSeconds,
  prefillAttentionSeconds,
  rateOnThreads,
  type ComputeSetting,
} from '../../../src/plan/model/computeSeconds.js';
import { choosePolicy } from '../../../src/plan/search/choosePolicy.js';
import { CPU_MACHINE } from '../support/hardware.js';

const shape = requireKnownShape('opt-1.3b');
const plain: ComputeSetting = {
  on: CPU_MACHINE.cpu,
  shape,
  compressWeights: 'none',
  compressCache: 'none',
  isCpu: false,
};
const decode = [
  { cache: 'f16' as const, groupHeads: 1, bytesPerSecond: 1e10 },
  { cache: 'f16' as const, groupHeads: 4, bytesPerSecond: 4e9 },
  { cache: 'q4' as const, groupHeads: 1, bytesPerSecond: 3e10 },
];
const { matmul, attention } = CPU_MACHINE.cpu;

/** The machine with tables: one thread is as fast as 0.8 of two. */
const tabled: ComputeSetting = {
  ...plain,
  on: {
    ...CPU_MACHINE.cpu,
    attention: { ...attention, decode },
    oneThread: {
      threads: 1,
      matmul: matmul.map((point) => ({ ...point, flopsPerSecond: 0.8 * point.flopsPerSecond })),
      attention: {
        prefillFlopsPerSecond: 0.8 * attention.prefillFlopsPerSecond,
        decodeBytesPerSecond: 0.8 * attention.decodeBytesPerSecond,
        decode: decode.map((point) => ({ ...point, bytesPerSecond: 0.8 * point.bytesPerSecond })),
      },
    },
  },
};

describe('speeds on fewer threads than were measured', () => {
  test('go from one thread to all, never the wrong way', () => {
    fc.assert(
      fc.property(
        fc.double({ min: 1e6, max: 1e15, noNaN: true }),
        fc.option(fc.double({ min: 1e6, max: 1e15, noNaN: true }), { nil: undefined }),
        fc.integer({ min: 2, max: 256 }),
        (all, one, measured) => {
          const rates = Array.from({ length: measured + 2 }, (_, at) => rateOnThreads(all, one, at + 1, measured));
          rates.forEach((rate, at) => expect(rate).toBeGreaterThanOrEqual((rates[at - 1] ?? 0) * (1 - 1e-12)));
          expect(rates.at(-1)).toBe(all);
          expect(rates[0]).toBeCloseTo(one === undefined ? all / measured : Math.min(one, all), -Math.log10(all) + 12);
        },
      ),
    );
  });

  test('are the measured ones where there are any, and else in proportion', () => {
    const terms = [
      (setting: ComputeSetting) => finishSeconds(setting, 8),
      (setting: ComputeSetting) => prefillAttentionSeconds(setting, 1000, 8),
    ];
    for (const term of terms) {
      expect(term({ ...tabled, threads: 2 })).toBe(term(plain));
      expect(term({ ...tabled, threads: 9 })).toBe(term(plain));
      const [one, half] = [term({ ...tabled, threads: 1 }), term({ ...plain, threads: 1 })];
      expect(one).toBeGreaterThan(term(plain));
      expect(one).toBeLessThan(half);
    }
    expect(prefillAttentionSeconds({ ...tabled, threads: 1 }, 1000, 8)).toBeCloseTo(
      prefillAttentionSeconds(plain, 1000, 8) / 0.8,
      9,
    );
  });
});

describe('speeds on one thread a core', () => {
  /** Four threads on two cores, where two are faster by a quarter. */
  const shared: ComputeSetting = {
    ...tabled,
    on: {
      ...tabled.on,
      threads: 4,
      oneThreadACore: {
        threads: 2,
        matmul: matmul.map((point) => ({ ...point, flopsPerSecond: 1.25 * point.flopsPerSecond })),
        attention: {
          prefillFlopsPerSecond: 1.25 * attention.prefillFlopsPerSecond,
          decodeBytesPerSecond: 1.25 * attention.decodeBytesPerSecond,
          decode: decode.map((point) => ({ ...point, bytesPerSecond: 1.25 * point.bytesPerSecond })),
        },
      },
    },
  };
  const terms = [
    (setting: ComputeSetting) => prefillAttentionSeconds(setting, 1000, 8),
    (setting: ComputeSetting) => decodeAttentionSeconds(setting, 1e6, 1),
  ];

  test('are the measured ones, whichever is faster, and joined between them and beyond', () => {
    for (const term of terms) {
      const [one, two, three, four, more] = [1, 2, 3, 4, 5].map((threads) => term({ ...shared, threads }));
      expect(four).toBe(term({ ...tabled, on: { ...tabled.on, threads: 4 } }));
      expect(two).toBeCloseTo((four ?? NaN) / 1.25, 9);
      expect(one).toBeCloseTo((four ?? NaN) / 0.8, 9);
      expect(three).toBeGreaterThan(two ?? NaN);
      expect(three).toBeLessThan(four ?? NaN);
      expect(more).toBe(four);
      expect(term(shared)).toBe(four);
    }
  });

  test('are of fewer threads than all, or the hardware file is refused', () => {
    for (const [threads, cores] of [
      [4, 4],
      [2, 8],
    ] as const) {
      const { oneThreadACore } = shared.on;
      const cpu = { ...CPU_MACHINE.cpu, threads, oneThreadACore: { ...oneThreadACore, threads: cores } };
      expect(() => parseHardware({ ...CPU_MACHINE, cpu }, 'mine.json')).toThrow(
        `cpu.oneThreadACore.threads: found ${cores}, expected fewer than cpu.threads, which are ${threads}`,
      );
    }
  });

  test('a search takes as many threads as are fastest, unless it is told', () => {
    const request = {
      hardware: { ...CPU_MACHINE, cpu: shared.on },
      shape,
      workload: { promptTokens: 64, newTokens: 16, rows: 32 },
    };
    const chosen = choosePolicy(request);
    const told = choosePolicy({ ...request, allow: { threads: 4 } });
    expect([chosen.policy.threads, told.policy.threads]).toEqual([2, 4]);
    expect(chosen.predicted.tokensPerSecond).toBeGreaterThan(1.1 * told.predicted.tokensPerSecond);
    const { oneThreadACore, ...without } = shared.on;
    if (!oneThreadACore) throw new Error('not measured');
    const slower = matmul.map((point) => ({ ...point, flopsPerSecond: 0.5 * point.flopsPerSecond }));
    for (const cpu of [without, { ...without, oneThreadACore: { ...oneThreadACore, matmul: slower } }])
      expect(choosePolicy({ ...request, hardware: { ...CPU_MACHINE, cpu } }).policy.threads).toBeUndefined();
  });
});

describe('attention of single tokens by kind of cache', () => {
  const seconds = (more: Partial<ComputeSetting>): number => decodeAttentionSeconds({ ...tabled, ...more }, 1e6, 1);
  const bytes = 1e6 * 2 * shape.kvHeads * shape.headDim * 2;

  test('takes the measured kind, with what dequantising costs in it', () => {
    expect(seconds({})).toBeCloseTo(bytes / 1e10, 9);
    expect(seconds({ compressCache: '4bit' })).toBeCloseTo(bytes / 3e10, 9);
    expect(seconds({ compressCache: '4bit', threads: 1 })).toBeCloseTo(bytes / 2.4e10, 9);
    // 8 bits were not measured: reading, and making floats of it.
    expect(seconds({ compressCache: '8bit' })).toBeCloseTo(
      bytes / 1e10 + bytes / 2 / CPU_MACHINE.cpu.dequantiseValuesPerSecond,
      9,
    );
  });

  test('is joined between the numbers of query heads a head, and stays beyond them', () => {
    const grouped = (group: number): number => {
      const wide = { ...shape, heads: shape.kvHeads * group };
      return bytes / seconds({ shape: wide });
    };
    expect(grouped(2)).toBeCloseTo(Math.sqrt(1e10 * 4e9), -2);
    expect(grouped(4)).toBeCloseTo(4e9, -2);
    expect(grouped(8)).toBeCloseTo(4e9, -2);
  });
});
