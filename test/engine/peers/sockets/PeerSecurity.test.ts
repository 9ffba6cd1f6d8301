import { expect, test } from '@jest/globals';
import { checkSecurity, tlsOptions } from '../../../../src/engine/peers/sockets/PeerSecurity.js';
import { UsageError } from '../../../../src/errors/UsageError.js';

const KEY = 'k'.repeat(32);

test.each<[unknown, unknown, RegExp]>([
  ['short', undefined, /sharedKey: found 5 bytes, expected at least 32/],
  [7, undefined, /sharedKey: found 7/],
  [KEY, { key: 'a', cert: 'b', ca: 'c' }, /found one beside tls/],
  [undefined, { key: 'a', cert: 'b' }, /tls.ca: found none/],
  [undefined, { key: 'a', cert: 'b', ca: 'c', name: 'd' }, /unknown "name"/],
  [undefined, { key: 'a', cert: 'b', ca: 1 }, /tls.ca: found 1/],
])('%p and %p are refused', (sharedKey, tls, words) => {
  const check = (): void => {
    checkSecurity({ sharedKey, tls });
  };
  expect(check).toThrow(UsageError);
  expect(check).toThrow(words);
});

test('both sides are asked for what proves who they are', () => {
  expect(tlsOptions({})).toBeUndefined();
  expect(tlsOptions({ tls: { key: 'a', cert: 'b', ca: 'c' } })).toMatchObject({
    requestCert: true,
    rejectUnauthorized: true,
    minVersion: 'TLSv1.3',
  });
  const keyed = tlsOptions({ sharedKey: KEY });
  expect(keyed).toMatchObject({ ciphers: expect.stringMatching(/^ECDHE-PSK-/) as unknown });
  // The key itself goes into no handshake.
  const asked = (keyed?.pskCallback as unknown as (hint: null) => { psk: Buffer })(null);
  expect(asked.psk).toHaveLength(32);
  expect(asked.psk.equals(Buffer.from(KEY))).toBe(false);
});
