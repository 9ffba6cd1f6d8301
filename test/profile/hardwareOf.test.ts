import { describe, expect, test } from '@jest/globals';
import type { MachineFigure, MachineFigures } from '../../src/bindings/Profile.js';
import { parseHardware } from '../../src/plan/HardwareProfile.js';
import { matmulFlopsPerSecond } from '../../src/plan/model/computeSeconds.js';
import { hardwareOf } from '../../src/profile/hardwareOf.js';
import { figure } from './support.js';

const MACHINE = { processorName: 'AMD EPYC', processors: 4, memoryBytes: 2 ** 33, instructionSet: 'avx2' };
const MEMORY = { gpuBytes: 0, cpuBytes: 2 ** 32, diskBytes: 1e11 };

/** All that the addon measures, with four threads, one, and one other instruction set. */
function figures(): MachineFigures {
  const settings = [
    { instructionSet: 'avx2', threads: 4 },
    { instructionSet: 'avx2', threads: 1 },
    { instructionSet: 'scalar', threads: 4 },
  ];
  return {
    leftOut: [],
    figures: [
      figure('memory-read', 3e10, { threads: 4 }),
      figure('memory-read', 1e10, { threads: 1 }),
      figure('memory-copy', 9e9, { threads: 4 }),
      ...settings.flatMap((setting, at) => [
        ...['q4', 'q8', 'f16', 'f32', 'q4_k', 'q6_k'].flatMap((kind, of) =>
          [1, 64].map((tokens) => figure('matmul', ((of + 1) * 1e9 * tokens) / (at + 1), { ...setting, kind, tokens })),
        ),
        figure('attention-prefill', 5e10 / (at + 1), { ...setting, kind: 'f16', tokens: 512, groupHeads: 4 }),
        ...['f16', 'q8', 'q4'].flatMap((kind, of) =>
          [1, 4].map((groupHeads) =>
            figure('attention-decode', ((of === 1 ? 5e9 : 1e10) * groupHeads) / (at + 1), {
              ...setting,
              kind,
              groupHeads,
            }),
          ),
        ),
      ]),
      figure('cache-store', 9e8, { kind: 'f16', threads: 4 }),
      figure('cache-store', 7e8, { kind: 'q8', threads: 4 }),
      figure('cache-store', 5e8, { kind: 'q4', threads: 4 }),
      figure('rows', 3e9, { threads: 4 }),
      figure('sample-greedy', 1e10, { threads: 4 }),
      figure('sample-top-p', 1e8, { threads: 4 }),
      figure('task', 2e5, { threads: 4 }),
      figure('disk-read', 2.5e9, { requestBytes: 2 ** 20, depth: 8 }),
      figure('disk-read', 1e9, { requestBytes: 2 ** 17, depth: 1 }),
      figure('disk-read-pages', 2e9, { requestBytes: 2 ** 16, depth: 8 }),
      figure('disk-read-blocks', 1e8, { requestBytes: 2 ** 10, depth: 8 }),
      figure('disk-write', 1.5e9, { requestBytes: 2 ** 20, depth: 8 }),
    ],
  };
}

/** All that it measures on a GPU. */
function gpuFigures(): MachineFigure[] {
  return [
    ...(['link-up', 'link-down'] as const).flatMap((what, at) => [
      figure(what, 4096 / (at === 0 ? 1e-5 : 5e-6), { requestBytes: 4096, depth: 1 }),
      ...[16, 20, 24].map((power, size) =>
        figure(what, ((at === 0 ? 2e10 : 1.8e10) / 2 ** (2 - size)) * (size === 0 ? 2 : 1), {
          requestBytes: 2 ** power,
          depth: 8,
        }),
      ),
    ]),
    figure('gpu-memory-copy', 6e11),
    ...['q4', 'q8', 'f16', 'f32'].flatMap((kind) =>
      [1, 64].flatMap((tokens) =>
        [4096, 576].map((inputs) => figure('gpu-matmul', tokens * 1e12, { kind, tokens, inputs })),
      ),
    ),
    ...['f16', 'q8', 'q4'].flatMap((kind) =>
      [1, 4].map((groupHeads) =>
        figure('gpu-attention-decode', kind === 'f16' ? 8e11 : 6e11, { kind, groupHeads, tokens: 512 }),
      ),
    ),
    figure('gpu-attention-short', 2e7, { kind: 'f16', groupHeads: 1, tokens: 32 }),
    figure('gpu-attention-prefill', 4e13, { kind: 'f16', groupHeads: 4, tokens: 512 }),
    figure('gpu-cache-store', 4e11, { kind: 'f16' }),
    figure('gpu-cache-store', 3e11, { kind: 'q8' }),
    figure('gpu-cache-store', 2e11, { kind: 'q4' }),
    figure('gpu-rows', 1e11),
    figure('gpu-sample-greedy', 5e10),
    figure('gpu-sample-top-p', 1e10),
    figure('gpu-task', 5e4),
  ];
}

describe('what was measured, as a hardware profile', () => {
  test('is a valid hardware file, and survives being one', () => {
    const profile = parseHardware(hardwareOf(figures(), MACHINE, MEMORY), 'measured');
    expect(parseHardware(JSON.parse(JSON.stringify(profile)), 'file')).toEqual(profile);
    expect(profile).toMatchObject({
      machine: MACHINE,
      memory: MEMORY,
      links: { diskReadBytesPerSecond: 2.5e9, diskWriteBytesPerSecond: 1.5e9 },
      cpu: {
        threads: 4,
        memoryBytesPerSecond: 3e10,
        memoryCopyBytesPerSecond: 9e9,
        quantiseValuesPerSecond: 5e8,
        rowOperationsPerSecond: 3e9,
        sampleLogitsPerSecond: 1e10,
        taskSeconds: 5e-6,
        attention: { prefillFlopsPerSecond: 5e10, decodeBytesPerSecond: 1e10 },
        oneThread: { threads: 1, instructionSet: 'avx2', attention: { prefillFlopsPerSecond: 2.5e10 } },
        otherInstructionSets: [{ threads: 4, instructionSet: 'scalar' }],
      },
      spread: { 'links.diskReadBytesPerSecond': 0.125, 'cpu.matmul.q4.64': 0.125, 'cpu.oneThread.matmul.f32.1': 0.125 },
    });
    expect(profile.cpu.matmul).toHaveLength(12);
    expect(profile.cpu.matmul).toContainEqual({ weights: 'q6_k', tokens: 64, flopsPerSecond: 3.84e11 });
    expect(profile.cpu.matmul).toContainEqual({ weights: 'q8', tokens: 64, flopsPerSecond: 1.28e11 });
    expect(profile.diskRequests).toContainEqual({
      operation: 'readPages',
      requestBytes: 2 ** 16,
      depth: 8,
      bytesPerSecond: 2e9,
    });
    expect(profile.diskRequests).toContainEqual({
      operation: 'readBlocks',
      requestBytes: 2 ** 10,
      depth: 8,
      bytesPerSecond: 1e8,
    });
  });

  test('one thread a core is a table of its own where that is fewer than all threads', () => {
    const two = figures()
      .figures.filter(({ threads, instructionSet }) => threads === 4 && instructionSet === 'avx2')
      .map((each) => ({ ...each, threads: 2, perSecond: each.perSecond * 1.25 }));
    const all = { figures: [...figures().figures, ...two], leftOut: [] };
    const of = (cores: number) => parseHardware(hardwareOf(all, MACHINE, MEMORY, cores), 'measured').cpu;
    const { oneThreadACore, oneThread } = of(2);
    expect(oneThreadACore).toMatchObject({ threads: 2, attention: { prefillFlopsPerSecond: 6.25e10 } });
    expect(oneThreadACore?.matmul).toContainEqual({ weights: 'q6_k', tokens: 64, flopsPerSecond: 4.8e11 });
    expect(of(4)).not.toHaveProperty('oneThreadACore');
    // Two threads of one core.
    expect(of(1).oneThreadACore).toEqual(oneThread);
  });

  test('products of short inputs are points of their own', () => {
    const short = figures()
      .figures.filter(({ what }) => what === 'matmul')
      .map((each) => ({ ...each, inputs: 576, perSecond: each.perSecond / 2 }));
    const long = figures().figures.map((each) => (each.what === 'matmul' ? { ...each, inputs: 4096 } : each));
    const profile = parseHardware(
      hardwareOf({ figures: [...long, ...short], leftOut: [] }, MACHINE, MEMORY),
      'measured',
    );
    expect(profile.cpu.matmul).toContainEqual({ weights: 'q8', tokens: 64, flopsPerSecond: 1.28e11 });
    expect(profile.cpu.matmul).toContainEqual({ weights: 'q8', tokens: 64, inputs: 576, flopsPerSecond: 6.4e10 });
    expect(profile.spread).toMatchObject({ 'cpu.matmul.q4.64': 0.125, 'cpu.matmul.q4.64.576': 0.125 });
    const speed = (inputs: number, tokens = 64): number =>
      matmulFlopsPerSecond(profile.cpu, 'q8', tokens, inputs) / 1e10;
    expect([speed(100), speed(576), speed(4096), speed(11_008)]).toEqual(
      [6.4, 6.4, 12.8, 12.8].map((rate) => expect.closeTo(rate)),
    );
    // Half way between, by the logarithms.
    expect(speed(Math.sqrt(576 * 4096))).toBeCloseTo(6.4 * Math.SQRT2);
  });

  test('what a row and head take in attention is what a short context takes beside its bytes', () => {
    const { figures: all } = figures();
    // 32 tokens of 512 bytes at 10 GB/s take 1.6384 us.
    const short = figure('attention-short', 1 / (1.6384e-6 + 0.5e-6), {
      instructionSet: 'avx2',
      threads: 4,
      tokens: 32,
      kind: 'f16',
      groupHeads: 1,
    });
    expect(
      hardwareOf({ figures: [...all, short], leftOut: [] }, MACHINE, MEMORY).cpu.attention.rowHeadsPerSecond,
    ).toBeCloseTo(2e6, -3);
    const fast = { ...short, perSecond: 1e9 };
    expect(hardwareOf({ figures: [...all, fast], leftOut: [] }, MACHINE, MEMORY).cpu.attention).not.toHaveProperty(
      'rowHeadsPerSecond',
    );
  });

  test('dequantising costs what attention over quantised caches takes longer, and next to nothing where it does not', () => {
    // 2 bytes a value: 0.4 ns at 5 GB/s against 0.2 ns at 10 GB/s.
    expect(hardwareOf(figures(), MACHINE, MEMORY).cpu.dequantiseValuesPerSecond).toBeCloseTo(5e9, -3);
    const fast = figures().figures.map((each) =>
      each.kind === 'q8' && each.what === 'attention-decode' ? { ...each, perSecond: 1e11 } : each,
    );
    expect(hardwareOf({ figures: fast, leftOut: [] }, MACHINE, MEMORY).cpu.dequantiseValuesPerSecond).toBe(1e15);
  });

  test('a disk that was left out has no room, no speed, and a reason', () => {
    const { figures: all } = figures();
    const profile = parseHardware(
      hardwareOf(
        {
          figures: all.filter(({ what }) => !what.startsWith('disk')),
          leftOut: [{ what: 'disk', reason: 'it is full' }],
        },
        MACHINE,
        MEMORY,
      ),
      'measured',
    );
    expect(profile).toMatchObject({ memory: { diskBytes: 0 }, links: {}, leftOut: { disk: 'it is full' } });
    expect(profile.diskRequests).toBeUndefined();
  });

  test('one thread alone has no second table', () => {
    const single = figures()
      .figures.filter(({ threads }) => threads <= 1)
      .concat(
        figures()
          .figures.filter(
            ({ threads, what }) =>
              threads === 4 && !['matmul', 'attention-decode', 'attention-prefill', 'memory-read'].includes(what),
          )
          .map((each) => ({ ...each, threads: 1 })),
      );
    const profile = parseHardware(hardwareOf({ figures: single, leftOut: [] }, MACHINE, MEMORY), 'measured');
    expect(profile.cpu).toMatchObject({ threads: 1, memoryBytesPerSecond: 1e10 });
    expect(profile.cpu.oneThread).toBeUndefined();
    expect(profile.cpu.otherInstructionSets).toBeUndefined();
  });

  test('a GPU is measured beside the processor, and changes none of its figures', () => {
    const plain = parseHardware(hardwareOf(figures(), MACHINE, MEMORY), 'measured');
    expect(plain).not.toHaveProperty('gpu');
    const on = { ...MACHINE, gpuName: 'A GPU', gpuMemoryBytes: 2 ** 34, gpuDriver: '12.4' };
    const memory = { ...MEMORY, gpuBytes: 2 ** 33 };
    const profile = parseHardware(
      hardwareOf({ figures: [...gpuFigures(), ...figures().figures], leftOut: [] }, on, memory),
      'measured',
    );
    expect(parseHardware(JSON.parse(JSON.stringify(profile)), 'file')).toEqual(profile);
    expect(profile).toMatchObject({
      machine: on,
      memory,
      cpu: plain.cpu,
      name: 'AMD EPYC, 4 threads, A GPU',
      links: {
        ...plain.links,
        hostToDeviceBytesPerSecond: 2e10,
        deviceToHostBytesPerSecond: 1.8e10,
        copySeconds: 1e-5,
      },
      gpu: {
        threads: 1,
        memoryBytesPerSecond: 1.2e12,
        memoryCopyBytesPerSecond: 6e11,
        quantiseValuesPerSecond: 2e11,
        dequantiseValuesPerSecond: 1e15,
        rowOperationsPerSecond: 1e11,
        sampleLogitsPerSecond: 5e10,
        sampleTopPLogitsPerSecond: 1e10,
        taskSeconds: 2e-5,
        attention: {
          prefillFlopsPerSecond: 4e13,
          decodeBytesPerSecond: 8e11,
          decode: expect.arrayContaining([{ cache: 'q4', groupHeads: 4, bytesPerSecond: 6e11 }]) as unknown,
        },
      },
      spread: {
        'gpu.matmul.q4.64': 0.125,
        'gpu.matmul.f32.1.576': 0.125,
        'links.hostToDeviceBytesPerSecond': 0.125,
        'gpu.taskSeconds': 0.125,
      },
    });
    // 32 tokens of 512 bytes at 800 GB/s are 20 ns, what a row and head take beside is 30.
    expect(profile.gpu?.attention.rowHeadsPerSecond).toBeCloseTo(1 / (5e-8 - 2.048e-8), -4);
    expect(profile.gpu?.matmul).toHaveLength(16);
    expect(profile.gpu).not.toHaveProperty('matmulCublasLt');
    const library = figure('gpu-matmul-cublaslt', 3e14, { kind: 'q8', tokens: 256 });
    const both = parseHardware(
      hardwareOf({ figures: [...gpuFigures(), ...figures().figures, library], leftOut: [] }, on, memory),
      'measured',
    );
    expect(both.gpu).toEqual({
      ...profile.gpu,
      matmulCublasLt: [{ weights: 'q8', tokens: 256, flopsPerSecond: 3e14 }],
    });
    expect(both.spread).toEqual({ ...profile.spread, 'gpu.matmulCublasLt.q8.256': 0.125 });
    expect(profile.linkCopies).toContainEqual({
      direction: 'toHost',
      copyBytes: 2 ** 16,
      depth: 8,
      bytesPerSecond: 9e9,
    });
    // What of it may be used is nothing without figures.
    expect(hardwareOf(figures(), on, memory).memory.gpuBytes).toBe(0);
  });

  test.each<[MachineFigure['what'], string]>([
    ['gpu-task', 'gpu.taskSeconds'],
    ['gpu-rows', 'gpu.rowOperationsPerSecond'],
    ['gpu-attention-prefill', 'gpu.attention.prefillFlopsPerSecond'],
    ['link-up', 'links.hostToDeviceBytesPerSecond'],
    ['gpu-memory-copy', 'gpu.memoryCopyBytesPerSecond'],
    ['gpu-cache-store', 'gpu.quantiseValuesPerSecond'],
  ])('without %s of a GPU it is an error that names it', (missing, path) => {
    const all = [...figures().figures, ...gpuFigures().filter(({ what }) => what !== missing)];
    expect(() => hardwareOf({ figures: all, leftOut: [] }, MACHINE, MEMORY)).toThrow(`the addon measured no ${path}`);
  });

  test.each([0, -1, NaN, Infinity])('a GPU that computes %s is refused', (perSecond) => {
    const all = [
      ...figures().figures,
      ...gpuFigures().map((each) => (each.what === 'gpu-rows' ? { ...each, perSecond } : each)),
    ];
    expect(() =>
      parseHardware(hardwareOf({ figures: all, leftOut: [] }, MACHINE, { ...MEMORY, gpuBytes: 1e9 }), 'measured'),
    ).toThrow('gpu.rowOperationsPerSecond');
  });

  test('a figure that is missing is an error that names it', () => {
    const without = figures().figures.filter(({ what }) => what !== 'task');
    expect(() => hardwareOf({ figures: without, leftOut: [] }, MACHINE, MEMORY)).toThrow(
      'the addon measured no cpu.taskSeconds',
    );
  });
});
