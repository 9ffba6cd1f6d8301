import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { Engine, MemoryBudget, MemoryBudgetError, UsageError } from '../../src/index.js';
import { collect, model } from './support.js';

const MIB = 2 ** 20;
const options = { model: model('llama-Q4_1.gguf'), policy: 'default', batchSize: 8 } as const;
const rows = [{ tokens: [1, 2, 3], maxNewTokens: 8 }];
/**
 * The process is taken to hold so much, always: what other suites have left in it, and garbage, grows and shrinks as it
 * likes. Its heap counts as it is, and is less in any process of tests. The next start is taken to hold 16 MiB more.
 */
const HELD = 4 * 2 ** 30 - 16 * MIB;
/** So much, and any engine alone. */
const ROOM = 2 * HELD;

/** All that engines have reserved of a budget is resident. */
const holding = (budget?: MemoryBudget): void => {
  jest.spyOn(process.memoryUsage, 'rss').mockImplementation(() => HELD + (budget?.reservedBytes ?? 0));
};

beforeEach(() => {
  holding();
});
afterEach(() => {
  jest.restoreAllMocks();
});

async function refusal(opening: Promise<Engine>): Promise<MemoryBudgetError> {
  const error: unknown = await opening.then(
    (engine) => engine.close(),
    (reason: unknown) => reason,
  );
  if (!(error instanceof MemoryBudgetError)) throw new Error(`expected a MemoryBudgetError, found ${String(error)}`);
  return error;
}

describe('engines that share a budget', () => {
  test('each holds what it has reserved, until it is closed or could not be opened', async () => {
    const memoryBudget = new MemoryBudget(ROOM);
    holding(memoryBudget);
    await using first = await Engine.open({ ...options, memoryBudget });
    const one = memoryBudget.reservedBytes;
    expect(one).toBeGreaterThan(MIB);
    const second = await Engine.open({ ...options, memoryBudget });
    expect(memoryBudget.reservedBytes).toBe(2 * one);
    await expect(
      Engine.open({
        ...options,
        memoryBudget,
        onLoad: () => {
          throw new Error('a callback');
        },
      }),
    ).rejects.toThrow('a callback');
    expect(memoryBudget.reservedBytes).toBe(2 * one);
    const [alone, beside] = await Promise.all([collect(first.generate(rows)), collect(second.generate(rows))]);
    expect(beside).toEqual(alone);
    await second.close();
    await second.close();
    expect(memoryBudget.reservedBytes).toBe(one);
  });

  test('one that does not fit beside the others is refused by number, and fits into that number', async () => {
    const least = (await refusal(Engine.open({ ...options, cpuMemory: 1 }))).neededBytes;
    /** Engines of one size, until no other one fits. */
    const fill = async (memoryBudget: MemoryBudget, most: number): Promise<{ count: number; error?: unknown }> => {
      holding(memoryBudget);
      const engines: Engine[] = [];
      try {
        while (engines.length < most)
          engines.push(await Engine.open({ ...options, memoryBudget, cpuMemory: least + 8 * MIB }));
        return { count: engines.length };
      } catch (error) {
        expect(error).toMatchObject({ othersBytes: memoryBudget.reservedBytes });
        return { count: engines.length, error };
      } finally {
        await Promise.all(engines.map((engine) => engine.close()));
      }
    };
    const bytes = least + 64 * MIB;
    const { count, error } = await fill(new MemoryBudget(bytes), 100);
    if (!(error instanceof MemoryBudgetError)) throw error;
    expect(error).toMatchObject({ tier: 'cpu', availableBytes: bytes });
    expect(error.message).toContain('of memoryBudget others hold');
    expect(error.neededBytes).toBeGreaterThan(bytes);
    expect((await fill(new MemoryBudget(error.neededBytes), count + 1)).count).toBe(count + 1);
  });

  test('of many that are opened at once none gets what another has', async () => {
    const least = (await refusal(Engine.open({ ...options, cpuMemory: 1 }))).neededBytes;
    const memoryBudget = new MemoryBudget(least + 64 * MIB);
    holding(memoryBudget);
    const opened = await Promise.allSettled(
      Array.from({ length: 60 }, () => Engine.open({ ...options, memoryBudget })),
    );
    const engines = opened.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
    const reserved = memoryBudget.reservedBytes;
    await Promise.all(engines.map((engine) => engine.close()));
    expect(engines.length).toBeGreaterThan(1);
    expect(engines.length).toBeLessThan(60);
    for (const each of opened) if (each.status === 'rejected') expect(each.reason).toBeInstanceOf(MemoryBudgetError);
    expect(reserved).toBeLessThan(memoryBudget.bytes - HELD);
    expect(memoryBudget.reservedBytes).toBe(0);
  });

  test('what another process may take counts, and is none of what this one holds', async () => {
    const needed = async (reserve: (budget: MemoryBudget) => void): Promise<number> => {
      const memoryBudget = new MemoryBudget(HELD + 1);
      reserve(memoryBudget);
      return (await refusal(Engine.open({ ...options, memoryBudget }))).neededBytes;
    };
    const alone = await needed(() => undefined);
    expect(await needed((budget) => budget.reserve(512 * MIB, 'elsewhere'))).toBe(alone + 512 * MIB);
    const memoryBudget = new MemoryBudget(ROOM);
    const giveBack = memoryBudget.reserve(7, 'elsewhere');
    memoryBudget.reserve(5);
    expect([memoryBudget.reservedBytes, memoryBudget.reservedHereBytes]).toEqual([12, 5]);
    giveBack();
    giveBack();
    expect([memoryBudget.reservedBytes, memoryBudget.reservedHereBytes]).toEqual([5, 5]);
  });

  test('its own cap is refused as ever', async () => {
    const error = await refusal(Engine.open({ ...options, memoryBudget: new MemoryBudget(ROOM), cpuMemory: 1 }));
    expect(error).toMatchObject({ availableBytes: 1, othersBytes: 0 });
  });

  test.each<[() => unknown, string]>([
    [() => new MemoryBudget('plenty'), 'MemoryBudget: found "plenty"'],
    [
      () => Engine.open({ ...options, memoryBudget: '1GiB' as unknown as MemoryBudget }),
      'memoryBudget: found "1GiB", expected a MemoryBudget',
    ],
  ])('what is none is refused: %s', async (make, words) => {
    const error: unknown = await Promise.resolve()
      .then(make)
      .catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(UsageError);
    expect((error as Error).message).toContain(words);
  });
});
