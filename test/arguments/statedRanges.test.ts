import { describe, expect, test } from '@jest/globals';
import type { Option } from 'commander';
import { checkNumber } from '../../src/arguments/checks.js';
import type { CommandContext } from '../../src/cli/CommandContext.js';
import { createProgram } from '../../src/cli/program.js';
import { checkEngineOptions } from '../../src/engine/open/validateOptions.js';
import { checkProfileOptions } from '../../src/profile/profileMachine.js';
import { checkRunOptions } from '../../src/engine/rows/checkRunOptions.js';
import { prepareRow as prepareRowInParts } from '../../src/engine/rows/prepareRow.js';
import { drained } from '../../src/collections/drained.js';
import { parsePolicy } from '../../src/plan/Policy.js';
import { NUMBERS } from '../../src/rows/rowFields.js';
import { activationLink } from '../../src/index.js';
import { statedRange } from '../support/statedRange.js';
import { letterTokenizer } from '../support/wordTokenizer.js';

const prepareRow = (...given: Parameters<typeof prepareRowInParts>) => drained(prepareRowInParts(...given));

/** From far below every bound to far above, next to the usual ones, and what is no number. */
const PROBES = [
  -Infinity,
  -1e300,
  -(2 ** 53),
  -5,
  -1,
  -0.5,
  0,
  1e-9,
  0.5,
  1,
  1.0000001,
  1.5,
  2,
  100,
  101,
  256,
  257,
  1024,
  1025,
  4096,
  4097,
  65_536,
  65_537,
  86_400,
  86_401,
  1e6,
  1e6 + 1,
  2 ** 26,
  2 ** 26 + 1,
  2 ** 31 - 1,
  2 ** 31,
  2 ** 32,
  2 ** 53 - 1,
  2 ** 53,
  1e30,
  1e300,
  Infinity,
  NaN,
];

/**
 * Each refusal says what was expected so that the number found is outside of it, and each number that is taken is
 * within what all refusals say.
 */
function expectStated(name: string, take: (value: number) => void, probes: readonly number[] = PROBES): void {
  const taken: number[] = [];
  const refusals: { readonly value: number; readonly message: string }[] = [];
  for (const value of probes) {
    try {
      take(value);
      taken.push(value);
    } catch (error) {
      refusals.push({ value, message: (error as Error).message });
    }
  }
  expect(refusals.length).toBeGreaterThan(0);
  for (const { value, message } of refusals) {
    expect({ name, message, holds: statedRange(message).holds(value) }).toEqual({ name, message, holds: false });
    for (const right of taken)
      expect({ name, message, right, holds: statedRange(message).holds(right) }).toEqual({
        name,
        message,
        right,
        holds: true,
      });
  }
}

describe('every bound that a message names is the one that was violated', () => {
  test('of this very check: a message with the wrong end fails it', () => {
    const wrong = (value: number): void => {
      if (!(value >= 0 && value <= 1e6)) throw new Error('found, expected a number of at least 0');
    };
    expect(() => {
      expectStated('wrong', wrong);
    }).toThrow();
    expectStated('right', (value) => {
      checkNumber('right', value, { least: 0, most: 1e6 });
    });
  });

  const tokenizer = letterTokenizer();
  const limits = { contextTokens: 128, vocabularySize: 256 };
  test.each(NUMBERS)('a row: %s', (name) => {
    expectStated(name, (value) => prepareRow({ tokens: [1], [name]: value }, {}, tokenizer, limits));
  });

  test.each([...NUMBERS, 'window', 'logprobs'])('a run: %s', (name) => {
    expectStated(name, (value) => {
      checkRunOptions({ [name]: value }, 1e9);
    });
  });

  test.each(['sparseAttention', 'threads', 'batchSize', 'batches', 'tokensPerSquare', 'rowTokens'])(
    'an engine: %s',
    (name) => {
      expectStated(name, (value) => checkEngineOptions({ model: 'm', [name]: value }));
    },
  );

  test('parts of options', () => {
    for (const name of ['promptTokens', 'newTokens', 'rows'])
      expectStated(name, (value) =>
        checkEngineOptions({ model: 'm', expectedRows: { promptTokens: 1, newTokens: 1, [name]: value } }),
      );
    for (const name of ['first', 'count'])
      expectStated(name, (value) => checkEngineOptions({ model: 'm', layers: { first: 0, count: 1, [name]: value } }));
    for (const name of ['threads', 'budget']) {
      expectStated(name, (value) => {
        checkProfileOptions({ [name]: value });
      });
    }
    expectStated('capacity', (value) => activationLink({ capacity: value }));
  });

  // A document has finite numbers only.
  test.each(['batchSize', 'batches', 'threads', 'tokensPerSquare'])('a policy: %s', (name) => {
    expectStated(
      name,
      (value) => parsePolicy({ [name]: value }, 'p.json'),
      PROBES.filter((value) => Number.isInteger(value)),
    );
  });

  const program = createProgram({} as CommandContext);
  const flags = program.commands
    .flatMap((command) =>
      command.options.map((option) => ({ command: command.name(), flag: option.long ?? '', option })),
    )
    .filter(({ option }) => takesNumbers(option));

  test('there are flags that take numbers', () => {
    expect(flags.length).toBeGreaterThan(25);
  });

  test.each(flags)('$command $flag', ({ flag, option }) => {
    // As text, as a shell gives it.
    expectStated(flag, (value) => {
      option.parseArg?.(String(value), undefined);
    });
  });

  test('a size: too small and too large', () => {
    for (const [size, words] of [
      ['0', 'a size from 1 byte to 9007199254740991'],
      ['0.1', 'from 1 byte'],
      ['9000TiB', 'from 1 byte to 9007199254740991'],
      ['9 apples', 'a size such as 512MiB'],
    ] as const) {
      expect(() => checkEngineOptions({ model: 'm', cpuMemory: size })).toThrow(`cpuMemory: found "${size}", expected`);
      expect(() => checkEngineOptions({ model: 'm', cpuMemory: size })).toThrow(words);
    }
  });
});

/** Whether a flag refuses a text by naming numbers. */
function takesNumbers({ parseArg }: Option): boolean {
  try {
    parseArg?.('x', undefined);
    return false;
  } catch (error) {
    return / number /.test((error as Error).message);
  }
}
