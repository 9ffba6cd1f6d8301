import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { PagePool, type PageReservation } from '../../../src/engine/memory/PagePool.js';

describe('PagePool', () => {
  test('gives each page to one holder, never more than there are, and takes them back once', () => {
    fc.assert(
      fc.property(fc.array(fc.oneof(fc.record({ take: fc.integer({ min: 1, max: 6 }) }), fc.record({ give: fc.nat(20), twice: fc.boolean() }))), (commands) => {
        const pool = new PagePool(10, 4);
        const held: PageReservation[] = [];
        let peak = 0;
        for (const command of commands) {
          if ('take' in command) {
            const used = held.reduce((sum, { pages }) => sum + pages.length, 0);
            expect(pool.canReserve(command.take)).toBe(used + command.take <= 10);
            if (pool.canReserve(command.take)) held.push(pool.reserve(command.take));
            else expect(() => pool.reserve(command.take)).toThrow(RangeError);
          } else if (held.length > 0) {
            const [reservation] = held.splice(command.give % held.length, 1);
            reservation?.release();
            if (command.twice) reservation?.release();
          }
          const pages = held.flatMap((reservation) => reservation.pages);
          expect(new Set(pages).size).toBe(pages.length);
          expect(pages.every((page) => page >= 0 && page < 10)).toBe(true);
          expect(pool.used).toBe(pages.length);
          peak = Math.max(peak, pages.length);
          expect(pool.peakUsed).toBe(peak);
        }
      }),
    );
  });

  test('takes freed pages again before it touches new ones', () => {
    const pool = new PagePool(100, 4);
    const first = pool.reserve(3);
    first.release();
    expect([...pool.reserve(3).pages].sort()).toEqual([0, 1, 2]);
  });

  test('says when pages were released', () => {
    const pool = new PagePool(2, 4);
    const reservation = pool.reserve(2);
    let released = 0;
    pool.released$.subscribe(() => released++);
    reservation.release();
    reservation.release();
    expect(released).toBe(1);
  });

  test.each([[1, 1], [4, 1], [5, 2], [8, 2]])('%i tokens need %i pages of 4', (tokens, pages) => {
    expect(new PagePool(9, 4).pagesFor(tokens)).toBe(pages);
  });
});
