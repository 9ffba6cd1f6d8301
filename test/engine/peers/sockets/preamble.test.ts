import { expect, test } from '@jest/globals';
import { checkPreamble, preamble, PROTOCOL_VERSION } from '../../../../src/engine/peers/sockets/preamble.js';
import { PeerError } from '../../../../src/errors/engineErrors.js';

test('the same version is one that is understood', () => {
  expect(() => {
    checkPreamble(preamble(), 'b:1');
  }).not.toThrow();
});

test('another version, or something else, is told so', () => {
  const other = PROTOCOL_VERSION + 1;
  expect(() => {
    checkPreamble(preamble(other), 'b:1');
  }).toThrow(`b:1: found version ${other} of the protocol, expected ${PROTOCOL_VERSION}`);
  expect(() => {
    checkPreamble(Buffer.from('GET / HTTP/1'), 'b:1');
  }).toThrow(PeerError);
});
