import { expect, test } from '@jest/globals';
import { areInTurn, checkAskedOptions, QUESTION_LIMITS, settledQuestions } from '../../src/rows/questions.js';
import { UsageError } from '../../src/errors/UsageError.js';

const A = { name: 'a', text: 'A?' };

test('questions come with what they are held to, and whose answers they need', () => {
  const settled = settledQuestions('questions', [
    { ...A, choices: ['x', 'y'] },
    { name: 'b', text: '{{{{ {{answers.a}} {{answers.a?}}', schema: { type: 'integer' } },
    { name: 'c d', text: '{{answers.b:none}}', pattern: 'x+', maxNewTokens: 3 },
  ]);
  expect(settled).toEqual([
    { ...A, format: { type: 'choices', choices: ['x', 'y'] }, needs: [] },
    {
      name: 'b',
      text: '{{{{ {{answers.a}} {{answers.a?}}',
      format: { type: 'json_schema', schema: { type: 'integer' } },
      needs: ['a'],
    },
    { name: 'c d', text: '{{answers.b:none}}', format: { type: 'regex', regex: 'x+' }, needs: ['b'], maxNewTokens: 3 },
  ]);
  expect(areInTurn(settled)).toBe(true);
  expect(areInTurn(settledQuestions('questions', [A]))).toBe(false);
});

test.each<[unknown, RegExp]>([
  [undefined, /^questions: found undefined, expected a list of 1 to 64 questions/],
  [[], /^questions: found .*expected a list of 1 to 64/],
  [Array.from({ length: 65 }, (_, nth) => ({ name: `n${nth}`, text: 'x' })), /found 65 questions/],
  [[5], /^questions\[0\]: found 5, expected an object/],
  [[{ text: 'x' }], /^questions\[0\]\.name: found undefined/],
  [[{ name: '', text: 'x' }], /^questions\[0\]\.name: found ""/],
  [[{ name: ' a', text: 'x' }], /^questions\[0\]\.name: found " a"/],
  [[{ name: 'a}', text: 'x' }], /^questions\[0\]\.name: found "a}"/],
  [[{ name: 'x'.repeat(65), text: 'x' }], /^questions\[0\]\.name: found/],
  [[A, { ...A, text: 'again' }], /^questions\[1\]\.name: found "a", which an earlier question is called/],
  [[{ name: 'a' }], /^questions\[0\] \("a"\)\.text: found undefined/],
  [[{ name: 'a', text: '  ' }], /^questions\[0\] \("a"\)\.text: found an empty text/],
  [[{ name: 'a', text: 'x'.repeat(QUESTION_LIMITS.textUnits + 1) }], /\("a"\)\.text: found 65537 UTF-16 units/],
  [[{ name: 'a', text: '{{answers.a}}' }], /\("a"\)\.text: found {{answers.a}}, expected no braces: the first/],
  [[A, { name: 'b', text: '{{answers.c}}' }], /\("b"\)\.text: found {{answers.c}}, expected {{answers.NAME}}.*: a;/],
  [[A, { name: 'b', text: '{{body}}' }], /\("b"\)\.text: found {{body}}/],
  [[A, { name: 'b', text: 'a {{ b' }], /\("b"\)\.text: found braces that name no answer/],
  [[{ ...A, choice: ['x'] }], /\("a"\): found the unknown "choice", expected any of name.*choices/],
  [[{ ...A, choices: ['x'], pattern: 'x' }], /\("a"\): found choices and pattern, expected one of them/],
  [[{ ...A, choices: [] }], /\("a"\)\.choices: found/],
  [[{ ...A, choices: [5] }], /\("a"\)\.choices\[0\]: found 5/],
  [[{ ...A, schema: 5 }], /\("a"\)\.schema: found 5/],
  [[{ ...A, pattern: 5 }], /\("a"\)\.pattern: found 5/],
  [[{ ...A, maxNewTokens: 0 }], /\("a"\)\.maxNewTokens: found 0/],
])('what is wrong with %j is told with question and member', (given, message) => {
  expect(() => settledQuestions('questions', given)).toThrow(message);
  expect(() => settledQuestions('questions', given)).toThrow(UsageError);
});

test.each(['samples', 'responseFormat', 'schema', 'tools', 'toolChoice', 'logprobs', 'onDelta'])(
  '%s has no meaning beside them',
  (name) => {
    expect(() => {
      checkAskedOptions({ questions: [A], [name]: 1 });
    }).toThrow(`${name}: found it beside questions`);
    checkAskedOptions({ [name]: 1 });
  },
);
