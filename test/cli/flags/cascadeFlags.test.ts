import { expect, test } from '@jest/globals';
import { Command } from 'commander';
import {
  addCascadeFlags,
  cascadeOrder,
  checkedCascade,
  learningOf,
  type CascadeFlags,
} from '../../../src/cli/flags/cascadeFlags.js';

type Parsed = CascadeFlags & { readonly model?: string };

function parsed(...args: string[]): Parsed {
  const command = new Command('x').exitOverride().configureOutput({ writeErr: () => undefined });
  command
    .option('--model <m>')
    .option('--input <i>')
    .option('--dry-run')
    .option('--peers <p>', '', (text) => [text]);
  addCascadeFlags(command);
  command.parse(args, { from: 'user' });
  return command.opts<Parsed>();
}

const order = (flags: Parsed, bytes: Readonly<Record<string, number>>): unknown =>
  cascadeOrder(checkedCascade(flags), new Map(Object.entries(bytes))).map(({ model, threshold }) =>
    threshold === undefined ? model : [model, threshold],
  );

test.each<[args: string, expected: unknown]>([
  ['--cascade small@0.8,large', [['small', 0.8], 'large']],
  ['--cascade small@80%,large', [['small', 0.8], 'large']],
  ['--model small --cascade small@0.8,large', [['small', 0.8], 'large']],
  ['--model large --cascade small@0.8,large', [['small', 0.8], 'large']],
  ['--model small --cascade large@.5', [['small', 0.5], 'large']],
  ['--model large --cascade small@0.5', [['small', 0.5], 'large']],
  ['--model small --cascade middle@0.8,large@0.9', [['small', 0.8], ['middle', 0.9], 'large']],
  ['--model large --cascade small@0.8,middle@0.9', [['small', 0.8], ['middle', 0.9], 'large']],
  ['--model small --cascade large --cascade-target 98%', ['small', 'large']],
  ['--model large --cascade small --cascade-target 0.98', ['small', 'large']],
  ['--cascade small,large --cascade-target 98%', ['small', 'large']],
  ['--cascade hf:o/r@main:Q4_0@1,large', [['hf:o/r@main:Q4_0', 1], 'large']],
])('%s', (args, expected) => {
  const bytes = { small: 1, middle: 2, large: 3 };
  expect(order(parsed(...args.split(' ')), bytes)).toEqual(expected);
});

test.each<[args: string, message: RegExp]>([
  ['--cascade a@0.8', /found a alone, expected another model/],
  ['--cascade a,b', /found 0 lines for 2 models, expected one for each but the last/],
  ['--cascade a@1,b@1', /found 2 lines for 2 models/],
  ['--model a --cascade b', /found 0 lines for 2 models/],
  ['--model a --cascade b@0.8,c', /found 1 line for 3 models/],
  ['--cascade a@0.8,a', /found a twice/],
  ['--cascade a@0.8,b --cascade-target 98%', /found lines in --cascade, too/],
  ['--cascade-target 98%', /--cascade-target: found it without --cascade/],
  ['--cascade-seed 7', /--cascade-seed: found it without --cascade, expected the models/],
  ['--cascade a@0.8,b --cascade-sample 500', /--cascade-sample: found it without --cascade-target/],
  ['--cascade a@0.8,b --cascade-seed 7', /--cascade-seed: found it without --cascade-target/],
  ['--cascade a,b --cascade-target 98% --cascade-sample 100', /found 100, expected at least 149 rows/],
  ['--cascade a,b --cascade-target 98% --input -', /beside an input that comes once/],
  ['--cascade a@0.8,b --dry-run', /beside --dry-run/],
  ['--cascade a@0.8,b --peers x:1', /beside --peers/],
])('%s is refused', (args, message) => {
  expect(() => checkedCascade(parsed(...args.split(' ')))).toThrow(message);
});

test.each(['--cascade a@1.5,b', '--cascade ,b', '--cascade-target 100%', '--cascade-target 0', '--cascade-sample 0'])(
  '%s is no value',
  (args) => {
    expect(() => parsed(...args.split(' '))).toThrow(/Expected|expected/);
  },
);

test('a sample is drawn that can show what is promised', () => {
  const of = (...args: string[]): number | undefined => learningOf(parsed('--cascade', 'a,b', ...args), 2)?.sample;
  expect(of('--cascade-target', '98%')).toBe(1000);
  expect(of('--cascade-target', '99.9%')).toBe(2 * 2995);
  expect(of('--cascade-target', '99%', '--cascade-sample', '300')).toBe(300);
  expect(of()).toBeUndefined();
});
