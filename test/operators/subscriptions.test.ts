import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { from } from 'rxjs';
import type { IssuedSquare } from '../../src/engine/execution/IssuedSquare.js';
import { randomPipeline } from '../support/randomPipeline.js';
import { SPREAD, square, stageBench } from './support.js';

test('stages that are composed once do the same for every subscription', () => {
  fc.assert(
    fc.property(
      fc.nat(),
      fc.record({ weights: fc.nat(2), cache: fc.nat(2), activations: fc.nat(2) }),
      fc.array(fc.record({ layer: fc.nat(2), slot: fc.nat(1) }), { minLength: 1, maxLength: 6 }),
      (seed, aheads, places) => {
        const bench = stageBench(SPREAD);
        const stages = randomPipeline(seed, aheads)(bench);
        const issuedOnce = (): unknown[] => {
          const before = bench.issued.length;
          from(places.map(({ layer, slot }, pass): IssuedSquare => square(pass, layer, slot)))
            .pipe(stages)
            .subscribe();
          // What a slot's last stores were is the run's to know, not the stages'.
          return bench.issued.slice(before).map(({ task, after }) => ({
            task,
            after: [...new Set(after.filter((each) => !each.startsWith('store_')))].sort(),
          }));
        };
        const first = issuedOnce();
        expect(issuedOnce()).toEqual(first);
      },
    ),
    { numRuns: 200 },
  );
});
