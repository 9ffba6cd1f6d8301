import { describe, expect, test } from '@jest/globals';
import { from } from 'rxjs';
import type { Device } from '../../src/engine/grid/Device.js';
import { ALL_ON_CPU } from '../../src/engine/memory/movement.js';
import { compute } from '../../src/operators/compute.js';
import { overriding } from '../support/overriding.js';
import { describeStage, square, stageBench } from './support.js';

describeStage('compute', (run) => compute(run));

describe('compute', () => {
  test('embeds first, samples last, and every part waits for the one before it, layer after layer', () => {
    const bench = stageBench(ALL_ON_CPU);
    from([square(0, 0), square(0, 1), square(0, 2), square(1, 0)])
      .pipe(compute(bench))
      .subscribe();
    const parts = [
      'compute.embed 0 0 0',
      'compute.project 0 0 0',
      'compute.attend 0 0 0',
      'compute.finish 0 0 0',
      'compute.project 0 1 0',
      'compute.attend 0 1 0',
      'compute.finish 0 1 0',
      'compute.project 0 2 0',
      'compute.attend 0 2 0',
      'compute.finish 0 2 0',
      'compute.head 0 2 0',
      'compute.embed 1 0 0',
      'compute.project 1 0 0',
      'compute.attend 1 0 0',
      'compute.finish 1 0 0',
    ];
    expect(bench.issued).toEqual(parts.map((task, i) => ({ task, after: i === 0 ? [] : [parts[i - 1]] })));
  });

  test('slots do not wait for each other', () => {
    const bench = stageBench(ALL_ON_CPU);
    from([square(0, 1, 0), square(0, 1, 1)])
      .pipe(compute(bench))
      .subscribe();
    expect(bench.issued.find(({ task }) => task === 'compute.project 0 1 1')?.after).toEqual([]);
  });

  test('a layer is one task where the device joins its parts', () => {
    const bench = stageBench(ALL_ON_CPU);
    from([square(0, 0), square(0, 1), square(0, 2)])
      .pipe(compute({ ...bench, device: overriding<Device>(bench.device, { joinsParts: true }) }))
      .subscribe();
    const parts = ['embed 0 0 0', 'layer 0 0 0', 'layer 0 1 0', 'layer 0 2 0', 'head 0 2 0'].map(
      (part) => `compute.${part}`,
    );
    expect(bench.issued).toEqual(parts.map((task, i) => ({ task, after: i === 0 ? [] : [parts[i - 1]] })));
  });

  test('a model of one layer embeds and samples in the same square', () => {
    const bench = stageBench(ALL_ON_CPU, {}, 1);
    from([square(0, 0)])
      .pipe(compute(bench))
      .subscribe();
    expect(bench.issued.map(({ task }) => task)).toEqual(
      ['embed', 'project', 'attend', 'finish', 'head'].map((part) => `compute.${part} 0 0 0`),
    );
  });
});
