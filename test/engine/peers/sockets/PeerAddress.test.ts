import { expect, test } from '@jest/globals';
import { addressWords, isLoopback, parsePeerAddress } from '../../../../src/engine/peers/sockets/PeerAddress.js';
import { UsageError } from '../../../../src/errors/UsageError.js';

test.each([
  ['127.0.0.1:7000', { kind: 'tcp', host: '127.0.0.1', port: 7000 }],
  ['some-host.example:0', { kind: 'tcp', host: 'some-host.example', port: 0 }],
  ['[::1]:65535', { kind: 'tcp', host: '::1', port: 65_535 }],
  ['unix:/tmp/a b.sock', { kind: 'unix', path: '/tmp/a b.sock' }],
  ['unix:a.sock', { kind: 'unix', path: 'a.sock' }],
])('%s is an address, and is written so', (text, address) => {
  expect(parsePeerAddress(text)).toEqual(address);
  expect(addressWords(parsePeerAddress(text))).toBe(text);
});

test.each<unknown>([
  ...['', '7000', ':7000', 'host', 'host:', 'host:x', 'host:65536', '::1:7000', '[host]:1', '[::1]', 'a b:1'],
  ...['http://host:1', 'unix:', `unix:${'x'.repeat(200)}`, 'unix:a\0b', 7000, undefined, null],
])('%p is none', (text) => {
  expect(() => parsePeerAddress(text)).toThrow(UsageError);
});

test('loopback is this machine alone', () => {
  for (const ip of ['127.0.0.1', '127.9.9.9', '::1']) expect(isLoopback(ip)).toBe(true);
  for (const ip of ['0.0.0.0', '::', '10.0.0.1', '128.0.0.1', 'fe80::1', '::ffff:10.0.0.1'])
    expect(isLoopback(ip)).toBe(false);
});
