import { describe, expect, test } from '@jest/globals';
import { TaskError } from '../../src/errors/engineErrors.js';
import { InterruptedError } from '../../src/errors/InterruptedError.js';
import { MemoryBudgetError } from '../../src/errors/MemoryBudgetError.js';
import { Models } from '../../src/serve/models/Models.js';
import type { ServedModel } from '../../src/serve/ServeOptions.js';
import { StubEngine } from './support/StubEngine.js';

const never = new AbortController().signal;
const turn = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 2));

/** Models of which so many have room at once. */
function modelsOf(
  names: readonly string[],
  room: number,
): { models: Models; all: readonly ServedModel[]; opened: string[] } {
  const opened: string[] = [];
  let held = 0;
  const all = names.map((name) => ({
    name,
    open: async () => {
      if (held >= room) throw new MemoryBudgetError('cpu', 1, 2, 'the model');
      held += 1;
      opened.push(name);
      const engine = new StubEngine();
      engine.close = async () => {
        held -= 1;
      };
      return engine;
    },
  }));
  return { models: new Models(all), all, opened };
}

describe('models of a server', () => {
  test('as many are in memory as fit', async () => {
    const {
      models,
      all: [a, b],
    } = modelsOf(['a', 'b'], 2);
    const leases = await Promise.all([models.lease(a as ServedModel, never), models.lease(b as ServedModel, never)]);
    expect(models.open).toEqual(['a', 'b']);
    for (const lease of leases) lease.release();
    expect(models.open).toEqual(['a', 'b']);
    await models.close();
    expect(models.open).toEqual([]);
  });

  test('one makes room for another when its requests have ended; whoever asks for it then comes after that one', async () => {
    const {
      models,
      all: [a, b],
      opened,
    } = modelsOf(['a', 'b'], 1);
    const first = await models.lease(a as ServedModel, never);
    const order: string[] = [];
    const second = models.lease(b as ServedModel, never).then((lease) => {
      order.push('b');
      return lease;
    });
    await turn();
    expect(first.yielding.aborted).toBe(true);
    const third = models.lease(a as ServedModel, never).then((lease) => {
      order.push('a');
      return lease;
    });
    await turn();
    expect(order).toEqual([]);
    first.release();
    (await second).release();
    (await third).release();
    expect(order).toEqual(['b', 'a']);
    expect(opened).toEqual(['a', 'b', 'a']);
  });

  test('a batch waits until nobody uses a model that would have to make room, without trying again and again', async () => {
    const {
      models,
      all: [a, b],
    } = modelsOf(['a', 'b'], 1);
    let tries = 0;
    const { open } = b as ServedModel;
    (b as { open: ServedModel['open'] }).open = (signal) => {
      tries += 1;
      return open(signal);
    };
    const using = await models.lease(a as ServedModel, never);
    let has = false;
    const batch = models.lease(b as ServedModel, never, true).then((lease) => {
      has = true;
      return lease;
    });
    for (let at = 0; at < 5; at++) (await models.lease(a as ServedModel, never)).release();
    await turn();
    expect([has, using.yielding.aborted, tries]).toEqual([false, false, 1]);
    using.release();
    await batch;
    expect([models.open, tries]).toEqual([['b'], 2]);
  });

  test('one that has failed is opened anew; one that cannot be opened is an error for those who wait', async () => {
    const {
      models,
      all: [a],
      opened,
    } = modelsOf(['a'], 1);
    const lease = await models.lease(a as ServedModel, never);
    lease.release(new TaskError('compute', 'the device is gone'));
    (await models.lease(a as ServedModel, never)).release();
    expect(opened).toEqual(['a', 'a']);
    const broken = { name: 'broken', open: () => Promise.reject(new MemoryBudgetError('cpu', 1, 2, 'the model')) };
    const alone = new Models([broken]);
    await expect(alone.lease(broken, never)).rejects.toThrow(/does not fit/);
  });

  test('who gives up waits no longer, and nobody does when the server ends', async () => {
    const {
      models,
      all: [a, b],
    } = modelsOf(['a', 'b'], 1);
    await models.lease(a as ServedModel, never);
    const giving = new AbortController();
    const given = models.lease(b as ServedModel, giving.signal);
    giving.abort();
    await expect(given).rejects.toThrow();
    const waiting = models.lease(b as ServedModel, never);
    models.end();
    await expect(waiting).rejects.toThrow(InterruptedError);
  });

  test('names and other names', () => {
    const [first, second] = [
      { name: 'a', aliases: ['/x/a.gguf'], open: () => Promise.reject(new Error()) },
      { name: 'b', open: () => Promise.reject(new Error()) },
    ];
    expect(new Models([first]).find(undefined)).toBe(first);
    const both = new Models([first, second]);
    expect(both.find(undefined)).toBeUndefined();
    expect(both.find('/x/a.gguf')).toBe(first);
    expect(both.find('c')).toBeUndefined();
  });
});
