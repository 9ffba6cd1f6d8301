import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { QueueError } from '../../../src/errors/QueueError.js';
import { parseManifest } from '../../../src/jobs/work/JobManifest.js';
import { manifestOf } from './support.js';

test('what was submitted is read', () => {
  const manifest = manifestOf({
    options: { inputFormat: 'csv', generate: { maxNewTokens: 3 } },
    engine: { model: 'm' },
  });
  expect(parseManifest('q', JSON.stringify(manifest))).toEqual(manifest);
});

test.each([
  [undefined, 'the manifest: found undefined, expected text'],
  ['{', 'the manifest: found "{", expected JSON'],
  [' '.repeat(1_000_001), 'the manifest: found 1000001 characters, expected at most 1000000'],
  ['[]', 'manifest: found an array of 0, expected an object'],
  [{ format: 'x' }, 'manifest.format: found "x", expected one of spillway-queue'],
  [{ version: 1 }, 'found a job of version 1, expected 2: another version of Spillway submitted it'],
  [{ id: '../../../../etc/a' }, 'manifest.id: found "../../../../etc/a", expected 16 hexadecimal digits'],
  [{ input: 'in.jsonl' }, 'manifest.input: found "in.jsonl", expected an array of paths'],
  [{ input: ['in.jsonl'] }, 'manifest.input: found "in.jsonl", expected an absolute path'],
  [{ parts: 'parts' }, 'manifest.parts: found "parts", expected an absolute path'],
  [{ parts: '/a\0b' }, 'expected an absolute path'],
  [
    { shards: { count: 1e9, rows: 1 } },
    'manifest.shards.count: found 1000000000, expected a whole number from 1 to 100000',
  ],
  [{ shards: {} }, 'manifest.shards: found an empty object, expected count and rows'],
  [{ maxDeliver: '3' }, 'manifest.maxDeliver: found "3", expected a whole number from 1 to 1000'],
  [{ leaseSeconds: 1e99 }, 'manifest.leaseSeconds: found 1e+99, expected a number from 1 to 86400'],
  [{ fingerprint: { kind: 'stream', firstRow: null } }, 'expected length and SHA-256 of each file'],
  [{ fingerprint: { kind: 'file', bytes: 1, sha256: 'no' } }, 'expected length and SHA-256 of each file'],
  [{ options: { errors: '/etc/passwd' } }, 'manifest.options: found the unknown "errors", expected any of inputFormat'],
  [{ options: { inputFormat: 'exe' } }, 'manifest.options.inputFormat: found "exe", expected one of auto, jsonl'],
  [{ rows: undefined }, 'manifest.rows: found nothing, expected one'],
  [{ trace: '/etc/passwd' }, 'manifest: found the unknown "trace"'],
])('%.80j is refused', (wrong, message) => {
  const json = typeof wrong === 'object' ? JSON.stringify({ ...manifestOf(), ...wrong }) : wrong;
  expect(() => parseManifest('q', json)).toThrow(QueueError);
  expect(() => parseManifest('q', json)).toThrow(message);
});

test('whatever JSON there is in place of a member, it is read or refused with a QueueError', () => {
  const names = Object.keys(manifestOf());
  fc.assert(
    fc.property(fc.constantFrom(...names), fc.jsonValue(), (name, value) => {
      try {
        parseManifest('q', JSON.stringify({ ...manifestOf(), [name]: value }));
      } catch (error) {
        expect(error).toBeInstanceOf(QueueError);
      }
    }),
  );
});
